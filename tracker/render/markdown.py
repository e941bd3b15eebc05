"""Views → markdown, by templates that cannot forget to quote.

Every value that a template puts out is quoted as prose, unless a filter has made markdown of it (``code``,
``fence``, ``bytes``, ``link``) or it is such markdown already. The templates know the words of a page and its
layout, nothing of results.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tracker.render import escape, words
from tracker.results import NEWS, BuildIdentity

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The environment of all markdown templates."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        # Autoescape only tells markdown (Markup) from data (str); what is data is quoted by ``_quoted``.
        autoescape=True,
        finalize=_quoted,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        code=lambda text: Markup(escape.code(str(text))),
        fence=lambda text, language="": Markup(escape.fence(text, language)),
        bytes=_bytes,
        output=lambda text: _bytes(text, end=True),
        link=lambda text, target: Markup(escape.link(str(text), target)),
        upstream=upstream_link,
        number="{:,}".format,
        visible=escape.is_visible,
        name=words.name_of,
        dated=words.dated,
        release=words.release_of,
        count=words.count,
        noun=words.noun,
        covered=words.covered,
    )
    made.globals.update(
        KINDS=words.KINDS,
        CAUSES=words.CAUSES,
        OUTCOMES=words.OUTCOMES,
        NEWS=NEWS,
        AUDITS=words.AUDITS,
        page=words.page_name,
    )
    return made


def render(made: Environment, template: str, **view: Any) -> str:
    """A page: no blanks at line ends, no two empty lines in a row, one line end at the end."""
    text = made.get_template(template).render(**view)
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
            lines.append(line)
            continue
        if len(ticks) >= 3:
            fence = ticks
        stripped = line.rstrip(" ")
        if stripped or (lines and lines[-1]):
            lines.append(stripped)
    return "\n".join(lines).rstrip("\n") + "\n"


def upstream_link(build: BuildIdentity) -> Markup:
    """The upstream commit, as a link to it where it is known."""
    text = words.upstream_of(build)
    if not text:
        return Markup("unknown")
    if not build.commit or not build.commit.isalnum():
        return Markup(escape.code(text))
    return Markup(f"[{escape.code(text)}](https://github.com/ggml-org/llama.cpp/commit/{build.commit})")


def _bytes(text: str, *, end: bool = False) -> str:
    if not text:
        return "nothing yet"
    if re.fullmatch(r"(?:[0-9a-f]{2})+", text):
        return Markup(escape.hex_bytes(text, end=end))
    # Places and details of other audits than the grammar's are names.
    return Markup(escape.code(text))


def _quoted(value: Any) -> Any:
    return value if isinstance(value, Markup) else Markup(escape.prose(str(value)))
