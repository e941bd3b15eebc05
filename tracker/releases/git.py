"""The channel of git repositories: ``git+URL@REF``.

One bare clone a repository is kept, without file contents where the server can leave them out; the wanted
files of a commit are then fetched together. Files are written from the objects themselves, so no filter,
attribute or hook of the repository has a say. A tag is taken to stay where it is; a branch is asked for
each time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from filelock import FileLock

from tracker.cache import Cache
from tracker.errors import UsageError
from tracker.releases import (
    ChannelName,
    DateKind,
    Release,
    ReleaseError,
    ResolvedRelease,
    Source,
    Unavailable,
)
from tracker.releases.gitfiles import iso_date
from tracker.releases.local import content_sha256
from tracker.releases.stamp import read_stamp, write_stamp
from tracker.releases.tree import is_wanted

_FULL = re.compile(r"[0-9a-f]{40}")
_PASSED_ON = re.compile(r"PATH|SSL_CERT_\w+|GIT_SSL_CAINFO|(?:https?|all|no)_proxy", re.IGNORECASE)
_SETTINGS = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
_LONGEST_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class _File:
    path: PurePosixPath
    blob: str
    executable: bool


class GitChannel:
    """A ``Channel`` over all git repositories; versions are full commits once pinned."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def pin(self, release: Release) -> Release:
        """See ``Channel``: the full commit that a tag, branch or abbreviation stands for now."""
        if _FULL.fullmatch(release.version):
            return release
        with self._locked(release.url):
            clone = self._clone(release.url)
            known = self._commit(clone, f"refs/tags/{release.version}")
            if known is None:
                self._update(clone, release.url)
                names = (f"refs/tags/{release.version}", f"refs/heads/{release.version}", release.version)
                known = next((c for name in names if (c := self._commit(clone, name))), None)
        if known is None:
            raise ReleaseError(f"{release}: the repository has no tag, branch or commit of that name")
        return Release(ChannelName.GIT, known, release.url)

    def fetch(self, release: Release) -> Source:
        """See ``Channel``."""
        commit = self.pin(release).version
        name = f"git-{commit[:12]}"
        folder = self._cache.folder("sources") / name
        with self._cache.lock(f"source-{name}"):
            resolved = read_stamp(folder)
            if resolved is None:
                shutil.rmtree(folder, ignore_errors=True)
                with self._locked(release.url):
                    resolved = self._exported(release, commit, folder)
        return Source(resolved, folder / "tree")

    def list_range(self, good: Release, bad: Release) -> Sequence[Release]:
        """See ``Channel``: the first-parent line from the older to the newer end."""
        ends = [self.pin(end).version for end in (good, bad)]
        with self._locked(good.url):
            clone = self._clone(good.url)
            for end in ends:
                self._require(clone, good.url, end)
            if ends[0] != ends[1] and not self._is_ancestor(clone, *ends):
                ends.reverse()
                if not self._is_ancestor(clone, *ends):
                    raise UsageError(f"{good} and {bad}: neither commit descends from the other")
            older, newer = ends
            line = _git(clone, "rev-list", "--first-parent", "--reverse", f"{older}..{newer}").split()
        if line and _git(clone, "rev-parse", f"{line[0]}^1").strip() != older:
            raise UsageError(f"{good} and {bad}: the older one is not on the newer one's first-parent line")
        return [Release(ChannelName.GIT, commit, good.url) for commit in (older, *line)]

    def titles(self, releases: Sequence[Release]) -> Sequence[str]:
        """The first lines of the messages of exact releases of one repository."""
        if not releases:
            return ()
        commits = "\n".join(release.version for release in releases).encode() + b"\n"
        with self._locked(releases[0].url):
            clone = self._clone(releases[0].url)
            return _git(
                clone, "log", "--no-walk=unsorted", "--format=%s", "--stdin", given=commits
            ).splitlines()

    def _exported(self, release: Release, commit: str, folder: Path) -> ResolvedRelease:
        clone = self._clone(release.url)
        self._require(clone, release.url, commit)
        with self._cache.working_folder() as working:
            files = list(_wanted_files(clone, commit))
            if not any(file.path == PurePosixPath("CMakeLists.txt") for file in files):
                raise ReleaseError(f"{release}: no llama.cpp in the repository at {commit[:12]}")
            _fetch_missing(clone, commit, {file.blob for file in files})
            _write_files(clone, files, working / "tree")
            resolved = ResolvedRelease(
                channel=ChannelName.GIT,
                version=commit,
                id=folder.name,
                commit=commit,
                date=iso_date(int(_git(clone, "log", "-1", "--format=%ct", commit))),
                date_kind=DateKind.COMMIT,
                build_number=int(_git(clone, "rev-list", "--count", commit)),
                sha256=content_sha256(working / "tree"),
            )
            write_stamp(working, resolved)
            os.replace(working, folder)
        return resolved

    def _locked(self, url: str) -> FileLock:
        return self._cache.lock(f"git-{_clone_name(url)}")

    def _clone(self, url: str) -> Path:
        """The bare clone of a repository, made if it is not there."""
        clone = self._cache.folder("git") / _clone_name(url)
        if not clone.is_dir():
            with self._cache.working_folder() as working:
                made = working / "clone"
                _run("clone", "--bare", "--filter=blob:none", "--template=", "--quiet", "--", url, str(made))
                os.replace(made, clone)
        return clone

    def _update(self, clone: Path, url: str) -> None:
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(clone, "fetch", "--quiet", "--prune", "--filter=blob:none", "--", url, *refs)

    def _require(self, clone: Path, url: str, commit: str) -> None:
        """Make sure that a full commit is in the clone."""
        if self._commit(clone, commit) is None:
            self._update(clone, url)
            if self._commit(clone, commit) is None:
                raise ReleaseError(f"git+{url}@{commit}: the repository's branches and tags do not reach it")

    def _commit(self, clone: Path, name: str) -> str | None:
        command = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        result = _started(["--git-dir", str(clone), *command])
        return result.stdout.decode().strip() if result.returncode == 0 else None

    def _is_ancestor(self, clone: Path, older: str, newer: str) -> bool:
        command = ["--git-dir", str(clone), "merge-base", "--is-ancestor", older, newer]
        return _started(command).returncode == 0


def _clone_name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def _wanted_files(clone: Path, commit: str) -> Iterator[_File]:
    """Regular files of a commit that a source tree needs; links are left out."""
    for entry in _git(clone, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
        kind, _, name = entry.partition("\t")
        if kind.startswith("100") and is_wanted(path := PurePosixPath(name)) and ".." not in path.parts:
            mode, _, blob = kind.split()
            yield _File(path, blob, executable=mode == "100755")


def _fetch_missing(clone: Path, commit: str, blobs: Collection[str]) -> None:
    """Get all wanted contents that a blobless clone lacks in one request, not one by one."""
    listed = _git(clone, "rev-list", "--objects", "--missing=print", "--no-walk", commit).splitlines()
    missing = {line[1:] for line in listed if line.startswith("?")}.intersection(blobs)
    if missing:
        wanted = "\n".join(sorted(missing)).encode() + b"\n"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin")
        _git(clone, "fetch", *options, "origin", given=wanted)


def _write_files(clone: Path, files: Sequence[_File], tree: Path) -> None:
    command = ["git", *_SETTINGS, "--git-dir", str(clone), "cat-file", "--batch"]
    with subprocess.Popen(
        command,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        for file in files:
            process.stdin.write(file.blob.encode() + b"\n")
            process.stdin.flush()
            kind, _, size = process.stdout.readline().partition(b" blob ")
            if kind.decode() != file.blob:
                raise Unavailable(f"{file.path}: its content is not in the repository; fetch again")
            target = tree / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(process.stdout.read(int(size)))
            target.chmod(0o755 if file.executable else 0o644)
            process.stdout.read(1)
        process.stdin.close()


def _git(clone: Path, *arguments: str, given: bytes | None = None) -> str:
    """What a git command on a clone prints. Raises Unavailable with git's own reason."""
    return _run("--git-dir", str(clone), *arguments, given=given)


def _run(*arguments: str, given: bytes | None = None) -> str:
    result = _started(arguments, given)
    if result.returncode != 0:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        command = next((a for a in arguments if not a.startswith("-") and "/" not in a), "git")
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        raise Unavailable(f"git {command} failed: {reason[:300]}; check the URL and the network")
    return result.stdout.decode("utf-8", "surrogateescape")


def _started(arguments: Sequence[str], given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", *_SETTINGS, *arguments],
            input=given if given is not None else b"",
            env=_environment(),
            capture_output=True,
            check=False,
            timeout=_LONGEST_SECONDS,
        )
    except FileNotFoundError:
        raise Unavailable("git is not installed; install it or use a release of the package index") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"git {arguments[0]}: no answer within {_LONGEST_SECONDS} s; try again") from None


def _environment() -> dict[str, str]:
    """git without this user's and this machine's configuration, and without credentials."""
    kept = {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
    return kept | {
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https",
    }
