"""Data made harmless for markdown: code spans, fences and prose that cannot become anything else.

Bytes, grammar texts, names and reasons are data. GitHub resolves mentions, references and links everywhere
but in code, so data stands in code where it can. The functions know markdown and nothing of what they quote.
Their results are safe in a paragraph; those of one line are also safe in a table's cell.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

MAX_SHOWN_BYTES = 24
"""Bytes that are written out before the rest is counted."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]|[\U000e0000-\U000e0fff]"
)
_MARKUP = re.compile(r"[^A-Za-z0-9\s.,;:'%()/+=?!_\u0080-\U0010ffff-]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_AUTOLINK = re.compile(r"(?i)(?:(?:https?|ftp|mailto|xmpp):|www\.|gh-(?=\d))")
_BLOCK_START = re.compile(r"^(?:([-+=])|(\d{1,9})(?=[.)](?: |$)))")
_JOINER = "\u2060"
"""A mark of no width: between two characters it keeps them from being one word."""


def visible(text: str) -> str:
    """The text with each character that shows nothing, turns the line or has no encoding as U+FFFD."""
    return _UNSEEN.sub("\ufffd", text.replace("\r\n", "\n"))


def is_visible(text: str) -> bool:
    """Whether a text can be shown, and copied from where it is shown, without a change."""
    return visible(text) == text


@lru_cache(maxsize=8192)
def code(text: str) -> str:
    """The text as one line of inline code; space at the ends and in runs is not kept."""
    line = " ".join(visible(text).split())
    if not line or "|" in line:
        # A bar ends a cell even inside a code span, and how it is escaped there is right nowhere else.
        return f"<code>{_entities(_unlinked(line))}</code>"
    ticks = "`" * (1 + _longest_run(line))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """The text as a block of code, with a fence longer than any run of backticks in it."""
    shown = visible(text).removesuffix("\n")
    ticks = "`" * max(3, 1 + _longest_run(shown))
    return f"{ticks}{language}\n{shown}\n{ticks}"


@lru_cache(maxsize=8192)
def prose(text: str) -> str:
    """The text as one line of prose in which nothing is markup, a mention, a reference or a link."""
    line = " ".join(visible(text).split())
    line = re.sub(r"[@#]", lambda found: found[0] + _JOINER, _unlinked(line))
    return _BLOCK_START.sub(_no_block, _entities(line))


def _no_block(found: re.Match[str]) -> str:
    # These would begin a list or underline a heading at the start of a line.
    return f"&#{ord(found[1])};" if found[1] else f"{found[2]}{_JOINER}"


def hex_bytes(text: str, *, end: bool = False) -> str:
    """Bytes given in hex, as people read them: ``F0 84``, and ``"</s>\\xF0"`` when there is ASCII among them.

    Many are cut and counted: the first ones are shown, or with ``end`` the last.
    """
    data = bytes.fromhex(text)
    shown = data[-MAX_SHOWN_BYTES:] if end else data[:MAX_SHOWN_BYTES]
    rest = len(data) - len(shown)
    if any(0x21 <= byte < 0x7F for byte in shown):
        written = code(f'"{_c_string(shown)}"')
    else:
        written = code(" ".join(f"{byte:02X}" for byte in shown))
    if not rest:
        return written
    return f"{rest:,} bytes and {written}" if end else f"{written} and {rest:,} more bytes"


def _c_string(data: bytes) -> str:
    """Bytes as between the quotes of a C string, but for hex escapes, which have two digits here."""
    names = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x09: "\\t", 0x0D: "\\r"}
    text = "".join(
        names.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02X}") for byte in data
    )
    # Runs of spaces would be shown as one.
    return text.replace("  ", " \\x20")


def link(text: str, target: str) -> str:
    """A link to a page of ours by relative path; the target may be any text."""
    return f"[{prose(text)}]({quote(visible(target), safe='/.-_~')})"


def _unlinked(line: str) -> str:
    return _AUTOLINK.sub(lambda found: f"{found[0][:-1]}{_JOINER}{found[0][-1]}{_JOINER}", line)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _entities(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)
