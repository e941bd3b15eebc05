"""The plan: the whole decision table, and what must hold of any history and any issues."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.config import Watch
from tracker.history import history_of
from tracker.publish.facts import Standing, Trouble, WatchFacts
from tracker.publish.gather import watch_facts
from tracker.publish.issue import (
    HEALTH,
    IGNORE_LABEL,
    LABEL,
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
    event_of,
    told_in,
)
from tracker.publish.message import Texts
from tracker.publish.plan import Seen, decide, plan
from tracker.publish.sections import Links
from tracker.results import GrammarDocument
from tracker.watches import follow

ME = "github-actions[bot]"
TEXTS = Texts(links=Links(repository="https://github.example/someone/llama-tracker"))
P, A, U = Standing.PRESENT, Standing.ABSENT, Standing.UNTESTABLE


class Spec(NamedTuple):
    """A watch on the build of that number; its findings are one for each letter."""

    number: int
    standing: Standing
    letters: str = "x"


point = Spec


@cache
def document(spec: Spec, version: str) -> GrammarDocument:
    build = builders.build(str(spec.number), day=spec.number)
    if spec.standing is U:
        return builders.untestable(build, "no compiler", audit_version=version)
    tokens = [f"{ord(letter):02x}" for letter in sorted(spec.letters)]
    found = [builders.deviation(tokens=tokens)] if spec.standing is P else []
    return builders.document(build, builders.grammar("g", *found), audit_version=version)


def facts(*specs: Spec, version: str = "1", name: str = "w") -> WatchFacts:
    """What the publisher is told of these builds, by way of the real history and watch."""
    return facts_of_documents(*(document(spec, version) for spec in specs), name=name)


def facts_of_documents(*documents: GrammarDocument, name: str = "w") -> WatchFacts:
    watch = Watch(name=name, title="A watch")
    by_build = {document.build.id: document for document in documents}
    return watch_facts(follow(watch, history_of(documents)), by_build.__getitem__)


class Repository:
    """Issues that actions are applied to, as GitHub would."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.comments: list[tuple[int, str | None]] = []

    def night(
        self, *watches: WatchFacts, troubles: list[Trouble] | None = None, max_new: int = 9
    ) -> list[Action]:
        """Plans and applies; a second plan must then have nothing left to do."""
        actions = self.plan(*watches, troubles=troubles, max_new=max_new)
        for action in actions:
            self.apply(action)
        again = self.plan(*watches, troubles=troubles, max_new=0)
        assert all(isinstance(a, Nothing) for a in again), again
        return [a for a in actions if not isinstance(a, Nothing)]

    def plan(
        self, *watches: WatchFacts, troubles: list[Trouble] | None = None, max_new: int = 9
    ) -> list[Action]:
        return plan(watches, troubles, self.issues, author=ME, texts=TEXTS, max_new=max_new)

    def apply(self, action: Action) -> None:
        match action:
            case Create(_, title, body):
                number = len(self.issues) + 1
                self.issues.append(
                    Issue(
                        number=number,
                        author=ME,
                        title=title,
                        body=body,
                        open=True,
                        closed_as=None,
                        labels=frozenset({LABEL}),
                    )
                )
            case Comment(_, number, event, body):
                assert event_of(body) == event
                # Where a person erased the memory an event may be planned again, by the same name: the
                # publisher finds it among the comments and does not write another.
                remembers = told_in(self.issues[number - 1].body) is not None
                if (number, event) in self.comments:
                    assert not remembers, "told twice"
                else:
                    self.comments.append((number, event))
            case Edit(_, number, body):
                self.change(number, body=body)
            case Close(_, number, body):
                self.change(number, body=body, open=False, closed_as="completed")
            case Reopen(_, number, body):
                self.change(number, body=body, open=True, closed_as=None)
            case Nothing():
                pass

    def change(self, number: int, **changes: object) -> None:
        self.issues[number - 1] = replace(self.issues[number - 1], **changes)  # type: ignore[arg-type]


def kinds(actions: list[Action]) -> list[str]:
    return [type(a).__name__ for a in actions]


# The table. A star stands for any; rows are tried from above. "told" is what is remembered afterwards: the
# state of today (now), the same as before (kept), or nothing.
TABLE = """
   open   P  *        absent   *    *    yes  *     regressed      now
   open   P  *        present  *    yes  *    *     changed        now
   open   P  *        *        *    *    *    *     -              now
   open   A  none     *        *    *    *    yes   fixed          now
   open   A  none     *        *    *    *    no    -              nothing
   open   A  present  *        yes  *    *    yes   fixed          now
   open   A  present  *        *    *    *    *     -              kept
   open   A  absent   *        *    *    *    *     -              now
   closed P  none     absent   *    *    yes  *     regressed      now
   closed P  none     *        *    *    *    *     re-measured    now
   closed P  absent   absent   *    *    yes  *     regressed      now
   closed P  absent   *        *    *    *    *     re-measured    now
   closed P  present  none     *    *    *    *     still-present  now
   closed P  present  *        yes  *    *    *     still-present  now
   closed P  present  *        no   *    *    *     -              kept
   closed A  present  *        yes  *    *    yes   fixed          now
   closed A  *        *        *    *    *    *     -              now
"""
#  issue   now told   base   newer chg came proven   event       remembered
ROWS = [line.split() for line in TABLE.strip().splitlines()]
EVENTS = {
    "-": None,
    "fixed": Event.FIXED,
    "changed": Event.CHANGED,
    "regressed": Event.REGRESSED,
    "still-present": Event.STILL_PRESENT,
    "re-measured": Event.RE_MEASURED,
}
ANY = ["yes", "no"]
WORDS = ["none", "present", "absent"]
CASES = list(itertools.product(["open", "closed"], ["P", "A"], WORDS, WORDS, ANY, ANY, ANY, ANY))


def row_of(case: tuple[str, ...]) -> int:
    return next(
        i for i, row in enumerate(ROWS) if all(w in ("*", h) for w, h in zip(row, case, strict=False))
    )


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_decision_is_that_of_the_table(case: tuple[str, ...]) -> None:
    state, newest, told, base, newer, changed, came, proven = case
    *_, event, remembered = ROWS[row_of(case)]
    before = None
    if told != "none":
        before = Told.model_validate(
            {"verdict": told, "build": "b-1", "audit_version": "1", "fingerprint": "x"}
        )
    now = Told(
        verdict="present" if newest == "P" else "absent", build="b-2", audit_version="1", fingerprint="x"
    )
    seen = Seen(
        told=before,
        base=None if base == "none" else Standing(base),
        newest=P if newest == "P" else A,
        newer=newer == "yes",
        changed=changed == "yes",
        came=came == "yes",
        proven_fix=proven == "yes",
    )
    assert decide(state == "open", seen, now) == (
        EVENTS[event],
        {"now": now, "kept": before, "nothing": None}[remembered],
    )


def test_every_row_of_the_table_is_used() -> None:
    assert {row_of(case) for case in CASES} == set(range(len(ROWS)))


def test_six_nights() -> None:
    repository = Repository()
    one = point(1, P, "xy")
    assert kinds(repository.night(facts(one))) == ["Create"]
    assert kinds(repository.night(facts(one))) == []
    two = point(2, P, "yz")
    assert kinds(repository.night(facts(one, two))) == ["Comment", "Edit"]
    failed = point(3, U)
    assert kinds(repository.night(facts(one, two, failed))) == ["Edit"]
    fixed = point(4, A)
    assert kinds(repository.night(facts(one, two, failed, fixed))) == ["Comment", "Close"]
    assert repository.issues[0].closed_as == "completed"
    back = point(5, P, "x")
    assert kinds(repository.night(facts(one, two, failed, fixed, back))) == ["Comment", "Reopen"]
    assert len(repository.comments) == 3


def test_a_watch_that_no_build_shows_makes_no_issue() -> None:
    assert Repository().night(facts(point(1, A), point(2, U))) == []
    assert Repository().night(facts(point(1, U))) == []
    assert Repository().night(facts()) == []


def test_several_builds_in_one_night_make_one_comment_and_a_build_of_the_past_none() -> None:
    repository = Repository()
    repository.night(facts(point(3, P)))
    assert kinds(repository.night(facts(point(1, A), point(2, P, "q"), point(3, P)))) == ["Edit"]
    later = facts(point(3, P), point(4, A), point(5, P), point(6, P, "xq"))
    assert kinds(repository.night(later)) == ["Comment", "Edit"]


def test_a_rerun_of_the_same_build_neither_closes_nor_comments() -> None:
    repository = Repository()
    repository.night(facts(point(1, P), point(2, P)))
    assert kinds(repository.night(facts(point(1, P), point(2, A)))) == ["Edit"]
    assert repository.issues[0].open
    assert "stays open" in repository.issues[0].body
    assert kinds(repository.night(facts(point(1, P), point(2, A), point(3, A)))) == ["Comment", "Close"]


def test_another_audit_version_never_closes_by_itself() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    assert kinds(repository.night(facts(point(2, A), version="2"))) == ["Edit"]
    assert repository.issues[0].open
    assert kinds(repository.night(facts(point(1, P), point(2, A), version="2"))) == ["Comment", "Close"]


def test_another_audit_version_with_other_findings_is_no_change() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    assert kinds(repository.night(facts(point(1, P, "xyz"), version="2"))) == ["Edit"]
    assert kinds(repository.night(facts(point(1, P, "xyz"), point(2, P, "xyz"), version="2"))) == ["Edit"]
    assert kinds(repository.night(facts(point(2, P, "xyz"), point(3, P, "z"), version="2"))) == [
        "Comment",
        "Edit",
    ]


def test_a_grammar_that_became_another_text_is_no_proof_of_a_fix() -> None:
    """As with the grammars that a build brings along: what showed it before was not looked at again."""
    old, new = builders.build("1", day=1), builders.build("2", day=2)
    shown = builders.document(old, builders.grammar("g", builders.deviation()))
    other = builders.document(new, builders.grammar("g", text="root ::= [a-z]"))
    back = builders.document(
        builders.build("3", day=3), builders.grammar("g", builders.deviation(), text="root ::= .")
    )
    repository = Repository()
    repository.night(facts_of_documents(shown))
    assert kinds(repository.night(facts_of_documents(shown, other))) == ["Edit"]
    assert repository.issues[0].open
    assert "A person has to decide" in repository.issues[0].body
    repository.change(1, open=False, closed_as="completed")
    assert kinds(repository.night(facts_of_documents(shown, other, back))) == ["Comment", "Reopen"]


def test_an_issue_that_a_person_closed_as_completed_opens_again_only_for_a_newer_build() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    repository.change(1, open=False, closed_as="completed")
    assert repository.night(facts(point(1, P))) == []
    assert kinds(repository.night(facts(point(1, P), point(2, P)))) == ["Comment", "Reopen"]


def test_an_issue_that_a_person_opened_again_is_left_open() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    repository.night(facts(point(1, P), point(2, A)))
    repository.change(1, open=True, closed_as=None)
    assert repository.night(facts(point(1, P), point(2, A))) == []
    assert kinds(repository.night(facts(point(1, P), point(2, A), point(3, A)))) == ["Edit"]
    assert repository.issues[0].open


@pytest.mark.parametrize(
    "change",
    [
        {"labels": frozenset({LABEL, IGNORE_LABEL})},
        {"open": False, "closed_as": "not_planned"},
        {"open": False, "closed_as": "duplicate"},
    ],
)
@pytest.mark.parametrize("after", [point(2, P, "other"), point(2, A)])
def test_a_persons_word_is_final(change: dict[str, object], after: Spec) -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    repository.change(1, **change)
    assert repository.night(facts(point(1, P), after)) == []


def test_a_damaged_memory_is_mended_silently() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    mark, _, rest = repository.issues[0].body.partition("\n")
    repository.change(1, body=mark + "\r\n" + rest.partition("\n")[2] + "edited by hand")
    assert told_in(repository.issues[0].body) is None
    assert kinds(repository.night(facts(point(1, P), point(2, P, "new")))) == ["Edit"]


def test_a_mark_in_somebody_elses_issue_means_nothing() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    repository.change(1, author="a-person")
    assert kinds(repository.night(facts(point(1, P)))) == ["Create"]


def test_of_two_issues_with_the_same_mark_the_older_open_one_is_kept() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    first = repository.issues[0]
    repository.issues.append(replace(first, number=2))
    actions = repository.plan(facts(point(1, P), point(2, A)))
    assert [a.number for a in actions if isinstance(a, (Comment, Close))] == [1, 1]
    assert any(isinstance(a, Nothing) and a.number == 2 and "#1" in a.reason for a in actions)
    repository.change(1, open=False, closed_as="completed")
    actions = repository.plan(facts(point(1, P), point(2, A)))
    assert [a.number for a in actions if isinstance(a, (Comment, Close))] == [2, 2]
    repository.change(1, open=False, closed_as="duplicate")
    actions = repository.plan(facts(point(1, P), point(2, A)))
    assert [a.number for a in actions if isinstance(a, (Comment, Close))] == [2, 2]


def test_a_run_creates_no_more_issues_than_allowed_and_the_next_goes_on() -> None:
    repository = Repository()
    watches = [facts(point(1, P), name=f"w{i}") for i in range(5)]
    actions = repository.plan(*watches, max_new=2)
    assert sum(isinstance(a, Create) for a in actions) == 2
    assert kinds(repository.night(*watches, max_new=2)) == ["Create", "Create"]
    assert kinds(repository.night(*watches, max_new=2)) == ["Create", "Create"]
    assert kinds(repository.night(*watches, max_new=2)) == ["Create"]


def trouble(key: str, since: str = "1", nights: int = 3) -> Trouble:
    return Trouble(key=key, what="build failed: no compiler", since=since, nights=nights)


def test_the_health_issue_lives_apart_from_the_watches() -> None:
    repository = Repository()
    watch = facts(point(1, P))
    repository.night(watch)
    body = repository.issues[0].body
    assert kinds(repository.night(watch, troubles=[])) == []
    assert kinds(repository.night(watch, troubles=[trouble("b-2")])) == ["Create"]
    assert kinds(repository.night(watch, troubles=[trouble("b-2", nights=4)])) == ["Edit"]
    assert kinds(repository.night(watch, troubles=[trouble("b-2", nights=5), trouble("plan")])) == [
        "Comment",
        "Edit",
    ]
    assert kinds(repository.night(watch, troubles=[])) == ["Comment", "Close"]
    assert kinds(repository.night(watch, troubles=[])) == []
    assert kinds(repository.night(watch, troubles=[trouble("b-2", since="9")])) == ["Comment", "Reopen"]
    assert repository.night(watch, troubles=None) == []
    assert repository.issues[0].body == body


def test_a_health_issue_closed_by_a_person_stays_closed_until_the_trouble_is_another() -> None:
    repository = Repository()
    repository.night(troubles=[trouble("b-2")])
    repository.change(1, open=False, closed_as="completed")
    assert repository.night(troubles=[trouble("b-2", nights=7)]) == []
    assert kinds(repository.night(troubles=[trouble("b-2"), trouble("b-3")])) == ["Comment", "Reopen"]
    repository.change(1, open=False, closed_as="not_planned")
    assert repository.night(troubles=[trouble("b-4")]) == []


standings = st.tuples(st.sampled_from([P, A, U]), st.sampled_from(["x", "y", "xy", "z"]))


Night = tuple[tuple[Spec, ...], str]


@st.composite
def histories(draw: st.DrawFn) -> list[Night]:
    """The nights of one watch: builds arrive in any order, are measured again, drop out, fail."""
    nights = []
    known: dict[int, Spec] = {}
    version = 1
    for _ in range(draw(st.integers(1, 7))):
        if draw(st.integers(0, 5)) == 0:
            version += 1
            known = {n: p for n, p in known.items() if draw(st.booleans())}
        for number in draw(st.lists(st.integers(1, 6), max_size=3)):
            known[number] = Spec(number, *draw(standings))
        nights.append((tuple(known.values()), str(version)))
    return nights


people = st.sampled_from(
    [
        None,
        None,
        None,
        {"open": False, "closed_as": "completed"},
        {"open": True, "closed_as": None},
        {"body": "<!-- llama-tracker watch=w -->\nscribbled"},
    ]
)


@given(histories(), st.data())
def test_whatever_happens_the_plan_settles_and_only_a_proof_closes(
    nights: list[Night], data: st.DataObject
) -> None:
    repository = Repository()
    for specs, version in nights:
        night = facts(*specs, version=version)
        before = list(repository.issues)
        told = told_in(before[0].body) if before else None
        actions = repository.night(night)
        newest = night.newest
        assert len(repository.issues) <= 1
        if newest is None:
            assert actions == []
        for action in actions:
            if isinstance(action, Close):
                assert newest is not None and newest.standing is A
                assert any(p.standing is P for p in night.points)
                if told is not None:
                    told_at, newest_at = night.index(told.build), night.index(newest.build.id)
                    assert told_at is not None and newest_at is not None and told_at < newest_at
            if isinstance(action, (Create, Reopen)):
                assert newest is not None and newest.standing is P
            if isinstance(action, Comment) and told is not None and before[0].open:
                assert newest is not None and night.index(told.build) is not None
                assert (newest.standing, newest.build.id) != (P, told.build)
        if repository.issues and (change := data.draw(people)):
            repository.change(1, **change)


def test_a_fix_told_twice_to_an_issue_whose_memory_was_erased_has_one_name() -> None:
    repository = Repository()
    repository.night(facts(point(1, P)))
    fixed = facts(point(1, P), point(2, A))
    scribbled = {"body": "<!-- llama-tracker watch=w -->\nscribbled", "open": True, "closed_as": None}
    for _ in range(2):
        repository.change(1, **scribbled)
        assert kinds(repository.night(fixed)) == ["Comment", "Close"]
    assert len(repository.comments) == 1


@given(histories())
def test_untestable_builds_never_make_news(nights: list[Night]) -> None:
    repository = Repository()
    for specs, version in nights:
        repository.night(facts(*specs, version=version))
        worse = facts(*specs, point(90, U), point(91, U), version=version)
        assert set(kinds(repository.night(worse))) <= {"Edit"}
        repository.night(facts(*specs, version=version))


@given(histories(), st.randoms())
def test_the_order_of_the_issues_does_not_matter(nights: list[Night], random: object) -> None:
    repository = Repository()
    for specs, version in nights:
        repository.night(facts(*specs, version=version))
    for i in range(3):
        repository.issues.append(
            Issue(
                number=50 + i,
                author=ME,
                title="t",
                body=f"<!-- llama-tracker watch=w{i} -->",
                open=True,
                closed_as=None,
                labels=frozenset(),
            )
        )
    last = facts(*nights[-1][0], version=nights[-1][1])
    watches = [last, *(replace(last, name=f"w{i}") for i in range(3))]
    expected = repository.plan(*watches, troubles=[])
    random.shuffle(repository.issues)  # type: ignore[attr-defined]
    assert repository.plan(*watches, troubles=[]) == expected
    assert expected[-1].subject == HEALTH
