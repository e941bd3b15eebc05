"""Asking a real libllama through its child process: right answers, and every way to die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tracker.build import Build
from tracker.libllama.client import (
    DeathKind,
    GrammarRejected,
    LibllamaClient,
    Limits,
    RequestRefused,
    VocabularyPieces,
    WorkerDied,
)
from tracker.libllama.stage import Stage

pytestmark = pytest.mark.build

SHORT = Limits(cpu_seconds=1, wall_seconds=20)
NESTED = "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000
SLOW = "root ::= " + '"a"? ' * 200


@pytest.fixture(scope="module")
def client(build_0_3_36: Build, vocabulary_file: Path) -> LibllamaClient:
    """One child for all tests that do not kill it, or do not mind."""
    return LibllamaClient(build_0_3_36, vocabulary_file, Limits(cpu_seconds=20, wall_seconds=60))


@pytest.fixture(scope="module")
def vocabulary(client: LibllamaClient) -> VocabularyPieces:
    return client.vocabulary()


@pytest.fixture(scope="module")
def token(vocabulary: VocabularyPieces) -> dict[bytes, int]:
    """Token ids by bytes; single bytes are unique."""
    return {piece: number for number, piece in enumerate(vocabulary.pieces)}


def test_the_pieces_are_the_vocabularys(vocabulary: VocabularyPieces, token: dict[bytes, int]) -> None:
    assert vocabulary.n_vocab == len(vocabulary.pieces) == len(vocabulary.eog) == 151_936
    assert {bytes([value]) for value in range(256)} <= token.keys()
    assert vocabulary.pieces[151_644] == b"<|im_start|>"
    assert max(map(len, vocabulary.pieces)) == 128
    assert np.flatnonzero(vocabulary.eog).tolist() == [128247, 151643, 151645, 151662, 151663, 151664]


def test_an_ascii_repetition_allows_the_published_number_of_tokens(
    client: LibllamaClient, vocabulary: VocabularyPieces
) -> None:
    reply = client.mask("root ::= [a-z]+", [])
    expected = [re.fullmatch(rb"[a-z]+", piece) is not None for piece in vocabulary.pieces]
    assert reply.allowed.dtype == np.bool_
    assert reply.allowed.tolist() == expected
    assert reply.allowed.sum() == 16_833
    assert reply.apply_wall_seconds > 0
    assert reply.apply_cpu_seconds > 0


def test_the_hole_is_seen_as_published(
    client: LibllamaClient, vocabulary: VocabularyPieces, token: dict[bytes, int]
) -> None:
    grammar = 'root ::= ("\\u4e16" | "\\U0001F600")'
    path: list[int] = []
    for byte, follows in ((0xF0, {0x84, 0x9F}), (0x84, {0xB8}), (0xB8, {0x96})):
        path.append(token[bytes([byte])])
        allowed = np.flatnonzero(client.mask(grammar, path).allowed).tolist()
        assert set(allowed) == {token[bytes([value])] for value in follows}
    path.append(token[b"\x96"])
    assert np.array_equal(client.mask(grammar, path).allowed, vocabulary.eog)


def test_a_kept_grammar_answers_as_a_fresh_child_does(
    client: LibllamaClient, build_0_3_36: Build, vocabulary_file: Path, token: dict[bytes, int]
) -> None:
    grammar = (build_0_3_36.tree / "grammars" / "json.gbnf").read_text()
    path = [token[bytes([byte])] for byte in b'{"a":[1,"']
    kept = {end: client.mask(grammar, path[:end]).allowed for end in (9, 4, 0, 4, 8)}
    with LibllamaClient(build_0_3_36, vocabulary_file) as fresh:
        for end in (8, 9):
            assert np.array_equal(fresh.mask(grammar, path[:end]).allowed, kept[end])
            fresh.close()


def test_a_grammar_is_parsed_once(client: LibllamaClient) -> None:
    first = client.mask('root ::= "parsed once"', [])
    assert first.init_seconds > 0
    assert client.mask('root ::= "parsed once"', []).init_seconds == 0


def test_a_checked_path_says_where_it_is_refused(client: LibllamaClient, token: dict[bytes, int]) -> None:
    path = [token[b"a"], token[b"c"], token[b"a"]]
    reply = client.mask('root ::= "ab"', path, check_path=True)
    assert reply.refused_at == 1
    assert set(np.flatnonzero(reply.allowed)) == {token[b"b"]}
    assert client.mask('root ::= "ab"', path[:1], check_path=True).refused_at is None


def test_another_root_is_another_grammar(client: LibllamaClient, token: dict[bytes, int]) -> None:
    grammar = 'root ::= "x"\nother ::= "y"'
    assert np.flatnonzero(client.mask(grammar, [], root="other").allowed).tolist() == [token[b"y"]]
    assert not client.grammar_accepted(grammar, root="missing")


def test_a_refused_grammar_comes_with_upstreams_reason(client: LibllamaClient) -> None:
    assert not client.grammar_accepted('root ::= "\\d"')
    with pytest.raises(GrammarRejected, match="unknown escape"):
        client.mask('root ::= "\\d"', [])
    with pytest.raises(GrammarRejected, match="left recursion"):
        client.mask('root ::= root "x" | "y"', [])


def test_what_makes_no_sense_is_refused_and_the_child_lives(client: LibllamaClient) -> None:
    client.grammar_accepted('root ::= "a"')
    pid = client.pid
    with pytest.raises(RequestRefused, match="NUL"):
        client.mask('root ::= "a"\0', [])
    with pytest.raises(RequestRefused, match="not in the vocabulary"):
        client.mask('root ::= "a"', [10**6])
    for handler in ("os.system", "grammar._parsed", "grammar.nothing", "worker.main"):
        with pytest.raises(RequestRefused):
            client.request(handler, {})
    assert client.pid == pid


def test_an_accepted_token_that_is_masked_is_a_crash_and_the_next_request_is_answered(
    client: LibllamaClient, token: dict[bytes, int]
) -> None:
    with pytest.raises(WorkerDied) as death:
        client.mask('root ::= "a"', [token[b"b"]])
    assert (death.value.kind, death.value.signal) == (DeathKind.CRASH, signal.SIGABRT)
    assert "terminate" in death.value.detail
    assert client.mask('root ::= "a"', []).allowed.sum() == 1


def test_masks_asked_for_ahead_come_in_their_order_and_a_death_takes_only_its_own(
    client: LibllamaClient, token: dict[bytes, int]
) -> None:
    alone = [client.mask("root ::= [a-z]+", path).allowed for path in ([], [token[b"a"]])]
    client.send_mask("root ::= [a-z]+", [])
    client.send_mask("root ::= [a-z]+", [token[b"1"]])  # masked: accepting it is a crash
    client.send_mask("root ::= [a-z]+", [token[b"a"]])
    with pytest.raises(RuntimeError, match="asked for ahead"):
        client.mask("root ::= [a-z]+", [])
    assert np.array_equal(client.receive_mask().allowed, alone[0])
    with pytest.raises(WorkerDied) as death:
        client.receive_mask()
    assert death.value.kind is DeathKind.CRASH
    assert f"path=[{token[b'1']}]" in death.value.request
    assert np.array_equal(client.receive_mask().allowed, alone[1])


def test_a_child_killed_from_outside_answers_what_was_asked_ahead_all_the_same(
    client: LibllamaClient, token: dict[bytes, int]
) -> None:
    alone = [client.mask("root ::= [a-z]+", path).allowed for path in ([], [token[b"a"]])]
    client.send_mask("root ::= [a-z]+", [])
    client.send_mask("root ::= [a-z]+", [token[b"a"]])
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    assert np.array_equal(client.receive_mask().allowed, alone[0])
    assert np.array_equal(client.receive_mask().allowed, alone[1])


def test_nested_groups_are_a_crash(client: LibllamaClient) -> None:
    with pytest.raises(WorkerDied) as death:
        client.grammar_accepted(NESTED)
    assert (death.value.kind, death.value.signal) == (DeathKind.CRASH, signal.SIGSEGV)
    assert "\n" not in str(death.value)
    assert len(str(death.value)) < 400


def test_a_reversed_bound_eats_memory(build_0_3_36: Build, vocabulary_file: Path) -> None:
    limits = Limits(cpu_seconds=30, address_space=330 << 20)
    with LibllamaClient(build_0_3_36, vocabulary_file, limits) as small:
        with pytest.raises(WorkerDied) as death:
            small.grammar_accepted('root ::= "a"{2,1}')
        assert death.value.kind is DeathKind.OOM
        with pytest.raises(WorkerDied) as hidden:
            small.mask('root ::= a root "x" | "y"\na ::= b b\nb ::= "z" |', [])
        assert hidden.value.kind is DeathKind.OOM
        assert small.grammar_accepted('root ::= "a"')


DOUBLINGS = "".join(f'r{i} ::= r{i + 1} | "x" | r{i + 1}\n' for i in range(40)) + 'r40 ::= "a"\nroot ::= r0'
"""Upstream's search for left recursion visits 2 ** 40 ways through it."""


def test_a_mask_that_takes_for_ever_is_a_hang(build_0_3_36: Build, vocabulary_file: Path) -> None:
    with LibllamaClient(build_0_3_36, vocabulary_file, SHORT) as impatient:
        with pytest.raises(WorkerDied) as death:
            impatient.mask(SLOW, [])
        assert (death.value.kind, death.value.signal) == (DeathKind.HANG, signal.SIGXCPU)
        assert death.value.stage is Stage.APPLYING
        with pytest.raises(WorkerDied) as reading:
            impatient.grammar_accepted(DOUBLINGS)
        assert (reading.value.kind, reading.value.stage) == (DeathKind.HANG, Stage.READING)
        assert impatient.mask("root ::= [a-z]+", []).allowed.any()


def test_a_child_that_waits_is_a_hang_by_the_clock(build_0_3_36: Build, vocabulary_file: Path) -> None:
    with LibllamaClient(build_0_3_36, vocabulary_file, Limits(wall_seconds=4)) as client:
        client.grammar_accepted('root ::= "a"')
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        with pytest.raises(WorkerDied) as death:
            client.grammar_accepted('root ::= "a"')
        assert death.value.kind is DeathKind.HANG


def test_a_child_killed_from_outside_is_replaced_unnoticed(client: LibllamaClient) -> None:
    before = client.mask("root ::= [a-z]+", []).allowed
    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert np.array_equal(client.mask("root ::= [a-z]+", []).allowed, before)
    assert client.pid not in (None, pid)


def test_the_child_dies_with_a_parent_that_is_killed(build_0_3_36: Build, vocabulary_file: Path) -> None:
    # The child is hanging in upstream code when its parent goes, so it reads no end of file.
    program = f"""
import sys, threading, time
from pathlib import Path
from tracker.libllama.child import Child, Limits
child = Child(3 << 30)
setup = {{"library": {str(build_0_3_36.library)!r}, "declarations": {str(build_0_3_36.declarations)!r},
          "vocabulary": {str(vocabulary_file)!r}}}
child.send("load", setup, b"", Limits())
child.receive(Limits())
print(child.pid, flush=True)
header = {{"root": "root", "path": [], "check_path": False}}
patient = Limits(cpu_seconds=300, wall_seconds=300)
child.send("grammar.mask", header, {SLOW.encode()!r}, patient)
child.receive(patient)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    assert Path(f"/proc/{pid}").exists()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_child_has_no_token_no_core_and_no_descriptor_of_ours(
    client: LibllamaClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    client.close()
    with open(tmp_path / "ours", "w") as ours:
        os.set_inheritable(ours.fileno(), True)
        client.grammar_accepted('root ::= "a"')
        process = Path(f"/proc/{client.pid}")
        environment = process.joinpath("environ").read_bytes().split(b"\0")
        targets = [os.readlink(entry) for entry in process.joinpath("fd").iterdir()]
        limits = process.joinpath("limits").read_text().splitlines()
    assert {name.partition(b"=")[0] for name in environment if name} <= {
        *(b"LANG", b"GGML_NO_BACKTRACE", b"OPENBLAS_NUM_THREADS"),
        b"LC_CTYPE",
    }
    assert str(tmp_path / "ours") not in targets
    assert any(line.split()[:5] == ["Max", "core", "file", "size", "0"] for line in limits)
    assert any(line.startswith("Max address space") and str(20 << 30) not in line for line in limits)


def test_a_vocabulary_that_is_none_is_refused_in_one_line(build_0_3_36: Build, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with (
        LibllamaClient(build_0_3_36, tmp_path / "x.gguf") as client,
        pytest.raises(RequestRefused, match=r"refuses the vocabulary file x\.gguf"),
    ):
        client.vocabulary()


def test_0_3_16_answers_the_same_questions(build_0_3_16: Build, vocabulary_file: Path) -> None:
    with LibllamaClient(build_0_3_16, vocabulary_file) as client:
        vocabulary = client.vocabulary()
        assert np.flatnonzero(vocabulary.eog).tolist() == [151643, 151645, 151662, 151663, 151664]
        assert client.mask("root ::= [a-z]+", []).allowed.sum() == 16_833
        assert not client.grammar_accepted('root ::= "\\d"')
        with pytest.raises(GrammarRejected, match="unknown escape"):
            client.mask('root ::= "\\d"', [])
