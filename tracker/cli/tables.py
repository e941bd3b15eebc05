"""Tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from tracker.cli.output import OUTPUT
from tracker.config import Config
from tracker.history import Change, Transition, history_of
from tracker.pipeline import Outcome
from tracker.results import NEWS, AuditName, GrammarDocument, GrammarResult
from tracker.store import Store
from tracker.watches import follow, verdict_word

REAL_CHANGES = frozenset({Transition.APPEARED, Transition.CHANGED, Transition.FIXED, Transition.REGRESSED})


def print_document(document: GrammarDocument) -> None:
    """The result of one audit: the controls first when one failed, then a line for each grammar."""
    failed = [control for control in document.controls if not control.passed]
    for control in failed:
        OUTPUT.result(f"CONTROL FAILED, no verdicts: {control.name}: {control.detail}")
    for cause in sorted(NEWS):
        count = sum(by_cause.get(cause, 0) for g in document.grammars for by_cause in g.totals.values())
        if count:
            OUTPUT.result(f"NEWS: {count} findings with the cause '{cause}'")
    table = Table(title=f"{document.build.id} (audit {document.audit_version})", title_justify="left")
    table.add_column("grammar")
    table.add_column("states", justify="right")
    table.add_column("walk")
    table.add_column("deviations")
    for grammar in document.grammars:
        table.add_row(
            Text(grammar.name),
            str(grammar.states),
            "exhaustive" if grammar.exhaustive and grammar.states else Text(grammar.bound or "-"),
            Text(totals_in_words(grammar) or "none"),
        )
    OUTPUT.out.print(table)
    passed = len(document.controls) - len(failed)
    OUTPUT.result(f"controls: {passed} of {len(document.controls)} passed")
    for control in document.controls:
        OUTPUT.result(f"  {'passed' if control.passed else 'FAILED'}  {control.name}: {control.detail}")
    if document.predictions:
        exact = sum(row.exact for row in document.predictions)
        OUTPUT.result(f"predictive table: {exact} of {len(document.predictions)} rows as predicted")


def totals_in_words(grammar: GrammarResult) -> str:
    """Kinds and causes with their counts, in one line."""
    return "; ".join(
        f"{kind} " + ", ".join(f"{cause} {count}" for cause, count in sorted(by_cause.items()))
        for kind, by_cause in sorted(grammar.totals.items())
    )


def print_run(store: Store, config: Config, outcomes: Sequence[Outcome]) -> None:
    """What a run has done, and the verdict of each watch on each of its builds."""
    documents = list(store.documents(AuditName.GRAMMAR))
    history = history_of(documents)
    table = Table(title="This run", title_justify="left")
    table.add_column("build")
    table.add_column("result")
    table.add_column("findings", justify="right")
    watches = [watch for watch in config.watches if AuditName(watch.audit) is AuditName.GRAMMAR]
    verdicts: list[dict[str, str]] = []
    for watch in watches:
        table.add_column(watch.name)
        points = follow(watch, history).points
        verdicts.append({point.build.id: verdict_word(point.verdict) for point in points})
    by_id = {document.build.id: document for document in documents}
    for outcome in outcomes:
        document = by_id.get(outcome.build_id)
        totals: Counter[str] = Counter()
        for subject in document.subjects if document else ():
            totals.update({kind: sum(by_cause.values()) for kind, by_cause in subject.totals.items()})
        table.add_row(
            Text(outcome.build_id or outcome.release),
            outcome.state,
            str(totals.total()) if document and document.trustworthy else "-",
            *(Text(column.get(outcome.build_id, "untestable")) for column in verdicts),
        )
    OUTPUT.out.print(table)


def changes_at(store: Store, builds: Collection[str]) -> list[Change]:
    """What appeared, changed, was fixed or came back at some builds."""
    history = history_of(list(store.documents(AuditName.GRAMMAR)))
    return [c for c in history.changes() if c.build in builds and c.transition in REAL_CHANGES]
