"""The audit version: a hash of everything on our side that decides the outcome of a grammar audit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import oracle
from tracker.audits.grammar.corpus import CorpusEntry

_HERE = Path(__file__).resolve().parent
DECISIVE = (
    *(
        Path(oracle.__file__).resolve().parent / f"{name}.py"
        for name in (
            "utf8",
            "gbnf",
            "lowering",
            "automaton",
            "vocabulary",
            "slices",
            "token_steps",
            "mask",
        )
    ),
    *(
        _HERE / f"{name}.py"
        for name in (
            "audit",
            "causes",
            "compare",
            "controls",
            "escape",
            "prediction",
            "reading",
            "unit",
            "walk",
        )
    ),
)
"""The files that decide: the oracle's way to a mask, and the rules of this audit."""


def audit_version(entries: Iterable[CorpusEntry], vocabulary_sha256: str) -> str:
    """Sixteen hex digits over the oracle, the audit's rules, the corpus with its bounds, and the vocabulary.

    Grammars from a build's source tree do not count: they belong to the build, and a grammar with another
    text is another subject anyway.
    """
    digest = hashlib.sha256()
    for path in DECISIVE:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    for entry in entries:
        if entry.group == "source-tree":
            continue
        shape = [entry.name, entry.group, entry.sha256, entry.states, entry.oracle_only]
        shape.append(entry.paths)
        shape += [[visit.text, visit.times] for visit in entry.visit]
        digest.update(json.dumps(shape).encode() + b"\n")
    digest.update(vocabulary_sha256.encode())
    return digest.hexdigest()[:16]
