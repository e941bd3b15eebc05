"""Results in words, for a person who has a grammar and never read about parsers."""

from __future__ import annotations

from collections import Counter

from tracker.audits.grammar.question import StateAnswer
from tracker.results import Cause, Deviation, GrammarDocument, GrammarResult, Kind

MEANING: dict[str, str] = {
    Cause.OVERLONG: "overlong forms: too many bytes for the character; not valid UTF-8",
    Cause.SURROGATE: "surrogates (U+D800 to U+DFFF), which have no place in UTF-8",
    Cause.BEYOND_UNICODE: "code points beyond U+10FFFF, which do not exist",
    Cause.INVALID_LEAD: "bytes F8 to FF, which never occur in UTF-8",
    Cause.STRAY_CONTINUATION: "continuation bytes with no character begun",
    Cause.BROKEN_SEQUENCE: "characters that are begun and not finished",
    Cause.NOT_IN_LANGUAGE: "valid text that your grammar does not allow",
    Cause.NUL: "tokens that contain the NUL character",
    Cause.EOG_TEXT: "tokens whose text looks like an end-of-generation token",
    Cause.NEGATED_PARTIAL: "beginnings of characters that a negated class does allow",
    Cause.TOKEN_TERMINAL: "tokens taken or left by a token terminal that looks inside them",
    Cause.PARSER: "consequences of the grammar's text being read differently",
    Cause.UNEXPLAINED: "tokens without a known reason",
    Cause.DIED: "the library did not survive",
}
"""What a cause means, in a few words."""

SHOWN = 8
"""Tokens shown of a list."""


def explain_grammar(document: GrammarDocument) -> str:
    """Whether one grammar is affected by one build, and how."""
    grammar, build = document.grammars[0], document.build.id
    lines = [f"warning: {note}" for note in grammar.notes]
    if not grammar.deviations and grammar.exhaustive:
        lines.append(f"No. On {build} your grammar's masks are right: {_covered(grammar)}.")
        return "\n".join(lines)
    if not grammar.deviations:
        lines += [
            f"Nothing found. On {build} the masks are right at {_covered(grammar)}.",
            "That is no proof: what lies further on was not compared. More with --states N.",
        ]
        return "\n".join(lines)
    lines += [_verdict(grammar, build), ""]
    totals: Counter[tuple[str, str]] = Counter()
    for kind, by_cause in grammar.totals.items():
        for cause, count in by_cause.items():
            totals[kind, cause] += count
    for (kind, cause), count in sorted(totals.items()):
        lines.append(f"  {kind:<17} {count:>6}  {MEANING.get(cause, cause)} ({cause})")
    ended = [d for d in grammar.deviations if d.kind is Kind.EOS_UNSOUND]
    if ended:
        shortest = min(ended, key=lambda d: (len(d.prefix), d.prefix))
        lines += [
            "",
            f"Worst: {build} lets the output end after the bytes {_spaced(shortest.prefix)}",
            f"  as text: {show_bytes(bytes.fromhex(shortest.prefix))}",
            "  which is no string of your grammar.",
        ]
    first = next((d for d in grammar.deviations if d.tokens), None)
    if first is not None:
        lines += ["", *_first_place(first, build)]
    if grammar.states:
        lines += ["", f"Compared: {_covered(grammar)}."]
    return "\n".join(lines)


def _verdict(grammar: GrammarResult, build: str) -> str:
    kinds = {deviation.kind for deviation in grammar.deviations}
    if kinds & {Kind.CRASH, Kind.HANG, Kind.OOM}:
        death = next(d for d in grammar.deviations if d.kind in (Kind.CRASH, Kind.HANG, Kind.OOM))
        return f"Yes, badly. {build} does not survive your grammar: {death.kind} ({death.detail})."
    if Kind.GRAMMAR_REJECTED in kinds:
        detail = next(d.detail for d in grammar.deviations if d.kind is Kind.GRAMMAR_REJECTED)
        return f"Yes. {build} refuses your grammar although it has a meaning: {detail}"
    if Kind.GRAMMAR_ACCEPTED in kinds:
        detail = next(d.detail for d in grammar.deviations if d.kind is Kind.GRAMMAR_ACCEPTED)
        return f"Yes. {build} accepts a text that is no grammar: {detail}"
    if kinds & {Kind.UNSOUND, Kind.EOS_UNSOUND}:
        return f"Yes. On {build} a model can emit what your grammar does not allow."
    return f"Yes. On {build} a model cannot emit everything that your grammar allows."


def _covered(grammar: GrammarResult) -> str:
    if grammar.exhaustive:
        return f"all {grammar.states} states that can be reached, each over the whole vocabulary"
    return f"{grammar.states} states, each over the whole vocabulary (at least {grammar.left} more were not)"


def _first_place(first: Deviation, build: str) -> list[str]:
    what = "allows" if first.kind is Kind.UNSOUND else "refuses"
    prefix = f"after the bytes {_spaced(first.prefix)}" if first.prefix else "at the very start"
    shown = ", ".join(_spaced(token) for token in first.tokens[:SHOWN])
    more = f" and {len(first.tokens) - SHOWN} more" if len(first.tokens) > SHOWN else ""
    return [
        f"First seen {prefix}: {build} wrongly {what} the token(s) {shown}{more}.",
        f"  Look at it: llama-tracker check FILE --at '{first.prefix}'",
    ]


def explain_state(answer: StateAnswer, build: str) -> str:
    """One state in words: what may follow, by the oracle and by the build."""
    lines = [f"warning: {warning}" for warning in answer.warnings]
    lines.append(f"After {_spaced(answer.prefix.hex()) or 'nothing yet'} ({show_bytes(answer.prefix)}):")
    if answer.viable:
        lines.append(f"  right:  {_allowed(answer.oracle_tokens, answer.oracle_next, answer.oracle_eos)}")
    else:
        lines.append("  right:  no string of the grammar begins so; nothing may follow")
    if answer.build_tokens is None or answer.refused_at is not None:
        lines.append(f"  {build}: refuses token number {(answer.refused_at or 0) + 1} of this output")
    else:
        lines.append(f"  {build}: {_allowed(answer.build_tokens, answer.build_next, answer.build_eos)}")
    if answer.unsound:
        lines.append(f"  wrongly allowed: {_listed(answer.unsound)}")
    if answer.over_restrictive:
        lines.append(f"  wrongly refused: {_listed(answer.over_restrictive)}")
    if answer.build_eos and not answer.oracle_eos:
        lines.append("  the output may end here by the build, and must not")
    if answer.oracle_eos and not answer.build_eos and answer.build_tokens is not None:
        lines.append("  the output may end here, and the build does not let it")
    same = not answer.unsound and not answer.over_restrictive and answer.oracle_eos == answer.build_eos
    if same:
        lines.append("  the two agree")
    return "\n".join(lines)


def _allowed(tokens: int, single: tuple[str, ...], eos: bool) -> str:
    end = "may end" if eos else "may not end"
    return f"{tokens:,} tokens, single bytes {_ranges(single) or 'none'}; the output {end}"


def _listed(tokens: tuple[str, ...]) -> str:
    more = f" and {len(tokens) - SHOWN:,} more" if len(tokens) > SHOWN else ""
    return f"{len(tokens):,} token(s): " + ", ".join(_spaced(token) for token in tokens[:SHOWN]) + more


def _ranges(single: tuple[str, ...]) -> str:
    """Hex bytes with runs written as ranges."""
    values = [int(text, 16) for text in single]
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = [f"{a:02X}" if a == b else f"{a:02X}-{b:02X}" for a, b in runs]
    return " ".join(shown[:12]) + (" ..." if len(shown) > 12 else "")


def _spaced(text: str) -> str:
    return " ".join(text[i : i + 2].upper() for i in range(0, len(text), 2))


def show_bytes(data: bytes) -> str:
    """Bytes as text for a terminal: what is ill-formed or not printable is escaped."""
    text = data.decode("utf-8", errors="backslashreplace")
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) + '"'
