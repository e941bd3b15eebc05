"""What came out of a search: one sentence, a Markdown page, a JSON document.

Pure text from results. Times of day, hosts and paths are left out; how long steps took is in the JSON's
``run`` part only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracker.bisect.looks import Look
from tracker.bisect.questions import Question
from tracker.bisect.search import Outcome, Verdict
from tracker.bisect.session import Result
from tracker.releases import ChannelName, Release

SCHEMA = 1
UPSTREAM = "https://github.com/ggml-org/llama.cpp"
_GITHUB = re.compile(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9_.-]+?(?:\.git)?")
_COMMIT = re.compile(r"git\+\S+@([0-9a-f]{12})[0-9a-f]{28}")
_LONGEST_LIST = 40


@dataclass(frozen=True, slots=True)
class Title:
    """An upstream commit, and the first line of its message."""

    commit: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """A question, and the results of searching for it: by releases, and then by commits where that was done.

    ``commits`` are those of the last result's range, after the last and up to the first, oldest first.
    """

    question: Question
    results: tuple[Result, ...]
    commits: tuple[Title, ...] = ()


def short(release: str) -> str:
    """A release as it is shown: of a commit, its first twelve digits; repositories are told once."""
    return _COMMIT.sub(r"\1", release)


def sentence(question: Question, result: Result) -> str:
    """The answer in one or two sentences, without a line break."""
    words = question.words
    older, newer = (result.looks.get(i) for i in (0, len(result.releases) - 1))
    if result.answer.outcome is Outcome.END_UNTESTABLE:
        end = next(e for e in (older, newer) if e is not None and e.verdict is Verdict.UNTESTABLE)
        return f"{short(end.release)} cannot be tested ({end.detail}): choose another end."
    assert older is not None and newer is not None  # both ends are looked at before anything else
    if not result.found:
        return (
            f"{words[older.verdict]} at both ends, {short(older.release)} and {short(newer.release)}: "
            "there is nothing to find between them; widen the range."
        )
    text = (
        f"{words[result.first.verdict]} since {short(result.first.release)}; "
        f"{words[result.last.verdict]} up to {short(result.last.release)}."
    )
    if unknown := len(result.answer.untestable) + len(result.answer.untried):
        text += f" Unknown: {unknown} between, of which {len(result.answer.untestable)} could not be tested"
        text += f" and {len(result.answer.untried)} were not tried." if result.answer.untried else "."
    if result.answer.contradicting:
        names = ", ".join(short(str(result.releases[i])) for i in result.answer.contradicting)
        text += f" It has changed more than once: {names} answer unlike their side."
    return text


def compare_link(result: Result) -> str | None:
    """Where upstream shows the range; None when that is not known."""
    if not result.found:
        return None
    base = _repository(result.releases[0])
    ends = [_reference(look, result.releases[0]) for look in (result.last, result.first)]
    return f"{base}/compare/{ends[0]}...{ends[1]}" if base and all(ends) else None


def _repository(release: Release) -> str | None:
    if release.channel is not ChannelName.GIT:
        return UPSTREAM
    return release.url.removesuffix(".git") if _GITHUB.fullmatch(release.url) else None


def _reference(look: Look, release: Release) -> str:
    if look.commit:
        return look.commit[:12]
    return "" if look.build_number is None or release.channel is ChannelName.GIT else f"b{look.build_number}"


def upstream_count(result: Result) -> int | None:
    """Upstream commits after the last and up to the first; None when the build numbers are not known."""
    numbers = [result.last.build_number, result.first.build_number]
    return None if numbers[0] is None or numbers[1] is None else numbers[1] - numbers[0]


def markdown(findings: Findings) -> str:
    """The page for people."""
    lines = [f"# Bisect: {_inline(findings.question.text)}", ""]
    for number, result in enumerate(findings.results):
        if number:
            lines += ["## By commits", ""]
        lines += _section(findings.question, result)
    if findings.commits:
        lines += ["## Upstream commits of the range", ""]
        shown = findings.commits[:_LONGEST_LIST]
        lines += [f"- `{item.commit[:12]}` {_inline(item.title)}" for item in shown]
        if len(findings.commits) > len(shown):
            lines.append(f"- and {len(findings.commits) - len(shown)} more")
        lines.append("")
    return "\n".join(lines)


def _section(question: Question, result: Result) -> list[str]:
    lines = [f"**{_inline(sentence(question, result))}**", ""]
    if link := compare_link(result):
        count = upstream_count(result)
        lines += [f"What changed: <{link}>" + (f" ({count} upstream commits)" if count else ""), ""]
    ends = " to ".join(_inline(str(result.releases[i])) for i in (0, -1))
    lines += [f"{ends}: {len(result.releases)} releases, of which {len(result.looks)} were looked at:", ""]
    lines += ["| step | release | verdict | seen |", "|---:|---|---|---|"]
    for step, index in enumerate(result.order, 1):
        look = result.looks[index]
        lines.append(
            f"| {step} | {_cell(short(look.release))} | {question.words[look.verdict]} "
            f"| {_cell(look.detail)} |"
        )
    lines.append("")
    if result.answer.untried:
        names = [short(str(result.releases[i])) for i in result.answer.untried]
        more = f" and {len(names) - _LONGEST_LIST} more" if len(names) > _LONGEST_LIST else ""
        lines += [f"Not tried: {_inline(', '.join(names[:_LONGEST_LIST]) + more)}.", ""]
    return lines


def _inline(text: str) -> str:
    """Text that GitHub's Markdown shows as it is: no markup, mentions or references."""
    plain = "".join(c for c in " ".join(text.split()) if c.isprintable())
    escaped = re.sub(r"([\\`*_\[\]<>|~#&!])", r"\\\1", plain)
    return escaped.replace("@", "@\u200b")


def _cell(text: str) -> str:
    return _inline(text) if text else ""


def document(findings: Findings) -> dict[str, Any]:
    """The JSON document."""
    return {
        "schema_version": SCHEMA,
        "question": {"text": findings.question.text, "identity": findings.question.identity},
        "searches": [_search(findings.question, result) for result in findings.results],
        "commits": [{"commit": item.commit, "title": item.title} for item in findings.commits],
        "run": {
            "seconds": {
                look.release: {"total": round(look.seconds, 1), "build": round(look.build_seconds, 1)}
                for result in findings.results
                for look in (result.looks[i] for i in result.order)
                if not look.remembered
            }
        },
    }


def _search(question: Question, result: Result) -> dict[str, Any]:
    answer = result.answer
    return {
        "outcome": str(answer.outcome),
        "sentence": sentence(question, result),
        "range": {
            "first": str(result.releases[0]),
            "last": str(result.releases[-1]),
            "releases": len(result.releases),
        },
        "last_before": _seen(result.last) if result.found else None,
        "first_after": _seen(result.first) if result.found else None,
        "untestable": _names(result, answer.untestable),
        "untried": _names(result, answer.untried),
        "contradicting": _names(result, answer.contradicting),
        "compare": compare_link(result),
        "upstream_commits": upstream_count(result) if result.found else None,
        "steps": [_seen(result.looks[index]) for index in result.order],
    }


def _seen(look: Look) -> Mapping[str, Any]:
    return {
        "release": look.release,
        "verdict": str(look.verdict),
        "detail": look.detail,
        "build": look.build_id,
        "commit": look.commit or None,
        "build_number": look.build_number,
        "date": look.date or None,
    }


def _names(result: Result, indices: Sequence[int]) -> list[str]:
    return [str(result.releases[index]) for index in indices]


def json_text(findings: Findings) -> str:
    """The JSON document as text, keys sorted."""
    return json.dumps(document(findings), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
