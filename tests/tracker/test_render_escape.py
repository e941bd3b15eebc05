"""Quoting for markdown: what is quoted is read back as it was, by a CommonMark + GFM reader."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from markdown_reader import CODE_TAGS, blocks, inlines, shown, skeleton

from tracker.render.escape import code, fence, hex_bytes, is_visible, link, prose, visible

_MARKUP = (
    "| ` `` ``` ~~~ \\ @someone @org/team #12 owner/repo#7 GH-7 <script> </code> <!-- --> &amp; &#124; $x$ "
    "](http://x.test) [a](b) ![a](b) ** *a* __b__ _c_ ~~d~~ http://a.test/b www.a.test a@b.test - + 1. 12) # "
    "> --- === :-- mailto:a@b.test 世 😀 a B 7 . , ( ) [ ] { } % = ' \" :smile:"
)
_UNSEEN = [" ", "  ", "\t", "\n", "\r\n", "\0", "\x1b[31m", "\u202e", "\u200b", "\ufeff", "\ud83d"]
_NASTY = [*_MARKUP.split(" "), *_UNSEEN]

nasty = st.lists(st.sampled_from(_NASTY) | st.text(max_size=3), max_size=12).map("".join)


def _line(text: str) -> str:
    return " ".join(visible(text).split())


def _words(text: str) -> str:
    return text.replace("\u2060", "")


@given(nasty)
@example("a`")
@example("--")
@example("1. x")
@example("=")
def test_prose_is_one_paragraph_of_text_that_reads_as_it_was(text: str) -> None:
    found = blocks(prose(text))
    if not _line(text):
        assert found == []
        return
    assert [token.type for token in found] == ["paragraph_open", "inline", "paragraph_close"]
    children = found[1].children or []
    assert {token.type for token in children} <= {"text", "text_special"}
    assert _words(shown(children)) == _words(_line(text))


@given(nasty)
def test_prose_mentions_nobody_and_refers_to_nothing(text: str) -> None:
    seen = shown(inlines(f"x {prose(text)} y"))
    assert not re.search(r"@[A-Za-z0-9]", seen)
    assert not re.search(r"#[0-9]", seen)
    assert not re.search(r"(?i)\b(https?|ftp|mailto|xmpp):|\bwww\.|\bgh-[0-9]", seen)


@given(nasty)
@example("a`")
@example("`a")
@example(" ")
@example("a|b")
def test_code_is_one_code_span_that_reads_as_it_was(text: str) -> None:
    children = inlines(f"x {code(text)} y")
    if children[1].type == "code_inline":
        assert [token.type for token in children] == ["text", "code_inline", "text"]
        assert children[1].content == _line(text)
        assert "|" not in text
        return
    tags = [token.content for token in children if token.type == "html_inline"]
    assert tags == list(CODE_TAGS)
    assert {token.type for token in children} <= {"text", "text_special", "html_inline"}
    assert _words(shown(children)) == f"x {_words(_line(text))} y"


@given(nasty, nasty)
def test_both_fit_into_a_cell_of_a_table(first: str, second: str) -> None:
    table = f"| a | b |\n|---|---|\n| {code(first)} | {prose(second)} |\n"
    rows = [token for token in blocks(table) if token.type == "tr_open"]
    cells = [token for token in blocks(table) if token.type == "td_open"]
    assert (len(rows), len(cells)) == (2, 2)
    inner = [token for token in blocks(table) if token.type == "inline"]
    assert _words(shown(inner[2].children or [])) == _words(_line(first))
    assert _words(shown(inner[3].children or [])) == _words(_line(second))


@given(nasty)
@example("```\n# no\n```")
@example("````")
def test_a_fence_ends_where_it_should_and_holds_the_text(text: str) -> None:
    found = blocks(fence(text, "ebnf") + "\n\nafter\n")
    assert [token.type for token in found] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    # A code block holds lines; an empty text still gives one.
    assert found[0].content == visible(text).removesuffix("\n") + "\n"
    assert found[0].info == "ebnf"


@given(nasty, nasty)
def test_a_link_stays_below_our_pages(text: str, name: str) -> None:
    children = inlines(link(text, f"grammars/{name}.md"))
    opened = [token for token in children if token.type == "link_open"]
    assert len(opened) == 1
    target = str(opened[0].attrs["href"])
    assert target.startswith("grammars/")
    assert target.endswith(".md")
    assert _words(shown(children)) == _words(_line(text))


@given(nasty)
def test_what_shows_nothing_is_replaced(text: str) -> None:
    seen = visible(text)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", seen
    )
    assert is_visible(seen)
    seen.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("llama-cpp-python 0.3.36", "llama-cpp-python 0.3.36"),
        ("match_partial_char", "match_partial_char"),
        ("U+4E16 (世)", "U+4E16 (世)"),
    ],
)
def test_plain_words_stay_as_they_are(text: str, markdown: str) -> None:
    assert prose(text) == markdown


@pytest.mark.parametrize(
    ("data", "end", "markdown"),
    [
        (b"\xf0\x84", False, "`F0 84`"),
        (b"\x00", False, "`00`"),
        (b" ", False, "`20`"),
        (b"</s>", False, '`"</s>"`'),
        (b'{"\xf0', False, '`"{\\"\\xF0"`'),
        (b"a  \\\n", False, '`"a \\x20\\\\\\n"`'),
        (b"\x80" * 25, False, "`" + " ".join(["80"] * 24) + "` and 1 more bytes"),
        (b"\x80" * 2000 + b"a", True, '1,977 bytes and `"' + "\\x80" * 23 + 'a"`'),
    ],
)
def test_bytes_are_pairs_or_a_string_and_many_are_cut(data: bytes, end: bool, markdown: str) -> None:
    assert hex_bytes(data.hex(), end=end) == markdown


@given(st.binary(min_size=1, max_size=24))
def test_bytes_can_be_read_back(data: bytes) -> None:
    assume(b"|" not in data)
    (span,) = inlines(hex_bytes(data.hex()))
    shown_hex = span.content
    if span.content.startswith('"'):
        shown_hex = re.sub(r"\\x(..)|\\(.)|(.)", _unescape, span.content[1:-1])
    assert bytes.fromhex(shown_hex) == data


def _unescape(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    character = {"n": "\n", "t": "\t", "r": "\r"}.get(found[2], found[2]) if found[2] else found[3]
    return f"{ord(character):02x}"


def test_the_skeleton_sees_a_broken_table() -> None:
    whole = "| a | b |\n|---|---|\n| x | y |\n"
    assert skeleton(whole) != skeleton(whole.replace("x", "x\n\ny"))
