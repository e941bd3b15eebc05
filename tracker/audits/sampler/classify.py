"""From answers to verdicts: which generation a subject belongs to, and what no generation explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracle.sampling import GENERATIONS, Generation
from tracker.audits.sampler.case import Case, Family
from tracker.audits.sampler.compare import Cause, Difference, Match, compare
from tracker.audits.sampler.run import Answer, Refusal

_USUAL = (Family.ORDINARY, Family.REPEATED)
_LARGE = 10_000
"""Logits above which a case is held against one generation only."""


@dataclass(frozen=True, eq=False)
class Question:
    """A case and a build's answer to it."""

    case: Case
    answer: Answer


@dataclass(frozen=True, eq=False)
class Deviating:
    """A question whose answer the subject's generation does not explain."""

    question: Question
    difference: Difference
    explained_by: str | None
    """Another generation that explains it exactly; None for a deviation."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the questions about one subject say."""

    generation: Generation
    fits: tuple[Generation, ...]
    unlike: dict[str, Question]
    """For each generation that does not fit, the smallest question that tells it from ``generation``."""
    exact: int
    by_ties: int
    deviating: tuple[Deviating, ...]


def assess(questions: Sequence[Question]) -> Assessment:
    """The generation that explains the most answers, the newest among equals, and what it leaves over."""
    answered = [question for question in questions if not isinstance(question.answer, Refusal)]
    # Small cases tell generations apart as well as large ones, which are only held against the one chosen.
    asked = sorted((q for q in answered if not _is_large(q)), key=lambda question: question.case.size)
    best = GENERATIONS[0]
    verdicts = [compare(question.case, question.answer, best) for question in asked]
    for other in GENERATIONS[1:]:
        # A generation that does better has to explain something that the best one so far does not.
        failed = [i for i, verdict in enumerate(verdicts) if isinstance(verdict, Difference)]
        explained = {i for i in failed if _explains(asked[i], other)}
        if explained and _lost(asked, verdicts, other, len(explained)) < len(explained):
            best = other
            verdicts = [compare(question.case, question.answer, best) for question in asked]
    fits, unlike = [], {}
    for other in GENERATIONS:
        telling = None
        if other is not best:
            candidates = (q for q, v in zip(asked, verdicts, strict=True) if isinstance(v, Match))
            # The most ordinary question makes the clearest example.
            ordered = sorted(candidates, key=lambda question: question.case.family not in _USUAL)
            telling = next((question for question in ordered if not _explains(question, other)), None)
        if telling is None:
            fits.append(other)
        else:
            unlike[other.name] = telling
    large = [question for question in answered if _is_large(question)]
    asked += large
    verdicts += [compare(question.case, question.answer, best) for question in large]
    deviating = [
        Deviating(question, verdict, _other_explanation(question, best))
        for question, verdict in zip(asked, verdicts, strict=True)
        if isinstance(verdict, Difference)
    ]
    matches = [verdict for verdict in verdicts if isinstance(verdict, Match)]
    ties = sum(match.by_ties for match in matches)
    return Assessment(best, tuple(fits), unlike, len(matches) - ties, ties, tuple(deviating))


def _is_large(question: Question) -> bool:
    return sum(map(len, question.case.inputs)) > _LARGE


def _explains(question: Question, generation: Generation) -> bool:
    return isinstance(compare(question.case, question.answer, generation), Match)


def _lost(
    asked: Sequence[Question], verdicts: Sequence[Match | Difference], other: Generation, enough: int
) -> int:
    """How many matches another generation loses, counted up to ``enough``."""
    lost = 0
    for question, verdict in zip(asked, verdicts, strict=True):
        if isinstance(verdict, Match) and not _explains(question, other):
            lost += 1
            if lost >= enough:
                break
    return lost


def _other_explanation(question: Question, best: Generation) -> str | None:
    return next(
        (other.name for other in GENERATIONS if other is not best and _explains(question, other)), None
    )


def shows(
    ask: Callable[[Case], Answer], generation: Generation, wanted: Difference, *, deviation: bool
) -> Callable[[Case], bool]:
    """Whether a case shows a difference like the wanted one: of the same cause, for a death the same death.

    With ``deviation`` it also has to be one that no generation explains.
    """

    def predicate(case: Case) -> bool:
        answer = ask(case)
        if isinstance(answer, Refusal):
            return False
        verdict = compare(case, answer, generation)
        if not isinstance(verdict, Difference) or verdict.cause is not wanted.cause:
            return False
        if verdict.cause is Cause.DIED:
            return verdict.detail == wanted.detail
        return not deviation or _other_explanation(Question(case, answer), generation) is None

    return predicate


def tells_apart(
    ask: Callable[[Case], Answer], generation: Generation, other: Generation
) -> Callable[[Case], bool]:
    """Whether a case's answer is explained by one generation and not by another."""

    def predicate(case: Case) -> bool:
        answer = ask(case)
        if isinstance(answer, Refusal):
            return False
        question = Question(case, answer)
        return _explains(question, generation) and not _explains(question, other)

    return predicate
