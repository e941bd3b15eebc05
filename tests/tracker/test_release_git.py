"""The channel of git repositories, against real repositories over git's own protocol."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from archives import LLAMA_TREE, NEEDED
from repositories import Repository

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import ChannelName, DateKind, Release, ReleaseError
from tracker.releases.git import GitChannel


@pytest.fixture
def upstream(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "upstream")


@pytest.fixture
def channel(tmp_path: Path) -> GitChannel:
    return GitChannel(Cache(tmp_path / "cache"))


def release(upstream: Repository, reference: str) -> Release:
    return Release(ChannelName.GIT, reference, upstream.url)


def test_a_source_holds_what_is_needed_and_its_identity(upstream: Repository, channel: GitChannel) -> None:
    upstream.commit({"README": b"first"})
    commit = upstream.commit(LLAMA_TREE)
    source = channel.fetch(release(upstream, "main"))
    found = {str(p.relative_to(source.tree)) for p in source.tree.rglob("*") if p.is_file()}
    assert found == NEEDED
    assert (source.tree / "grammars/json.gbnf").read_bytes() == LLAMA_TREE["grammars/json.gbnf"]
    assert source.release.commit == source.release.version == commit
    assert source.release.build_number == 2
    assert (source.release.date, source.release.date_kind) == ("2023-11-14T22:15:20Z", DateKind.COMMIT)


def test_only_the_contents_that_are_needed_are_downloaded(
    upstream: Repository, channel: GitChannel, tmp_path: Path
) -> None:
    upstream.commit(LLAMA_TREE)
    channel.fetch(release(upstream, "main"))
    (clone,) = (tmp_path / "cache" / "git").iterdir()
    unwanted = upstream.git("rev-parse", "HEAD:docs/manual.md")
    wanted = upstream.git("rev-parse", "HEAD:grammars/json.gbnf")
    listed = subprocess.run(
        ["git", "--git-dir", clone, "rev-list", "--objects", "--missing=print", "--all"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert f"?{unwanted}" in listed
    assert any(line.startswith(wanted) for line in listed)


def test_a_branch_is_asked_for_again_and_a_tag_is_not(upstream: Repository, channel: GitChannel) -> None:
    first = upstream.commit(LLAMA_TREE)
    upstream.git("tag", "b1")
    assert channel.pin(release(upstream, "main")).version == first
    second = upstream.commit({"CMakeLists.txt": b"project(other)\n"})
    assert channel.pin(release(upstream, "main")).version == second
    assert channel.pin(release(upstream, "b1")).version == first
    assert channel.pin(release(upstream, second[:9])).version == second


def test_an_annotated_tag_stands_for_its_commit(upstream: Repository, channel: GitChannel) -> None:
    commit = upstream.commit(LLAMA_TREE)
    upstream.git("tag", "--annotate", "--message", "x", "v0.1.0")
    assert channel.pin(release(upstream, "v0.1.0")).version == commit


def test_a_full_commit_in_the_cache_needs_no_repository(
    upstream: Repository, channel: GitChannel, tmp_path: Path
) -> None:
    commit = upstream.commit(LLAMA_TREE)
    first = channel.fetch(release(upstream, commit))
    upstream.folder.rename(tmp_path / "gone")
    assert channel.fetch(release(upstream, commit)) == first


def test_a_range_is_the_first_parent_line_oldest_first(upstream: Repository, channel: GitChannel) -> None:
    first = upstream.commit(LLAMA_TREE)
    upstream.git("checkout", "--quiet", "-b", "side")
    upstream.commit({"side": b"1"})
    upstream.git("checkout", "--quiet", "main")
    second = upstream.commit({"a": b"1"})
    upstream.git("merge", "--quiet", "--no-ff", "--message", "merge", "side")
    merge = upstream.git("rev-parse", "HEAD")
    last = upstream.commit({"a": b"2"})
    ends = release(upstream, first), release(upstream, "main")
    listed = [r.version for r in channel.list_range(*ends)]
    assert listed == [first, second, merge, last]
    assert channel.list_range(*reversed(ends)) == channel.list_range(*ends)


def test_unrelated_ends_and_ends_off_the_line_are_refused(upstream: Repository, channel: GitChannel) -> None:
    base = upstream.commit(LLAMA_TREE)
    upstream.git("checkout", "--quiet", "-b", "side")
    side = upstream.commit({"side": b"1"})
    upstream.git("checkout", "--quiet", "main")
    other = upstream.commit({"a": b"1"})
    with pytest.raises(UsageError, match="descends"):
        channel.list_range(release(upstream, side), release(upstream, other))
    upstream.git("merge", "--quiet", "--no-ff", "--message", "merge", "side")
    with pytest.raises(UsageError, match="first-parent"):
        channel.list_range(release(upstream, side), release(upstream, "main"))
    assert len(channel.list_range(release(upstream, base), release(upstream, base))) == 1


@pytest.mark.parametrize("reference", ["nothing", "f" * 40])
def test_a_reference_that_is_not_there_is_a_release_error(
    upstream: Repository, channel: GitChannel, reference: str
) -> None:
    upstream.commit(LLAMA_TREE)
    with pytest.raises(ReleaseError):
        channel.fetch(release(upstream, reference))


def test_a_repository_that_is_not_there_is_a_release_error(channel: GitChannel, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="clone"):
        channel.fetch(Release(ChannelName.GIT, "main", f"file://{tmp_path}/nowhere"))
    assert not list((tmp_path / "cache" / "work").iterdir())


def test_links_attributes_and_filters_of_the_repository_have_no_say(
    upstream: Repository, channel: GitChannel, tmp_path: Path
) -> None:
    upstream.folder.joinpath("src").mkdir()
    upstream.folder.joinpath("src", "link").symlink_to("/etc/passwd")
    upstream.commit({**LLAMA_TREE, ".gitattributes": b"*.gbnf export-ignore\n*.txt text eol=crlf\n"})
    tree = channel.fetch(release(upstream, "main")).tree
    assert not (tree / "src" / "link").exists()
    assert (tree / "CMakeLists.txt").read_bytes() == LLAMA_TREE["CMakeLists.txt"]
    assert (tree / "grammars" / "json.gbnf").exists()


def test_a_commit_without_llama_cpp_is_refused(upstream: Repository, channel: GitChannel) -> None:
    upstream.commit({"README": b"something else"})
    with pytest.raises(ReleaseError, match=r"no llama\.cpp"):
        channel.fetch(release(upstream, "main"))


def test_a_repository_that_is_not_there_is_said_with_gits_own_reason(channel: GitChannel) -> None:
    with pytest.raises(ReleaseError, match=r"fatal: .*not appear to be a git repository.*check the URL"):
        channel.pin(Release(ChannelName.GIT, "master", "file:///does/not/exist"))
