"""The commit of a git folder, read from its files, is what git says it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tracker.releases.gitfiles import commit_date, head_commit

DATE = "2026-10-01T11:11:48+09:00"
IN_UTC = "2026-10-01T02:11:48Z"


def git(folder: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {
        **names,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GIT_AUTHOR_DATE": "2001-02-03T04:05:06Z",
        "GIT_COMMITTER_DATE": DATE,
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    command = ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("content")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "subject\n\ncommitter x <x> 1 +0000\n")
    return tmp_path


def test_a_branch_and_a_loose_commit(repository: Path) -> None:
    commit = head_commit(repository / ".git")
    assert commit == git(repository, "rev-parse", "HEAD")
    assert commit_date(repository / ".git", commit) == IN_UTC


def test_a_detached_head_and_a_packed_commit(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    git(repository, "gc", "--quiet")
    assert not list((repository / ".git" / "objects").glob("[0-9a-f][0-9a-f]"))
    commit = head_commit(repository / ".git")
    assert commit == git(repository, "rev-parse", "HEAD")
    assert commit_date(repository / ".git", commit) == IN_UTC


def test_a_packed_branch(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    assert head_commit(repository / ".git") == git(repository, "rev-parse", "HEAD")


def test_a_hook_or_a_setting_is_never_run(repository: Path) -> None:
    with open(repository / ".git" / "config", "a") as file:
        file.write(
            f"[core]\n\tfsmonitor = touch {repository}/ran\n[alias]\n\trev-parse = !touch {repository}/ran\n"
        )
    assert commit_date(repository / ".git", head_commit(repository / ".git")) == IN_UTC
    assert not (repository / "ran").exists()


@pytest.mark.parametrize("head", ["", "ref: ../../etc/passwd", "ref: refs/../../x", "deadbeef", "\0" * 50])
def test_a_head_that_is_none_gives_nothing(tmp_path: Path, head: str) -> None:
    (tmp_path / "HEAD").write_text(head)
    assert head_commit(tmp_path) == ""


def test_a_commit_whose_content_was_changed_has_no_date(repository: Path) -> None:
    commit = head_commit(repository / ".git")
    (repository / "file").write_text("other")
    git(repository, "commit", "--quiet", "-am", "another")
    other = head_commit(repository / ".git")
    objects = repository / ".git" / "objects"
    (objects / commit[:2] / commit[2:]).chmod(0o644)
    (objects / commit[:2] / commit[2:]).write_bytes((objects / other[:2] / other[2:]).read_bytes())
    assert commit_date(repository / ".git", commit) == ""


def test_a_folder_without_objects_has_no_date(tmp_path: Path) -> None:
    assert commit_date(tmp_path, "0" * 40) == ""
