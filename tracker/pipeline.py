"""From a release's name to a result: fetch, build, audit, store. Each step can be repeated and resumed.

It knows the order of the steps and what a failure at each of them means for the result; it prints nothing and
renders nothing.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, assert_never

from oracle.vocabulary import read_vocabulary
from tracker.audits.grammar.audit import NULL_EVERY, RunFacts, VocabularyFile, audit_build
from tracker.audits.grammar.corpus import CORPUS_FOLDER, CorpusEntry, load_corpus, source_tree_grammars
from tracker.audits.grammar.walk import Progress
from tracker.build import Build, BuildError, build_release
from tracker.cache import Cache
from tracker.config import Config, ReleaseEntry
from tracker.errors import TrackerError, UsageError
from tracker.installed import installed_build
from tracker.releases import INSTALLED, LATEST, Release, Source
from tracker.releases.channels import expand, fetch
from tracker.results import AuditName, GrammarDocument
from tracker.store import Store
from tracker.synthetic_vocabulary import write_synthetic_vocabulary
from tracker.tasks import GgufTask, GrammarTask, SamplerTask, Task, is_current
from tracker.vocabulary import qwen25_vocabulary

VOCABULARY_NAME = "qwen2.5"
SYNTHETIC_NAME = "synthetic"

SOURCE_TREE_STATES = 100
"""States compared in each grammar of a build's own source tree."""

SYNTHETIC_STATES = 1000
"""States of each grammar over the synthetic vocabulary, where the corpus asks for fewer: a mask is cheap."""

Tell = Callable[[str], None]
"""Told one line at a time what is being done."""


@dataclass(frozen=True)
class Selection:
    """Which grammars of the corpus are audited, and with which bound.

    ``patterns`` are shell patterns over names (empty: all); ``states`` is a bound on every walk, ``paths``
    the number of token paths to each state, ``vocabulary`` what masks are computed over. Over the synthetic
    one walks go further than the corpus asks for.
    """

    patterns: tuple[str, ...] = ()
    states: int | None = None
    folder: Path | None = None
    paths: int = 1
    vocabulary: str = VOCABULARY_NAME

    def __post_init__(self) -> None:
        """Raises UsageError for a vocabulary that there is not."""
        if self.vocabulary not in (VOCABULARY_NAME, SYNTHETIC_NAME):
            raise UsageError(f"vocabulary '{self.vocabulary}': give {VOCABULARY_NAME} or {SYNTHETIC_NAME}")


def load_vocabulary(cache: Cache, trees: Sequence[Path] = (), name: str = VOCABULARY_NAME) -> VocabularyFile:
    """A vocabulary by name, made on first use: Qwen2.5, or the synthetic one made for audits."""
    if name == SYNTHETIC_NAME:
        path = cache.folder("vocabularies") / f"{SYNTHETIC_NAME}.gguf"
        write_synthetic_vocabulary(path)
    else:
        path = qwen25_vocabulary(cache, trees)
    return _vocabulary_file(name, path, hashlib.sha256(path.read_bytes()).hexdigest())


@lru_cache(maxsize=2)
def _vocabulary_file(name: str, path: Path, sha256: str) -> VocabularyFile:
    return VocabularyFile(name, path, sha256, read_vocabulary(path))


def select_grammars(selection: Selection, tree: Path | None) -> tuple[CorpusEntry, ...]:
    """The grammars to audit: the corpus, and those in a build's source tree.

    Raises:
        UsageError: a pattern fits no grammar; the corpus cannot be read.
    """
    entries = [*_corpus(selection), *(source_tree_grammars(tree, SOURCE_TREE_STATES) if tree else ())]
    for pattern in selection.patterns:
        if not any(fnmatch.fnmatchcase(entry.name, pattern) for entry in entries):
            names = ", ".join(entry.name for entry in entries)
            raise UsageError(f"grammar '{pattern}': there is none of that name; there are: {names}")
    if selection.patterns:
        entries = [
            entry
            for entry in entries
            if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in selection.patterns)
        ]
    if selection.vocabulary == SYNTHETIC_NAME:
        entries = [e.model_copy(update={"states": max(e.states, SYNTHETIC_STATES)}) for e in entries]
    if selection.states is not None:
        bound = selection.states
        entries = [e.model_copy(update={"states": min(e.states, bound)}) for e in entries]
    if selection.paths > 1:
        entries = [e.model_copy(update={"paths": selection.paths}) for e in entries]
    return tuple(entries)


def prepare_build(
    text: str,
    cache: Cache,
    *,
    jobs: int,
    retry_failed: bool,
    tell: Tell,
    selection: Selection | None = None,
) -> Build:
    """Fetch and build one release; ``installed`` is the library of this environment, which is built already.

    A ``selection`` that fits no grammar is refused before anything is built.

    Raises:
        UsageError, ReleaseError, BuildError: with one line each.
    """
    if text.strip() == INSTALLED:
        return installed_build(cache)
    releases = expand(text, cache)
    if len(releases) != 1:
        raise UsageError(f"{text}: names {len(releases)} releases: give exactly one here")
    tell(f"{releases[0]}: fetching")
    source = fetch(releases[0], cache)
    if selection is not None:
        select_grammars(selection, source.tree)
    return make_build(source, cache, jobs=jobs, retry_failed=retry_failed, tell=tell)


def make_build(source: Source, cache: Cache, *, jobs: int, retry_failed: bool, tell: Tell) -> Build:
    """Build a source, or find its build in the cache."""
    return build_release(source, cache=cache, jobs=jobs, retry_failed=retry_failed, progress=tell)


def audit_grammars(
    build: Build,
    cache: Cache,
    selection: Selection,
    *,
    jobs: int,
    keep_every: int = NULL_EVERY,
    progress: Progress | None = None,
) -> tuple[GrammarDocument, RunFacts]:
    """The grammar audit of a build over a selection of the corpus."""
    vocabulary = load_vocabulary(cache, [build.tree], selection.vocabulary)
    return audit_build(
        build,
        vocabulary,
        select_grammars(selection, build.tree),
        jobs=jobs,
        known=_corpus(selection),
        keep_every=keep_every,
        progress=progress,
    )


def _corpus(selection: Selection) -> tuple[CorpusEntry, ...]:
    folder = CORPUS_FOLDER if selection.folder is None else selection.folder
    texts = [path.stat().st_mtime_ns for path in sorted(folder.glob("*"))] if folder.is_dir() else []
    return _corpus_in(folder, tuple(texts))


@lru_cache(maxsize=2)
def _corpus_in(folder: Path, changed: tuple[int, ...]) -> tuple[CorpusEntry, ...]:
    """The corpus in a folder; ``changed`` tells its states apart."""
    return load_corpus(folder)


def tasks_for(audits: Sequence[AuditName], selection: Selection, source: Source, cache: Cache) -> list[Task]:
    """The audits to make of a release.

    Raises:
        UsageError: the selection fits no grammar; the corpus cannot be read.
    """
    tasks: list[Task] = []
    for audit in audits:
        match audit:
            case AuditName.GRAMMAR:
                vocabulary = load_vocabulary(cache, [source.tree])
                entries = select_grammars(selection, source.tree)
                tasks.append(GrammarTask(entries, _corpus(selection), vocabulary))
            case AuditName.SAMPLER:
                tasks.append(SamplerTask())
            case AuditName.GGUF:
                tasks.append(GgufTask(cache))
            case _:
                assert_never(audit)
    return tasks


@dataclass(frozen=True)
class Outcome:
    """What became of one release in a run.

    ``state`` is ``audited``, ``current`` (another run would only repeat what is there) or ``failed`` with the
    ``reason``. ``facts`` are those of the grammar audit, when it was made.
    """

    release: str
    build_id: str
    state: Literal["audited", "current", "failed"]
    reason: str = ""
    facts: RunFacts | None = None


class Run:
    """A run over what a configuration lists: one release after the other, each stored as soon as it is done.

    One release's failure does not stop the others. A build that fails is stored as untestable, since that is
    what is known of it; a release that cannot be fetched leaves the stored results alone.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        cache: Cache,
        *,
        jobs: int,
        audits: Sequence[AuditName] = (),
        retry_failed: bool = False,
        force: bool = False,
        tell: Tell,
        progress: Progress | None = None,
    ):
        self._config = config
        self._store = store
        self._cache = cache
        self._jobs = jobs
        self._audits = tuple(audits) or config.audits
        self._retry_failed = retry_failed
        self._force = force
        self._tell = tell
        self._progress = progress

    def releases(self, only: Sequence[str] = ()) -> list[tuple[Release, ReleaseEntry]]:
        """The exact releases to look at, each with its entry; one named twice comes once.

        A release in ``only`` that the configuration lists keeps its entry's own options.

        Raises:
            UsageError, ReleaseError: a release cannot be resolved.
        """
        wanted = [release for text in only for release in expand(text, self._cache)]
        found: dict[str, tuple[Release, ReleaseEntry]] = {}
        for entry in self._config.releases:
            if only and not any(_may_name(entry, release) for release in wanted):
                continue
            for release in expand(entry.release, self._cache):
                found.setdefault(str(release), (release, entry))
        if not only:
            return list(found.values())
        return [found.get(str(release), (release, ReleaseEntry(release=str(release)))) for release in wanted]

    def pending(self, source: Source, entry: ReleaseEntry) -> list[Task]:
        """The audits of a release that have no current result.

        Raises:
            UsageError: as ``tasks_for``.
        """
        states = entry.states or self._config.bounds.states
        selection = Selection(entry.grammars, states, self._config.corpus_folder)
        return [
            task
            for task in tasks_for(self._audits, selection, source, self._cache)
            if self._force or not is_current(task, self._store, source.release.id)
        ]

    def one(self, release: Release, entry: ReleaseEntry) -> Outcome:
        """Audit one release unless its results are current.

        Raises:
            UsageError: what the configuration asks for cannot be audited, whatever the release.
        """
        build_id = ""
        try:
            source = fetch(release, self._cache)
            build_id = source.release.id
            pending = self.pending(source, entry)
            if not pending:
                return Outcome(str(release), build_id, "current")
            return self._audit(str(release), source, pending)
        except UsageError:
            raise
        except TrackerError as error:
            return Outcome(str(release), build_id, "failed", str(error))

    def _audit(self, release: str, source: Source, pending: Sequence[Task]) -> Outcome:
        build_id = source.release.id
        try:
            build = make_build(
                source, self._cache, jobs=self._jobs, retry_failed=self._retry_failed, tell=self._tell
            )
        except BuildError as error:
            # What is this machine's own trouble says nothing about the release.
            for task in pending if not error.passing else ():
                self._store.write(task.untestable(source, str(error)))
            return Outcome(release, build_id, "failed", str(error))
        reason = ""
        facts: RunFacts | None = None
        for task in pending:
            self._tell(f"{build_id}: {task.name} audit")
            document, measured = task.run(build, self._jobs, self._progress)
            self._store.write(document)
            facts = measured or facts
            if not document.trustworthy:
                failed = [control for control in document.controls if not control.passed]
                why = document.reason or (failed[0].detail if failed else "no control was run")
                reason = reason or f"{task.name} audit: {why}"
        return Outcome(release, build_id, "failed" if reason else "audited", reason, facts)


def _may_name(entry: ReleaseEntry, release: Release) -> bool:
    """Whether an entry may name this release, told without asking the index where possible."""
    if entry.versions is not None:
        channel, versions = entry.versions
        return channel is release.channel and versions.contains(release.version)
    exact = entry.exact
    return (
        exact is not None
        and exact.channel is release.channel
        and exact.url == release.url
        and (exact.version in (release.version, LATEST))
    )
