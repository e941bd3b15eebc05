"""The store: equal results are equal bytes, no reader ever sees half a file, bad files are one line."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import AUDIT_VERSION, VOCABULARY, build, deviation, document, escape, grammar, untestable
from hypothesis import given
from hypothesis import strategies as st

from tracker.atomic import sweep, write_atomic
from tracker.results import AuditName as Audit
from tracker.results import Control, GrammarDocument
from tracker.store import Key, Raw, Store, StoreError, decode, encode

FULL = document(build("0.3.36", number=11312), grammar("minimal", deviation(escape=escape())))


def test_a_document_comes_back_as_it_went_in(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.write(FULL)
    assert store.read("llama-cpp-python-0.3.36", Audit.GRAMMAR) == FULL
    assert store.keys() == [Key("llama-cpp-python-0.3.36", Audit.GRAMMAR)]


def test_an_equal_document_does_not_touch_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(FULL)
    path = store.path(FULL.build.id, FULL.audit)
    before = path.stat()
    assert not store.write(FULL.model_copy())
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_keys_are_sorted_and_the_file_ends_with_a_line_end() -> None:
    content = encode(FULL)
    assert content.endswith(b"}\n")
    assert not content.endswith(b"\n\n")

    def check(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        assert names == sorted(names)

    json.loads(content, object_pairs_hook=check)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_the_layout_is_json_of_the_same_value(value: object) -> None:
    figures = {"b": 1, "a": 2.5}
    control = Control(name="x", passed=True, detail=json.dumps(value), figures=figures)
    made = document(build(), grammar(notes=[json.dumps(value)]), controls=[control])
    assert json.loads(encode(made)) == made.model_dump(mode="json")
    assert decode(encode(made), Audit.GRAMMAR, "f") == made


def test_a_newer_schema_is_refused_in_one_line() -> None:
    raw = json.loads(encode(FULL)) | {"schema_version": 999, "unheard_of": 1}
    with pytest.raises(StoreError, match=r"^f: written with schema 999.*newer llama-tracker$"):
        decode(json.dumps(raw).encode(), Audit.GRAMMAR, "f")


def test_a_newer_schema_is_refused_even_when_it_looks_like_ours() -> None:
    raw = json.loads(encode(FULL)) | {"schema_version": 2}
    with pytest.raises(StoreError, match="newer"):
        decode(json.dumps(raw).encode(), Audit.GRAMMAR, "f")


def test_an_older_schema_is_migrated_step_by_step() -> None:
    raw = json.loads(encode(FULL))
    raw["schema_version"] = -1
    raw["constructions"] = raw.pop("grammars")

    def rename(old: Raw) -> Raw:
        return {("languages" if key == "constructions" else key): value for key, value in old.items()}

    def rename_again(old: Raw) -> Raw:
        return {("grammars" if key == "languages" else key): value for key, value in old.items()}

    migrated = decode(json.dumps(raw).encode(), Audit.GRAMMAR, "f", {-1: rename, 0: rename_again})
    assert migrated == FULL
    with pytest.raises(StoreError, match="schema -1 is too old"):
        decode(json.dumps(raw).encode(), Audit.GRAMMAR, "f")


@given(st.integers(min_value=0, max_value=len(encode(FULL)) - 2))
def test_a_cut_file_is_one_line_that_names_it(size: int) -> None:
    with pytest.raises(StoreError) as caught:
        decode(encode(FULL)[:size], Audit.GRAMMAR, "the/file.json")
    assert str(caught.value).startswith("the/file.json: ")
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(StoreError) as caught:
        decode(content, Audit.GRAMMAR, "f")
    assert "\n" not in str(caught.value)


def test_a_wrong_value_is_named_by_its_key() -> None:
    raw = json.loads(encode(FULL))
    raw["grammars"][0]["states"] = "many"
    with pytest.raises(StoreError, match=r"^f: grammars\.0\.states: "):
        decode(json.dumps(raw).encode(), Audit.GRAMMAR, "f")


def test_a_document_under_another_builds_name_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(FULL)
    (tmp_path / FULL.build.id).rename(tmp_path / "other")
    with pytest.raises(StoreError, match=r"is the result of 'llama-cpp-python-0\.3\.36'"):
        store.read("other", Audit.GRAMMAR)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a\nb", "x" * 121])
def test_an_id_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no safe file name"):
        Store(tmp_path).path(name, Audit.GRAMMAR)


def test_current_asks_for_version_vocabulary_and_a_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ok = (AUDIT_VERSION, VOCABULARY.sha256)
    assert not store.current(FULL.build.id, Audit.GRAMMAR, *ok)
    store.write(FULL)
    assert store.current(FULL.build.id, Audit.GRAMMAR, *ok)
    assert not store.current(FULL.build.id, Audit.GRAMMAR, "other", VOCABULARY.sha256)
    assert not store.current(FULL.build.id, Audit.GRAMMAR, AUDIT_VERSION, "other")
    assert not store.current(FULL.build.id, Audit.GRAMMAR, AUDIT_VERSION, None)
    store.write(untestable(FULL.build))
    assert not store.current(FULL.build.id, Audit.GRAMMAR, *ok)
    failed = Control(name="null", passed=False, detail="differs")
    store.write(document(FULL.build, controls=[failed]))
    assert not store.current(FULL.build.id, Audit.GRAMMAR, *ok)
    store.path(FULL.build.id, Audit.GRAMMAR).write_bytes(b"{")
    assert not store.current(FULL.build.id, Audit.GRAMMAR, *ok)


def test_documents_come_in_the_order_of_build_ids(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for version in ("0.3.9", "0.3.10", "0.3.8"):
        store.write(document(build(version)))
    (tmp_path / "README").write_text("no folder")
    (tmp_path / "empty").mkdir()
    ids = [found.build.id for found in store.documents(Audit.GRAMMAR)]
    assert ids == ["llama-cpp-python-0.3.10", "llama-cpp-python-0.3.8", "llama-cpp-python-0.3.9"]
    store.remove(Key(ids[0], Audit.GRAMMAR))
    assert not (tmp_path / ids[0]).exists()
    assert len(store.keys()) == 2


def test_orphans_are_swept_and_living_writers_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(FULL)
    folder = store.path(FULL.build.id, FULL.audit).parent
    orphan, alive = folder / ".grammar.json.0a.tmp", folder / ".grammar.json.0b.tmp"
    orphan.write_bytes(b"{")
    descriptor = os.open(alive, os.O_WRONLY | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert store.sweep() == [orphan]
    assert sorted(path.name for path in folder.iterdir()) == [alive.name, "grammar.json"]
    os.close(descriptor)
    assert store.sweep() == [alive]


_WRITER = """
import sys
from pathlib import Path
from tracker.atomic import write_atomic
path, sizes = Path(sys.argv[1]), (2_000_000, 3_000_000)
print("ready", flush=True)
while True:
    for letter, size in zip(b"ab", sizes):
        write_atomic(path, bytes([letter]) * size)
"""


def test_a_writer_killed_at_any_moment_leaves_one_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    seen = set()
    for attempt in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        time.sleep(0.01 + attempt * 0.0037)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if path.exists():
            content = path.read_bytes()
            assert content in (b"a" * 2_000_000, b"b" * 3_000_000)
            seen.add(content[:1])
        sweep(tmp_path)
        assert list(tmp_path.glob(".*")) == []
    assert seen


def test_a_reader_never_sees_half_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"a")
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        for _ in range(200):
            content = path.read_bytes()
            assert len(set(content)) == 1
            assert len(content) in (1, 2_000_000, 3_000_000)
    finally:
        writer.kill()
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()


def test_a_failing_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError):
        write_atomic(tmp_path / "file", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_stored_has_the_type_of_its_audit(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(FULL)
    assert type(store.read(FULL.build.id, Audit.GRAMMAR)) is GrammarDocument
