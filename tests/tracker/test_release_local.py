"""A source tree on this machine is identified by its content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from archives import LLAMA_TREE
from repositories import Repository

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import ChannelName, Release, ReleaseError, ResolvedRelease
from tracker.releases.local import LocalChannel


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "tree")
    made.commit(LLAMA_TREE)
    return made


def resolved(repository: Repository) -> ResolvedRelease:
    channel = LocalChannel(Cache(repository.folder.parent / "cache"))
    return channel.fetch(Release(ChannelName.PATH, str(repository.folder))).release


def test_a_changed_file_is_another_release_and_a_touched_one_is_not(repository: Repository) -> None:
    before = resolved(repository)
    os.utime(repository.folder / "CMakeLists.txt", (1, 1))
    assert resolved(repository) == before
    (repository.folder / "src").mkdir()
    (repository.folder / "src" / "new.cpp").write_text("")
    assert resolved(repository).id != before.id


def test_what_a_build_does_not_need_does_not_count(repository: Repository) -> None:
    before = resolved(repository)
    for name in ("docs/manual.md", "build/bin/libllama.so", "ggml/src/ggml-cuda/big.cu"):
        path = repository.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("changed")
    assert resolved(repository) == before


def test_two_files_that_swap_contents_are_another_release(repository: Repository) -> None:
    (repository.folder / "src").mkdir()
    one, two = repository.folder / "src" / "1.cpp", repository.folder / "src" / "2.cpp"
    one.write_text("a")
    two.write_text("b")
    before = resolved(repository)
    one.write_text("b")
    two.write_text("a")
    assert resolved(repository).id != before.id


def test_the_commit_is_that_of_the_checkout(repository: Repository) -> None:
    release = resolved(repository)
    assert release.commit == repository.git("rev-parse", "HEAD")
    assert release.date == "2023-11-14T22:14:20Z"


def test_a_folder_without_llama_cpp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"no llama\.cpp"):
        LocalChannel(Cache(tmp_path)).fetch(Release(ChannelName.PATH, str(tmp_path)))


def test_folders_have_no_order(tmp_path: Path) -> None:
    release = Release(ChannelName.PATH, str(tmp_path))
    with pytest.raises(UsageError, match="no order"):
        LocalChannel(Cache(tmp_path)).list_range(release, release)
