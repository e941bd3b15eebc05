"""What audit jobs hand over is accepted as it is, or refused with one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.publish import artifacts
from tracker.publish.artifacts import Accepted, check_document, take_over
from tracker.publish.inspection import ArtifactError
from tracker.results import AuditName
from tracker.store import encode

ID = "llama-cpp-python-0.3.36"
GOOD = encode(
    builders.document(
        builders.build(),
        builders.grammar("minimal", builders.deviation(escape=builders.escape()), visited=["", "f0"]),
        predictions=[builders.prediction()],
    )
)


def hand_over(folder: Path, content: bytes = GOOD, build_id: str = ID, name: str = "grammar.json") -> Path:
    path = folder / f"audit-{build_id}" / build_id / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def taken(folder: Path, *build_ids: str) -> list[Accepted]:
    return list(take_over(folder, build_ids or (ID,)))


def refusal(folder: Path) -> str:
    [accepted] = taken(folder)
    assert accepted.documents == ()
    assert accepted.refused is not None
    assert "\n" not in accepted.refused
    assert len(accepted.refused) < 400
    return accepted.refused


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    raw = json.loads(GOOD)
    change(raw)
    return json.dumps(raw).encode()


def test_what_an_audit_writes_is_accepted(tmp_path: Path) -> None:
    hand_over(tmp_path)
    [accepted] = taken(tmp_path)
    assert accepted.refused is None
    assert [encode(d) for d in accepted.documents] == [GOOD]


def test_a_build_without_a_result_is_accepted_as_such(tmp_path: Path) -> None:
    hand_over(tmp_path, encode(builders.untestable(reason="the build failed: <script> | `x` @someone #1")))
    [accepted] = taken(tmp_path)
    assert accepted.documents[0].status == "untestable"


def test_a_grammar_that_was_too_large_to_keep_is_accepted(tmp_path: Path) -> None:
    large = builders.grammar("large", text="root ::= " + '"a" ' * 99_999)
    kept = large.model_copy(update={"text": large.text[:200] + f"... ({len(large.text)} characters)"})
    hand_over(tmp_path, encode(builders.document(builders.build(), kept)))
    assert taken(tmp_path)[0].refused is None


def test_a_job_that_handed_nothing_over_is_no_refusal(tmp_path: Path) -> None:
    assert taken(tmp_path / "missing") == []
    hand_over(tmp_path)
    assert [a.build_id for a in taken(tmp_path, "b-1", ID)] == [ID]


def test_one_bad_artifact_does_not_spoil_the_others(tmp_path: Path) -> None:
    hand_over(tmp_path, b"<html>", "b-1")
    hand_over(tmp_path)
    first, second = taken(tmp_path, "b-1", ID)
    assert first.refused is not None
    assert second.refused is None


def test_an_artifact_that_nobody_planned_stops_everything(tmp_path: Path) -> None:
    hand_over(tmp_path)
    hand_over(tmp_path, build_id="other")
    with pytest.raises(ArtifactError, match="unplanned artifact 'audit-other'"):
        taken(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"<html><body>hello</body></html>", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000]
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: bytes) -> None:
    hand_over(tmp_path, content)
    assert refusal(tmp_path).startswith(f"audit-{ID}/grammar.json: ")


def test_a_file_outside_its_name_is_refused(tmp_path: Path) -> None:
    hand_over(tmp_path)
    hand_over(tmp_path, name="run.sh")
    assert "run.sh" in refusal(tmp_path)


def test_a_file_beside_the_builds_folder_is_refused(tmp_path: Path) -> None:
    hand_over(tmp_path)
    (tmp_path / f"audit-{ID}" / "README.md").write_text("hello")
    assert "README.md" in refusal(tmp_path)


def test_a_folder_inside_is_refused(tmp_path: Path) -> None:
    hand_over(tmp_path)
    (tmp_path / f"audit-{ID}" / ID / "gguf.json").mkdir()
    assert "not a regular file" in refusal(tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(GOOD)
    (tmp_path / "in" / f"audit-{ID}" / ID).mkdir(parents=True)
    os.symlink(secret, tmp_path / "in" / f"audit-{ID}" / ID / "grammar.json")
    assert "not a regular file" in refusal(tmp_path / "in")
    (tmp_path / "in1" / f"audit-{ID}").mkdir(parents=True)
    os.symlink(tmp_path / "in" / f"audit-{ID}" / ID, tmp_path / "in1" / f"audit-{ID}" / ID)
    assert "is no folder" in refusal(tmp_path / "in1")
    (tmp_path / "in2").mkdir()
    os.symlink(tmp_path / "in" / f"audit-{ID}", tmp_path / "in2" / f"audit-{ID}")
    assert "is no folder" in refusal(tmp_path / "in2")
    os.symlink(tmp_path / "in", tmp_path / "in3")
    assert taken(tmp_path / "in3") == []


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / f"audit-{ID}" / ID).mkdir(parents=True)
    os.mkfifo(tmp_path / f"audit-{ID}" / ID / "grammar.json")
    assert "not a regular file" in refusal(tmp_path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with hand_over(tmp_path).open("ab") as file:
        file.truncate(artifacts.MAX_FILE + 1)
    assert f"at most {artifacts.MAX_FILE}" in refusal(tmp_path)


def test_too_much_in_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_TOTAL", len(GOOD) - 1)
    hand_over(tmp_path)
    with pytest.raises(ArtifactError, match="more than"):
        taken(tmp_path)


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another build": lambda d: d["build"].update(id="llama-cpp-python-0.3.35"),
    "a path as build": lambda d: d["build"].update(id="../../README"),
    "a newer schema": lambda d: d.update(schema_version=2),
    "an older schema": lambda d: d.update(schema_version=0),
    "an unknown key": lambda d: d.update(run="rm -rf"),
    "another audit": lambda d: d.update(audit="gguf"),
    "markup as version": lambda d: d["build"].update(version="<img src=x>"),
    "a shell word as version": lambda d: d["build"].update(version="1;id"),
    "a line end in the version": lambda d: d["build"].update(version="0.3.36\n"),
    "markup as channel": lambda d: d["build"].update(channel="a|b"),
    "no commit as commit": lambda d: d["build"].update(commit="main/../../.."),
    "words as date": lambda d: d["build"].update(date="yesterday @all"),
    "markup as patch": lambda d: d["build"].update(patch="](x)"),
    "markup as vocabulary": lambda d: d["vocabulary"].update(name="<b>"),
    "lines as control": lambda d: d["controls"][0].update(name="a\nb"),
    "lines in a control": lambda d: d["controls"][0].update(detail="a\nb"),
    "lines in a reason": lambda d: d.update(reason="a\nb"),
    "an escape sequence in a reason": lambda d: d.update(reason="\x1b[31mred"),
    "a path as grammar": lambda d: d["grammars"][0].update(name="../../../etc/passwd"),
    "an absolute path as grammar": lambda d: d["grammars"][0].update(name="/etc/passwd"),
    "a mention as grammar": lambda d: d["grammars"][0].update(name="@someone"),
    "no hash": lambda d: d["grammars"][0].update(sha256="x" * 64),
    "another text": lambda d: d["grammars"][0].update(text="root ::= [a-z]"),
    "no hex": lambda d: d["grammars"][0]["deviations"][0].update(prefix="f0`"),
    "half a byte": lambda d: d["grammars"][0]["deviations"][0].update(tokens=["8"]),
    "markup as cause": lambda d: d["grammars"][0]["deviations"][0].update(cause="<b>"),
    "lines in a detail": lambda d: d["grammars"][0]["deviations"][0].update(detail="a\nb"),
    "no hex in an escape": lambda d: d["grammars"][0]["deviations"][0]["escape"].update(bytes="zz"),
    "no hex in a place": lambda d: d["grammars"][0].update(visited=["<b>"]),
    "hidden findings": lambda d: d["grammars"][0].update(deviations=[]),
    "other sums": lambda d: d["grammars"][0].update(totals={"UNSOUND": {"overlong": 2}}),
    "other digests": lambda d: d["grammars"][0].update(digests={}),
    "lines in a note": lambda d: d["grammars"][0].update(notes=["a\nb"]),
    "an endless note": lambda d: d["grammars"][0].update(notes=["a" * 100_000]),
    "the same grammar twice": lambda d: d["grammars"].append(d["grammars"][0]),
    "markup in a prediction": lambda d: d["predictions"][0].update(code_point="<b>"),
    "no hex in a prediction": lambda d: d["predictions"][0].update(observed=["@x"]),
    "an endless grammar in a prediction": lambda d: d["predictions"][0].update(grammar="x" * 3_000),
    "an infinite figure": lambda d: d["controls"][0].update(figures={"recall": float("inf")}),
    "lines as figure": lambda d: d["controls"][0].update(figures={"a\nb": 1}),
    "markup as bound": lambda d: d["grammars"][0].update(bound="a\nb"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_document_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    hand_over(tmp_path, changed(change))
    refusal(tmp_path)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_the_bytes_are_the_outcome_is_a_document_or_one_line(content: bytes) -> None:
    with pytest.raises(ArtifactError) as caught:
        check_document(content, AuditName.GRAMMAR, ID)
    assert "\n" not in str(caught.value)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@given(st.data())
def test_a_document_with_one_thing_replaced_is_accepted_or_refused_with_one_line(data: st.DataObject) -> None:
    raw = json.loads(GOOD)
    node: Any = raw
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], (dict, list)) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(values)
    try:
        check_document(json.dumps(raw).encode(), AuditName.GRAMMAR, ID)
    except ArtifactError as error:
        assert "\n" not in str(error)
