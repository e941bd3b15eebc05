"""All comparisons of the oracle with other parties, by budget (``llama-tracker control --full``)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from oracle.automaton import DEAD, Automaton
from oracle.gbnf import Grammar, GrammarError, parse
from oracle.lowering import lower
from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.engines.brute import BruteForce
from tracker.audits.engines.comparisons import (
    Explanation,
    MaskOpinion,
    compare_masks,
    compare_prefixes,
    compare_with_textbook,
    llguidance_fault,
)
from tracker.audits.engines.drawing import Seeded, Shape, draw_rules
from tracker.audits.engines.expressions import Rules
from tracker.audits.engines.lark_text import NoLanguage
from tracker.audits.engines.tally import EngineGaveUp, Tally
from tracker.audits.engines.xgrammar_engine import missing as xgrammar_missing
from tracker.results import Control

Tell = Callable[[str], None]
"""Called with one line when a comparison begins."""

MAX_TEXT = 20_000
"""Longest text of a named grammar for other engines; longer ones are built to kill."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many grammars are drawn for each party, and how much of each is asked.

    ``whole`` is the number of masks a named grammar over the audit's vocabulary, ``required_*`` what a
    comparison must reach to count as made. ``seed`` says which grammars are drawn.
    """

    brute: int
    textbook: int
    llguidance: int
    lark: int
    xgrammar: int
    walks: int
    whole: int
    required_pairs: int
    required_whole: int
    seed: int = 0

    def source(self, number: int) -> Seeded:
        """The decisions for one grammar; another ``seed`` has others for all of them."""
        return Seeded(self.seed * SEEDS + number)

    def least(self, grammars: int) -> int:
        """Pairs that a party has to reach over drawn grammars: it may give some up, not most of them."""
        return max(1, self.walks * grammars // 2)


SEEDS = 10_000_000
"""More than the numbers of the grammars that one run draws."""

FULL = Budget(3_000, 1_500, 3_000, 120, 1_500, 8, 24, 100_000, 500)


class Started(NamedTuple):
    """Another engine at the start of a grammar, and how its faults are told."""

    matcher: MaskOpinion
    explain: Explanation
    own_text: bool = False


Start = Callable[[str, Oracle], Started]
"""Begins a grammar, of which the text and our reading are given; may raise NoLanguage or EngineGaveUp."""


def run_cross_oracles(
    budget: Budget,
    synthetic: Vocabulary,
    whole: Vocabulary | None = None,
    named: Sequence[tuple[str, str]] = (),
    tell: Tell = lambda line: None,
) -> list[Control]:
    """Compare the oracle with every party; the last control is their sum.

    Args:
        budget: how much is asked; ``FULL`` for a control.
        synthetic: the vocabulary for drawn grammars.
        whole: the audit's vocabulary for masks of the named grammars; None leaves them out.
        named: name and text of the corpus's and the source tree's grammars.
        tell: progress.
    """
    tell("oracle next to derivatives by brute force")
    parties = [(brute_force(budget), budget.least(budget.brute))]
    tell("oracle next to the textbook recognizer")
    parties.append((textbook(budget, synthetic), budget.least(budget.textbook)))
    present = {name for name in ("llguidance", "lark") if importlib.util.find_spec(name) is not None}
    if "llguidance" in present:
        tell("oracle next to llguidance, drawn grammars")
        parties.append((llguidance_drawn(budget, synthetic), budget.least(budget.llguidance)))
        if whole is not None:
            tell("oracle next to llguidance, whole vocabulary")
            parties.append((llguidance_named(budget, whole, named), budget.required_whole))
    if "lark" in present:
        tell("oracle next to lark's Earley parser")
        parties.append((lark_drawn(budget), budget.least(budget.lark)))
    without_xgrammar = xgrammar_missing()
    if without_xgrammar is None:
        tell("oracle next to xgrammar, drawn grammars")
        parties.append((xgrammar_drawn(budget, synthetic), budget.least(budget.xgrammar)))
        if whole is not None:
            tell("oracle next to xgrammar, whole vocabulary")
            parties.append((xgrammar_named(budget, whole, named), budget.required_whole))
    else:
        tell(f"left out: {without_xgrammar}")
    total = Tally("all parties together")
    for tally, _ in parties:
        total.pairs += tally.pairs
        total.decisions += tally.decisions
        total.grammars += tally.grammars
        total.explained += tally.explained
        total.gave_up += tally.gave_up
        total.own_text += tally.own_text
        total.mismatches += tally.mismatches
    controls = [tally.control(required) for tally, required in parties]
    missing = [_missing(name) for name in ("llguidance", "lark") if name not in present]
    return [*controls, *missing, total.control(budget.required_pairs)]


def brute_force(budget: Budget) -> Tally:
    """Regular grammars against derivatives over code points."""
    tally = Tally("derivatives over code points")
    for number in range(budget.brute):
        source = budget.source(number)
        rules = draw_rules(source, Shape(recursive=False))
        text = rules.gbnf()
        automaton = Automaton(lower(parse(text)))
        compare_prefixes(tally, text, automaton, BruteForce(rules), source, 3 * budget.walks)
    return tally


def textbook(budget: Budget, vocabulary: Vocabulary) -> Tally:
    """Any grammars, token terminals too, against the textbook recognizer."""
    tally = Tally("textbook Earley recognizer")
    for number in range(budget.textbook):
        source, rules, grammar = _drawn(budget, 1_000_000 + number, vocabulary)
        oracle = Oracle(grammar, vocabulary)
        compare_with_textbook(tally, rules.gbnf(), grammar, oracle, source, budget.walks)
    return tally


def llguidance_drawn(budget: Budget, vocabulary: Vocabulary) -> Tally:
    """Any grammars, token terminals too, against llguidance, whole masks of a small vocabulary."""
    tally = Tally("llguidance, synthetic vocabulary")
    start = _llguidance(vocabulary, patient=False)
    for number in range(budget.llguidance):
        source, rules, grammar = _drawn(budget, 2_000_000 + number, vocabulary)
        _masks(tally, rules.gbnf(), rules.gbnf(), Oracle(grammar, vocabulary), start, source, budget.walks, 6)
    return tally


def llguidance_named(budget: Budget, vocabulary: Vocabulary, named: Sequence[tuple[str, str]]) -> Tally:
    """The corpus against llguidance over the audit's whole vocabulary."""
    tally = Tally("llguidance, whole vocabulary")
    _named(tally, budget, vocabulary, named, _llguidance(vocabulary, patient=True))
    return tally


def _llguidance(vocabulary: Vocabulary, patient: bool) -> Start:
    from tracker.audits.engines.llguidance_engine import PATIENT, QUICK, Llguidance

    engine = Llguidance(vocabulary, PATIENT if patient else QUICK)
    return lambda text, oracle: Started(engine.start(oracle.grammar), partial(llguidance_fault, oracle))


def xgrammar_drawn(budget: Budget, vocabulary: Vocabulary) -> Tally:
    """Grammars without token terminals, every other without recursion, against xgrammar.

    Without recursion, xgrammar reads most grammars from their own text. Token terminals are left to named
    grammars: xgrammar loses ways of which it takes a token both as a whole and by its bytes.
    """
    tally = Tally("xgrammar, synthetic vocabulary")
    start = _xgrammar(vocabulary)
    for number in range(budget.xgrammar):
        source = budget.source(5_000_000 + number)
        rules = draw_rules(source, Shape(recursive=number % 2 == 1))
        text = rules.gbnf()
        _masks(tally, text, text, Oracle(parse(text), vocabulary), start, source, budget.walks, 6)
    return tally


def xgrammar_named(budget: Budget, vocabulary: Vocabulary, named: Sequence[tuple[str, str]]) -> Tally:
    """The corpus against xgrammar over the audit's whole vocabulary."""
    tally = Tally("xgrammar, whole vocabulary")
    _named(tally, budget, vocabulary, named, _xgrammar(vocabulary))
    return tally


def _xgrammar(vocabulary: Vocabulary) -> Start:
    from tracker.audits.engines.xgrammar_engine import Xgrammar
    from tracker.audits.engines.xgrammar_faults import XgrammarFaults

    engine = Xgrammar(vocabulary)

    def start(text: str, oracle: Oracle) -> Started:
        matcher = engine.start(text, oracle.grammar)
        return Started(matcher, XgrammarFaults(oracle, matcher), matcher.as_written)

    return start


def _masks(
    tally: Tally,
    name: str,
    text: str,
    oracle: Oracle,
    start: Start,
    source: Seeded,
    walks: int,
    longest: int,
    enough: int | None = None,
) -> None:
    """Compare masks of one grammar along walks, until there are enough pairs of it."""
    before = tally.pairs
    try:
        matcher, explain, own_text = start(text, oracle)
        if enough is None:
            compare_masks(tally, name, oracle, matcher, source, walks, longest, explain)
        else:
            for _ in range(walks):
                compare_masks(tally, name, oracle, matcher, source, 1, longest, explain)
                tally.grammars -= 1
                if tally.pairs - before >= enough:
                    break
            tally.grammars += 1
        tally.own_text += own_text
    except NoLanguage:
        _no_language(tally, name, oracle)
    except EngineGaveUp as reason:
        tally.gave_up[f"{name}: {reason}" if enough else str(reason)] += 1


def _named(
    tally: Tally, budget: Budget, vocabulary: Vocabulary, named: Sequence[tuple[str, str]], start: Start
) -> None:
    """Compare masks of the named grammars over the audit's whole vocabulary."""
    for number, (name, text) in enumerate(named):
        if len(text) > MAX_TEXT:
            continue
        try:
            oracle = Oracle(text, vocabulary, remember=64)
        except GrammarError:
            continue
        source = budget.source(3_000_000 + number)
        _masks(tally, name, text, oracle, start, source, budget.whole, 12, enough=budget.whole)


def lark_drawn(budget: Budget) -> Tally:
    """Any grammars against lark's Earley parser over bytes."""
    from tracker.audits.engines.lark_engine import LarkEarley

    tally = Tally("lark's Earley parser")
    for number in range(budget.lark):
        source = budget.source(4_000_000 + number)
        rules = draw_rules(source, Shape())
        text = rules.gbnf()
        grammar = parse(text)
        automaton = Automaton(lower(grammar))
        try:
            compare_prefixes(tally, text, automaton, LarkEarley(grammar), source, 2 * budget.walks)
        except NoLanguage:
            if automaton.start != DEAD:
                tally.mismatches.append(f"{text!r} has no string, but is alive here")
        except RecursionError:
            tally.gave_up["recursion limit"] += 1
    return tally


def _drawn(budget: Budget, number: int, vocabulary: Vocabulary) -> tuple[Seeded, Rules, Grammar]:
    """A grammar of any kind; one in three has token terminals."""
    source = budget.source(number)
    count = len(vocabulary)
    ordinary = [source.integer(0, count - 1) for _ in range(4)]
    tokens = (*ordinary, ord("a"), ord("b"), count - 1, count - 2)
    rules = draw_rules(source, Shape(tokens=tokens if number % 3 == 0 else ()))
    return source, rules, parse(rules.gbnf())


def _no_language(tally: Tally, text: str, oracle: Oracle) -> None:
    """Both sides must find that a grammar has no string."""
    tally.grammars += 1
    tally.pairs += 1
    tally.decisions += 1
    if oracle.mask(oracle.start).tokens.any() or oracle.accepting(oracle.start):
        tally.mismatches.append(f"{text!r} has no string, but something is allowed here")


def _missing(package: str) -> Control:
    return Control(
        name=f"cross-oracle: {package}",
        passed=False,
        detail=f"{package} is not installed: pip install 'llama-tracker[engines]'",
    )
