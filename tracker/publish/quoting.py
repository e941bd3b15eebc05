"""Data made harmless for GitHub's markdown: code spans, fences and prose that cannot become anything else.

GitHub resolves mentions, references and links everywhere but in code, so data stands in code where it can.
The functions know markdown and nothing of what they quote.
"""

from __future__ import annotations

import re

MAX_SHOWN_BYTES = 24

_HARMLESS = re.compile(r"[A-Za-z0-9 .,:;=+/()'%!?-]*[A-Za-z0-9.,:;=+/()'%!?-]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]|[\U000e0000-\U000e0fff]"
)
_SPECIAL = re.compile(r"[^A-Za-z0-9\s.,;:'%()/\u0080-\U0010ffff-]")
_LINKED = re.compile(r"(?i)(?:\b(?:https?|ftp|mailto|xmpp):|\bwww\.|\bgh-(?=\d))")


def visible(text: str) -> str:
    """The text with every invisible, direction-changing or undecodable character replaced by U+FFFD."""
    return _INVISIBLE.sub("\ufffd", text.replace("\r\n", "\n"))


def is_visible(text: str) -> bool:
    """Whether a text can be shown, and copied from where it is shown, without a change."""
    return visible(text) == text


def code(text: str) -> str:
    """The text as one line of inline code, good in prose and in a table's cell."""
    line = " ".join(visible(text).split())
    if _HARMLESS.fullmatch(line) and not line.startswith(" "):
        return f"`{line}`"
    return f"<code>{_entities(line)}</code>"


def fence(text: str, language: str = "") -> str:
    """The text as a block of code, with a fence that nothing inside can end."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{shown}\n{ticks}"


def prose(text: str) -> str:
    """The text as prose in which nothing is markup, a mention, a reference or a link."""
    line = " ".join(visible(text).split())
    # A mark of no width between what would be one word to GitHub; entities are resolved before it looks.
    line = _LINKED.sub(lambda match: f"{match[0][:-1]}\u2060{match[0][-1]}\u2060", line)
    return _entities(re.sub(r"[@#]", lambda match: f"{match[0]}\u2060", line))


def hex_bytes(text: str) -> str:
    """Bytes given in hex, as people read them: ``F0 84``."""
    pairs = [text[i : i + 2].upper() for i in range(0, min(len(text), 2 * MAX_SHOWN_BYTES), 2)]
    rest = len(text) // 2 - len(pairs)
    return code(" ".join(pairs)) + (f" and {rest} more bytes" if rest else "")


def _entities(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)
