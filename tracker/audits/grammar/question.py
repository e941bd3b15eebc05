"""One state of one grammar: what may follow by the oracle, and what by the build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.automaton import DEAD
from oracle.gbnf import GrammarError
from oracle.mask import Oracle
from tracker.audits.grammar.audit import VocabularyFile
from tracker.audits.grammar.compare import Ends
from tracker.build import Build
from tracker.errors import UsageError
from tracker.libllama.client import LibllamaClient, Limits


@dataclass(frozen=True)
class StateAnswer:
    """What may follow some output.

    ``*_tokens`` count the tokens allowed, end-of-generation tokens left out; ``*_next`` are the single bytes
    among them, in hex. ``unsound`` and ``over_restrictive`` are the tokens that differ, in hex.
    ``build_tokens`` is None when the build refuses the output itself: ``refused_at`` is then the index of the
    first token of ``path`` that it masks.
    """

    grammar: str
    prefix: bytes
    path: tuple[int, ...]
    viable: bool
    oracle_tokens: int
    oracle_eos: bool
    oracle_next: tuple[str, ...]
    build_tokens: int | None
    build_eos: bool
    build_next: tuple[str, ...]
    refused_at: int | None
    unsound: tuple[str, ...]
    over_restrictive: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The answer as ``check --at --json`` prints it."""
        build: dict[str, Any] = {"tokens": self.build_tokens, "eos": self.build_eos}
        if self.refused_at is not None:
            build["refused_at"] = self.refused_at
        else:
            build["next_bytes"] = list(self.build_next)
        return {
            "prefix": self.prefix.hex(),
            "viable": self.viable,
            "oracle": {
                "tokens": self.oracle_tokens,
                "eos": self.oracle_eos,
                "next_bytes": list(self.oracle_next),
            },
            "build": build,
            "unsound": list(self.unsound),
            "over_restrictive": list(self.over_restrictive),
        }


def ask_state(
    text: str,
    build: Build,
    vocabulary: VocabularyFile,
    *,
    output: bytes,
    path: tuple[int, ...] | None,
    limits: Limits,
    name: str = "the grammar",
) -> StateAnswer:
    """Compare one state.

    Args:
        text: the grammar.
        build: the library to ask.
        vocabulary: over which.
        output: the output so far; spelled by single-byte tokens unless ``path`` is given.
        path: the output so far as token ids.
        limits: of the child.
        name: what the text is called in errors.

    Raises:
        UsageError: the text is no grammar, or the path names no tokens.
        GrammarRejected, WorkerDied: the build gives no answer.
    """
    words = vocabulary.vocabulary
    if path is None:
        path = words.tokens_of_bytes(output)
    elif any(not 0 <= token < len(words) for token in path):
        raise UsageError(f"--tokens: ids go from 0 to {len(words) - 1}")
    with LibllamaClient(build, vocabulary.path, limits) as client:
        ends = Ends.of(words, client.vocabulary().eog)
        try:
            oracle = Oracle(text, words, end_tokens=ends.ids)
        except GrammarError as error:
            raise UsageError(f"{name}: {error}") from None
        reply = client.mask(text, path, check_path=True)
    state = oracle.walk(path)
    right = oracle.mask(state)
    never_text = ends.proper.copy()
    never_text[list(oracle.automaton.token_edges(state).positive)] = False
    refused = reply.refused_at is not None
    allowed = np.zeros_like(reply.allowed) if refused else reply.allowed
    pieces = words.pieces

    def texts(tokens: np.ndarray) -> tuple[str, ...]:
        return tuple(sorted(pieces[token].hex() for token in np.flatnonzero(tokens).tolist()))

    def single(tokens: np.ndarray) -> tuple[str, ...]:
        return tuple(f"{byte:02x}" for byte, token in sorted(words.single_bytes.items()) if tokens[token])

    return StateAnswer(
        grammar=text,
        prefix=b"".join(pieces[token] for token in path),
        path=path,
        viable=state != DEAD,
        oracle_tokens=int((right.tokens & ~never_text).sum()),
        oracle_eos=right.eos,
        oracle_next=single(right.tokens & ~never_text),
        build_tokens=None if refused else int((allowed & ~ends.all).sum()),
        build_eos=bool(allowed[ends.all].any()),
        build_next=single(allowed & ~ends.all),
        refused_at=reply.refused_at,
        unsound=texts(allowed & ~right.tokens & ~ends.all),
        over_restrictive=() if refused and state == DEAD else texts(right.tokens & ~allowed & ~never_text),
        warnings=tuple(str(warning) for warning in oracle.grammar.warnings),
    )
