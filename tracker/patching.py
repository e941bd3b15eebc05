"""A release's source with a patch applied: another source, with an identity of its own.

Knows ``git apply`` and how a patched source is named and kept in the cache; it does not build anything. Files
that a release's unpacked source leaves out (documentation, most tests) are left out of the patch as well, and
told.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tracker.cache import Cache
from tracker.errors import TrackerError, UsageError
from tracker.releases import ChannelName, ResolvedRelease, Source
from tracker.releases.tree import is_wanted

MAX_SIZE = 4 << 20
"""Bytes of a patch; a larger one is no small correction."""

_STAMP = "patched"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_WILD = re.compile(r"[*?\[\\]")
_SYMLINK = re.compile(r"^(?:new file mode|new mode) 120000$", re.MULTILINE)


class PatchError(TrackerError):
    """A patch does not apply to a source."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch in the format of ``git diff``.

    ``name`` is safe as part of a file name; ``files`` are the paths it touches, below the tree's root.
    """

    name: str
    content: bytes
    files: tuple[PurePosixPath, ...]

    @property
    def sha256(self) -> str:
        """Of the patch's bytes, hex."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class PatchedSource:
    """A source with a patch applied; ``skipped`` are files of the patch that the source leaves out."""

    source: Source
    skipped: tuple[PurePosixPath, ...]


def read_patch(path: Path) -> Patch:
    """The patch in a file. Raises UsageError when it is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give a patch file") from None
    if len(content) > MAX_SIZE:
        raise UsageError(f"{path}: larger than {MAX_SIZE} bytes: give a patch in the format of git diff")
    if _SYMLINK.search(content.decode("utf-8", "replace")):
        raise UsageError(f"{path}: makes a symbolic link, which is not taken from a patch")
    listed = _git(path.parent, ["apply", "--numstat", "-z", "-"], content)
    names = [entry.split("\t", 2)[2] for entry in listed.stdout.split("\0") if entry.count("\t") >= 2]
    files = tuple(PurePosixPath(name) for name in names if name)
    if listed.returncode != 0 or not files:
        raise UsageError(f"{path}: no patch in the format of git diff ({_last_line(listed)})")
    if any(file.is_absolute() or ".." in file.parts for file in files):
        raise UsageError(f"{path}: touches files outside of the source tree")
    name = _UNSAFE.sub("-", path.stem).strip("-.")[:60] or "patch"
    return Patch(name, content, files)


def patched_release(release: ResolvedRelease, patch: Patch) -> ResolvedRelease:
    """The identity of a release with a patch: the same place in history, another source."""
    return replace(
        release,
        version=f"{release.version}+{patch.name}",
        id=f"{release.id}+{patch.name}-{patch.sha256[:8]}",
        sha256=hashlib.sha256(f"{release.sha256} {patch.sha256}".encode()).hexdigest(),
    )


def apply_patch(source: Source, patch: Patch, cache: Cache) -> PatchedSource:
    """The patched copy of a source, from the cache when it is there.

    Raises PatchError with the first file and line that do not fit.
    """
    release = patched_release(source.release, patch)
    partial = source.release.channel in (ChannelName.PYTHON, ChannelName.BIN)
    skipped = tuple(file for file in patch.files if partial and not is_wanted(file))
    if len(skipped) == len(patch.files):
        raise PatchError(f"patch {patch.name}: touches nothing of {source.release.id} that is built")
    folder = cache.folder("sources") / f"{release.id}-{release.sha256[:8]}"
    with cache.lock(f"source-{folder.name}"):
        if not (folder / _STAMP).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            with cache.working_folder() as working:
                shutil.copytree(source.tree, working / "tree", symlinks=True)
                _apply(working / "tree", patch, skipped, source.release.id)
                (working / _STAMP).write_text(patch.sha256 + "\n")
                os.replace(working, folder)
    return PatchedSource(Source(release, folder / "tree"), skipped)


def _apply(tree: Path, patch: Patch, skipped: tuple[PurePosixPath, ...], release: str) -> None:
    # An --exclude is a pattern, and a file's name is to stand for nothing else.
    excluded = ["--exclude=" + _WILD.sub(r"\\\g<0>", str(file)) for file in skipped]
    result = _git(tree, ["apply", "--whitespace=nowarn", *excluded, "-"], patch.content)
    if result.returncode != 0:
        raise PatchError(f"patch {patch.name}: does not apply to {release}: {_last_line(result, first=True)}")


def _git(folder: Path, arguments: list[str], content: bytes) -> subprocess.CompletedProcess[str]:
    """Run git as if no repository were around the folder: inside one, apply skips what lies elsewhere."""
    git = shutil.which("git")
    if git is None:
        raise PatchError("git is not installed, and patches are applied with it: install git")
    result = subprocess.run(
        [git, *arguments],
        cwd=folder,
        input=content,
        capture_output=True,
        check=False,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        },
    )
    return subprocess.CompletedProcess(
        result.args,
        result.returncode,
        result.stdout.decode("utf-8", "replace"),
        result.stderr.decode("utf-8", "replace"),
    )


def _last_line(result: subprocess.CompletedProcess[str], *, first: bool = False) -> str:
    lines = [line.removeprefix("error: ") for line in result.stderr.splitlines() if line.strip()]
    return lines[0 if first else -1] if lines else "nothing to apply"
