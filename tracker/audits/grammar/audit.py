"""The grammar audit of one build: all grammars, all controls, one document.

A function from inputs to a result: it builds nothing, writes nothing and prints nothing. Grammars are spread
over workers, each with a child of its own; the document does not depend on how many there are or which came
first.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.compare import Ends
from tracker.audits.grammar.controls import (
    WIDE,
    KeptMask,
    asked_again,
    known_masks_control,
    null_control,
    positive_controls,
    vocabulary_control,
)
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.audits.grammar.prediction import CODE_POINTS, prediction_row
from tracker.audits.grammar.unit import UnitResult, audit_grammar
from tracker.audits.grammar.version import audit_version
from tracker.audits.grammar.walk import Progress
from tracker.audits.grammar.workers import Shares, Workers
from tracker.build import Build
from tracker.libllama.client import GrammarRejected, LibllamaClient, Limits, WorkerDied
from tracker.releases import DateKind, ResolvedRelease
from tracker.results import (
    BuildIdentity,
    Control,
    GrammarDocument,
    Prediction,
    VocabularyIdentity,
)

LIMITS = Limits(cpu_seconds=30, wall_seconds=120, address_space=3 << 30)
"""For grammars that are expected to work."""

ROBUSTNESS_LIMITS = Limits(cpu_seconds=10, wall_seconds=120, address_space=768 << 20)
"""For grammars that are there because they may kill the library."""

EXPECTED_OVER = "qwen2.5"
"""The vocabulary that the corpus's expected mask sizes are about."""

NULL_EVERY = 8
"""Every n-th state is asked again by the null control: an eighth, where a tenth is the least."""


@dataclass(frozen=True)
class VocabularyFile:
    """A vocabulary as our reader sees it, and the file that the build loads."""

    name: str
    path: Path
    sha256: str
    vocabulary: Vocabulary

    @property
    def identity(self) -> VocabularyIdentity:
        """For documents."""
        return VocabularyIdentity(name=self.name, sha256=self.sha256, tokens=len(self.vocabulary))


@dataclass(frozen=True)
class RunFacts:
    """How a run went, for people; never part of a document. Times in seconds, memory in bytes.

    ``apply_seconds`` is CPU time inside llama.cpp's apply over all states of the walks, ``oracle_seconds``
    that of the oracle's answers at the same states, ``own_seconds`` all CPU time of this process. ``shares``
    says where the workers' time went.
    """

    states: int
    wall_seconds: float
    apply_seconds: float
    oracle_seconds: float
    own_seconds: float
    peak_memory: int
    jobs: int
    shares: Shares


def build_identity(release: ResolvedRelease, build_id: str, patch: str | None = None) -> BuildIdentity:
    """A build's identity for documents."""
    dated: dict[DateKind, Literal["commit", "upload", "unknown"]] = {
        DateKind.COMMIT: "commit",
        DateKind.UPLOAD: "upload",
        DateKind.NONE: "unknown",
    }
    return BuildIdentity(
        id=build_id,
        channel=str(release.channel),
        version=release.version if release.channel != "path" else "",
        commit=release.commit or None,
        build_number=release.build_number,
        date=release.date or None,
        date_of=dated[release.date_kind],
        source_sha256=release.sha256 or None,
        patch=patch,
    )


def audit_build(
    build: Build,
    vocabulary: VocabularyFile,
    entries: Sequence[CorpusEntry],
    *,
    jobs: int = 2,
    keep_every: int = NULL_EVERY,
    predictions: bool = True,
    known: Sequence[CorpusEntry] | None = None,
    patch: str | None = None,
    progress: Progress | None = None,
) -> tuple[GrammarDocument, RunFacts]:
    """Audit a build's grammar sampler.

    Args:
        build: a built libllama.
        vocabulary: what masks are computed over.
        entries: the grammars, with their bounds.
        jobs: children at once.
        keep_every: how many states there are to each that the null control asks again.
        predictions: whether the predictive table is made.
        known: entries whose expected masks the oracle is held against; by default those audited.
        patch: name of the patch in the build's source, for its identity.
        progress: told after each state, from several threads.

    Returns:
        The document, and the facts of the run. A control that failed is in the document; see
        ``Document.trustworthy``.
    """
    begun, cpu_begun = time.perf_counter(), time.process_time()
    with Workers(build, vocabulary.path, jobs) as workers:
        pieces = workers.submit(lambda: workers.client(LIMITS).vocabulary()).result()
        parity = vocabulary_control(vocabulary.vocabulary, pieces)
        document = GrammarDocument(
            audit_version=audit_version(entries, vocabulary.sha256),
            build=build_identity(build.release, build.id, patch),
            vocabulary=vocabulary.identity,
            controls=(parity,),
        )
        if not parity.passed:
            reason = f"vocabulary parity failed: {parity.detail}"
            document = document.model_copy(update={"status": "untestable", "reason": reason})
            return document, _facts([], begun, cpu_begun, jobs, workers)
        ends = Ends.of(vocabulary.vocabulary, pieces.eog)
        vocabulary.vocabulary.place_by_length  # noqa: B018 - built once, with the trie, before threads share it
        before = workers.submit(lambda: _before(vocabulary, workers.client(LIMITS), ends, predictions))
        units = _audit_all(workers, vocabulary, entries, ends, keep_every, progress)
        controls = [parity]
        if vocabulary.name == EXPECTED_OVER:
            controls.append(known_masks_control(vocabulary.vocabulary, entries if known is None else known))
        positive, table, first = before.result()
        kept = [first, *(mask for unit in units for mask in unit.kept)]
        null = _null(workers, kept, 1 + sum(unit.asked for unit in units), jobs)
        controls += [*positive, null]
        failed = [control for control in controls if not control.passed]
        document = document.model_copy(
            update={
                "controls": tuple(controls),
                "grammars": tuple(unit.result for unit in units),
                "predictions": table,
                "status": "untestable" if failed else "complete",
                "reason": f"control '{failed[0].name}' failed: {failed[0].detail}" if failed else None,
            }
        )
        return document, _facts(units, begun, cpu_begun, jobs, workers)


def _before(
    vocabulary: VocabularyFile, client: LibllamaClient, ends: Ends, predictions: bool
) -> tuple[tuple[Control, ...], tuple[Prediction, ...], KeptMask]:
    """Positive controls, the predictive table, and a mask that the null control always asks again.

    That one is there also when the build refuses every grammar of the selection.
    """
    first = KeptMask(WIDE, (), np.packbits(client.mask(WIDE, ()).allowed).tobytes())
    table = _predictions(vocabulary, client, ends) if predictions else ()
    return _positive(vocabulary, client, ends), table, first


def _null(workers: Workers, kept: Sequence[KeptMask], asked: int, jobs: int) -> Control:
    """The null control, its masks shared out over fresh children."""

    def again(part: Sequence[KeptMask]) -> int:
        with workers.fresh(LIMITS) as fresh:
            return asked_again(fresh, part)

    parts = [kept[begin::jobs] for begin in range(min(jobs, len(kept)))]
    try:
        different = workers.run([partial(again, part) for part in parts], range(len(parts)))
    except WorkerDied as death:
        return Control(name="null", passed=False, detail=f"a fresh child died: {death}")
    return null_control(sum(different), len(kept), asked)


def _positive(vocabulary: VocabularyFile, client: LibllamaClient, ends: Ends) -> tuple[Control, ...]:
    try:
        return positive_controls(
            vocabulary.vocabulary, client, ends, well_formed_only=vocabulary.name != EXPECTED_OVER
        )
    except (WorkerDied, GrammarRejected) as error:
        return (Control(name="positive", passed=False, detail=f"no answer from the build: {error}"),)


def _predictions(vocabulary: VocabularyFile, client: LibllamaClient, ends: Ends) -> tuple[Prediction, ...]:
    if vocabulary.name != EXPECTED_OVER:
        # The model is of partial code points, not of tokens that are decoded wrongly as a whole.
        return ()
    rows: list[Prediction] = []
    for code_point in CODE_POINTS:
        try:
            rows.append(prediction_row(code_point, vocabulary.vocabulary, client, ends))
        except (WorkerDied, GrammarRejected):
            # A build that cannot answer this shows it in the corpus as well, where it is a finding.
            continue
    return tuple(rows)


def _audit_all(
    workers: Workers,
    vocabulary: VocabularyFile,
    entries: Sequence[CorpusEntry],
    ends: Ends,
    keep_every: int,
    progress: Progress | None,
) -> list[UnitResult]:
    """All grammars, in the order given."""

    def one(entry: CorpusEntry) -> UnitResult:
        limits = ROBUSTNESS_LIMITS if entry.group == "robustness" else LIMITS
        return audit_grammar(
            entry,
            workers.client(limits),
            vocabulary.vocabulary,
            ends,
            keep_every=keep_every,
            progress=progress,
        )

    # The longest first, so that no worker is left with a long one at the end.
    order = sorted(range(len(entries)), key=lambda i: (entries[i].group != "robustness", -entries[i].states))
    return workers.run([partial(one, entry) for entry in entries], order)


def _facts(
    units: Sequence[UnitResult], begun: float, cpu_begun: float, jobs: int, workers: Workers
) -> RunFacts:
    return RunFacts(
        states=sum(unit.result.states for unit in units),
        wall_seconds=time.perf_counter() - begun,
        apply_seconds=sum(unit.apply_seconds for unit in units),
        oracle_seconds=sum(unit.oracle_seconds for unit in units),
        own_seconds=time.process_time() - cpu_begun,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        jobs=jobs,
        shares=workers.shares(),
    )
