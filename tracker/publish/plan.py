"""What is to be done on GitHub: facts and existing issues in, actions out. Pure: no clock, network or files.

Planning again after the actions were applied gives nothing more to do. Three rules stand above the rest:

- What is not known changes nothing. A build that could not be tested, or one measured by another audit
  version than what was told before, neither closes an issue nor counts as a change.
- Comments notify people, edits do not: a comment is for a change of the watch's findings, told once.
- A person's word wins: the ignore label, and an issue closed as not planned or as a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracker.history import Transition
from tracker.publish.facts import Difference, Point, Standing, Trouble, WatchFacts, net_difference
from tracker.publish.issue import (
    HEALTH,
    Action,
    Close,
    Comment,
    Create,
    Edit,
    Event,
    Issue,
    Nothing,
    Reopen,
    Told,
    event_mark,
    event_name,
    same_text,
    subject_of,
    told_in,
    watch_subject,
)
from tracker.publish.message import Texts

_DECIDED_BY_A_PERSON = frozenset({"not_planned", "duplicate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was told last, seen with today's eyes, next to the newest build that could be tested.

    ``base`` is the told build's standing as today's audit version measures it, None when it does not; nothing
    else is ever compared with. ``newer`` says that the newest is known to be a newer build than the told one,
    ``changed`` that findings came or went between them, ``came`` that they were seen to come to where they
    had been proven absent, ``proven_fix`` that today's audit version has seen them go.
    """

    told: Told | None
    base: Standing | None
    newest: Standing
    newer: bool
    changed: bool
    came: bool
    proven_fix: bool


def plan(
    watches: Sequence[WatchFacts],
    troubles: Sequence[Trouble] | None,
    issues: Sequence[Issue],
    *,
    author: str,
    texts: Texts,
    max_new: int,
) -> list[Action]:
    """The actions, in the order in which they are to be applied.

    ``troubles`` is None when it is not known whether there are any. ``author`` is who we write as: a mark in
    anybody else's issue means nothing. ``max_new`` bounds the issues that one run creates for watches.
    """
    mine = [issue for issue in issues if issue.author == author]
    actions: list[Action] = []
    room = max_new
    for facts in watches:
        issue, others = _ours(watch_subject(facts.name), mine)
        for action in [*_watch(facts, issue, texts), *others]:
            if isinstance(action, Create):
                room -= 1
                if room < 0:
                    action = Nothing(action.subject, None, f"{max_new} new issues are enough for one run")
            actions.append(action)
    issue, others = _ours(HEALTH, mine)
    return [*actions, *_health(troubles, issue, texts), *others]


def _ours(subject: str, mine: Sequence[Issue]) -> tuple[Issue | None, list[Action]]:
    """The issue of a subject, and a word about every further one."""
    found = [issue for issue in mine if subject_of(issue.body) == subject]
    found.sort(key=lambda i: (i.closed_as in _DECIDED_BY_A_PERSON, not i.open, i.number))
    return (
        (found[0] if found else None),
        [Nothing(subject, i.number, f"the issue of this subject is #{found[0].number}") for i in found[1:]],
    )


def _hands_off(issue: Issue, ignore_label: str) -> str | None:
    """Why a person does not want an issue to be touched."""
    if ignore_label in issue.labels:
        return f"it has the label {ignore_label}"
    if not issue.open and issue.closed_as in _DECIDED_BY_A_PERSON:
        return f"it was closed as {str(issue.closed_as).replace('_', ' ')}"
    return None


def _watch(facts: WatchFacts, issue: Issue | None, texts: Texts) -> list[Action]:
    subject = watch_subject(facts.name)
    newest = facts.newest
    number = issue.number if issue else None
    if issue and (why := _hands_off(issue, texts.ignore_label)):
        return [Nothing(subject, number, why)]
    if newest is None:
        return [Nothing(subject, number, "no build could be tested")]
    if issue is None:
        if newest.standing is Standing.ABSENT:
            return [Nothing(subject, None, f"{newest.build.id} does not show it")]
        return [Create(subject, texts.title(facts), texts.body(facts, _told(facts, newest)))]

    before = told_in(issue.body)
    seen, base, difference = _see(facts, before, newest)
    event, told = decide(issue.open, seen, _told(facts, newest))
    if event is None and not issue.open and newest.standing is Standing.PRESENT:
        return [Nothing(subject, number, f"a person closed it, and no build is newer than {newest.build.id}")]
    body = texts.body(facts, told)
    actions: list[Action] = []
    if event is not None:
        memory = before.model_dump_json() if before else ""
        name = event_name(subject, event, memory, facts.audit_version, newest.build.id, newest.fingerprint)
        text = texts.comment(facts, event, base, difference)
        actions.append(Comment(subject, issue.number, name, f"{event_mark(name)}\n\n{text}"))
    if event is Event.FIXED and issue.open:
        actions.append(Close(subject, issue.number, body))
    elif event is not None and not issue.open and newest.standing is Standing.PRESENT:
        actions.append(Reopen(subject, issue.number, body))
    elif not same_text(body, issue.body):
        actions.append(Edit(subject, issue.number, body))
    return actions or [Nothing(subject, issue.number, "nothing new")]


def _told(facts: WatchFacts, newest: Point) -> Told:
    return Told(
        verdict="present" if newest.standing is Standing.PRESENT else "absent",
        build=newest.build.id,
        audit_version=facts.audit_version,
        fingerprint=newest.fingerprint,
    )


def _see(facts: WatchFacts, told: Told | None, newest: Point) -> tuple[Seen, Point | None, Difference]:
    """What there is to decide on, the point to compare with, and what came and went since."""
    index = facts.index(told.build) if told else None
    since = facts.points[index + 1 :] if index is not None else ()
    base = facts.points[index] if index is not None else None
    if base is not None and base.standing is Standing.UNTESTABLE:
        base = None
    difference, gone = net_difference(since), facts.first_absent
    seen = Seen(
        told=told,
        base=base.standing if base else None,
        newest=newest.standing,
        newer=index is not None and index < facts.points.index(newest),
        changed=bool(difference),
        came=any(p.transition in (Transition.APPEARED, Transition.REGRESSED) for p in since),
        proven_fix=gone is not None and gone.transition is Transition.FIXED,
    )
    return seen, base, difference


def decide(is_open: bool, seen: Seen, now: Told) -> tuple[Event | None, Told | None]:
    """The whole table: what to tell, and what to remember as told.

    ``now`` is what would be remembered when all is told. An issue that stays open although the newest build
    does not show it keeps its old memory: only a proof closes it, and the proof may still come.
    """
    told = seen.told
    was_present = told is not None and told.verdict == "present"
    regressed = seen.base is Standing.ABSENT and seen.came
    fixed = seen.proven_fix and (told is None or (was_present and seen.newer))
    match is_open, seen.newest is Standing.PRESENT:
        case True, True:
            changed = seen.base is Standing.PRESENT and seen.changed
            return Event.REGRESSED if regressed else Event.CHANGED if changed else None, now
        case True, False if fixed:
            return Event.FIXED, now
        case True, False:
            # Told as absent, and open: a person has reopened it, and only a person closes it.
            return None, now if told and not was_present else told
        case False, True if was_present:
            newer = seen.newer or (seen.base is None and told is not None and told.build != now.build)
            return (Event.STILL_PRESENT, now) if newer else (None, told)
        case False, True:
            return Event.REGRESSED if regressed else Event.RE_MEASURED, now
        case _:
            return Event.FIXED if fixed and was_present else None, now


def _health(troubles: Sequence[Trouble] | None, issue: Issue | None, texts: Texts) -> list[Action]:
    number = issue.number if issue else None
    if troubles is None:
        return [Nothing(HEALTH, number, "it is not known how the last run went")]
    if issue and (why := _hands_off(issue, texts.ignore_label)):
        return [Nothing(HEALTH, number, why)]
    state = event_name(*(part for t in sorted(troubles, key=lambda t: t.key) for part in (t.key, t.since)))
    now = Told(verdict="present" if troubles else "absent", build="", audit_version="", fingerprint=state)
    body = texts.health_body(troubles, now)
    if issue is None:
        if not troubles:
            return [Nothing(HEALTH, None, "no trouble")]
        return [Create(HEALTH, texts.health_title(), body)]
    told = told_in(issue.body)
    actions: list[Action] = []
    changed = told is None or told.fingerprint != state
    if changed and (troubles or issue.open):
        name = event_name(HEALTH, told.fingerprint if told else "", state)
        text = texts.health_comment(troubles)
        actions.append(Comment(HEALTH, issue.number, name, f"{event_mark(name)}\n\n{text}"))
    finish: Callable[[str, int, str], Action] | None = None
    if not troubles and issue.open and (told is None or told.verdict == "present"):
        finish = Close
    elif troubles and not issue.open and changed:
        finish = Reopen
    elif not same_text(body, issue.body) and (issue.open or not troubles):
        finish = Edit
    if finish:
        actions.append(finish(HEALTH, issue.number, body))
    return actions or [Nothing(HEALTH, issue.number, "nothing new")]
