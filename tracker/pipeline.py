"""From a release's name to a result: fetch, build, audit, store. Each step can be repeated and resumed.

It knows the order of the steps and what a failure at each of them means for the result; it prints nothing and
renders nothing.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oracle.vocabulary import read_vocabulary
from tracker.audits.grammar.audit import NULL_EVERY, RunFacts, VocabularyFile, audit_build, build_identity
from tracker.audits.grammar.corpus import CorpusEntry, load_corpus, source_tree_grammars
from tracker.audits.grammar.version import audit_version
from tracker.audits.grammar.walk import Progress
from tracker.build import Build, BuildError, build_release
from tracker.cache import Cache
from tracker.config import Config, ReleaseEntry
from tracker.errors import TrackerError, UsageError
from tracker.installed import INSTALLED, installed_build
from tracker.releases import Source
from tracker.releases.channels import expand, fetch
from tracker.results import AuditName, GrammarDocument
from tracker.store import Store
from tracker.vocabulary import qwen25_vocabulary

VOCABULARY_NAME = "qwen2.5"

SOURCE_TREE_STATES = 40
"""States compared in each grammar of a build's own source tree."""

Tell = Callable[[str], None]
"""Told one line at a time what is being done."""


@dataclass(frozen=True)
class Selection:
    """Which grammars of the corpus are audited, and with which bound.

    ``patterns`` are shell patterns over names (empty: all); ``states`` is a bound on every walk, ``paths``
    the number of token paths to each state.
    """

    patterns: tuple[str, ...] = ()
    states: int | None = None
    folder: Path | None = None
    paths: int = 1


def load_vocabulary(cache: Cache, trees: Sequence[Path] = ()) -> VocabularyFile:
    """The audit's vocabulary, made on first use."""
    path = qwen25_vocabulary(cache, trees)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return VocabularyFile(VOCABULARY_NAME, path, sha256, read_vocabulary(path))


def select_grammars(selection: Selection, tree: Path | None) -> tuple[CorpusEntry, ...]:
    """The grammars to audit: the corpus, and those in a build's source tree.

    Raises:
        UsageError: a pattern fits no grammar; the corpus cannot be read.
    """
    corpus = load_corpus() if selection.folder is None else load_corpus(selection.folder)
    entries = [*corpus, *(source_tree_grammars(tree, SOURCE_TREE_STATES) if tree else ())]
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
    if selection.states is not None:
        bound = selection.states
        entries = [e.model_copy(update={"states": min(e.states, bound)}) for e in entries]
    if selection.paths > 1:
        entries = [e.model_copy(update={"paths": selection.paths}) for e in entries]
    return tuple(entries)


def prepare_build(text: str, cache: Cache, *, jobs: int, retry_failed: bool, tell: Tell) -> Build:
    """Fetch and build one release; ``installed`` is the library of this environment, which is built already.

    Raises:
        UsageError, ReleaseError, BuildError: with one line each.
    """
    if text.strip() == INSTALLED:
        return installed_build(cache)
    releases = expand(text, cache)
    if len(releases) != 1:
        raise UsageError(f"{text}: names {len(releases)} releases: give exactly one here")
    tell(f"{releases[0]}: fetching")
    return make_build(fetch(releases[0], cache), cache, jobs=jobs, retry_failed=retry_failed, tell=tell)


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
    vocabulary = load_vocabulary(cache, [build.tree])
    entries = select_grammars(selection, build.tree)
    known = load_corpus() if selection.folder is None else load_corpus(selection.folder)
    return audit_build(
        build, vocabulary, entries, jobs=jobs, known=known, keep_every=keep_every, progress=progress
    )


@dataclass(frozen=True)
class Outcome:
    """What became of one release in a run.

    ``state`` is ``audited``, ``current`` (a result that another audit would only repeat was there) or
    ``failed`` with the ``reason``. ``facts`` are there when it was audited.
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
        retry_failed: bool = False,
        force: bool = False,
        tell: Tell,
        progress: Progress | None = None,
    ):
        self._config = config
        self._store = store
        self._cache = cache
        self._jobs = jobs
        self._retry_failed = retry_failed
        self._force = force
        self._tell = tell
        self._progress = progress
        self._seen: set[str] = set()

    def releases(self, only: Sequence[str] = ()) -> list[tuple[str, ReleaseEntry]]:
        """The exact releases to look at, each with its entry; one named twice comes once.

        Raises:
            UsageError, ReleaseError: a release cannot be resolved.
        """
        entries = [ReleaseEntry(release=text) for text in only] or list(self._config.releases)
        found: dict[str, ReleaseEntry] = {}
        for entry in entries:
            for release in expand(entry.release, self._cache):
                found.setdefault(str(release), entry)
        return list(found.items())

    def one(self, release: str, entry: ReleaseEntry) -> Outcome:
        """Audit one release unless its result is current. Never raises a TrackerError."""
        try:
            source = fetch(expand(release, self._cache)[0], self._cache)
        except TrackerError as error:
            return Outcome(release, "", "failed", str(error))
        build_id = source.release.id
        selection = Selection(
            entry.grammars, entry.states or self._config.bounds.states, self._config.corpus_folder
        )
        try:
            vocabulary = load_vocabulary(self._cache, [source.tree])
            version = audit_version(select_grammars(selection, source.tree), vocabulary.sha256)
            if not self._force and self._store.current(
                build_id, AuditName.GRAMMAR, version, vocabulary.sha256
            ):
                return Outcome(release, build_id, "current")
            try:
                build = make_build(
                    source, self._cache, jobs=self._jobs, retry_failed=self._retry_failed, tell=self._tell
                )
            except BuildError as error:
                self._store.write(_untestable(source, version, vocabulary, str(error)))
                return Outcome(release, build_id, "failed", str(error))
            self._tell(f"{build_id}: auditing")
            document, facts = audit_grammars(
                build, self._cache, selection, jobs=self._jobs, progress=self._progress
            )
            self._store.write(document)
        except TrackerError as error:
            return Outcome(release, build_id, "failed", str(error))
        if not document.trustworthy:
            return Outcome(release, build_id, "failed", document.reason or "no control was run", facts)
        return Outcome(release, build_id, "audited", facts=facts)


def _untestable(source: Source, version: str, vocabulary: VocabularyFile, reason: str) -> GrammarDocument:
    """What is known of a build that could not be made."""
    return GrammarDocument(
        audit_version=version,
        build=build_identity(source.release, source.release.id),
        vocabulary=vocabulary.identity,
        status="untestable",
        reason=reason,
    )
