"""A source becomes a library in the cache once, wholly, and whatever happens on the way.

The sources are small CMake projects with llama.cpp's layout, so that a build takes a second.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracker import recipe, toolchain
from tracker.build import Build, BuildError, BuildOptions, build_key, build_release, find_build
from tracker.cache import Cache
from tracker.releases import ChannelName, Release, Source
from tracker.releases.local import LocalChannel
from tracker.toolchain import environment

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.14)
project(llama C)
file(APPEND "{counter}" "configured\\n")
add_library(ggml-base SHARED ggml/src/ggml.c)
add_library(llama SHARED src/llama.c)
target_link_libraries(llama PRIVATE ggml-base)
"""
HEADER = """\
#include <stdint.h>
struct llama_vocab;
int32_t llama_vocab_n_tokens(const struct llama_vocab * vocab);
"""


LIBRARY = """\
int base(void);
int llama_vocab_n_tokens(void * v) { return base() + 1; }
"""


class Project:
    """A small source tree; ``configured()`` counts how often CMake ran on it."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.counter = folder / "counter"
        self.write("CMakeLists.txt", CMAKE_LISTS.replace("{counter}", str(self.counter)))
        self.write("include/llama.h", HEADER)
        self.write("ggml/src/ggml.c", "int base(void) { return 41; }\n")
        self.write(
            "src/llama.c", "int base(void);\nint llama_vocab_n_tokens(void * v) { return base() + 1; }\n"
        )

    def write(self, name: str, text: str) -> None:
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def configured(self) -> int:
        return len(self.counter.read_text().splitlines()) if self.counter.exists() else 0

    def source(self, cache: Cache) -> Source:
        return LocalChannel(cache).fetch(Release(ChannelName.PATH, str(self.tree)))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    # No compiler cache: its server would outlive the test's folder.
    monkeypatch.setattr(toolchain, "_tool", lambda name: None)
    return Cache(tmp_path / "cache")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_build_loads_wherever_its_folder_is(project: Project, own_cache: Cache, tmp_path: Path) -> None:
    build = build_release(project.source(own_cache), cache=own_cache, jobs=1)
    moved = build.folder.rename(tmp_path / "elsewhere")
    assert ctypes.CDLL(str(moved / "lib" / build.library.name)).llama_vocab_n_tokens(None) == 42
    assert "llama_vocab_n_tokens" in (moved / "declarations.h").read_text()


def test_a_long_step_says_how_far_it_is(
    project: Project, own_cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "_TELL_SECONDS", 0.002)
    told: list[str] = []
    build_release(project.source(own_cache), cache=own_cache, progress=told.append)
    assert told[0] == "configuring"
    # Two objects and two libraries.
    assert any(re.fullmatch(r"compiled [1-4] of 4 files", line) for line in told)


def test_the_second_time_nothing_is_built(project: Project, own_cache: Cache) -> None:
    source = project.source(own_cache)
    assert find_build(source, cache=own_cache) is None
    first = build_release(source, cache=own_cache, jobs=1)
    assert build_release(source, cache=own_cache, jobs=1) == first == find_build(source, cache=own_cache)
    assert project.configured() == 1


def test_options_and_sources_make_other_builds(project: Project, own_cache: Cache) -> None:
    tools = toolchain.toolchain()
    source = project.source(own_cache)
    options = [
        BuildOptions(),
        BuildOptions(sanitize=True),
        BuildOptions(build_type="Debug"),
        BuildOptions(target="ggml-base"),
        BuildOptions(defines=("A=1",)),
    ]
    project.write("src/llama.c", "int other;\n")
    keys = {build_key(source, option, tools) for option in options}
    keys.add(build_key(project.source(own_cache), BuildOptions(), tools))
    keys.add(build_key(source, BuildOptions(), toolchain.Toolchain(tools.c, tools.cxx, "another compiler")))
    assert len(keys) == len(options) + 2


def test_another_target_gives_its_own_library(project: Project, own_cache: Cache) -> None:
    options = BuildOptions(target="ggml-base")
    build = build_release(project.source(own_cache), cache=own_cache, jobs=1, options=options)
    assert build.library.name == "libggml-base.so"
    assert ctypes.CDLL(str(build.library)).base() == 41
    assert build.id.startswith(build.release.id + "+")


def test_a_failed_build_is_said_in_one_line_and_remembered(project: Project, own_cache: Cache) -> None:
    project.write("src/llama.c", "int broken(void) { return unknown_name; }\n")
    source = project.source(own_cache)
    with pytest.raises(BuildError, match=r"src/llama\.c:1:\d+: error: .*unknown_name") as first:
        build_release(source, cache=own_cache, jobs=1)
    assert "\n" not in str(first.value)
    assert str(own_cache.root) not in str(first.value)
    assert "unknown_name" in first.value.log
    with pytest.raises(BuildError, match="remembered") as again:
        build_release(source, cache=own_cache, jobs=1)
    assert again.value.log == first.value.log
    assert project.configured() == 1
    with pytest.raises(BuildError):
        build_release(source, cache=own_cache, jobs=1, retry_failed=True)
    assert project.configured() == 2


def test_cmakes_reason_is_told_with_its_headline(project: Project, own_cache: Cache) -> None:
    project.write("CMakeLists.txt", 'project(x C)\nmessage(FATAL_ERROR "this needs more")\n')
    with pytest.raises(BuildError, match=r"CMake Error at CMakeLists\.txt:2 \(message\): this needs more"):
        build_release(project.source(own_cache), cache=own_cache, jobs=1)


def test_what_the_machine_is_to_blame_for_is_not_remembered(project: Project, own_cache: Cache) -> None:
    project.write("CMakeLists.txt", 'message(FATAL_ERROR "No space left on device")\n')
    for _ in range(2):
        with pytest.raises(BuildError, match="No space left") as raised:
            build_release(project.source(own_cache), cache=own_cache, jobs=1)
        assert "remembered" not in str(raised.value)


def test_a_folder_without_its_stamp_is_built_again(project: Project, own_cache: Cache) -> None:
    source = project.source(own_cache)
    build = build_release(source, cache=own_cache, jobs=1)
    (build.folder / "build.json").unlink()
    build.library.unlink()
    assert build_release(source, cache=own_cache, jobs=1).library.exists()
    assert project.configured() == 2


def test_two_at_once_build_once(project: Project, own_cache: Cache) -> None:
    context = multiprocessing.get_context("fork")
    source = project.source(own_cache)
    processes = [
        context.Process(target=build_release, args=(source,), kwargs={"cache": own_cache, "jobs": 1})
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert project.configured() == 1


@pytest.fixture
def killed_build(project: Project, own_cache: Cache) -> Iterator[Build]:
    """A build whose process was killed while CMake ran; then the same build again."""
    waiting = project.tree.parent / "waiting"
    lists = CMAKE_LISTS.replace("{counter}", str(project.counter))
    survived = project.tree.parent / "survived"
    wait = (
        f'if(NOT EXISTS "{waiting}")\nfile(TOUCH "{waiting}")\nexecute_process(COMMAND sleep 5)\n'
        f'file(TOUCH "{survived}")\nendif()\n'
    )
    project.write("CMakeLists.txt", lists + wait)
    source = project.source(own_cache)
    process = multiprocessing.get_context("fork").Process(
        target=build_release, args=(source,), kwargs={"cache": own_cache, "jobs": 1}
    )
    process.start()
    while not waiting.exists():
        time.sleep(0.02)
    assert process.pid is not None
    (cmake,) = _children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while _runs(cmake):
        time.sleep(0.02)
    assert not survived.exists(), "CMake went on after its parent was killed"
    yield build_release(source, cache=own_cache, jobs=1)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_after_a_kill_the_next_run_builds(killed_build: Build) -> None:
    assert ctypes.CDLL(str(killed_build.library)).llama_vocab_n_tokens(None) == 42


def test_build_scripts_see_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    command = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    names = subprocess.run(command, env=environment({}, tmp_path), capture_output=True, text=True, check=True)
    assert "GITHUB_TOKEN" not in names.stdout
    assert set(environment({}, tmp_path)) == {"PATH", "LANG", "HOME", "TMPDIR"}


def test_no_compiler_is_said_with_the_variable_to_set(
    monkeypatch: pytest.MonkeyPatch, project: Project, own_cache: Cache
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(toolchain.ToolchainError, match="CXX"):
        build_release(project.source(own_cache), cache=own_cache)


@pytest.mark.parametrize(("value", "expected"), [("none", None), ("", "ccache"), ("ccache", "ccache")])
def test_the_compiler_cache_is_the_one_that_was_named(
    value: str, expected: str | None, own_cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_tool", lambda name: tmp_path / name)
    monkeypatch.setenv(toolchain.COMPILER_CACHE_VARIABLE, value)
    found = toolchain.compiler_cache(own_cache)
    assert (found.launcher.name if found else None) == expected


@pytest.mark.parametrize("value", ["ccache", "sccache", "distcc"])
def test_a_compiler_cache_that_is_not_there_is_said_with_the_variable(
    value: str, own_cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_tool", lambda name: None)
    monkeypatch.setenv(toolchain.COMPILER_CACHE_VARIABLE, value)
    with pytest.raises(toolchain.ToolchainError, match=f"{toolchain.COMPILER_CACHE_VARIABLE}={value}"):
        toolchain.compiler_cache(own_cache)


def test_pruning_goes_by_last_use_and_leaves_what_is_locked(project: Project, own_cache: Cache) -> None:
    source = project.source(own_cache)
    old = build_release(source, cache=own_cache, jobs=1)
    new = build_release(source, cache=own_cache, jobs=1, options=BuildOptions(target="ggml-base"))
    for path in (old.folder, *old.folder.iterdir()):
        os.utime(path, (1, 1))
    with own_cache.lock(f"build-{old.key}"):
        other = multiprocessing.get_context("fork").Process(
            target=own_cache.prune, kwargs={"unused_seconds": 3600, "keep_bytes": 1 << 40}
        )
        other.start()
        other.join()
        assert old.folder.exists()
    removed = own_cache.prune(unused_seconds=3600, keep_bytes=1 << 40)
    assert [entry.path for entry in removed] == [old.folder]
    assert not old.folder.exists()
    assert find_build(source, cache=own_cache, options=new.options) == new


def test_pruning_by_size_removes_the_longest_unused_first(own_cache: Cache) -> None:
    for age, name in enumerate("cab"):
        path = own_cache.folder("downloads") / name
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    removed = own_cache.prune(unused_seconds=float("inf"), keep_bytes=150)
    assert [entry.path.name for entry in removed] == ["b", "a"]
