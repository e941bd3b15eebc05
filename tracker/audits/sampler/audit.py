"""The sampler audit of one build, from its samplers' answers to the document.

The core is `run_sampler_audit`; it asks a worker, and neither reads nor writes files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from importlib import resources

from oracle.sampling import GENERATIONS, SPECIFICATIONS, Generation
from tracker.audits.sampler import draws
from tracker.audits.sampler.case import Case, Family
from tracker.audits.sampler.cases import (
    CHAIN,
    INTERFACE,
    PARAMETERS,
    Budget,
    of_chain,
    of_interface,
    of_sampler,
)
from tracker.audits.sampler.classify import Assessment, Deviating, Question, assess, shows, tells_apart
from tracker.audits.sampler.compare import Cause, Difference, compare
from tracker.audits.sampler.controls import MUTANTS, catching, unrepeatable
from tracker.audits.sampler.pieces import (
    example_of,
    merged,
    parameters_of,
    place_of,
    shape_of,
    statistics_of,
)
from tracker.audits.sampler.run import Answer, Client, Death, Refusal, observe
from tracker.audits.sampler.shrink import shrink
from tracker.results import BuildIdentity, Control, Kind, tally
from tracker.results.sampler import (
    Example,
    SamplerDocument,
    SamplerFinding,
    SamplerResult,
    generation_findings,
)

Progress = Callable[[str], None]
"""Told one line at a time what is being done."""

SUBJECTS = (*SPECIFICATIONS, CHAIN, INTERFACE)
"""The rows, in their order."""

_AGAIN = 5
"""Every fifth question is asked a second time at the end."""

_WHY_NOT = {
    "infill": "its outcome depends on the text of the tokens: there is no reference without a vocabulary"
}


def audit_version(budget: Budget, subjects: Sequence[str] = SUBJECTS) -> str:
    """Hash of the reference, of what is asked, and of the budget: equal versions are comparable."""
    digest = hashlib.sha256(repr((budget, tuple(subjects))).encode())
    for package in ("oracle.sampling", "tracker.audits.sampler"):
        for source in sorted(resources.files(package).iterdir(), key=lambda entry: entry.name):
            if source.name.endswith(".py"):
                digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def run_sampler_audit(
    client: Client,
    build: BuildIdentity,
    budget: Budget | None = None,
    *,
    subjects: Sequence[str] = SUBJECTS,
    progress: Progress | None = None,
) -> SamplerDocument:
    """Audit a build's samplers.

    Args:
        client: the worker that holds the build's library; no vocabulary is needed.
        build: what the document says it is of.
        budget: how much to ask; the default takes less than a minute.
        subjects: the rows to do, of `SUBJECTS`.
        progress: told what is being done.

    Raises:
        TrackerError: the worker cannot be started.
    """
    budget = budget or Budget()
    tell = progress or (lambda line: None)
    answer, _ = client.request("sampler.available", {"samplers": list(SPECIFICATIONS)})
    available = frozenset(answer["samplers"])
    audit = _Audit(client, budget, available)
    for name in subjects:
        tell(f"sampler {name}")
        audit.ask_about(name)
    tell("frequencies")
    audit.draw()
    tell("smallest examples")
    samplers = tuple(audit.result(name) for name in subjects)
    tell("controls")
    return SamplerDocument(
        audit_version=audit_version(budget, subjects),
        build=build,
        controls=tuple(audit.controls()),
        samplers=samplers,
        statistics=tuple(statistics_of(tested) for tested in audit.frequencies),
        family_wise_error=draws.FAMILY_WISE_ERROR,
    )


class _Audit:
    """The questions and answers of one run."""

    def __init__(self, client: Client, budget: Budget, available: frozenset[str]) -> None:
        self.client = client
        self.budget = budget
        self.available = available
        self.questions: dict[str, list[Question]] = {}
        self.assessments: dict[str, Assessment] = {}
        self.frequencies: list[draws.Frequencies] = []
        self.causes: dict[str, set[Cause]] = {}

    def ask(self, case: Case) -> Answer:
        return observe(self.client, case)

    def ask_about(self, name: str) -> None:
        """Ask all about one subject that can be asked of this build."""
        cases: Iterable[Case] = ()
        if name == CHAIN:
            cases = of_chain(self.budget)
        elif name == INTERFACE:
            cases = of_interface()
        elif name in PARAMETERS:
            cases = of_sampler(name, self.budget)
        asked = [
            Question(case, self.ask(case))
            for case in cases
            if all(specification.name in self.available for specification in case.chain)
        ]
        self.questions[name] = asked
        self.assessments[name] = assess(asked)

    def draw(self) -> None:
        """Draw for the statistics."""
        self.frequencies = draws.frequencies(self.ask, self.budget)

    def result(self, name: str) -> SamplerResult:
        """The row of one subject. Samplers have to come before the chains, which may repeat their faults."""
        sha256 = hashlib.sha256(f"{name}\n{sorted(parameters_of(name))}".encode()).hexdigest()
        reason = self.why_untestable(name)
        if reason is not None:
            return SamplerResult(name=name, sha256=sha256, status="untestable", reason=reason)
        assessment = self.assessments[name]
        deviations = tuple(self.findings(name, assessment))
        fits = tuple(generation.name for generation in assessment.fits) if name != INTERFACE else ()
        totals, digests = tally(name, sha256, [*deviations, *generation_findings(fits)])
        return SamplerResult(
            name=name,
            sha256=sha256,
            totals=totals,
            digests=digests,
            generation=None if name == INTERFACE else assessment.generation.name,
            fits=fits,
            unlike={
                other: self.telling(question, assessment.generation, other)
                for other, question in assessment.unlike.items()
            },
            cases=assessment.exact + assessment.by_ties + len(assessment.deviating),
            exact=assessment.exact,
            by_ties=assessment.by_ties,
            deviations=deviations,
        )

    def why_untestable(self, name: str) -> str | None:
        """Why a subject has no verdict, one line."""
        if name in SPECIFICATIONS and name not in self.available:
            return "this build has no such sampler"
        if name in _WHY_NOT:
            return _WHY_NOT[name]
        refusals = [q.answer.reason for q in self.questions[name] if isinstance(q.answer, Refusal)]
        if refusals and len(refusals) == len(self.questions[name]):
            return refusals[0]
        return None if self.questions[name] else "nothing could be asked"

    def findings(self, name: str, assessment: Assessment) -> Iterable[SamplerFinding]:
        """One finding for each family of cases and cause, unless the smallest example is the same."""
        groups: dict[tuple[Family, Cause, str], list[Deviating]] = {}
        for deviating in assessment.deviating:
            case = deviating.question.case
            key = case.family, deviating.difference.cause, place_of(case)
            groups.setdefault(key, []).append(deviating)
        found: dict[str, SamplerFinding] = {}
        order = list(Family)
        for key in sorted(groups, key=lambda key: (order.index(key[0]), *key[1:])):
            group, cause = groups[key], key[1]
            smallest = min(group, key=lambda deviating: deviating.question.case.size)
            finding = self.finding(smallest, len(group), assessment.generation)
            alone = finding.example.chain[0]["sampler"] if len(finding.example.chain) == 1 else None
            if name == CHAIN and cause in self.causes.get(alone or "", ()):
                # The sampler's own row says so already.
                continue
            self.causes.setdefault(name, set()).add(cause)
            shape = shape_of(finding)
            found[shape] = merged(found[shape], finding) if shape in found else finding
        yield from found.values()
        if name == "dist":
            yield from self.frequency_findings()

    def finding(self, deviating: Deviating, cases: int, generation: Generation) -> SamplerFinding:
        """A finding with its example made as small as it gets."""
        deviation = deviating.explained_by is None
        predicate = shows(self.ask, generation, deviating.difference, deviation=deviation)
        case = shrink(deviating.question.case, predicate, self.budget.shrink)
        answer = self.ask(case)
        difference = compare(case, answer, generation)
        if not isinstance(difference, Difference):
            # Not repeatable: keep what was seen first; the control on repetition fails as well.
            case, difference, answer = (
                deviating.question.case,
                deviating.difference,
                deviating.question.answer,
            )
        return SamplerFinding(
            kind=Kind(answer.kind.value) if isinstance(answer, Death) else Kind.SAMPLER_DEVIATION,
            cause=deviating.difference.cause,
            families=(deviating.question.case.family,),
            place=place_of(deviating.question.case),
            classification="deviation" if deviation else "generation",
            cases=cases,
            example=example_of(case, difference.call, difference.detail),
        )

    def frequency_findings(self) -> Iterable[SamplerFinding]:
        """Points of the grid whose counts do not fit."""
        for tested in self.frequencies:
            if not tested.passed:
                detail = f"{tested.configuration}: p = {tested.fit.smallest_p:.2g}"
                yield SamplerFinding(
                    kind=Kind.SAMPLER_DEVIATION,
                    cause=Cause.FREQUENCIES,
                    families=(Family.DRAWS,),
                    place=tested.configuration,
                    classification="deviation",
                    cases=1,
                    example=example_of(tested.case, 0, detail),
                )

    def telling(self, question: Question, generation: Generation, other: str) -> Example:
        """The smallest case that tells a subject's generation from another."""
        alternative = next(candidate for candidate in GENERATIONS if candidate.name == other)
        predicate = tells_apart(self.ask, generation, alternative)
        case = shrink(question.case, predicate, self.budget.shrink)
        difference = compare(case, self.ask(case), alternative)
        if not isinstance(difference, Difference):
            return example_of(question.case, 0, "not repeatable")
        return example_of(case, difference.call, difference.detail)

    def controls(self) -> Iterable[Control]:
        """The checks of the audit itself."""
        for mutant in MUTANTS:
            if mutant.sampler in self.available and mutant.sampler in self.questions:
                questions = self.questions[mutant.sampler]
                caught = catching(mutant, questions, self.assessments[mutant.sampler].generation)
                yield Control(
                    name=f"mutant {mutant.sampler}: {mutant.step}",
                    passed=caught is not None,
                    detail=f"caught by a case of {caught.family}" if caught else "not caught",
                )
        everything = [question for asked in self.questions.values() for question in asked][::_AGAIN]
        changed = list(unrepeatable(everything, self.ask))
        yield Control(
            name="the same questions again",
            passed=not changed,
            detail=f"{len(changed)} of {len(everything)} answers differ",
            figures={"questions": len(everything), "different": len(changed)},
        )
        asked = sum(len(questions) for questions in self.questions.values())
        yield Control(
            name="something was asked",
            passed=asked > 0 and bool(self.frequencies),
            detail=f"{asked} questions, {len(self.frequencies)} distributions",
            figures={"questions": asked, "distributions": len(self.frequencies)},
        )
