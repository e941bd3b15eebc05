"""reports/index.html: as text, and in a real browser (marker ``browser``)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from builders import build, deviation, document, escape, grammar, untestable
from hypothesis import given
from hypothesis import strategies as st

from oracle import utf8
from tracker.config import Watch
from tracker.history import history_of
from tracker.render.html import embedded, fragment, render_page
from tracker.render.page import PageLimits
from tracker.render.right import RightBytes
from tracker.render.runs import Scale, runs
from tracker.results import Cause, Document, GrammarResult, Kind
from tracker.watches import follow

PARTIAL = Watch(name="match_partial_char", kinds=(Kind.UNSOUND, Kind.EOS_UNSOUND), mid_code_point=True)
UNKNOWN = Watch(name="not-in-language", causes=(Cause.NOT_IN_LANGUAGE,))
HOSTILE = "</script><script>document.title='owned'</script><!--<b>&amp;\u202e"

JSON_STRING = 'root ::= "\\"" [^"\\\\\\x7F\\x00-\\x1F]* "\\""\n'


def page(
    documents: Sequence[Document],
    watches: Sequence[Watch] = (PARTIAL, UNKNOWN),
    limits: PageLimits | None = None,
) -> str:
    history = history_of(documents)
    source = {found.build.id: found for found in documents}
    return render_page(source.__getitem__, history, [follow(watch, history) for watch in watches], limits)


def data_of(text: str) -> dict[str, Any]:
    found = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert isinstance(found, dict)
    return found


class Elements(HTMLParser):
    """Start tags with their attributes, and the text inside scripts."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        elif not self.inside:
            self.words.append(data)


def prose(text: str) -> str:
    return " ".join(" ".join(Elements(text).words).split())


# -- as text -----------------------------------------------------------------------------------------------


def test_equal_results_give_equal_bytes_whatever_the_order_of_documents() -> None:
    documents = [document(build(f"0.3.{n}", day=n)) for n in range(6)]
    shuffled = random.Random(3).sample(documents, len(documents))
    assert page(documents) == page(documents) == page(shuffled)


def test_nothing_is_loaded_from_elsewhere() -> None:
    found = Elements(page([document()]))
    addresses = [
        attrs[key] or "" for _, attrs in found.tags for key in ("src", "href", "action") if key in attrs
    ]
    assert addresses
    assert all(address.startswith(("#", "data:")) or address == "README.md" for address in addresses)
    assert "@import" not in page([document()]) and "url(" not in page([document()])


def test_the_policy_allows_exactly_the_scripts_of_the_page() -> None:
    found = Elements(page([document()]))
    policy = next(
        attrs["content"] or "" for tag, attrs in found.tags if tag == "meta" and "http-equiv" in attrs
    )
    types = [attrs.get("type") for tag, attrs in found.tags if tag == "script"]
    run = [script for script, kind in zip(found.scripts, types, strict=True) if kind is None]
    digests = {"sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in run}
    assert set(re.findall(r"'(sha256-[^']+)'", policy)) == digests
    assert "default-src 'none'" in policy and "script-src 'unsafe" not in policy


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_embedded_data_survives_and_cannot_end_its_element(value: Any) -> None:
    text = str(embedded(value))
    assert not set("<>&") & set(text) and text.isascii()
    assert json.loads(text) == value


def test_hostile_names_and_texts_stay_data() -> None:
    hostile = grammar(HOSTILE, deviation(cause=Cause.NOT_IN_LANGUAGE), text=HOSTILE, notes=(HOSTILE,))
    text = page(
        [document(build(day=1), hostile), untestable(build("0.3.37", day=2), HOSTILE)],
        [Watch(name="w", title=HOSTILE, about=HOSTILE)],
    )
    found = Elements(text)
    assert [tag for tag, _ in found.tags].count("script") == 3
    assert "b" not in {tag for tag, _ in found.tags}
    assert data_of(text)["grammars"][0]["name"] == HOSTILE
    assert HOSTILE in " ".join(found.words)


def test_totals_are_kept_where_tokens_are_cut() -> None:
    tokens = [f"{n:04x}" for n in range(0x8080, 0x8080 + 500)]
    data = data_of(
        page([document(build(), grammar("g", deviation(tokens=tokens)))], limits=PageLimits(tokens=7))
    )
    [outcome], [told] = data["outcomes"], data["deviations"]
    assert outcome["counts"] == [["UNSOUND", "overlong", True, 500]]
    assert told[6] == 500
    assert data["tokens"][told[5]][0].split() == tokens[:7]


def test_newest_builds_are_described_first_and_the_others_are_counted() -> None:
    documents = [
        document(build(f"0.3.{n}", day=n), grammar("g", *(deviation(f"{n:02x}{k:02x}f0") for k in range(20))))
        for n in range(10)
    ]
    data = data_of(page(documents, limits=PageLimits(size=2_500)))
    described = [len(data["outcomes"][b["cells"][0]]["deviations"]) for b in data["builds"]]
    omitted = [data["outcomes"][b["cells"][0]]["omitted"] for b in data["builds"]]
    assert described[-1] == 20 and described == sorted(described) and described[0] == 0
    assert [d + o for d, o in zip(described, omitted, strict=True)] == [20] * 10
    assert data["omitted"] == sum(omitted)
    assert all(data["outcomes"][b["cells"][0]]["counts"][0][3] == 20 for b in data["builds"])
    assert len({b["cells"][0] for b in data["builds"]}) == 10, "builds that differ must not seem to agree"


def test_equal_results_of_many_builds_are_told_once() -> None:
    data = data_of(page([document(build(f"0.3.{n}", day=n)) for n in range(40)]))
    assert len(data["outcomes"]) == len(data["deviations"]) == 1
    assert [b["cells"] for b in data["builds"]] == [[0]] * 40


def test_three_hundred_builds_of_thirty_grammars_stay_small() -> None:
    def grammars(size: int) -> list[GrammarResult]:
        tokens = [f"{0x80 + k:02x}" for k in range(size)]
        return [
            grammar(f"g{k}", *(deviation(f"{p:02x}f0", tokens) for p in range(0x61, 0x6B))) for k in range(30)
        ]

    thirds = [grammars(size) for size in (4, 5, 6)]
    text = page([document(build(f"0.3.{n}", day=n), *thirds[n // 100]) for n in range(300)])
    assert len(text) < 2_000_000
    assert len(data_of(text)["builds"]) == 300


def test_what_is_right_is_the_definition_of_utf8() -> None:
    minimal = RightBytes('root ::= ("\\u4e16" | "\\U0001F600")')
    after = minimal.after(b"\xf0")
    assert after is not None and after.next_bytes == ("9f",) and not after.may_end
    end = minimal.after("世".encode())
    assert end is not None and end.may_end and end.next_bytes == ()
    overlong = minimal.after(bytes.fromhex("f084b896"))
    assert overlong is not None and not overlong.viable
    string = RightBytes(JSON_STRING)
    inside = string.after(b'"\xed')
    assert inside is not None and inside.next_bytes == ("80-9f",)
    first = string.after(b'"')
    assert first is not None and first.next_bytes == ("20-5b", "5d-7e", "c2-f4")


def test_nothing_is_said_to_be_right_where_the_oracle_needs_a_vocabulary() -> None:
    assert RightBytes("root ::= <think>").after(b"") is None
    assert RightBytes("root ::= [").after(b"") is None


def test_a_verdict_says_since_when() -> None:
    clean = grammar()
    documents = [
        document(build("0.3.1", day=1), clean),
        document(build("0.3.2", day=2), grammar("minimal", deviation())),
        document(build("0.3.3", day=3), grammar("minimal", deviation())),
    ]
    said = prose(page(documents, [PARTIAL]))
    assert "Present since llama-cpp-python-0.3.2 (2025-01-03); " in said
    assert "the last build without it is llama-cpp-python-0.3.1." in said
    assert "1 deviation in 1 grammar on llama-cpp-python-0.3.3 (2025-01-04)" in said
    fixed = [*documents, document(build("0.3.4", day=4), clean)]
    assert (
        "Absent since llama-cpp-python-0.3.4 (2025-01-05); the last build with it is llama-cpp-python-0.3.3"
        in prose(page(fixed, [PARTIAL]))
    )


def test_a_newer_build_without_a_result_is_not_passed_over_in_silence() -> None:
    said = prose(
        page([document(build("0.3.1", day=1)), untestable(build("0.3.2", day=2), "no compiler")], [PARTIAL])
    )
    assert "Present in the only comparable build, llama-cpp-python-0.3.1 (2025-01-02)." in said
    assert "Not tested: llama-cpp-python-0.3.2 (no compiler)." in said


def test_without_a_result_nothing_is_green() -> None:
    for documents, why in (([], "has a result of the grammar audit"), ([untestable()], "could be tested")):
        said = prose(page(documents))
        assert f"No build {why}." in said and "nothing is green" in said
        assert "absent" not in said.lower()


def test_causes_that_are_news_lead_the_page() -> None:
    text = page(
        [
            document(
                build(), grammar("g", deviation("61", ["62", "63"], cause=Cause.NOT_IN_LANGUAGE, mid=False))
            )
        ]
    )
    said = prose(text)
    assert "No known cause explains these." in said and "2 × not-in-language" in said
    assert said.index("No known cause") < said.index("Builds × grammars")
    assert "No known cause" not in prose(page([document()]))


def test_runs_end_where_findings_verdict_or_audit_version_change() -> None:
    one, two = grammar("minimal", deviation()), grammar("minimal", deviation(tokens=("84", "85")))
    documents = [
        document(build("0.1", day=0), one),
        document(build("0.2", day=10), one),
        document(build("0.3", day=20), two),
        untestable(build("0.4", day=30)),
        document(build("0.5", day=40), grammar()),
        document(build("0.6", day=50), grammar(), audit_version="f" * 64),
    ]
    history = history_of(documents)
    found = runs(follow(PARTIAL, history), Scale.over([d.build for d in documents]))
    assert [(r.word, r.builds, r.atoms, r.left, r.width) for r in found] == [
        ("present", 2, 1, 0.0, 20.0),
        ("present", 1, 2, 40.0, 0.0),
        ("untestable", 1, 0, 60.0, 0.0),
        ("absent", 1, 0, 80.0, 0.0),
        ("absent", 1, 0, 100.0, 0.0),
    ]


def test_alike_changes_of_one_build_share_a_line() -> None:
    names = [f"g{n}" for n in range(9)]
    old = document(build("0.1", day=0), *(grammar(name) for name in names))
    new = document(build("0.2", day=1), *(grammar(name, deviation()) for name in names))
    said = prose(page([old, new], [PARTIAL]))
    assert "appeared UNSOUND overlong in llama-cpp-python-0.2 against llama-cpp-python-0.1 , +9" in said
    assert "g7 and 1 more" in said


@given(st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=1, max_size=3))
def test_an_address_can_be_taken_apart_again(parts: list[str]) -> None:
    assert [unquote(part) for part in fragment(*parts)[1:].split("/")] == parts


# -- in a browser ------------------------------------------------------------------------------------------

Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    names = (os.environ.get("LLAMA_TRACKER_BROWSER", ""), "chromium-headless-shell", "chromium")
    program = next((path for name in names if name and (path := shutil.which(name))), None)
    assert program, "no browser: install chromium-headless-shell or set LLAMA_TRACKER_BROWSER"
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=flags)
        yield started
        started.close()


def corpus_documents() -> list[Document]:
    """Three builds: one without the hole, one that does not build, one with it; a grammar of each state."""
    clean = [
        grammar("minimal", published=True),
        grammar("json-string", text=JSON_STRING, exhaustive=False),
        grammar("letters", text="root ::= [a-z]+\n"),
    ]
    holes = [
        grammar(
            "minimal",
            deviation(escape=escape()),
            deviation("f084b896", (), kind=Kind.EOS_UNSOUND),
            published=True,
        ),
        grammar(
            "json-string",
            deviation("22ed", [f"{byte:02x}" for byte in range(0xA0, 0xC0)], cause=Cause.SURROGATE),
            deviation("22", ["00"], kind=Kind.OVER_RESTRICTIVE, cause=Cause.NUL, mid=False),
            text=JSON_STRING,
            exhaustive=False,
        ),
        grammar("letters", text="root ::= [a-z]+\n"),
        grammar("deep", deviation("", (), kind=Kind.CRASH, cause=Cause.DIED, mid=False, detail="signal 11")),
        grammar("odd", deviation("61", ["62"], cause=Cause.NOT_IN_LANGUAGE, mid=False), text='root ::= "a"'),
        grammar("skipped", untestable="stopped by hand"),
    ]
    return [
        document(build("0.3.1", day=0, number=4000), *clean),
        untestable(build("0.3.2", day=30), "no member named 'x'"),
        document(build("0.3.3", day=60, number=5000), *holes),
    ]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens a page at an address, and at the end sees that the browser complained of nothing."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(
        address: str = "",
        documents: Sequence[Document] | None = None,
        width: int = 1280,
        scheme: str = "light",
        watches: Sequence[Watch] = (PARTIAL, UNKNOWN),
    ) -> Any:
        path = tmp_path / "index.html"
        path.write_text(
            page(corpus_documents() if documents is None else documents, watches), encoding="utf-8"
        )
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        made = context.new_page()
        made.on("console", lambda message: complaints.append(message.text))
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("request", lambda r: r.url.startswith(("file:", "data:")) or complaints.append(r.url))
        made.goto(path.as_uri() + address)
        return made

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


NEWEST = "llama-cpp-python-0.3.3"


def rows(made: Any) -> list[str]:
    return [text.strip() for text in made.locator('.matrix th[scope="row"]').all_text_contents()]


@pytest.mark.browser
def test_matrix_has_a_header_for_each_build_and_grammar_newest_build_first(opened: Opened) -> None:
    made = opened()
    heads = made.locator(".matrix thead th a").all_text_contents()
    assert heads == ["0.3.3", "0.3.2", "0.3.1"]
    assert rows(made) == ["minimal", "deep", "json-string", "letters", "odd", "skipped"]
    assert made.get_by_role("table", name="Deviations by grammar and build, newest build first").count() == 1
    cells = made.locator(".matrix tbody tr", has_text="json-string").locator("td:not(.causes)")
    assert [text.split(",")[0].strip() for text in cells.all_text_contents()] == [
        "33 deviations",
        "? untestable",
        "✓ no deviation",
    ]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("label", "value", "left"),
    [
        ("Cause", "surrogate", ["json-string"]),
        ("Kind", "CRASH", ["deep"]),
        ("Watch", "match_partial_char", ["minimal", "json-string"]),
        ("Watch", "not-in-language", ["odd"]),
        ("Grammar", "letters", []),
        ("Build", "llama-cpp-python-0.3.1", []),
    ],
)
def test_filters_leave_what_they_ask_for(opened: Opened, label: str, value: str, left: list[str]) -> None:
    made = opened()
    made.get_by_label("Only grammars with deviations").check()
    assert rows(made) == ["minimal", "deep", "json-string", "odd"]
    made.get_by_label(label, exact=True).select_option(value)
    assert rows(made) == left
    assert (
        made.locator("output").text_content().startswith(f"{len(left)} of 6" if left else "Nothing matches")
    )
    made.reload()
    assert rows(made) == left, "a filter is part of the address"
    made.get_by_role("button", name="Reset").click()
    assert len(rows(made)) == 6


@pytest.mark.browser
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("JSON", ["json-string"]),
        ("[a-z]+", ["letters"]),
        ("F0 84", ["minimal"]),
        ("22eda0", ["json-string"]),
        ("2e", []),
    ],
)
def test_text_finds_names_rules_and_whole_bytes(opened: Opened, text: str, left: list[str]) -> None:
    made = opened()
    made.get_by_label("Text").fill(text)
    assert rows(made) == left


@pytest.mark.browser
def test_drill_down_explains_the_bytes(opened: Opened) -> None:
    made = opened()
    made.get_by_role("row", name="minimal").get_by_role("link").first.click()
    assert made.get_by_role("heading", level=1).text_content() == f"minimal on {NEWEST}"
    made.get_by_role("row", name="F0", exact=False).get_by_role("link").first.click()
    assert (
        made.locator(".versus .right").text_content()
        == "✓ Right hereNext byte: 9F. The output may not end here."
    )
    assert made.locator(".versus .wrong").text_content() == "✕ The buildalso allows tokens that begin with 84"
    tokens = made.get_by_role("table", name="Tokens that are allowed")
    assert tokens.locator(".offence").all_text_contents() == ["84"]
    assert (
        "After F0 only 90–BF is allowed: 84 begins an overlong form of U+4000–U+4FFF."
        in tokens.text_content()
    )
    way = made.get_by_role("table", name="The way, byte by byte").locator("tbody tr")
    assert way.locator("th").all_text_contents() == ["F0", "84", "B8", "96"]
    assert way.locator(".bits").all_text_contents() == ["11110000", "10000100", "10111000", "10010110"]
    assert "the whole sequence spells U+4E16 “世”, which is written E4 B8 96" in way.nth(1).text_content()
    assert made.evaluate("location.hash") == f"#{NEWEST}/minimal/f0"
    made.go_back()
    made.go_back()
    assert made.locator("#overview").is_visible() and made.locator("#detail").is_hidden()


@pytest.mark.browser
def test_keyboard_alone_reaches_a_place_and_comes_back_to_its_cell(opened: Opened) -> None:
    made = opened()

    def focused() -> str:
        return str(made.evaluate("document.activeElement.getAttribute('href') || document.activeElement.id"))

    made.keyboard.press("Tab")
    assert made.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        made.keyboard.press("Tab")
        if made.evaluate("Boolean(document.activeElement.closest('.matrix td'))"):
            break
    assert focused() == f"#{NEWEST}/minimal"
    for key, where in [
        ("ArrowDown", f"#{NEWEST}/deep"),
        ("ArrowDown", f"#{NEWEST}/json-string"),
        ("End", "#llama-cpp-python-0.3.1/json-string"),
        ("ArrowLeft", "#llama-cpp-python-0.3.2/json-string"),
        ("Home", f"#{NEWEST}/json-string"),
        ("ArrowLeft", f"#{NEWEST}/json-string"),
    ]:
        made.keyboard.press(key)
        assert focused() == where
    made.keyboard.press("Tab")
    assert not made.evaluate("Boolean(document.activeElement.closest('.matrix td'))"), (
        "one stop for all cells"
    )
    made.keyboard.press("Shift+Tab")
    made.keyboard.press("Enter")
    made.wait_for_selector("#detail h1")
    assert made.evaluate("document.activeElement.tagName") == "H1"
    for _ in range(30):
        made.keyboard.press("Tab")
        if focused() == f"#{NEWEST}/json-string/22ed":
            break
    made.keyboard.press("Enter")
    assert made.locator(".offence").first.text_content() == "A0"
    made.go_back()
    made.go_back()
    made.wait_for_selector("#overview:not([hidden])")
    assert focused() == f"#{NEWEST}/json-string"


@pytest.mark.browser
def test_deep_links_open_and_unknown_ones_say_so(opened: Opened) -> None:
    made = opened(f"#{NEWEST}/json-string/22ed")
    assert "80–9F" in made.locator(".versus .right").text_content()
    assert made.locator(".versus .wrong code").text_content() == "A0–BF"
    assert opened(f"#{NEWEST}").get_by_role("heading", level=1).text_content() == NEWEST
    start = opened(f"#{NEWEST}/deep/start")
    assert "signal 11" in start.locator("#detail").text_content()
    assert "No build is called nonsense." in opened("#nonsense/x").locator("#detail").text_content()
    assert "No grammar is called x." in opened(f"#{NEWEST}/x").locator("#detail").text_content()
    assert opened("#%").locator("#detail h1").text_content() == "Not on this page"


@pytest.mark.browser
def test_hostile_texts_are_shown_and_do_nothing(opened: Opened) -> None:
    hostile = grammar(HOSTILE, deviation(detail=HOSTILE), text=HOSTILE, notes=(HOSTILE,))
    made = opened("", [document(build(), hostile)], watches=[Watch(name="w", title=HOSTILE, about=HOSTILE)])
    assert made.title() == "llama-tracker"
    assert rows(made) == [HOSTILE.replace("\u202e", "‹U+202E›")]
    made.locator(".matrix td a").first.click()
    assert made.locator("#detail h1").text_content().startswith("</script>")
    made.get_by_role("row", name="F0", exact=False).get_by_role("link").first.click()
    assert "</script>" in made.locator("#detail .deviation").text_content()
    assert made.locator("b").count() == 0 and made.title() != "owned"


ADDRESSES = [
    "",
    f"#{NEWEST}",
    f"#{NEWEST}/json-string",
    f"#{NEWEST}/json-string/22ed",
    f"#{NEWEST}/minimal/f0",
]


@pytest.mark.browser
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_phone_never_scrolls_sideways(opened: Opened, address: str) -> None:
    made = opened(address, width=360)
    assert made.evaluate("document.documentElement.scrollWidth") <= 360


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest("script, option, .hidden, .skip")) continue;
    const [one, other] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    seen++;
    if (ratio < 4.5) bad.push(`${text.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return {seen, bad};
}"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ADDRESSES)
def test_text_stands_out_from_its_ground_in_both_schemes(opened: Opened, address: str, scheme: str) -> None:
    found = opened(address, scheme=scheme).evaluate(CONTRAST)
    assert found["seen"] > 20
    assert found["bad"] == []


@pytest.mark.browser
def test_colours_follow_the_system_until_the_reader_chooses(opened: Opened) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(scheme="light"), opened(scheme="dark")
    light_ground, dark_ground = light.evaluate(ground), dark.evaluate(ground)
    assert light_ground != dark_ground
    toggle = light.get_by_role("button", name="Theme: system")
    toggle.click()
    light.get_by_role("button", name="Theme: light").click()
    assert light.evaluate(ground) == dark_ground
    light.reload()
    assert light.evaluate(ground) == dark_ground
    light.get_by_role("button", name="Theme: dark").click()
    assert light.evaluate(ground) == light_ground


@pytest.mark.browser
@pytest.mark.parametrize("address", ADDRESSES)
def test_every_control_has_a_name_and_every_table_headers(opened: Opened, address: str) -> None:
    made = opened(address)
    made.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    snapshot = made.locator("body").aria_snapshot()
    assert not re.search(
        r"- (link|button|textbox|searchbox|combobox|checkbox)(:|$| \[)", snapshot, re.MULTILINE
    )
    assert made.evaluate(
        "[...document.querySelectorAll('table')].every((t) => t.querySelector('thead th[scope=col]'))"
    )
    assert made.evaluate("document.querySelectorAll('h1:not(#overview[hidden] h1)').length") == 1
    ids = made.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.browser
def test_builds_that_agree_are_folded_on_request_and_by_default_when_there_are_many(opened: Opened) -> None:
    with_hole, without = grammar("minimal", deviation()), grammar("minimal")
    few = [document(build(f"0.{n}", day=n), with_hole if n < 4 else without) for n in range(6)]
    made = opened("", few)
    assert made.locator(".matrix thead th a").count() == 6
    made.get_by_label("Fold builds that agree").check()
    assert made.locator(".matrix thead th a").all_text_contents() == ["0.5", "0.3"]
    assert made.locator(".matrix thead .under").all_text_contents() == [
        "to 0.42 builds agree",
        "to 0.04 builds agree",
    ]
    many = [document(build(f"0.{n}", day=n), with_hole if n < 14 else without) for n in range(20)]
    assert opened("", many).locator(".matrix thead th a").all_text_contents() == ["0.19", "0.13"]


@pytest.mark.browser
def test_three_hundred_builds_open(opened: Opened) -> None:
    documents = [
        document(
            build(f"0.{n}", day=n),
            *(grammar(f"g{k}", deviation(tokens=[f"{0x80 + n % 7:02x}"])) for k in range(30)),
        )
        for n in range(300)
    ]
    made = opened("", documents)
    made.get_by_label("Fold builds that agree").uncheck()
    assert made.locator(".matrix td").count() == 300 * 30


@pytest.mark.browser
def test_bytes_are_judged_as_the_oracle_judges_them(opened: Opened) -> None:
    edges = [
        0x00,
        0x41,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xE1,
        0xEC,
        0xED,
    ]
    edges += [0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF7, 0xF8, 0xFF]
    chance = random.Random(11)
    strings = [[one, other] for one in edges for other in range(256)]
    strings += [chance.choices(edges, k=chance.randrange(3, 7)) for _ in range(8_000)]
    found = opened().evaluate(
        """(strings) => strings.map((bytes) => {
          const s = scan(bytes);
          const parts = sequences(bytes);
          return [s.offence, s.offset, s.pending, parts.flatMap((p) => p.bytes).join() === bytes.join(),
                  s.offence === null || ruleBroken(bytes).length > 20,
                  parts.every((p) => p.well) ? parts.map((p) => p.value) : null];
        })""",
        strings,
    )
    for bytes_, (offence, offset, pending, whole, explained, values) in zip(strings, found, strict=True):
        assert (offence, offset, pending) == utf8.scan(bytes_), bytes_
        assert whole and explained, bytes_
        try:
            text = bytes(bytes_).decode()
        except UnicodeDecodeError:
            assert values is None, bytes_
        else:
            assert values == [ord(character) for character in text]
