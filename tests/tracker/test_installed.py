from __future__ import annotations

import os
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tracker.build import Build
from tracker.cache import Cache
from tracker.installed import NotInstalled, installed_build
from tracker.libllama.client import LibllamaClient


def environment(folder: Path, build: Build | None, version: str = "0.3.36") -> PathDistribution:
    """What pip leaves of llama-cpp-python: its metadata, and its libraries beside its modules."""
    info = folder / f"llama_cpp_python-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {version}\n")
    library = folder / "llama_cpp" / "lib"
    library.mkdir(parents=True)
    (folder / "llama_cpp" / "__init__.py").write_text("raise RuntimeError('must not be imported')\n")
    names = ["llama_cpp/__init__.py"]
    for path in sorted((build.folder / "lib").iterdir()) if build else ():
        os.symlink(path.resolve(), library / path.name)
        names.append(f"llama_cpp/lib/{path.name}")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    return PathDistribution(info)


@pytest.mark.build
def test_the_installed_library_itself_is_asked(
    tmp_path: Path, build_0_3_36: Build, cache: Cache, vocabulary_file: Path
) -> None:
    build = installed_build(cache, environment(tmp_path, build_0_3_36))
    assert build.library == tmp_path / "llama_cpp" / "lib" / "libllama.so"
    assert build.id.startswith("installed-llama-cpp-python-0.3.36-")
    assert build.release.commit == build_0_3_36.release.commit
    with LibllamaClient(build, vocabulary_file) as client:
        assert client.mask("root ::= [a-z]+", ()).allowed.sum() == 16833


def test_a_distribution_without_a_library_is_one_clear_line(tmp_path: Path, cache: Cache) -> None:
    with pytest.raises(NotInstalled, match=r"0\.3\.36 has no libllama\.so"):
        installed_build(cache, environment(tmp_path, None))


def test_nothing_installed_is_one_clear_line(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracker.installed.DISTRIBUTION", "llama-tracker-names-no-such-distribution")
    with pytest.raises(NotInstalled, match="pip install"):
        installed_build(cache)
