"""Why a mask is wrong: the cause of a deviation, from bytes alone.

The rules are those of the audit's definition. For a token that should not be allowed, the output so far and
the token are scanned against table 3-7 of the Unicode Standard; what is ill-formed there is the cause, and
bytes that are well-formed and still begin no string of the grammar are the most serious case.
"""

from __future__ import annotations

from oracle import utf8
from tracker.results import Cause

_OFFENCES = {
    utf8.Offence.OVERLONG: Cause.OVERLONG,
    utf8.Offence.SURROGATE: Cause.SURROGATE,
    utf8.Offence.BEYOND_UNICODE: Cause.BEYOND_UNICODE,
    utf8.Offence.INVALID_LEAD: Cause.INVALID_LEAD,
    utf8.Offence.STRAY_CONTINUATION: Cause.STRAY_CONTINUATION,
    utf8.Offence.BROKEN_SEQUENCE: Cause.BROKEN_SEQUENCE,
}


def cause_of_unsound(text: bytes) -> Cause:
    """Why bytes that are allowed begin no string of the grammar.

    Args:
        text: the output from a code point's start on, the unsound token at its end.
    """
    offence = utf8.scan(text).offence
    return Cause.NOT_IN_LANGUAGE if offence is None else _OFFENCES[offence]


def cause_of_unsound_end(text: bytes) -> Cause:
    """Why an output that may end is no string of the grammar."""
    found = utf8.scan(text)
    if found.offence is not None:
        return _OFFENCES[found.offence]
    return Cause.BROKEN_SEQUENCE if found.pending else Cause.NOT_IN_LANGUAGE


def missing_bytes(text: bytes) -> int:
    """Continuation bytes that are missing at the end, counted as a lead's upper bits promise them.

    Unlike a scan this also counts behind ill-formed leads (F5 to FF promise three), since that is where a
    decoder believes to be inside a code point.
    """
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xC0:
            promised = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
            return max(0, promised - (back - 1))
        if byte < 0x80:
            return 0
    return 0
