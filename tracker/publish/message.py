"""The texts of issues and comments. Facts in, markdown out; pure.

This module says what is told and in which order; ``sections`` knows the tables and the smallest case. Each
section keeps to a quota, what does not fit is counted and linked, so that a whole text stays below
``BUDGET``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.publish import sections
from tracker.publish.facts import Difference, Point, Standing, Trouble, WatchFacts
from tracker.publish.issue import HEALTH, IGNORE_LABEL, Event, Told, subject_mark, told_mark, watch_subject
from tracker.publish.sections import Links, build_name, reason
from tracker.render.escape import code, prose, visible

BUDGET = 60_000
"""Characters of a whole text, marks and footer included; GitHub refuses more than 65,536."""

MAX_TITLE = 200
MAX_DESCRIPTION = 2_000
MAX_LISTED = 5

_COMPARING = (Event.CHANGED, Event.REGRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Writes every text; ``ignore_label`` is what silences an issue."""

    links: Links
    ignore_label: str = IGNORE_LABEL

    def title(self, facts: WatchFacts) -> str:
        """The title of a watch's issue. People may change it; it is never written again."""
        return " ".join(visible(facts.title or facts.name).split())[:MAX_TITLE]

    def body(self, facts: WatchFacts, told: Told | None) -> str:
        """The body of a watch's issue: the state of today, whatever was said before."""
        marks = [subject_mark(watch_subject(facts.name)), *([told_mark(told)] if told else [])]
        page = self.links.watch(facts.name)
        return _within_budget(
            "\n".join(marks),
            [
                self._verdict(facts, told),
                prose(facts.description[:MAX_DESCRIPTION]),
                sections.smallest_case(facts, self.links),
                sections.by_release(facts, self.links),
                sections.by_grammar(facts, self.links),
                sections.assurance(facts),
            ],
            f"The rest is in {self.links.to(page, 'the report')}.",
            self._footer(page),
        )

    def comment(self, facts: WatchFacts, event: Event, base: Point | None, difference: Difference) -> str:
        """What is new, for the people who follow the issue; ``difference`` is against the build ``base``."""
        newest, last = _tested(facts), facts.last_present
        name = build_name(newest.build)
        before = build_name(base.build) if base else "the build told of before"
        said = ""
        between: tuple[Point | None, Point | None] = (base, newest)
        match event:
            case Event.FIXED:
                said = f"**Gone.** {_gone(facts)}"
                between = (last, facts.first_absent)
            case Event.REGRESSED:
                said = f"**Back** in {name}; {before} did not show it."
            case Event.CHANGED:
                said = f"**Changed** in {name}, compared with {before}."
            case Event.STILL_PRESENT:
                said = (
                    f"**Still present** in {name}, which is newer than the build at which this issue was "
                    "closed. Opened again; close it as *not planned* to keep it closed."
                )
                between = (None, newest)
            case Event.RE_MEASURED:
                said = (
                    f"**Present** in {name}. The audit itself has changed since this issue was closed: this "
                    f"is "
                    "no comparison with what was said here before."
                )
                between = (None, newest)
        return _within_budget(
            said,
            [
                sections.upstream_range(*between),
                sections.difference(difference, newest, self.links) if event in _COMPARING else "",
            ],
            f"The rest is in {self.links.to(self.links.watch(facts.name), 'the report')}.",
            f"The first post has the state of today; {self.links.to(self.links.index, 'all reports')}.",
        )

    def health_title(self) -> str:
        """The title of the issue about the tracker itself."""
        return "llama-tracker cannot do its work"

    def health_body(self, troubles: Sequence[Trouble], told: Told) -> str:
        """The body of the issue about the tracker itself."""
        state = (
            "Something keeps the nightly run from its work. The verdicts in the other issues are not "
            "touched by "
            "that: they say what was last measured."
        )
        return _within_budget(
            f"{subject_mark(HEALTH)}\n{told_mark(told)}",
            [
                state if troubles else "The nightly run does its work.",
                sections.troubles(troubles, self.links),
            ],
            f"The rest is in {self.links.to(self.links.index, 'the reports')}.",
            self._footer(self.links.index),
        )

    def health_comment(self, troubles: Sequence[Trouble]) -> str:
        """What is new about the tracker itself."""
        if not troubles:
            return "The nightly run does its work again.\n"
        return _within_budget(
            "This keeps the nightly run from its work:",
            [sections.troubles(troubles, self.links)],
            f"The rest is in {self.links.to(self.links.index, 'the reports')}.",
            "",
        )

    def _verdict(self, facts: WatchFacts, told: Told | None) -> str:
        newest = _tested(facts)
        if newest.standing is Standing.PRESENT:
            lines = [f"**Present** in {build_name(newest.build)}, the newest build tested.", _since(facts)]
        else:
            lines = [f"**Gone.** {_gone(facts)}" if facts.last_present else _gone(facts)]
            if told is not None and told.verdict == "present":
                lines.append(
                    "This issue stays open: it was last reported of a build in which today's audit has not "
                    "looked for it or does not find it, and that is no proof of a fix. A person has to "
                    "decide."
                )
        later = facts.points[facts.points.index(newest) + 1 :]
        if later:
            listed = "; ".join(f"{build_name(p.build)}: {reason(p.reason)}" for p in later[:MAX_LISTED])
            more = f"; and {len(later) - MAX_LISTED} more" if len(later) > MAX_LISTED else ""
            lines.append(f"\n\nNewer, but not testable: {listed}{more}.")
        return " ".join(line for line in lines if line)

    def _footer(self, page: str) -> str:
        pages = [self.links.to(self.links.index, "all reports")]
        if page != self.links.index:
            pages.insert(0, self.links.to(page, "report"))
        return (
            f"---\n\n{' · '.join(pages)} · kept by [llama-tracker]({self.links.repository}), which replaces "
            f"this "
            "text whenever a result arrives and comments only when the findings change. To silence it, set "
            "the "
            f"label {code(self.ignore_label)} or close it as *not planned*."
        )


def _within_budget(head: str, parts: list[str], rest: str, foot: str) -> str:
    """The parts in their order, the last ones left out (and ``rest`` said instead) when all are too much.

    The quotas of the sections leave room for all of them, unless the data is such that nearly every character
    has to be written as an entity.
    """
    text = _joined(head, *parts, foot)
    while len(text) > BUDGET:
        parts = parts[:-1]
        text = _joined(head, *parts, rest, foot)
    return text


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _tested(facts: WatchFacts) -> Point:
    newest = facts.newest
    assert newest is not None, "a watch without a tested build has no text"
    return newest


def _since(facts: WatchFacts) -> str:
    """Since when the newest tested build's presence has lasted."""
    tested = [p for p in facts.points if p.standing is not Standing.UNTESTABLE]
    first = len(tested)
    while first and tested[first - 1].standing is Standing.PRESENT:
        first -= 1
    if first == len(tested) - 1 > 0:
        return f"{build_name(tested[first - 1].build)} did not show it."
    if first:
        return (
            f"First seen in {build_name(tested[first].build)}; {build_name(tested[first - 1].build)} did not "
            "show it."
        )
    if len(tested) == 1:
        return ""
    builds = "both builds" if len(tested) == 2 else f"all {len(tested)} builds"
    return f"Present in {builds} tested, back to {build_name(tested[0].build)}."


def _gone(facts: WatchFacts) -> str:
    newest, last, first = _tested(facts), facts.last_present, facts.first_absent
    if last is None or first is None:
        return f"Not present in {build_name(newest.build)}, nor in any other build tested."
    after = facts.points[facts.points.index(last) + 1 :]
    count = sum(p.standing is Standing.ABSENT for p in after)
    builds = "1 build" if count == 1 else f"{count} builds, up to {build_name(newest.build)},"
    return (
        f"Not present since {build_name(first.build)}; last seen in {build_name(last.build)}. {builds} "
        f"tested "
        "without it."
    )
