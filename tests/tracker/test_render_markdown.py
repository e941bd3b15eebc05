"""The reports: what stands on the pages, that hostile texts stay texts, that only what changes is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
from builders import (
    AUDIT_VERSION,
    PASSED,
    build,
    deviation,
    document,
    escape,
    grammar,
    prediction,
    untestable,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from markdown_reader import blocks, inlines, shown, skeleton

from tracker.config import Config, parse_config
from tracker.render.escape import is_visible
from tracker.render.reports import render_all
from tracker.render.words import ByteRole, byte_roles, page_name, spelled
from tracker.results import BuildIdentity, Cause, Control, GrammarDocument, Kind, tally
from tracker.results.gguf import GgufDocument, GgufFinding, GgufResult
from tracker.store import Key, Store

CONFIG = parse_config(
    "releases: [{release: llama-cpp-python==3, note: 'about | @it'}]\n"
    "watches:\n"
    "  - {name: partial, mid_code_point: true, title: 'In a code point', about: 'About it.'}\n"
    "  - {name: not-in-language, causes: [not-in-language]}\n"
)
HOLE = deviation("f0", ["84"], escape=escape())
END = deviation("f084b896", [], kind=Kind.EOS_UNSOUND)
MASKED = deviation("", ["00"], kind=Kind.OVER_RESTRICTIVE, cause=Cause.NUL, mid=False)
NEWS = deviation("61", ["62"], cause=Cause.NOT_IN_LANGUAGE, mid=False)


def _render(root: Path, documents: Sequence[GrammarDocument], config: Config = CONFIG) -> dict[str, str]:
    store = Store(root / "data")
    for made in documents:
        store.write(made)
    render_all(store, config, root)
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.suffix in (".md", ".svg", ".html")
    }


def _life() -> list[GrammarDocument]:
    return [
        document(build("1", day=1, number=10), grammar("minimal"), grammar("other", text='root ::= "b"\n')),
        document(
            build("2", day=40, number=20),
            grammar("minimal", HOLE, END, MASKED, published=True),
            grammar("other", text='root ::= "b"\n'),
            predictions=[prediction(0x4E16), prediction(0x20AC, observed=["83"])],
        ),
        untestable(build("3", day=80, number=30), "it does not build: error: no 'x'"),
    ]


def _text(page: str) -> str:
    return shown(inlines(page))


def _rows(page: str) -> list[list[str]]:
    """The cells of all tables, as a reader sees them."""
    rows: list[list[str]] = []
    tokens = blocks(page)
    for index, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            rows[-1].append(shown(tokens[index + 1].children or []))
    return rows


# What the pages say


def test_the_entry_page_gives_each_watch_its_verdict_and_since_when(tmp_path: Path) -> None:
    page = _text(_render(tmp_path, _life())["README.md"])
    assert "partial: Present on the newest build that could be tested, llama-cpp-python 2 (2025-02-10" in page
    assert (
        "2 findings in 1 grammar. Since llama-cpp-python-2; llama-cpp-python-1 was the last one without it."
        in page
    )
    assert "Newer, but untestable: llama-cpp-python 3." in page
    assert "not-in-language: Absent on the newest build" in page


def test_the_matrix_counts_findings_by_grammar_and_build_newest_left(tmp_path: Path) -> None:
    rows = _rows(_render(tmp_path, _life())["README.md"])
    assert ["", "3", "2", "1"] in rows
    assert ["minimal", "untestable", "3", "0"] in rows
    assert ["other", "untestable", "0", "0"] in rows


def test_a_build_begins_with_its_verdict(tmp_path: Path) -> None:
    page = _text(_render(tmp_path, _life())["builds/llama-cpp-python-2.md"])
    verdict = page.index(
        "The masks are wrong in 1 of 2 grammars: 3 findings at 3 places. 24 states were compared"
    )
    assert verdict < 80
    assert "partial: present: 2 findings in 1 grammar, new since llama-cpp-python-1" in page


def test_a_build_without_a_result_says_so_first_and_no_more(tmp_path: Path) -> None:
    page = _render(tmp_path, _life())["builds/llama-cpp-python-3.md"]
    assert _text(page).index("No verdict from the grammar audit: it does not build: error: no 'x'") < 60
    assert "Deviations by grammar" not in page
    assert "What changed" not in page
    assert ["note", "about | @\u2060it"] in _rows(page)


def test_a_failed_control_takes_the_verdict_away(tmp_path: Path) -> None:
    failed = Control(name="null", passed=False, detail="3 states differ")
    page = _render(tmp_path, [document(build("1"), grammar("g", HOLE), controls=[failed])])[
        "builds/llama-cpp-python-1.md"
    ]
    assert "No verdict from the grammar audit: control null failed: 3 states differ" in _text(page)
    assert "The masks are wrong" not in page
    assert "failed: null: 3 states differ" in _text(page)


def test_a_clean_build_says_what_was_compared(tmp_path: Path) -> None:
    page = _text(_render(tmp_path, _life())["builds/llama-cpp-python-1.md"])
    assert "No deviation. At all 24 states compared, in 2 grammars" in page


def test_the_escape_is_traced_byte_by_byte(tmp_path: Path) -> None:
    page = _render(tmp_path, _life())["builds/llama-cpp-python-2.md"]
    # The grammar is ("世" | "😀"), E4 B8 96 and F0 9F 98 80: what may come is read off those.
    nothing = "nothing: no string of the grammar begins so"
    assert [row for row in _rows(page) if len(row) == 5 and row[4] in ("right", "wrong")] == [
        ["nothing yet", "E4, F0", "F0", "lead of a four-byte sequence", "right"],
        ["F0", "9F", "84", "continuation 1 of 3", "wrong"],
        ["F0 84", nothing, "B8", "continuation 2 of 3", "wrong"],
        ["F0 84 B8", nothing, "96", "continuation 3 of 3", "wrong"],
        ["F0 84 B8 96", "", "end of generation", "", "wrong"],
    ]
    assert "F0 84 B8 96 is an overlong form of U+4E16 (世)" in _text(page)


def test_the_commands_are_those_of_the_smallest_case(tmp_path: Path) -> None:
    page = _render(tmp_path, _life())["builds/llama-cpp-python-2.md"]
    fences = [token.content for token in blocks(page) if token.type == "fence"]
    assert 'root ::= ("\\u4e16" | "\\U0001F600")\n' in fences
    assert "llama-tracker check minimal.gbnf --release llama-cpp-python==2 --at 'f0'\n" in fences


def test_a_prediction_that_differs_is_marked(tmp_path: Path) -> None:
    rows = _rows(_render(tmp_path, _life())["builds/llama-cpp-python-2.md"])
    assert ["U+4E16", "84", "84", "exact"] in rows
    assert ["U+20AC", "82", "83", "differs"] in rows


def test_news_leads_the_entry_page_and_the_build(tmp_path: Path) -> None:
    pages = _render(tmp_path, [document(build("1"), grammar("a", HOLE), grammar("b", NEWS))])
    for name in ("README.md", "builds/llama-cpp-python-1.md"):
        headings = re.findall(r"^## (.*)$", pages[name], re.MULTILINE)
        assert headings[0].startswith("News")
        assert ["b", "UNSOUND", "not-in-language", "1", "1", 'after "a": "b"'] in _rows(pages[name])
    assert (
        "### The smallest case" not in pages["builds/llama-cpp-python-1.md"].split("## The smallest case")[0]
    )
    assert 'After the output "a"' in _text(pages["builds/llama-cpp-python-1.md"])


def test_a_grammar_shows_what_each_build_does(tmp_path: Path) -> None:
    page = _render(tmp_path, _life())["grammars/minimal.md"]
    rows = [[row[0], row[2], row[3]] for row in _rows(page) if len(row) == 4]
    assert rows[1:] == [
        ["llama-cpp-python 3", "untestable", "it does not build: error: no 'x'"],
        [
            "llama-cpp-python 2",
            "wrong",
            "EOS_UNSOUND: 1 overlong; OVER_RESTRICTIVE: 1 nul; UNSOUND: 1 overlong",
        ],
        ["llama-cpp-python 1", "right", "none"],
    ]


def test_a_watch_shows_its_history_in_runs(tmp_path: Path) -> None:
    more = [
        document(build(str(n), day=100 + n, number=40 + n), grammar("minimal", HOLE, END)) for n in (4, 5, 6)
    ]
    page = _render(tmp_path, [*_life(), *more])["watches/partial.md"]
    rows = [[row[0], row[2], row[3]] for row in _rows(page) if len(row) == 4]
    assert rows[1:] == [
        ["llama-cpp-python 4 to llama-cpp-python 6 (3)", "present: 2 findings in 1 grammar", "as before"],
        ["llama-cpp-python 3", "untestable: it does not build: error: no 'x'", ""],
        ["llama-cpp-python 2", "present: 2 findings in 1 grammar", "appeared"],
        ["llama-cpp-python 1", "absent", "first result"],
    ]


def test_every_link_and_picture_leads_to_a_file_that_is_there(tmp_path: Path) -> None:
    odd = grammar("a b/c|d", HOLE, text='root ::= "x"\n')
    pages = _render(tmp_path, [*_life(), document(build("4", day=90), odd)])
    for name, page in pages.items():
        if not name.endswith(".md"):
            continue
        for token in inlines(page):
            target = token.attrs.get("href") or token.attrs.get("src")
            if token.type in ("link_open", "image") and not str(target).startswith(
                "https://github.com/ggml-org/"
            ):
                assert (tmp_path / name).parent.joinpath(unquote(str(target))).exists(), (name, target)


def test_there_are_pages_without_any_result(tmp_path: Path) -> None:
    pages = _render(tmp_path, [])
    assert "Not audited: no build has a result of the grammar audit." in _text(pages["README.md"])
    assert "watches/partial.md" in pages


def _readers(identity: BuildIdentity, *findings: GgufFinding) -> GgufDocument:
    totals, digests = tally("data/seed", "0" * 64, findings)
    result = GgufResult(
        name="data/seed",
        sha256="0" * 64,
        totals=totals,
        digests=digests,
        reader="data",
        seed="seed",
        deviations=findings,
    )
    return GgufDocument(audit_version=AUDIT_VERSION, build=identity, controls=PASSED, readers=(result,))


def _finding(kind: Kind, cause: str, field: str) -> GgufFinding:
    return GgufFinding(kind=kind, cause=cause, field=field, file="00", files=1, digest="0" * 64, example="a")


def test_another_audit_of_a_build_is_on_the_same_pages_and_policy_is_no_alarm(tmp_path: Path) -> None:
    abort, policy = _finding(Kind.CRASH, "SIGABRT | x", "dimension"), _finding(Kind.POLICY, "bool", "face")
    store = Store(tmp_path / "data")
    store.write(document(build("1", day=1), grammar("g")))
    store.write(_readers(build("1", day=1), policy))
    store.write(_readers(build("2", day=2), policy, abort))
    pages = _render(tmp_path, [])
    assert "GGUF audit: no finding in 1 subject" in _text(pages["builds/llama-cpp-python-1.md"])
    assert "No deviation." in _text(pages["builds/llama-cpp-python-1.md"])
    assert "GGUF audit: 1 finding in 1 of 1 subject." in _text(pages["builds/llama-cpp-python-2.md"])
    assert ["data/seed", "CRASH", "SIGABRT | x", "1", "1", ""] in _rows(pages["builds/llama-cpp-python-2.md"])
    assert ["data/seed", "1", "0"] in _rows(pages["README.md"])
    assert "Appeared: CRASH, SIGABRT | x, in data/seed" in _text(pages["README.md"])
    assert "charts/gguf.svg" in pages


# Hostile texts


_PARTS = [
    "|",
    "`",
    "```",
    "\n",
    "\n\n",
    "\n# x\n",
    "@someone",
    "#12",
    "<b>",
    "<!--",
    "](http://x.test)",
    "**",
]
_PARTS += [
    "http://x.test",
    "\0",
    "\u202e",
    "&#124;",
    "\\",
    "- ",
    "1. ",
    "> ",
    "~~~",
    "{{ x }}",
    "{% x %}",
    "a",
    "=",
]
_HOSTILE = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=6).map(lambda parts: "x" + "".join(parts))
_FEW = settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # An example renders two sets of reports; to shrink one would take minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


def _with_texts(text: Iterator[str]) -> list[GrammarDocument]:
    def dead(prefix: str) -> object:
        return deviation(prefix, [], kind=Kind.CRASH, cause=Cause.DIED, mid=False, detail=next(text))

    control = Control(name=next(text), passed=True, detail=next(text))
    failed = Control(name=next(text), passed=False, detail=next(text))
    first = document(
        build("1", day=1).model_copy(update={"version": next(text), "patch": None}),
        grammar("g", HOLE, text=next(text), notes=[next(text)]),
        grammar("h", dead("61")),  # type: ignore[arg-type]
        grammar("i", untestable=next(text)),
        controls=[control],
    )
    return [
        first,
        document(build("2", day=2), grammar("g", HOLE, text=next(text)), controls=[failed]),
        untestable(build("3", day=3), next(text)),
        document(build("4", day=4), grammar("h", HOLE)),
    ]


@_FEW
@given(texts=st.lists(_HOSTILE, min_size=12, max_size=12))
def test_hostile_texts_do_not_change_the_structure_of_any_page(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    # A grammar that cannot be shown as it is gets other sentences, so the harmless one shares that.
    words = ["word" if is_visible(text) else "word\0" for text in texts]
    hostile = _render(tmp_path_factory.mktemp("hostile"), _with_texts(iter(texts)))
    harmless = _render(tmp_path_factory.mktemp("harmless"), _with_texts(iter(words)))
    assert hostile.keys() == harmless.keys()
    for name in hostile:
        if name.endswith(".md"):
            assert skeleton(hostile[name]) == skeleton(harmless[name]), name


@_FEW
@given(text=_HOSTILE)
def test_the_text_of_a_grammar_is_on_its_page_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    pages = _render(tmp_path_factory.mktemp("one"), [document(build("1"), grammar("g", HOLE, text=text))])
    fences = [token.content for token in blocks(pages["grammars/g.md"]) if token.type == "fence"]
    seen = text.replace("\0", "\ufffd").replace("\u202e", "\ufffd").removesuffix("\n") + "\n"
    assert seen in fences


# Only what changes


def test_rendering_again_writes_nothing(tmp_path: Path) -> None:
    _render(tmp_path, _life())
    before = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
    assert render_all(Store(tmp_path / "data"), CONFIG, tmp_path) == []
    after = {path: path.stat() for path in tmp_path.rglob("*") if path.is_file()}
    assert {p: (s.st_ino, s.st_mtime_ns) for p, s in before.items()} == {
        p: (s.st_ino, s.st_mtime_ns) for p, s in after.items()
    }


def test_the_pages_do_not_depend_on_the_order_of_files_or_on_what_was_there(tmp_path: Path) -> None:
    life = _life()
    first = _render(tmp_path / "a", life)
    _render(tmp_path / "b", [life[2], life[0]])
    assert _render(tmp_path / "b", [life[1]]) == first


def test_a_new_build_changes_the_pages_that_show_it_and_no_others(tmp_path: Path) -> None:
    life = _life()
    _render(tmp_path, life[:2])
    store = Store(tmp_path / "data")
    store.write(life[2])
    changed = {str(path.relative_to(tmp_path)) for path in render_all(store, CONFIG, tmp_path)}
    assert "builds/llama-cpp-python-3.md" in changed
    assert "README.md" in changed
    assert not changed & {"builds/llama-cpp-python-1.md", "builds/llama-cpp-python-2.md"}


def test_pages_of_what_is_gone_are_removed_and_other_files_are_not(tmp_path: Path) -> None:
    life = _life()
    _render(tmp_path, life)
    (tmp_path / "builds" / "notes.txt").write_text("mine")
    (tmp_path / "mine.md").write_text("mine")
    (tmp_path / "builds" / ".old.md.0a.tmp").write_text("half")
    store = Store(tmp_path / "data")
    store.remove(Key("llama-cpp-python-2", life[1].audit))
    changed = render_all(store, CONFIG, tmp_path)
    assert tmp_path / "builds" / "llama-cpp-python-2.md" in changed
    assert sorted(path.name for path in (tmp_path / "builds").iterdir()) == [
        "README.md",
        "llama-cpp-python-1.md",
        "llama-cpp-python-3.md",
        "notes.txt",
    ]
    assert (tmp_path / "mine.md").exists()


def test_no_page_holds_a_path_or_a_host(tmp_path: Path) -> None:
    pages = _render(tmp_path, _life())
    for name, page in pages.items():
        assert str(tmp_path) not in page, name
        assert os.uname().nodename not in re.findall(r"[\w.-]+", page), name


# Words


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("f084b896", "F0 84 B8 96 is an overlong form of U+4E16 (世)"),
        ("61c1a1", "C1 A1 is an overlong form of U+0061 (a)"),
        ("eda080", "ED A0 80 spells the surrogate U+D800"),
        ("f4908080", "F4 90 80 80 spells U+110000, which does not exist"),
        ("22f5808080", "F5 80 80 80 spells U+140000, which does not exist"),
        ("80", "a continuation byte with no lead before it"),
        ("e4b8", "a code point that is begun and not finished"),
        ("e4b896", ""),
        ("", ""),
    ],
)
def test_ill_formed_output_is_explained(output: str, words: str) -> None:
    assert spelled(bytes.fromhex(output)) == words


@given(st.text())
def test_well_formed_output_needs_no_explanation(text: str) -> None:
    data = text.encode("utf-8", "ignore")
    assert spelled(data) == ""
    leads = [role for role in byte_roles(data) if not role.role.startswith("continuation")]
    assert len(leads) == len(data.decode())


@given(st.binary(max_size=12))
def test_every_byte_has_a_role(data: bytes) -> None:
    roles = byte_roles(data)
    assert bytes.fromhex("".join(role.byte for role in roles)) == data
    assert all(isinstance(role, ByteRole) and role.role for role in roles)
    spelled(data)


@given(st.lists(st.text(max_size=100), unique=True, max_size=8))
def test_names_of_pages_are_safe_and_do_not_clash(names: list[str]) -> None:
    files = [page_name(name) for name in names]
    assert len(set(files)) == len(files)
    assert all(re.fullmatch(r"[A-Za-z0-9.-][A-Za-z0-9_.-]{0,90}\.md", file) for file in files)


def test_names_of_corpus_grammars_are_the_names_of_their_pages() -> None:
    assert page_name("json-nested-ascii") == "json-nested-ascii.md"
