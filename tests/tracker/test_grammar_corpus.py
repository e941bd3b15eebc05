from __future__ import annotations

import re
from pathlib import Path

import pytest

import oracle
from oracle.gbnf import GrammarError, parse
from tracker.audits.grammar.corpus import grammar_file, load_corpus, source_tree_grammars
from tracker.audits.grammar.version import DECISIVE, audit_version
from tracker.errors import UsageError


def test_the_shipped_corpus_has_the_eight_published_grammars_and_a_dozen_more() -> None:
    corpus = load_corpus()
    assert sum(entry.group == "published" for entry in corpus) == 8
    assert sum(entry.group == "masks" for entry in corpus) >= 12


def test_every_published_and_masks_grammar_can_be_read() -> None:
    for entry in load_corpus():
        if entry.group in ("published", "masks"):
            parse(entry.text)


def test_texts_that_must_be_refused_are_refused() -> None:
    refused = set()
    for entry in load_corpus():
        try:
            parse(entry.text)
        except GrammarError:
            refused.add(entry.name)
    assert refused == {
        "reversed-range",
        "rule-defined-twice",
        "unknown-escape",
        "underscore-in-name",
        "maximum-below-minimum",
    }


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("- {name: a, why: x, inline: 'root ::= \"a\"', sates: 3}", "sates"),
        ("- {name: A B, why: x, inline: 'root ::= \"a\"'}", "name"),
        ("- {name: a, why: x}", "exactly one of"),
        ("- {name: a, why: x, file: gone.gbnf}", "gone.gbnf"),
        ("- {name: a, why: x, inline: 'r'}\n- {name: a, why: x, inline: 'r'}", "used twice"),
        ("[]", "no grammar"),
        ("- {", "YAML"),
    ],
)
def test_a_wrong_index_is_one_clear_line(tmp_path: Path, index: str, said: str) -> None:
    (tmp_path / "corpus.yaml").write_text(index)
    with pytest.raises(UsageError) as error:
        load_corpus(tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_corpus_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"corpus\.yaml"):
        load_corpus(tmp_path)


def test_patterns_make_texts(tmp_path: Path) -> None:
    (tmp_path / "corpus.yaml").write_text(
        "- {name: n, why: x, nested: {open: '(', core: '\"a\"', close: ')', count: 3}}\n"
        "- {name: c, why: x, chain: {line: 'r{i} ::= r{next}', last: 'r2 ::= \"a\"', count: 2}}\n"
    )
    nested, chain = load_corpus(tmp_path)
    assert nested.text == 'root ::= ((("a")))\n'
    assert chain.text == 'r0 ::= r1\nr1 ::= r2\nr2 ::= "a"\n'


def test_grammars_of_a_source_tree_are_read_from_there(tmp_path: Path) -> None:
    (tmp_path / "grammars").mkdir()
    (tmp_path / "grammars" / "json_arr.gbnf").write_text('root ::= "x"')
    (entry,) = source_tree_grammars(tmp_path, 40)
    assert (entry.name, entry.text, entry.states) == ("upstream-json-arr", 'root ::= "x"', 40)
    assert source_tree_grammars(tmp_path / "nowhere", 40) == ()


def test_a_users_file_must_exist_and_be_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.gbnf"):
        grammar_file(tmp_path / "gone.gbnf", 10)
    (tmp_path / "bad.gbnf").write_bytes(b"root ::= \xff")
    with pytest.raises(UsageError, match="byte 9"):
        grammar_file(tmp_path / "bad.gbnf", 10)


def test_the_audit_version_follows_texts_and_bounds_but_not_the_builds_own_grammars() -> None:
    first, second, *_ = load_corpus()
    version = audit_version([first, second], "v")
    assert audit_version([first, second], "v") == version
    assert audit_version([first], "v") != version
    assert audit_version([first, second.model_copy(update={"states": 7})], "v") != version
    assert audit_version([first, second.model_copy(update={"text": "root ::= 'b'"})], "v") != version
    assert audit_version([first, second], "w") != version
    upstream = first.model_copy(update={"group": "source-tree"})
    assert audit_version([first, second, upstream], "v") == version


def test_the_audit_version_covers_every_module_that_a_mask_goes_through() -> None:
    decisive = {path.resolve() for path in DECISIVE}
    package = Path(oracle.__file__).parent
    todo, seen = [package / "mask.py"], set()
    while todo:
        path = todo.pop()
        seen.add(path)
        for name in re.findall(r"^from oracle\.(\w+) import", path.read_text(), flags=re.MULTILINE):
            imported = package / f"{name}.py"
            if imported.exists() and imported not in seen:
                todo.append(imported)
    assert {path.resolve() for path in seen} <= decisive
