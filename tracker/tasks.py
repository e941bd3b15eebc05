"""The audits as tasks: what each needs to know whether its result is current, and to make one.

One small protocol and a class for each audit; a run, the nightly plan and the store's currency ask the same
table, so that they agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Protocol

import oracle.gguf
from tracker.atomic import write_atomic
from tracker.audits.gguf import audit as gguf
from tracker.audits.grammar.audit import NULL_EVERY, RunFacts, VocabularyFile, audit_build, build_identity
from tracker.audits.grammar.corpus import CorpusEntry
from tracker.audits.grammar.version import audit_version
from tracker.audits.grammar.walk import Progress
from tracker.audits.sampler import audit as sampler
from tracker.audits.sampler.cases import Budget
from tracker.build import Build
from tracker.cache import Cache
from tracker.libllama.client import LibllamaClient
from tracker.releases import Source
from tracker.results import AuditName, Document, GrammarDocument
from tracker.results.gguf import GgufDocument
from tracker.results.sampler import SamplerDocument
from tracker.store import Store


class Task(Protocol):
    """One audit of one release."""

    @property
    def name(self) -> AuditName:
        """Which audit."""
        ...

    @property
    def version(self) -> str:
        """The audit version that a result would have."""
        ...

    @property
    def vocabulary_sha256(self) -> str | None:
        """Of the vocabulary that the result would be over, if it is over one."""
        ...

    def run(self, build: Build, jobs: int, progress: Progress | None) -> tuple[Document, RunFacts | None]:
        """Audit a build."""
        ...

    def untestable(self, source: Source, reason: str) -> Document:
        """The document that says why there is no result."""
        ...


def code_sha256(*modules: ModuleType) -> str:
    """Over all source files in the folders of some modules."""
    digest = hashlib.sha256()
    for module in modules:
        for path in sorted(Path(str(module.__file__)).parent.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_current(task: Task, store: Store, build_id: str) -> bool:
    """Whether the store has a result that this task would only repeat."""
    return store.current(build_id, task.name, task.version, task.vocabulary_sha256)


@dataclass(frozen=True)
class GrammarTask:
    """The grammar audit over some grammars and a vocabulary.

    ``known`` are the entries whose expected masks the oracle is held against.
    """

    entries: Sequence[CorpusEntry]
    known: Sequence[CorpusEntry]
    vocabulary: VocabularyFile
    keep_every: int = NULL_EVERY
    name: AuditName = AuditName.GRAMMAR

    @cached_property
    def version(self) -> str:
        """Of these grammars and this vocabulary."""
        return audit_version(self.entries, self.vocabulary.sha256)

    @property
    def vocabulary_sha256(self) -> str | None:
        """Of the vocabulary file."""
        return self.vocabulary.sha256

    def run(
        self, build: Build, jobs: int, progress: Progress | None
    ) -> tuple[GrammarDocument, RunFacts | None]:
        """Audit a build."""
        return audit_build(
            build,
            self.vocabulary,
            self.entries,
            jobs=jobs,
            known=self.known,
            keep_every=self.keep_every,
            progress=progress,
        )

    def untestable(self, source: Source, reason: str) -> Document:
        """A document without a result."""
        return GrammarDocument(
            audit_version=self.version,
            build=build_identity(source.release, source.release.id),
            vocabulary=self.vocabulary.identity,
            status="untestable",
            reason=reason,
        )


@dataclass(frozen=True)
class SamplerTask:
    """The sampler audit with its default budget."""

    name: AuditName = AuditName.SAMPLER
    vocabulary_sha256: str | None = None

    @property
    def version(self) -> str:
        """Of the default budget."""
        return sampler.audit_version(Budget())

    def run(self, build: Build, jobs: int, progress: Progress | None) -> tuple[Document, RunFacts | None]:
        """Audit a build; one child, whatever ``jobs`` says."""
        with LibllamaClient(build, None) as client:
            return sampler.run_sampler_audit(client, build_identity(build.release, build.id)), None

    def untestable(self, source: Source, reason: str) -> Document:
        """A document without a result."""
        return SamplerDocument(
            audit_version=self.version,
            build=build_identity(source.release, source.release.id),
            status="untestable",
            reason=reason,
        )


@dataclass(frozen=True)
class GgufTask:
    """The GGUF audit with its quick budget.

    Its version is a digest over our reader's verdicts on all its files, which takes seconds; it is remembered
    in the cache under a hash of the code that decides it.
    """

    cache: Cache
    name: AuditName = AuditName.GGUF
    vocabulary_sha256: str | None = None

    @property
    def version(self) -> str:
        """Of the quick budget."""
        remembered = self.cache.folder("audit-versions") / f"gguf-{code_sha256(gguf, oracle.gguf)[:16]}"
        try:
            return remembered.read_text()
        except OSError:
            version = gguf.audit_version(gguf.QUICK)
            write_atomic(remembered, version.encode())
            return version

    def run(self, build: Build, jobs: int, progress: Progress | None) -> tuple[Document, RunFacts | None]:
        """Audit a build; one child, whatever ``jobs`` says."""
        with LibllamaClient(build, None, gguf.LIMITS) as client:
            document, _ = gguf.run_gguf_audit(client, build, gguf.QUICK)
        return document, None

    def untestable(self, source: Source, reason: str) -> Document:
        """A document without a result."""
        return GgufDocument(
            audit_version=self.version,
            build=build_identity(source.release, source.release.id),
            status="untestable",
            reason=reason,
        )
