"""The client against the stand-in: every way of failing that GitHub and PyGithub are known for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from github_server import BODY_LIMIT, Fault, GitHubServer, When

from tracker.publish.connection import Pace, Token
from tracker.publish.github import WORKFLOW_AUTHOR, GitHubError, IssueTracker, Outcome
from tracker.publish.issue import (
    LABEL,
    Action,
    Close,
    Comment,
    Create,
    Edit,
    Nothing,
    Reopen,
    event_mark,
    subject_mark,
    subject_of,
)

SUBJECT = "watch=match_partial_char"
BODY = f"{subject_mark(SUBJECT)}\n\nsome text"
CREATE = Create(SUBJECT, "A title", BODY)
EVENT = "0123456789abcdef01234567"
REPOSITORY = "someone/llama-tracker"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with GitHubServer(REPOSITORY) as server:
        yield server
        assert server.violations == []


def pace(slept: list[float] | None = None, **changes: float) -> Pace:
    """Impatient, and noting what it would have slept between two tries of a POST."""
    times: dict[str, float] = {"writes": 0, "reads": 0, "backoff": 0.001, "secondary": 0.01} | changes
    return Pace(**times, sleep=(slept if slept is not None else []).append)  # type: ignore[arg-type]


def tracker(server: GitHubServer, **options: object) -> IssueTracker:
    settings: dict[str, object] = {"api_url": server.url, "pace": pace()} | options
    return IssueTracker(REPOSITORY, Token("token-of-the-bot"), **settings)  # type: ignore[arg-type]


def apply(server: GitHubServer, *actions: Action, **options: object) -> list[Outcome]:
    with tracker(server, **options) as client:
        return list(client.apply(actions))


def comment(number: int = 1) -> Comment:
    return Comment(SUBJECT, number, EVENT, f"{event_mark(EVENT)}\n\nIt changed.")


def test_an_issue_is_created_edited_closed_and_reopened(server: GitHubServer) -> None:
    apply(server, CREATE)
    issue = server.issues[1]
    assert (issue["title"], issue["body"], issue["labels"]) == ("A title", BODY, [LABEL])
    apply(server, Edit(SUBJECT, 1, BODY + " again"))
    assert (issue["body"], issue["state"]) == (BODY + " again", "open")
    apply(server, Close(SUBJECT, 1, BODY))
    assert (issue["body"], issue["state"], issue["state_reason"]) == (BODY, "closed", "completed")
    apply(server, Reopen(SUBJECT, 1, BODY))
    assert (issue["state"], issue["state_reason"]) == ("open", "reopened")
    apply(server, comment())
    assert [c["body"] for c in server.comments[1]] == [comment().body]


def test_nothing_is_no_call(server: GitHubServer) -> None:
    with tracker(server) as client:
        before = len(server.calls)
        assert [o.number for o in client.apply([Nothing(SUBJECT, 7, "why")])] == [7]
    assert len(server.calls) == before


def test_the_author_of_a_workflow_token_is_known_without_being_told(server: GitHubServer) -> None:
    with tracker(server) as client:
        assert client.author == WORKFLOW_AUTHOR
    server.user_endpoint = True
    server.tokens["token-of-the-bot"] = "a-person"
    with tracker(server) as client:
        assert client.author == "a-person"


def test_issues_of_all_pages_are_listed_and_pull_requests_are_not(
    server: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 251):
        server.add_issue(f"issue {number}", subject_mark(SUBJECT), (LABEL,) if number % 50 else ())
    shown = server._issue

    def some_are_pull_requests(issue: dict[str, object]) -> dict[str, object]:
        answer = shown(issue)
        return (
            answer | {"html_url": answer["html_url"].replace("/issues/", "/pull/")}
            if issue["number"] == 3
            else answer
        )

    monkeypatch.setattr(server, "_issue", some_are_pull_requests)
    with tracker(server) as client:
        before = len(server.calls)
        issues = client.issues()
    assert [i.number for i in issues] == [n for n in range(1, 251) if n % 50 and n != 3]
    assert len(server.calls) - before == 3, "one call a page, none for single issues"


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("status", [500, 502, 503])
@pytest.mark.parametrize("times", [1, 3])
def test_a_failing_create_makes_exactly_one_issue(
    server: GitHubServer, when: When, status: int, times: int
) -> None:
    server.faults.append(Fault("POST", "/issues$", when, status, times=times))
    [outcome] = apply(server, CREATE)
    assert outcome.error is None
    assert [i["body"] for i in server.issues.values()] == [BODY]


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("times", [1, 3])
def test_a_failing_comment_is_posted_exactly_once(server: GitHubServer, when: When, times: int) -> None:
    apply(server, CREATE)
    server.faults.append(Fault("POST", "/comments$", when, times=times))
    [outcome] = apply(server, comment())
    assert outcome.error is None
    assert len(server.comments[1]) == 1


@pytest.mark.parametrize("when", When)
def test_a_failing_edit_is_repeated_by_itself(server: GitHubServer, when: When) -> None:
    apply(server, CREATE)
    server.faults.append(Fault("PATCH", "/issues/1$", when, times=2))
    [outcome] = apply(server, Close(SUBJECT, 1, BODY + " closed"))
    assert outcome.error is None
    assert (server.issues[1]["state"], server.issues[1]["body"]) == ("closed", BODY + " closed")


def test_a_comment_told_on_an_earlier_run_is_not_told_again(server: GitHubServer) -> None:
    apply(server, CREATE)
    for _ in range(120):
        server._new_comment(1, "a-person", "chatter")
    apply(server, comment())
    assert [o.error for o in apply(server, comment())] == [None]
    assert sum(c["user"]["login"] == WORKFLOW_AUTHOR for c in server.comments[1]) == 1


def test_a_comment_of_somebody_else_with_the_mark_does_not_count(server: GitHubServer) -> None:
    apply(server, CREATE)
    server._new_comment(1, "a-person", comment().body)
    apply(server, comment())
    assert [c["user"]["login"] for c in server.comments[1]] == ["a-person", WORKFLOW_AUTHOR]


def test_an_issue_that_lost_its_label_is_found_instead_of_made_again(server: GitHubServer) -> None:
    server.add_issue("ours", BODY)
    server.add_issue("of somebody else", BODY, author="a-person")
    with tracker(server) as client:
        assert client.issues() == []
        assert [i.number for i in client.issues([SUBJECT])] == [1]


def test_a_dropped_label_is_an_error_and_the_next_run_finds_the_issue(server: GitHubServer) -> None:
    server.can_label = False
    [outcome] = apply(server, CREATE)
    assert "without the label llama-tracker" in str(outcome.error)
    with tracker(server) as client:
        assert [subject_of(i.body) for i in client.issues([SUBJECT])] == [SUBJECT]


def test_writing_as_somebody_else_than_announced_is_an_error(server: GitHubServer) -> None:
    [outcome] = apply(server, CREATE, author="someone-else")
    assert "written as github-actions[bot]" in str(outcome.error)


def test_a_renamed_repository_is_refused_before_anything_is_written(server: GitHubServer) -> None:
    server.rename("someone/new-name")
    with pytest.raises(GitHubError, match="is now someone/new-name") as caught:
        tracker(server)
    assert caught.value.exit_code == 2
    assert server.writes() == []


def test_the_case_of_the_name_does_not_matter(server: GitHubServer) -> None:
    with IssueTracker(REPOSITORY.upper(), Token("token-of-the-bot"), api_url=server.url, pace=pace()):
        pass


@pytest.mark.parametrize("action", [CREATE, Edit(SUBJECT, 1, "new"), Close(SUBJECT, 1, "new")])
def test_a_rename_in_the_middle_of_a_run_is_never_taken_for_success(
    server: GitHubServer, action: Action
) -> None:
    if action is not CREATE:
        server.add_issue("ours", BODY, (LABEL,))
    with tracker(server) as client:
        server.rename("someone/new-name")
        [outcome] = client.apply([action])
    assert outcome.error is not None
    assert len(server.issues) == (action is not CREATE)
    assert all(i["body"] == BODY for i in server.issues.values())


def test_a_comment_follows_the_issue_of_a_repository_renamed_in_the_middle_of_a_run(
    server: GitHubServer,
) -> None:
    server.add_issue("ours", BODY, (LABEL,))
    with tracker(server) as client:
        server.rename("someone/new-name")
        [outcome] = client.apply([comment()])
    assert (outcome.error, len(server.comments[1])) == (None, 1)


@pytest.mark.parametrize("action", [CREATE, Edit(SUBJECT, 1, "new"), comment()])
@pytest.mark.parametrize(("status", "message"), [(403, SECONDARY), (429, "Too many requests")])
def test_rate_limits_are_waited_for(server: GitHubServer, action: Action, status: int, message: str) -> None:
    if action is not CREATE:
        server.add_issue("ours", BODY, (LABEL,))
    method = "PATCH" if isinstance(action, Edit) else "POST"
    server.faults.append(Fault(method, ".", When.REFUSED, status, message, times=2))
    [outcome] = apply(server, action)
    assert outcome.error is None
    assert len(server.issues) == 1
    assert server.calls[-1].status in (200, 201)


def test_a_post_waits_as_long_as_the_server_asks_but_not_for_hours(server: GitHubServer) -> None:
    slept: list[float] = []
    server.faults.append(Fault("POST", ".", When.REFUSED, 403, SECONDARY, {"Retry-After": "17"}))
    assert apply(server, CREATE, pace=pace(slept))[0].error is None
    assert slept == [17]
    server.issues.clear()
    server.faults.append(Fault("POST", ".", When.REFUSED, 429, "slow down", {"Retry-After": "7200"}))
    [outcome] = apply(server, CREATE, pace=pace(slept))
    assert "429" in str(outcome.error)
    assert slept == [17]


def test_a_read_that_is_told_to_wait_for_hours_gives_up(server: GitHubServer) -> None:
    server.faults.append(Fault("GET", "/issues$", When.REFUSED, 429, "slow", {"Retry-After": "7200"}))
    with tracker(server) as client, pytest.raises(GitHubError, match="asked to wait 7200 s"):
        client.issues()


def test_a_refused_token_ends_everything(server: GitHubServer) -> None:
    with pytest.raises(GitHubError, match=r"401 \(Bad credentials\).*token") as caught:
        IssueTracker(REPOSITORY, Token("wrong-secret"), api_url=server.url, author="me", pace=pace())
    assert caught.value.fatal
    with tracker(server) as client:
        server.tokens.clear()
        outcomes = list(client.apply([CREATE, Create("watch=other", "t", subject_mark("watch=other"))]))
    assert len(outcomes) == 1
    assert outcomes[0].error is not None


def test_a_missing_repository_is_one_clear_line(server: GitHubServer) -> None:
    with pytest.raises(GitHubError, match="open no/such: GitHub answered 404") as caught:
        IssueTracker("no/such", Token("token-of-the-bot"), api_url=server.url, pace=pace())
    assert "\n" not in str(caught.value)


def test_a_deleted_issue_fails_alone(server: GitHubServer) -> None:
    server.add_issue("gone", BODY, (LABEL,))
    server.gone.add(1)
    other = Create("watch=other", "t", subject_mark("watch=other"))
    first, second, third = apply(server, Edit(SUBJECT, 1, "x"), Edit(SUBJECT, 1, "y"), other)
    assert "410" in str(first.error)
    assert second.error is first.error, "what follows in the same subject is not tried"
    assert (third.error, third.number) == (None, 2)


def test_a_body_at_the_limit_passes_and_one_above_it_is_an_error(server: GitHubServer) -> None:
    fits = BODY.ljust(BODY_LIMIT, "x")
    assert apply(server, Create(SUBJECT, "t", fits))[0].error is None
    [outcome] = apply(server, Edit(SUBJECT, 1, fits + "x"))
    assert "422" in str(outcome.error)
    assert server.issues[1]["body"] == fits


def test_a_failed_comment_leaves_the_body_untouched(server: GitHubServer) -> None:
    server.add_issue("ours", BODY, (LABEL,))
    server.faults.append(Fault("POST", "/comments$", When.REFUSED, 500, times=99))
    outcomes = apply(server, comment(), Edit(SUBJECT, 1, "told"))
    assert [o.error is not None for o in outcomes] == [True, True]
    assert server.issues[1]["body"] == BODY


def test_no_server_is_one_clear_line() -> None:
    with GitHubServer() as server:
        url = server.url
    with pytest.raises(GitHubError, match="no answer from GitHub") as caught:
        IssueTracker(REPOSITORY, Token("t0ken"), api_url=url, author="me", pace=pace())
    assert "\n" not in str(caught.value)


def test_the_token_is_in_no_message_and_no_log(
    server: GitHubServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "ghs_0123456789secret"
    said = []
    for token, path in ((secret, "/repos"), (secret, "/user")):
        server.tokens[secret] = "a-person"
        echo = f"we saw {token}"
        server.faults.append(Fault("GET", path, When.REFUSED, 400, echo))
        with pytest.raises(GitHubError) as caught:
            IssueTracker(REPOSITORY, Token(token), api_url=server.url, pace=pace())
        said.append(str(caught.value) + repr(Token(token)))
    assert "we saw ***" in said[0]
    with IssueTracker(REPOSITORY, Token(secret), api_url=server.url, pace=pace()) as client:
        server.faults.append(Fault("POST", ".", When.REFUSED, 400, f"no {secret}"))
        said += [str(o.error) for o in client.apply([CREATE])]
    out = capfd.readouterr()
    assert secret not in "".join([*said, caplog.text, out.out, out.err])
    assert "/repos/someone/llama-tracker" in caplog.text, "the log was on"


def test_writes_keep_a_second_between_them(server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("github.Requester.time.sleep", slept.append)
    server.add_issue("ours", BODY, (LABEL,))
    apply(server, Edit(SUBJECT, 1, "a"), Edit(SUBJECT, 1, "b"), pace=Pace())
    assert any(0.7 < wait <= 1.0 for wait in slept)


def test_the_stand_in_notices_a_request_that_breaks_the_contract() -> None:
    with GitHubServer(REPOSITORY) as server:
        with tracker(server) as client:
            client._client.requester.requestJsonAndCheck(
                "POST", f"/repos/{REPOSITORY}/issues", input={"title": ["no text"], "colour": "red"}
            )
        assert any("'colour'" in violation for violation in server.violations)
        assert any("title" in violation for violation in server.violations)


def test_the_subject_is_read_from_the_first_line_only() -> None:
    assert subject_of(BODY.replace("\n", "\r\n")) == SUBJECT
    assert subject_of(f"```\n{subject_mark('watch=other')}\n```") is None
    assert subject_of(f"{BODY}\n{subject_mark('watch=other')}") == SUBJECT
