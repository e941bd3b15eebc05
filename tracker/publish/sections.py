"""The parts of an issue's text: the smallest case, the tables, the links. Pure.

Whatever came from upstream or a file (a grammar, bytes, a reason, a name) is data: it stands inside code
spans and fences that it cannot end, where GitHub resolves neither mentions nor references. Each part has a
quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from oracle.utf8 import scan
from tracker.publish.facts import Case, Difference, Point, Row, Standing, Trouble, WatchFacts
from tracker.render.escape import code, fence, hex_bytes, is_visible
from tracker.results import Atom, BuildIdentity, Kind

MAX_GRAMMAR = 6_000
MAX_NAME = 120
MAX_REASON = 200
MAX_ROWS = 40
MAX_TOKENS = 12

_WRONG: dict[str, str] = {
    Kind.UNSOUND: "wrongly allowed",
    Kind.OVER_RESTRICTIVE: "wrongly masked",
    Kind.EOS_UNSOUND: "end wrongly allowed",
    Kind.EOS_MISSING: "end wrongly masked",
    Kind.GRAMMAR_REJECTED: "grammar wrongly refused",
    Kind.GRAMMAR_ACCEPTED: "grammar wrongly accepted",
}

UPSTREAM = "https://github.com/ggml-org/llama.cpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where things are. ``repository`` is the tracker's own address, ``branch`` that of its reports."""

    repository: str
    branch: str = "main"
    index: str = "reports/README.md"

    def watch(self, name: str) -> str:
        """The page of a watch."""
        return f"reports/watches/{quote(name)}.md"

    def build(self, build: BuildIdentity) -> str:
        """The page of a build."""
        return f"reports/builds/{quote(build.id)}.md"

    def to(self, page: str, text: str) -> str:
        """A markdown link to a page of the reports."""
        return f"[{text}]({self.repository}/blob/{quote(self.branch)}/{page})"


def build_name(build: BuildIdentity) -> str:
    """A build as prose names it."""
    return f"{named(f'{build.channel} {build.version}')} (llama.cpp {_upstream(build)})"


def named(text: str) -> str:
    """A name that came with a result."""
    return code(text[:MAX_NAME])


def reason(text: str) -> str:
    """A reason that came with a result."""
    return code(text[:MAX_REASON] or "no reason given")


def smallest_case(facts: WatchFacts, links: Links) -> str:
    """The smallest grammar and bytes, what is emitted, and the commands that show it."""
    case, last = facts.case, facts.last_present
    if case is None or last is None:
        return ""
    head = f"### The smallest case, in {named(f'{last.build.channel} {last.build.version}')}"
    if len(case.text) > MAX_GRAMMAR or not is_visible(case.text):
        page = links.to(links.build(last.build), "the report")
        return f"{head}\n\n{_said(case)} The grammar {named(case.grammar)} is in {page}."
    return "\n\n".join(
        (
            head,
            f"Grammar {named(case.grammar)}:",
            fence(case.text.rstrip("\n"), "ebnf"),
            _said(case),
            "To reproduce:",
            fence(_commands(case, last.build, links), "sh"),
        )
    )


def by_release(facts: WatchFacts, links: Links) -> str:
    """The verdict on every build, newest first; neighbours with the same findings share a row."""
    runs = [
        list(run)
        for _, run in groupby(reversed(facts.points), key=lambda p: (p.standing, p.fingerprint, p.reason))
    ]
    lines = [
        "### By release, newest first",
        "",
        "| builds | llama.cpp | verdict | findings |",
        "|---|---|---|---:|",
        *(_run(run) for run in runs[:MAX_ROWS]),
        *_more(len(runs) - MAX_ROWS, links.watch(facts.name), links),
    ]
    return "\n".join(lines)


def by_grammar(facts: WatchFacts, links: Links) -> str:
    """The findings on the newest build that has any."""
    last = facts.last_present
    if not facts.rows or last is None:
        return ""
    lines = [
        f"### By grammar, in {named(f'{last.build.channel} {last.build.version}')}",
        "",
        "| grammar | findings | causes | for example |",
        "|---|---|---|---|",
        *(_row(row) for row in facts.rows[:MAX_ROWS]),
        *_more(len(facts.rows) - MAX_ROWS, links.build(last.build), links),
    ]
    return "\n".join(lines)


def assurance(facts: WatchFacts) -> str:
    """Why the verdict on the newest tested build may be believed."""
    coverage = facts.coverage
    if coverage is None:
        return ""
    controls = ", ".join(named(name) for name in coverage.controls[:MAX_ROWS])
    return (
        "### How it is known\n\n"
        f"At {coverage.states:,} states of {coverage.grammars} grammars, the mask over all "
        f"{coverage.tokens:,} "
        f"tokens of {named(coverage.vocabulary)} was compared with that of an independent recognizer; "
        f"{coverage.exhaustive} of the grammars exhaustively. Controls of that audit that passed: {controls}."
    )


def difference(found: Difference, newest: Point, links: Links) -> str:
    """What appeared and what went, by grammar and cause."""
    parts = []
    for title, atoms in (("Appeared", found.added), ("Gone", found.removed)):
        if not atoms:
            continue
        counts = Counter((a.subject, a.kind, a.cause) for a in atoms)
        examples: dict[tuple[str, str, str], Atom] = {}
        for atom in sorted(atoms, key=lambda a: (len(a.where), len(a.detail), a)):
            examples.setdefault((atom.subject, atom.kind, atom.cause), atom)
        rows = [
            f"| {named(group[0])} | {_kind(group[1])} | {named(group[2])} | {count:,} "
            f"| {_example(examples[group].where, examples[group].detail)} |"
            for group, count in sorted(counts.items())[:MAX_ROWS]
        ]
        head = ["| grammar | what | cause | findings | for example |", "|---|---|---|---:|---|"]
        more = _more(len(counts) - MAX_ROWS, links.build(newest.build), links)
        parts.append("\n".join([f"{title}: {len(atoms):,}", "", *head, *rows, *more]))
    return "\n\n".join(parts)


def upstream_range(old: Point | None, new: Point | None) -> str:
    """Where upstream's changes between two builds can be read."""
    if old is None or new is None or not (old.build.commit and new.build.commit):
        return ""
    if old.build.commit == new.build.commit:
        return ""
    return f"Upstream in between: {UPSTREAM}/compare/{old.build.commit[:12]}...{new.build.commit[:12]}"


def troubles(items: Sequence[Trouble], links: Links) -> str:
    """What keeps the tracker from its work."""
    if not items:
        return ""
    rows = [f"| {named(t.key)} | {t.nights} | {reason(t.what)} |" for t in items[:MAX_ROWS]]
    more = _more(len(items) - MAX_ROWS, links.index, links)
    return "\n".join(["| where | nights | trouble |", "|---|---:|---|", *rows, *more])


def _upstream(build: BuildIdentity) -> str:
    number = f"b{build.build_number}" if build.build_number is not None else ""
    commit = f"[{build.commit[:7]}]({UPSTREAM}/commit/{build.commit})" if build.commit else ""
    date = build.date[:10] if build.date else ""
    return ", ".join(part for part in (number, commit, date) if part) or "unknown"


def _span(oldest: str, newest: str) -> str:
    return newest if oldest == newest or not oldest else f"{oldest} to {newest}"


def _run(run: Sequence[Point]) -> str:
    new, old = run[0].build, run[-1].build
    if len(run) == 1:
        names, upstream = named(f"{new.channel} {new.version}"), _upstream(new)
    else:
        last = f"{new.channel} {new.version}" if new.channel != old.channel else new.version
        names = f"{named(f'{old.channel} {old.version}')} to {named(last)}, {len(run)} builds"
        numbers = _span(*(f"b{b.build_number}" if b.build_number is not None else "" for b in (old, new)))
        dates = _span(*(b.date[:10] if b.date else "" for b in (old, new)))
        upstream = ", ".join(part for part in (numbers, dates) if part)
    point = run[0]
    match point.standing:
        case Standing.PRESENT:
            verdict, findings = "**present**", f"{point.count:,}"
        case Standing.ABSENT:
            verdict, findings = "absent", "0"
        case Standing.UNTESTABLE:
            verdict, findings = f"not testable: {reason(point.reason)}", ""
    return f"| {names} | {upstream} | {verdict} | {findings} |"


def _row(row: Row) -> str:
    kinds = ", ".join(f"{_kind(kind)} {count:,}" for kind, count in row.kinds[:MAX_TOKENS])
    causes = ", ".join(f"{named(cause)} {count:,}" for cause, count in row.causes[:MAX_TOKENS])
    return f"| {named(row.grammar)} | {kinds} | {causes} | {_example(row.where, row.detail)} |"


def _kind(kind: str) -> str:
    return _WRONG.get(kind) or named(kind)


def _example(where: str, detail: str) -> str:
    after = f"after {_bytes(where)}" if where else "at the start"
    return f"{_bytes(detail)} {after}" if detail else after


def _bytes(text: str) -> str:
    """Bytes where a text is hex, as it is in grammar findings; the text itself elsewhere."""
    try:
        bytes.fromhex(text)
    except ValueError:
        return code(text[:MAX_REASON])
    return hex_bytes(text)


def _more(count: int, page: str, links: Links) -> list[str]:
    return ["", f"And {count:,} more: {links.to(page, 'the report')}."] if count > 0 else []


def _commands(case: Case, build: BuildIdentity, links: Links) -> str:
    end = "GBNF"
    while end in case.text:
        end += "_"
    at = f" --at {case.deviation.prefix}" if case.deviation.prefix else ""
    return "\n".join(
        (
            f"pip install 'git+{links.repository}'",
            f"cat > case.gbnf <<'{end}'",
            case.text.rstrip("\n"),
            end,
            f"llama-tracker check case.gbnf --release {build.channel}=={build.version}{at}",
        )
    )


def _said(case: Case) -> str:
    """The finding in words, then where it leads."""
    deviation = case.deviation
    after = "At the start"
    if deviation.prefix:
        after = f"After the byte{'s' if len(deviation.prefix) > 2 else ''} {hex_bytes(deviation.prefix)}"
    tokens = ", ".join(hex_bytes(token) for token in deviation.tokens[:MAX_TOKENS])
    if (more := len(deviation.tokens) - MAX_TOKENS) > 0:
        tokens += f" and {more:,} more"
    some = (
        f"the token {tokens},"
        if len(deviation.tokens) == 1
        else f"{len(deviation.tokens):,} tokens, {tokens},"
    )
    match deviation.kind:
        case "UNSOUND":
            said = f"{after}, this build allows {some} with which no string of the grammar goes on."
        case "OVER_RESTRICTIVE":
            said = f"{after}, this build masks {some} with which a string of the grammar goes on."
        case "EOS_UNSOUND":
            said = f"{after}, this build allows the end of generation; that is no string of the grammar."
        case "EOS_MISSING":
            said = f"{after}, this build masks the end of generation; that is a whole string of the grammar."
        case other:
            said = f"{after}: {named(other)}. {reason(deviation.detail)}"
    escape = deviation.escape
    if escape is None:
        return said
    output, follow = hex_bytes(escape.bytes), f"{said} Following only what it allows,"
    offence = scan(bytes.fromhex(escape.bytes)).offence
    form = f" This is not well-formed UTF-8 ({offence})." if offence else ""
    match escape.outcome:
        case "end-of-generation":
            return f"{follow} generation ends with {output}, reported as complete.{form}"
        case "dead-end":
            return f"{follow} every way on is masked: generation gets stuck after {output}."
        case "viable-again":
            return f"{follow} the output begins a string of the grammar again: {output}."
        case _:
            return f"{said} Where that leads was not found within {escape.explored:,} states."
