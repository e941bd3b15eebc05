"""The checked-out commit of a git folder that came inside an archive, read without running git.

Such a folder's configuration and hooks belong to whoever made the archive, and git would obey them. Only
three things are read: HEAD, the reference it names, and the commit object, loose or in a pack. Source of
the formats: git's documentation, gitformat-pack.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path

_SHA1 = re.compile(r"[0-9a-f]{40}")
_COMMITTER = re.compile(rb"^committer .* (\d{1,12}) [+-]\d{4}$", re.MULTILINE)
_LARGEST_COMMIT = 1 << 20
_INDEX_HEADER = b"\xfftOc\x00\x00\x00\x02"
_COMMIT_TYPE = 1


def head_commit(folder: Path) -> str:
    """The full commit that a git folder's HEAD stands for, or an empty string."""
    text = _line(folder / "HEAD")
    if text.startswith("ref: "):
        reference = text.removeprefix("ref: ")
        if not reference.startswith("refs/") or ".." in reference:
            return ""
        text = _line(folder / reference) or _packed_reference(folder, reference)
    return text if _SHA1.fullmatch(text) else ""


def commit_date(folder: Path, commit: str) -> str:
    """The committer's date of a commit, ISO 8601 in UTC; empty when the object is not there or not whole."""
    content = _loose_object(folder, commit) or _packed_object(folder, commit)
    if content is None or hashlib.sha1(b"commit %d\0" % len(content) + content).hexdigest() != commit:
        return ""
    match = _COMMITTER.search(content.partition(b"\n\n")[0])
    return iso_date(int(match[1])) if match else ""


def iso_date(seconds: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _line(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(1000).partition(b"\n")[0].decode("ascii", "replace").strip()
    except OSError:
        return ""


def _packed_reference(folder: Path, reference: str) -> str:
    try:
        lines = (folder / "packed-refs").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line[:40] for line in lines if line[40:] == f" {reference}"), "")


def _loose_object(folder: Path, commit: str) -> bytes | None:
    try:
        with open(folder / "objects" / commit[:2] / commit[2:], "rb") as file:
            data = _inflated(file.read(_LARGEST_COMMIT))
    except OSError:
        return None
    kind, _, content = data.partition(b"\0")
    return content if kind.startswith(b"commit ") else None


def _packed_object(folder: Path, commit: str) -> bytes | None:
    for index in sorted((folder / "objects" / "pack").glob("*.idx")):
        offset = _offset_in_pack(index.read_bytes(), bytes.fromhex(commit))
        if offset is not None:
            return _object_at(index.with_suffix(".pack"), offset)
    return None


def _offset_in_pack(index: bytes, commit: bytes) -> int | None:
    """Where an index of version 2 says that an object lies; packs above 2 GiB are not looked into."""
    if not index.startswith(_INDEX_HEADER) or len(index) < 8 + 1024:
        return None
    (count,) = struct.unpack_from(">I", index, 8 + 1020)
    names = 8 + 1024
    offsets = names + 24 * count
    if len(index) < offsets + 4 * count:
        return None
    for position in range(count):
        if index[names + 20 * position : names + 20 * position + 20] == commit:
            (offset,) = struct.unpack_from(">I", index, offsets + 4 * position)
            return int(offset) if offset < 1 << 31 else None
    return None


def _object_at(pack: Path, offset: int) -> bytes | None:
    """A commit stored whole; None for a delta, which a shallow clone's only commit never is."""
    try:
        with open(pack, "rb") as file:
            file.seek(offset)
            data = file.read(_LARGEST_COMMIT)
    except OSError:
        return None
    end = next((i for i, byte in enumerate(data[:10]) if byte < 0x80), None)
    if end is None or (data[0] >> 4) & 7 != _COMMIT_TYPE:
        return None
    return _inflated(data[end + 1 :])


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _LARGEST_COMMIT)
    except zlib.error:
        return b""
