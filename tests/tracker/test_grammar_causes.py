from __future__ import annotations

import pytest

from tracker.audits.grammar.causes import cause_of_unsound, cause_of_unsound_end, missing_bytes
from tracker.results import Cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # The rows of the definition, each with its first and last member.
        (b"\xc0", Cause.OVERLONG),
        (b"\xc1", Cause.OVERLONG),
        (b"\xe0\x80", Cause.OVERLONG),
        (b"\xe0\x9f", Cause.OVERLONG),
        (b"\xf0\x80", Cause.OVERLONG),
        (b"\xf0\x8f", Cause.OVERLONG),
        (b"\xed\xa0", Cause.SURROGATE),
        (b"\xed\xbf", Cause.SURROGATE),
        (b"\xf4\x90", Cause.BEYOND_UNICODE),
        (b"\xf4\xbf", Cause.BEYOND_UNICODE),
        (b"\xf5", Cause.BEYOND_UNICODE),
        (b"\xf7", Cause.BEYOND_UNICODE),
        (b"\xf8", Cause.INVALID_LEAD),
        (b"\xff", Cause.INVALID_LEAD),
        (b"a\x80", Cause.STRAY_CONTINUATION),
        (b"\xe4a", Cause.BROKEN_SEQUENCE),
        (b"\xe4\xb8\xc3", Cause.BROKEN_SEQUENCE),
        (b"abc", Cause.NOT_IN_LANGUAGE),
        (b"\xe4\xb8", Cause.NOT_IN_LANGUAGE),
        (b"\xed\x9f\xbf", Cause.NOT_IN_LANGUAGE),
        (b"\xf4\x8f\xbf\xbf", Cause.NOT_IN_LANGUAGE),
    ],
)
def test_the_first_offence_is_the_cause(text: bytes, cause: Cause) -> None:
    assert cause_of_unsound(text) is cause


def test_the_first_of_two_offences_counts() -> None:
    assert cause_of_unsound(b"\xe0\x80\xff") is Cause.OVERLONG
    assert cause_of_unsound(b"\xff\xe0\x80") is Cause.INVALID_LEAD


def test_an_end_inside_a_character_is_a_broken_sequence() -> None:
    assert cause_of_unsound_end(b"a\xe4\xb8") is Cause.BROKEN_SEQUENCE
    assert cause_of_unsound_end(b"ab") is Cause.NOT_IN_LANGUAGE
    assert cause_of_unsound_end(b"\xf0\x84\xb8\x96") is Cause.OVERLONG


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (b"", 0),
        (b"a", 0),
        (b"\xc3", 1),
        (b"\xc3\xa9", 0),
        (b"\xe4", 2),
        (b"\xe4\xb8", 1),
        (b"\xf0\x84", 2),
        (b"\xf5", 3),
        (b"\xff\x80", 2),
        (b"\xf0\x84\xb8\x96", 0),
        (b"\x80\x80\x80\x80", 0),
        (b"\xe4\xb8\x96a", 0),
    ],
)
def test_missing_bytes_are_those_that_the_lead_promises(text: bytes, missing: int) -> None:
    assert missing_bytes(text) == missing
