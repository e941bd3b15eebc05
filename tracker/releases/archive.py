"""Unpacking a source archive that nobody vouches for.

An archive is refused as a whole when any member's name is absolute, climbs out, or is a link that leads
out, and when it holds more members or bytes than a source tree has reason to. Only regular files are ever
written, with this program's own permissions. Knows tar archives and paths, not what a release needs of
them.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tracker.errors import FULL_DISK
from tracker.releases import ReleaseError, Unavailable

MAXIMUM_MEMBERS = 50_000
MAXIMUM_BYTES = 768 << 20
"""Three times what the largest release under audit has."""

Placement = Callable[[PurePosixPath], Path | None]
"""From a member's name to where it goes below the destination, or None when it is not wanted."""


def unpack(archive: Path, destination: Path, placement: Placement) -> int:
    """Write the wanted regular files of a .tar.gz archive; the number of files written.

    Raises ReleaseError when the archive is damaged, dangerous or too large, Unavailable when the disk is
    full. The destination is then in an undefined state and has to be thrown away.
    """
    written = members = total = 0
    try:
        with _Counted(archive) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            while (member := tar.next()) is not None:
                members += 1
                total += member.size
                if members > MAXIMUM_MEMBERS or total > MAXIMUM_BYTES:
                    raise _too_large(archive.name)
                name = _safe_name(archive, member)
                place = placement(name) if member.isreg() else None
                if place is None:
                    continue
                target = destination / place
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None  # a regular file has content
                with content, open(target, "wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                if member.mode & 0o100:
                    os.chmod(target, 0o755)
                written += 1
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ReleaseError(f"{archive.name}: damaged ({error}); delete it and fetch it again") from None
    except OSError as error:
        kind = Unavailable if error.errno in FULL_DISK else ReleaseError
        raise kind(f"{archive.name}: cannot be unpacked: {error}") from None
    return written


class _Counted(gzip.GzipFile):
    """Gives up where the decompressed stream, headers included, becomes larger than any release."""

    _total = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._total += len(data)
        if self._total > 2 * MAXIMUM_BYTES:
            raise _too_large(Path(str(self.name)).name)
        return data


def _too_large(name: str) -> ReleaseError:
    return ReleaseError(f"{name}: more than {MAXIMUM_MEMBERS} members or {MAXIMUM_BYTES} bytes; not unpacked")


def _safe_name(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    """The member's name, after the checks that make it safe to join to a folder."""
    name = PurePosixPath(member.name)
    if _leads_out(member.name):
        raise ReleaseError(f"{archive.name}: member {member.name[:200]!r} leads outside; not unpacked")
    if member.issym():
        target = posixpath.join(posixpath.dirname(member.name), member.linkname)
        if member.linkname.startswith("/") or _leads_out(posixpath.normpath(target)):
            raise ReleaseError(f"{archive.name}: link {member.name[:200]!r} leads outside; not unpacked")
    elif member.islnk() and _leads_out(member.linkname):
        raise ReleaseError(f"{archive.name}: link {member.name[:200]!r} leads outside; not unpacked")
    return name


def _leads_out(name: str) -> bool:
    return not name or name.startswith("/") or "\0" in name or "\\" in name or ".." in name.split("/")
