"""Markdown as GitHub reads it: CommonMark with tables, strikethrough and bare links."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_READER = MarkdownIt("gfm-like")

CODE_TAGS = ("<code>", "</code>")


def blocks(text: str) -> list[Token]:
    """The block tokens of a page."""
    return _READER.parse(text)


def inlines(text: str) -> list[Token]:
    """All inline tokens of a page."""
    return [child for token in blocks(text) for child in token.children or ()]


def shown(children: list[Token]) -> str:
    """The text that a reader sees."""
    return "".join("\n" if token.type == "softbreak" else token.content for token in _text(children))


def _text(children: list[Token]) -> Iterator[Token]:
    for token in children:
        if token.type in ("text", "code_inline", "text_special", "softbreak"):
            yield token


def skeleton(text: str) -> list[str]:
    """The structure of a page without its words: what blocks there are, and what marks inside them."""
    found: list[str] = []
    for token in blocks(text):
        if token.type != "inline":
            found.append(
                f"{token.type} {token.tag} {token.markup if 'fence' not in token.type else ''}".strip()
            )
            continue
        marks: list[str] = []
        for child in token.children or ():
            if child.type in ("text", "text_special"):
                continue
            if child.type == "html_inline" and child.content == "</code>":
                continue
            code = child.type == "code_inline" or child.content == "<code>"
            name = "code" if code else child.type if child.type != "html_inline" else child.content
            marks.append(name)
        found.append("inline: " + " ".join(marks))
    return found
