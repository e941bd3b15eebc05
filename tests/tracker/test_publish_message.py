"""The texts: within the limits and harmless whatever the facts hold, and saying what is to be said."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import builders
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tracker.config import Watch
from tracker.history import Transition, history_of
from tracker.publish.facts import Case, Coverage, Difference, Point, Row, Standing, Trouble, WatchFacts
from tracker.publish.gather import watch_facts
from tracker.publish.issue import Event, Told, subject_of, told_in
from tracker.publish.message import BUDGET, MAX_TITLE, Texts
from tracker.publish.sections import MAX_ROWS, Links
from tracker.results import Atom, BuildIdentity, Cause, Deviation, Escape, GrammarDocument, Kind
from tracker.watches import follow

HOME = "https://github.example/someone/llama-tracker"
TEXTS = Texts(links=Links(repository=HOME))
TOLD = Told(verdict="present", build="b", audit_version="1", fingerprint="f")

nasty = (
    st.text(max_size=60)
    | st.sampled_from("|`@#<").map(lambda c: c * 400)
    | st.sampled_from(
        [
            "@someone",
            "fixes #1",
            "GH-12",
            "owner/repo#3",
            "<script>alert(1)</script>",
            "<!-- llama-tracker watch=other -->",
            "--> <img src=x onerror=y>",
            "```\n# heading\n```",
            "`````",
            "a|b|c",
            "[x](http://evil.example)",
            "![x](http://evil.example)",
            "https://evil.example",
            "www.evil.example",
            "$(id) `id` ; id",
            "\x1b[31m\x00\u202eevil",
            "~~~\n@someone\n~~~",
            "&lt;b&gt; &commat;someone",
            "\\`@someone\\`",
            "---\n===",
            "|---|---|",
        ]
    )
)
# Whole texts are parsed each time, and the machine may be busy; a failing text is not worth shrinking for
# long.
MODEST = settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
hexes = st.binary(max_size=40).map(bytes.hex)


@st.composite
def builds(draw: st.DrawFn) -> BuildIdentity:
    return BuildIdentity(
        id=draw(nasty),
        channel=draw(nasty),
        version=draw(nasty),
        commit=draw(st.none() | st.binary(min_size=20, max_size=20).map(bytes.hex)),
        build_number=draw(st.none() | st.integers(0, 99999)),
        date=draw(st.none() | st.just("2026-01-01T00:00:00+00:00")),
    )


@st.composite
def points(draw: st.DrawFn) -> Point:
    return Point(
        build=draw(builds()),
        standing=draw(st.sampled_from(Standing)),
        fingerprint=draw(st.sampled_from("xyz")),
        count=draw(st.integers(0, 10**9)),
        transition=draw(st.none() | st.sampled_from(Transition)),
        reason=draw(nasty),
    )


atoms = st.builds(
    Atom,
    subject=nasty,
    subject_sha256=st.just("0"),
    where=hexes | nasty,
    kind=st.sampled_from([*Kind, "@x"]),
    cause=nasty,
    detail=hexes | nasty,
)
escapes = st.builds(
    Escape,
    outcome=st.sampled_from(["end-of-generation", "dead-end", "viable-again", "bound"]),
    bytes=hexes,
    path=st.just(()),
    well_formed=st.booleans(),
    explored=st.integers(0, 9),
)
deviations = st.builds(
    Deviation,
    kind=st.sampled_from(Kind),
    cause=nasty,
    prefix=hexes,
    tokens=st.lists(hexes, max_size=30).map(tuple),
    escape=st.none() | escapes,
    detail=nasty,
)
cases = st.builds(
    Case,
    grammar=nasty,
    text=nasty | st.integers(0, 70_000).map(lambda n: "`" * n),
    deviation=deviations,
)
counts = st.lists(st.tuples(nasty, st.integers(1, 10**6)), min_size=1, max_size=3).map(tuple)
rows = st.builds(Row, grammar=nasty, kinds=counts, causes=counts, where=hexes | nasty, detail=hexes | nasty)


@st.composite
def any_facts(draw: st.DrawFn) -> WatchFacts:
    found = draw(st.lists(points(), min_size=1, max_size=5))
    if all(p.standing is Standing.UNTESTABLE for p in found):
        found.append(draw(points().filter(lambda p: p.standing is not Standing.UNTESTABLE)))
    return WatchFacts(
        name=draw(st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)),
        title=draw(nasty),
        description=draw(nasty | st.just("x@y " * 5_000)),
        audit_version=draw(nasty),
        points=tuple(found * draw(st.sampled_from([1, 60]))),
        case=draw(st.none() | cases),
        rows=tuple(draw(st.lists(rows, max_size=3)) * draw(st.sampled_from([1, 60]))),
        coverage=draw(
            st.none()
            | st.just(
                Coverage(
                    grammars=1, exhaustive=1, states=1, vocabulary="@x", tokens=1, controls=("a|b",) * 99
                )
            )
        ),
    )


class Page(HTMLParser):
    """What a reader's browser makes of the HTML: tags with their attributes, and the text outside of code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.prose: list[str] = []
        self.code: list[str] = []
        self._depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._depth += tag in ("code", "pre", "a")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag in ("code", "pre", "a")

    def handle_data(self, data: str) -> None:
        (self.code if self._depth else self.prose).append(data)


ALLOWED = set("p strong em code pre a table thead tbody tr th td h3 hr".split())
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


def check(text: str) -> Page:
    """What must hold of every text that is sent."""
    assert len(text) <= BUDGET
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    # A grammar is shown in a fence, so that it can be copied with its tabs; nowhere else is there one.
    lines = text.split("\n")
    for block in MARKDOWN.parse(text):
        if block.type == "fence" and block.map:
            lines[block.map[0] : block.map[1]] = [""] * (block.map[1] - block.map[0])
    assert "\t" not in "".join(lines)
    page = Page(MARKDOWN.render(text))
    assert {tag for tag, _ in page.tags} <= ALLOWED
    for tag, attributes in page.tags:
        if tag == "a":
            assert attributes.keys() == {"href"}
            assert re.match(
                r"https://github\.(example/someone/llama-tracker|com/ggml-org/llama\.cpp/)",
                attributes["href"] or "",
            )
        else:
            assert attributes.keys() <= {"style", "class"}
    prose = "".join(page.prose)
    # What GitHub would turn into a mention, a reference or a link, had it not been kept from it.
    assert not re.search(r"(?<!\w)@\w", prose)
    assert not re.search(r"#\d|\b(?i:gh)-\d", prose)
    for address in re.findall(r"(?i)(?:https?://|www\.)\S+", prose):
        assert address.startswith("https://github.com/ggml-org/llama.cpp/compare/")
    return page


@given(any_facts(), st.none() | st.just(TOLD))
@MODEST
def test_no_body_is_too_long_or_anything_but_text(facts: WatchFacts, told: Told | None) -> None:
    body = TEXTS.body(facts, told)
    check(body)
    assert subject_of(body) == f"watch={facts.name}"
    assert told_in(body) == told
    title = TEXTS.title(facts)
    assert 0 < len(title) <= MAX_TITLE
    assert "\n" not in title


@given(any_facts(), st.sampled_from(Event), st.data())
@MODEST
def test_no_comment_is_too_long_or_anything_but_text(
    facts: WatchFacts, event: Event, data: st.DataObject
) -> None:
    some = data.draw(st.lists(atoms, max_size=4))
    many = [
        a._replace(subject=f"{a.subject}{i}")
        for a in some
        for i in range(data.draw(st.sampled_from([1, 99])))
    ]
    difference = Difference(added=frozenset(many), removed=frozenset(some))
    check(TEXTS.comment(facts, event, data.draw(st.none() | points()), difference))


@given(
    st.lists(st.builds(Trouble, key=nasty, what=nasty, since=nasty, nights=st.integers(1, 99)), max_size=3)
)
@MODEST
def test_no_text_about_the_tracker_is_too_long_or_anything_but_text(troubles: list[Trouble]) -> None:
    check(TEXTS.health_body(troubles * 50, TOLD))
    check(TEXTS.health_comment(troubles * 50))


def facts_of(*documents: GrammarDocument) -> WatchFacts:
    watch = Watch(name="w", title="A title", about="What it is about.", mid_code_point=True)
    by_build = {document.build.id: document for document in documents}
    return watch_facts(follow(watch, history_of(documents)), by_build.__getitem__)


def shown(version: str, day: int, *tokens: str) -> GrammarDocument:
    found = [builders.deviation("f0", tokens, escape=builders.escape())] if tokens else []
    return builders.document(
        builders.build(version, day=day, number=day), builders.grammar("minimal", *found)
    )


def test_a_body_says_what_since_when_how_to_reproduce_and_where_to_look() -> None:
    facts = facts_of(
        shown("0.3.35", 1), shown("0.3.36", 2, "84"), builders.untestable(builders.build("0.3.37", day=3))
    )
    page = check(body := TEXTS.body(facts, TOLD))
    text = " ".join("".join([*page.prose, *page.code]).split())
    assert 'root ::= ("\\u4e16" | "\\U0001F600")' in body
    assert "After the byte `F0`, this build allows the token `84`, with which" in body
    assert "generation ends with `F0 84 B8 96`, reported as complete" in body
    assert "not well-formed UTF-8 (overlong)" in body
    assert "llama-tracker check case.gbnf --release llama-cpp-python==0.3.36 --at f0" in body
    assert "did not show it" in text
    assert "Newer, but not testable" in text
    assert f"{HOME}/blob/main/reports/watches/w.md" in body


def test_the_commands_in_a_body_run_as_they_stand(tmp_path: Path) -> None:
    """The here-document must give the grammar's exact text to a shell, whatever is in it."""
    text = 'root ::= "$HOME `id` \\\\ GBNF" # it\'s\n'
    grammar = builders.grammar("g", builders.deviation(), text=text)
    body = TEXTS.body(facts_of(builders.document(builders.build(), grammar)), TOLD)
    script = re.search(r"```sh\n(.*?)\n```", body, re.DOTALL)
    assert script is not None
    commands = script[1].splitlines()
    assert commands[0].startswith("pip install")
    assert commands[-1].startswith("llama-tracker check case.gbnf ")
    subprocess.run(["sh", "-c", "\n".join(commands[1:-1])], cwd=tmp_path, check=True)
    assert (tmp_path / "case.gbnf").read_text() == text


def test_neighbouring_builds_with_equal_findings_share_a_row() -> None:
    facts = facts_of(*(shown(f"0.3.{n}", n, "84") for n in range(1, 41)), shown("0.3.41", 41, "84", "85"))
    body = TEXTS.body(facts, TOLD)
    table = [line for line in body.splitlines() if line.startswith("| `llama-cpp-python")]
    assert len(table) == 2
    assert "40 builds" in table[1]


def test_what_exceeds_a_quota_is_counted_and_linked() -> None:
    grammars = [builders.grammar(f"g{n}", builders.deviation()) for n in range(MAX_ROWS + 7)]
    body = TEXTS.body(facts_of(builders.document(builders.build(), *grammars)), TOLD)
    assert f"And 7 more: [the report]({HOME}/blob/main/reports/builds/llama-cpp-python-0.3.36.md)" in body


@pytest.mark.parametrize("cause", [Cause.NOT_IN_LANGUAGE, Cause.UNEXPLAINED])
def test_what_is_news_leads_the_table(cause: Cause) -> None:
    facts = facts_of(
        builders.document(
            builders.build(),
            builders.grammar("a", builders.deviation()),
            builders.grammar("z", builders.deviation(cause=cause)),
        )
    )
    assert [row.grammar for row in facts.rows] == ["z", "a"]


def test_a_fix_is_told_with_the_builds_on_both_sides_of_it() -> None:
    first, last = shown("0.3.36", 1, "84"), shown("0.3.37", 2)
    facts = facts_of(first, last, shown("0.3.38", 3))
    text = TEXTS.comment(
        facts, Event.FIXED, facts.points[0], Difference(added=frozenset(), removed=frozenset())
    )
    assert text.startswith("**Gone.** Not present since `llama-cpp-python 0.3.37`")
    assert "last seen in `llama-cpp-python 0.3.36`" in text
    assert "2 builds, up to `llama-cpp-python 0.3.38`" in text
    assert f"compare/{first.build.commit[:12]}...{last.build.commit[:12]}" in text  # type: ignore[index]
