"""Questions that the grammar audit answers: is there such a deviation, anywhere or at one place?

Only the grammars that the question is about are audited, and one after the other until a deviation of the
kind asked for is found. That there is none is said only after all of them were completed and the controls
that do not depend on the corpus have passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from oracle import OracleError
from oracle.automaton import DEAD
from oracle.gbnf import Characters, GrammarError, parse
from oracle.mask import Oracle
from tracker.audits.grammar.audit import LIMITS, NULL_EVERY, ROBUSTNESS_LIMITS, VocabularyFile
from tracker.audits.grammar.compare import Ends, Place, compare_state
from tracker.audits.grammar.controls import positive_controls, vocabulary_control
from tracker.audits.grammar.corpus import CorpusEntry, source_tree_grammars
from tracker.audits.grammar.reading import reading_of
from tracker.audits.grammar.unit import audit_grammar
from tracker.audits.grammar.version import audit_version
from tracker.audits.grammar.walk import longest_tokens
from tracker.bisect.questions import Reply, digest, one_line, untestable
from tracker.bisect.search import Verdict
from tracker.build import Build
from tracker.config import Watch
from tracker.errors import UsageError
from tracker.history import Strand, place_of, summarise
from tracker.libllama.client import GrammarRejected, LibllamaClient, RequestRefused, WorkerDied
from tracker.results import AuditName, Cause, Deviation, GrammarDocument, GrammarResult, Kind
from tracker.store import Store, StoreError
from tracker.watches import Absent, Present, judge, selects


@dataclass(frozen=True)
class Deviates:
    """Whether a build shows a deviation that a watch selects, in any of some grammars.

    Attributes:
        watch: the filter.
        entries: the grammars, before those of a build's own source tree.
        vocabulary: what masks are computed over.
        about: what is asked for, in words.
        tree_states: states compared in each grammar of a build's source tree; 0 leaves them out.
        results: documents of earlier audits, used where they are current; None for none.
    """

    watch: Watch
    entries: tuple[CorpusEntry, ...]
    vocabulary: VocabularyFile
    about: str
    tree_states: int = 0
    results: Path | None = None

    @property
    def text(self) -> str:
        """See ``Question``."""
        return f"is there {self.about}?"

    @property
    def words(self) -> Mapping[Verdict, str]:
        """See ``Question``."""
        return {verdict: str(verdict) for verdict in Verdict}

    @property
    def identity(self) -> str:
        """See ``Question``."""
        asked = self.watch.model_dump(include={"kinds", "causes", "grammars", "mid_code_point"})
        version = audit_version(self.entries, self.vocabulary.sha256)
        return digest("deviates", asked, version, self.tree_states)

    def ask(self, build: Build) -> Reply:
        """See ``Question``."""
        entries = (*self.entries, *self._of_tree(build))
        asked = _cheapest_first(entry for entry in entries if _named(self.watch, entry.name))
        if not asked:
            return untestable("there is no grammar of the names asked for")
        remembered = self._remembered(build, asked, audit_version(entries, self.vocabulary.sha256))
        if remembered is not None:
            return remembered
        pieces = self.vocabulary.vocabulary
        open_clients = [
            LibllamaClient(build, self.vocabulary.path, each) for each in (LIMITS, ROBUSTNESS_LIMITS)
        ]
        try:
            ordinary, bounded = open_clients
            ends, problem = _ready(ordinary, self.vocabulary)
            if ends is None:
                return untestable(problem)
            results = []
            for entry in asked:
                client = bounded if entry.group == "robustness" else ordinary
                result = audit_grammar(entry, client, pieces, ends, keep_every=NULL_EVERY).result
                found = self._selected(result)
                if found:
                    return Reply(Verdict.PRESENT, _seen(result, found), shown=_shown(result, found))
                results.append(result)
            reply = _not_seen(asked, results)
            if reply.verdict is Verdict.UNTESTABLE:
                return reply
            failed = [c for c in positive_controls(pieces, ordinary, ends) if not c.passed]
            if failed:
                return untestable(f"control '{failed[0].name}' failed: {failed[0].detail}")
        except (WorkerDied, RequestRefused, GrammarRejected) as error:
            return untestable(f"the build does not answer: {error}")
        finally:
            for client in open_clients:
                client.close()
        return reply

    def _of_tree(self, build: Build) -> tuple[CorpusEntry, ...]:
        return source_tree_grammars(build.tree, self.tree_states) if self.tree_states else ()

    def _selected(self, result: GrammarResult) -> list[Deviation]:
        return [
            found
            for found in result.deviations
            if selects(
                self.watch,
                Strand(result.name, result.sha256, str(found.kind), found.cause, found.mid_code_point),
            )
        ]

    def _remembered(self, build: Build, asked: Sequence[CorpusEntry], version: str) -> Reply | None:
        """The verdict of a current result that is there already."""
        if self.results is None:
            return None
        store = Store(self.results)
        if not store.current(build.id, AuditName.GRAMMAR, version, self.vocabulary.sha256):
            return None
        try:
            document = store.read(build.id, AuditName.GRAMMAR)
        except StoreError:
            return None
        if not isinstance(document, GrammarDocument) or document.build.source_sha256 != build.release.sha256:
            return None
        by_name = {result.name: result for result in document.grammars}
        if any(entry.name not in by_name for entry in asked):
            return None
        results = [by_name[entry.name] for entry in asked]
        match judge(self.watch, summarise(document)):
            case Present(atoms=atoms, subjects=subjects):
                first = next(result for result in results if result.name in subjects)
                detail = f"{atoms} in {', '.join(subjects)[:120]} (from its result)"
                return Reply(Verdict.PRESENT, detail, shown=_shown(first, self._selected(first)))
            case Absent():
                reply = _not_seen(asked, results)
                return replace(reply, detail=f"{reply.detail} (from its result)")
            case _:
                return None


@dataclass(frozen=True)
class DeviatesAt:
    """Whether a build's mask deviates after one output.

    Attributes:
        entry: the grammar.
        output: the bytes so far.
        vocabulary: what the mask is computed over.
        kinds, causes: what is asked for; empty for any.
    """

    entry: CorpusEntry
    output: bytes
    vocabulary: VocabularyFile
    kinds: tuple[Kind, ...] = ()
    causes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """See ``Question``."""
        return f"does the mask of {self.entry.name} deviate after '{self.output.hex(' ')}'?"

    @property
    def words(self) -> Mapping[Verdict, str]:
        """See ``Question``."""
        return {verdict: str(verdict) for verdict in Verdict}

    @property
    def identity(self) -> str:
        """See ``Question``."""
        version = audit_version([self.entry], self.vocabulary.sha256)
        return digest("deviates at", self.output.hex(), self.kinds, self.causes, version)

    def ask(self, build: Build) -> Reply:
        """See ``Question``."""
        with LibllamaClient(build, self.vocabulary.path, LIMITS) as client:
            try:
                ends, problem = _ready(client, self.vocabulary)
                if ends is None:
                    return untestable(problem)
                return self._compare(client, ends)
            except GrammarRejected as refusal:
                if Kind.GRAMMAR_REJECTED in self.kinds:
                    return Reply(Verdict.PRESENT, one_line(str(refusal)))
                return untestable(str(refusal))
            except WorkerDied as death:
                if Kind(death.kind) in self.kinds:
                    return Reply(Verdict.PRESENT, one_line(f"{death.kind}: {death.detail}"))
                return untestable(f"{death}: {death.detail}")

    def _compare(self, client: LibllamaClient, ends: Ends) -> Reply:
        try:
            oracle = Oracle(self.entry.text, self.vocabulary.vocabulary, end_tokens=ends.ids)
        except OracleError as error:
            raise UsageError(f"{self.entry.name}: {error}: --at needs a grammar that has masks") from None
        pieces = self.vocabulary.vocabulary
        reading = reading_of(oracle)
        paths = {longest_tokens(pieces, self.output), pieces.tokens_of_bytes(self.output)}
        for path in sorted(paths, key=len):
            reply = client.mask(self.entry.text, path, check_path=True)
            if reply.refused_at is not None:
                continue
            place = Place(oracle.walk(path), path, self.output)
            found = [
                deviation
                for deviation in compare_state(oracle, place, reply.allowed, ends, reading).deviations
                if (not self.kinds or deviation.kind in self.kinds)
                and (not self.causes or deviation.cause in self.causes)
            ]
            if found:
                return Reply(Verdict.PRESENT, _words(found[0], len(found)))
            failed = [c for c in positive_controls(pieces, client, ends) if not c.passed]
            if failed:
                return untestable(f"control '{failed[0].name}' failed: {failed[0].detail}")
            return Reply(Verdict.ABSENT, f"{int(reply.allowed.sum())} tokens allowed")
        if oracle.automaton.step(oracle.start, self.output) == DEAD:
            return Reply(
                Verdict.ABSENT, "the build refuses this output, which begins no string of the grammar"
            )
        return untestable("the build refuses this output, although it begins a string of the grammar")


def _ready(client: LibllamaClient, vocabulary: VocabularyFile) -> tuple[Ends | None, str]:
    """The build's end-of-generation tokens, or why its masks mean nothing."""
    try:
        build = client.vocabulary()
    except (WorkerDied, RequestRefused) as error:
        return None, f"the build does not load the vocabulary: {error}"
    control = vocabulary_control(vocabulary.vocabulary, build)
    if not control.passed:
        return None, f"vocabulary parity failed: {control.detail}"
    return Ends.of(vocabulary.vocabulary, build.eog), ""


def _named(watch: Watch, name: str) -> bool:
    return not watch.grammars or any(fnmatchcase(name, pattern) for pattern in watch.grammars)


def _cheapest_first(entries: Iterable[CorpusEntry]) -> list[CorpusEntry]:
    """Those that may take long to die come last: a finding in any other ends the search before.

    Those of the build's own tree come after the corpus, which is the same for all builds.
    """
    return sorted(
        entries, key=lambda entry: (entry.group == "robustness", entry.group == "source-tree", entry.states)
    )


def _beyond_ascii(text: str) -> bool:
    """Whether a grammar names characters of more than one byte, among which deviations live."""
    try:
        nodes = parse(text).nodes
    except GrammarError:
        return False
    return any(isinstance(node, Characters) and node.ranges and node.ranges[-1][1] > 0x7F for node in nodes)


def _not_seen(asked: Sequence[CorpusEntry], results: Sequence[GrammarResult]) -> Reply:
    """The reply of a build that shows in none of the grammars asked about what is asked for.

    In a corpus some grammars are there because builds die over them or refuse them, and that is a finding of
    its own. Of a grammar that may well show what is asked for the reply says so, and where it is asked about
    alone nothing is known.
    """
    unread = ""
    for entry, result in zip(asked, results, strict=True):
        if result.status != "complete":
            return untestable(f"{result.name}: {result.reason or 'untestable'}")
        for found in result.deviations:
            if found.cause == Cause.DIED or found.kind is Kind.GRAMMAR_REJECTED:
                reason = one_line(f"{result.name}: {found.kind}: {found.detail}")
                if len(asked) == 1:
                    return untestable(reason)
                if _beyond_ascii(entry.text):
                    unread = unread or reason
    detail = f"{len(asked)} grammar{'s' * (len(asked) > 1)} audited" + f"; not read: {unread}" * bool(unread)
    looked = tuple(key for result in results for key in _looked(result))
    return Reply(Verdict.ABSENT, one_line(detail), looked=looked, unread=unread)


def _looked(result: GrammarResult) -> Iterator[str]:
    """The places of a grammar that were looked at, as keys; one key stands for all places."""
    places = result.places()
    return (
        digest(result.name, result.sha256, where) for where in ([None] if places is None else sorted(places))
    )


def _shown(result: GrammarResult, found: Iterable[Deviation]) -> tuple[tuple[str, ...], ...]:
    """By kind and cause the places that show some deviations, as keys, with the key of all places."""
    shown: dict[tuple[str, str], set[str | None]] = {}
    for each in found:
        place = place_of(each.kind, each.where(), result.places())
        if place is not None:
            shown.setdefault((each.kind, each.cause), {None}).add(place)
    return tuple(
        tuple(sorted(digest(result.name, result.sha256, p) for p in places)) for places in shown.values()
    )


def _seen(result: GrammarResult, found: Sequence[Deviation]) -> str:
    return one_line(f"{result.name}: {_words(found[0], len(found))}")


def _words(first: Deviation, count: int) -> str:
    """A deviation in a few words, and how many more there are."""
    where = f"after '{bytes.fromhex(first.prefix).hex(' ')}'" if first.prefix else "at the start"
    tokens = f", {len(first.tokens)} tokens, first {first.tokens[0]}" if first.tokens else ""
    more = f" (and {count - 1} more)" if count > 1 else ""
    return one_line(f"{first.kind} {first.cause} {where}{tokens}{more}")
