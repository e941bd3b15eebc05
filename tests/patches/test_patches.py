"""The patches for upstream: they apply, do what they say, and their check notices a fault in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import patches.check
from patches.check import CheckError, Workshop
from patches.check.__main__ import ADDED_TO, FIXES, MATCHING, check
from tracker.build import Build
from tracker.cache import Cache
from tracker.patching import PatchedSource, apply_patch, read_patch
from tracker.releases import Source

FOLDER = Path(patches.check.__file__).parents[1]
PATCHES = sorted(path.stem for path in FOLDER.glob("*.patch"))

DECODING, MATCHES = "decode_utf8", "llama_grammar_match_partial_char"
FAULTS = {
    "continuation bytes are not looked at": (DECODING, "(next_byte >> 6) != 2 || !is", "!is", 2),
    "C1 is a lead byte": (DECODING, " || first_byte == 0xC1", "", 1),
    "F5 is a lead byte": (DECODING, "first_byte > 0xF4", "first_byte > 0xF5", 1),
    "overlong in three bytes": (DECODING, "{ 0x80, 0x800, 0x10000 }", "{ 0x80, 0x400, 0x10000 }", 1),
    "the last surrogates": (DECODING, "low > 0xDFFF)", "low > 0xDFBF)", 1),
    "above U+10FFFF": (DECODING, "low <= 0x10FFFF", "low <= 0x11FFFF", 1),
    "the last one before the surrogates": (MATCHES, "high = 0xD7FF", "high = 0xD7FE", 1),
    "surrogates are left in": (MATCHES, "if (high == 0xDFFF)", "if (high == 0xDFFE)", 1),
    "one too many is left out": (MATCHES, "low      = upper + 1", "low      = upper + 2", 1),
    "only one pass": (MATCHES, "} while (excluded);", "} while (false);", 1),
    "an end is not in the range": (
        MATCHES,
        "pos->value <= high && low <= upper",
        "pos->value < high && low <= upper",
        1,
    ),
}
"""In which function the fix is broken, and how: this text, replaced by that, occurs so often."""


def source_of(build: Build) -> Source:
    return Source(build.release, build.tree)


def applied(build: Build, name: str, cache: Cache) -> PatchedSource:
    return apply_patch(source_of(build), read_patch(FOLDER / f"{name}.patch"), cache)


def broken(build: Build, cache: Cache, folder: Path, *names: str) -> Path:
    """The tree with the fix for matching, and faults in it."""
    tree = applied(build, MATCHING, cache).source.tree
    (folder / "src").mkdir()
    for name in ("include", "ggml"):
        (folder / name).symlink_to(tree / name)
    for header in (tree / "src").glob("*.h"):
        shutil.copy(header, folder / "src")
    text = (tree / "src" / "llama-grammar.cpp").read_text("utf-8")
    for _, right, wrong, count in (FAULTS[name] for name in names):
        assert text.count(right) == count
        text = text.replace(right, wrong)
    (folder / "src" / "llama-grammar.cpp").write_text(text, "utf-8")
    return folder


@pytest.fixture
def workshop(build_0_3_36: Build, tmp_path: Path) -> Workshop:
    (tmp_path / "work").mkdir()
    return Workshop(build_0_3_36, tmp_path / "work")


@pytest.mark.build
@pytest.mark.parametrize("name", PATCHES)
def test_each_patch_applies_as_a_whole_to_the_release_it_is_made_for(
    name: str, build_0_3_36: Build, cache: Cache
) -> None:
    assert applied(build_0_3_36, name, cache).skipped == ()


@pytest.mark.build
def test_all_patches_apply_together_in_any_order(build_0_3_36: Build, cache: Cache, tmp_path: Path) -> None:
    trees = []
    for order in (PATCHES, PATCHES[::-1]):
        source = source_of(build_0_3_36)
        for name in order:
            source = apply_patch(source, read_patch(FOLDER / f"{name}.patch"), Cache(tmp_path)).source
        trees.append(source.tree)
    for name in ("src/llama-grammar.cpp", "tests/test-grammar-integration.cpp"):
        assert (trees[0] / name).read_bytes() == (trees[1] / name).read_bytes()


def test_each_fix_has_its_tests_and_says_in_upstreams_manner_what_it_is_for() -> None:
    assert sorted([*FIXES, *(f"{name}-tests" for name in FIXES)]) == PATCHES
    for name in PATCHES:
        first = (FOLDER / f"{name}.patch").read_text("utf-8").splitlines()[0]
        assert first.startswith("Subject: tests : " if name.endswith("-tests") else "Subject: grammar : ")
    text = (FOLDER.parent / "docs" / "upstream-fix.md").read_text("utf-8")
    for name in FIXES:
        subject = (FOLDER / f"{name}.patch").read_text("utf-8").splitlines()[0].removeprefix("Subject: ")
        assert f"> **{subject}**" in text


@pytest.mark.build
def test_faults_in_both_functions_are_noticed(
    workshop: Workshop, build_0_3_36: Build, cache: Cache, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    tree = broken(build_0_3_36, cache, tmp_path / "tree", "F5 is a lead byte", "only one pass")
    answers = {answer.function: answer for answer in workshop.answers(tree)}
    assert answers[DECODING].first == "f5 "
    # F5 alone and before what may follow a lead byte, and nothing else.
    assert 0 < answers[DECODING].wrong < answers[DECODING].cases // 100
    assert 0 < answers[MATCHES].wrong < answers[MATCHES].cases // 100
    assert answers[MATCHES].first.startswith("[^")


@pytest.mark.build
def test_what_does_not_compile_is_said_without_folders(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "llama-grammar.cpp").write_text("int broken = ;\n")
    with pytest.raises(CheckError, match=r"llama-cpp-python-0\.3\.36: llama-grammar\.cpp:1:14: error: "):
        workshop.answers(tmp_path)


@pytest.mark.extended
@pytest.mark.timeout(1800)
def test_the_patches_pass_their_check(workshop: Workshop, cache: Cache) -> None:
    lines = list(check(workshop, cache))
    assert [line for line, right in lines if not right] == []
    assert len(lines) == 2 + 3 + 2 * 5


@pytest.mark.extended
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_noticed_where_it_is(
    name: str, workshop: Workshop, build_0_3_36: Build, cache: Cache, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    tree = broken(build_0_3_36, cache, tmp_path / "tree", name)
    assert [answer.function for answer in workshop.answers(tree) if answer.wrong] == [FAULTS[name][0]]


@pytest.mark.extended
def test_a_fault_in_the_second_fix_fails_its_test(
    workshop: Workshop, build_0_3_36: Build, cache: Cache, tmp_path: Path
) -> None:
    fix, tests = (read_patch(FOLDER / f"{FIXES[1]}{suffix}.patch") for suffix in ("", "-tests"))
    fixed = apply_patch(source_of(build_0_3_36), fix, cache).source
    tree = tmp_path / "tree"
    shutil.copytree(apply_patch(fixed, tests, cache).source.tree, tree)
    code = tree / "src" / "llama-grammar.cpp"
    text = code.read_text("utf-8")
    assert text.count("decoded.second.n_remain != 0") == 1
    code.write_text(text.replace("decoded.second.n_remain != 0", "decoded.second.n_remain > 1"), "utf-8")
    assert "Assertion `!can_end()' failed" in workshop.failure(ADDED_TO, tree)
