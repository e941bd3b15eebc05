"""Carries a plan out on GitHub. Decides nothing: what is to be done was decided in ``plan``.

This is the only module that calls GitHub. It knows how GitHub and PyGithub fail: an answer can be lost after
the change was made, a renamed repository answers a write with a redirect that PyGithub takes for a success,
labels are dropped silently when the token may not set them. So each write is checked by what came back, and a
POST is repeated only after looking whether its mark is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from github.GithubException import GithubException, RateLimitExceededException
from github.Repository import Repository
from requests.exceptions import RequestException

from tracker.errors import ExitCode, TrackerError
from tracker.publish.connection import Pace, Token, connect
from tracker.publish.issue import (
    LABEL,
    Action,
    Change,
    Close,
    Comment,
    Create,
    Edit,
    Issue,
    Nothing,
    Reopen,
    event_of,
    subject_of,
)

WORKFLOW_AUTHOR = "github-actions[bot]"
"""Who the token of a workflow writes as. Such a token may not ask GitHub for its own name."""

_T = TypeVar("_T")


class GitHubError(TrackerError):
    """GitHub refused a call, could not be reached, or answered with something else than was asked for.

    ``fatal`` says that every further call would fail the same way.
    """

    def __init__(
        self, message: str, *, fatal: bool = False, exit_code: ExitCode = ExitCode.INCOMPLETE
    ) -> None:
        super().__init__(message)
        self.fatal = fatal
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action: the number of its issue, or why it failed."""

    action: Action
    number: int | None
    error: GitHubError | None = None


class IssueTracker:
    """The issues of one repository. Opening it asks for the repository, so that a rename is noticed first."""

    def __init__(
        self,
        repository: str,
        token: Token,
        *,
        api_url: str,
        label: str = LABEL,
        author: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._token = token
        self._name = repository
        self._label = label
        self._client = connect(api_url, token, self._pace)
        self._repository: Repository = self._call(
            lambda: self._client.get_repo(repository), f"open {repository}", fatal=True
        )
        if self._repository.full_name.casefold() != repository.casefold():
            raise GitHubError(
                f"repository {repository} is now {self._repository.full_name}: use that name from now on",
                fatal=True,
                exit_code=ExitCode.USAGE,
            )
        self.author = author or (self._ask_author() if token else WORKFLOW_AUTHOR)

    def __enter__(self) -> IssueTracker:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def issues(self, subjects: Collection[str] = ()) -> list[Issue]:
        """Every issue with our label, open and closed, whoever wrote it, oldest first.

        When one of ``subjects`` has no issue of ours among them, also those that we have written without the
        label: a person, or a token without push access, may have left one without it.
        """
        found = {
            issue.number: issue
            for issue in self._list(lambda: self._repository.get_issues(state="all", labels=[self._label]))
        }
        known = {subject_of(issue.body) for issue in found.values() if issue.author == self.author}
        if not known.issuperset(subjects):
            found |= {issue.number: issue for issue in self._written()}
        return [found[number] for number in sorted(found)]

    def apply(self, actions: Sequence[Action]) -> Iterator[Outcome]:
        """Carries the actions out in their order, and says of each what became of it.

        An action that fails ends the actions of its own subject: a body must not be marked as told when the
        comment that tells it is not there. One that must fail for all (a refused token) ends everything.
        """
        failed: dict[str, GitHubError] = {}
        for action in actions:
            if action.subject in failed:
                yield Outcome(action, None, failed[action.subject])
                continue
            try:
                yield Outcome(action, action.number if isinstance(action, Nothing) else self._apply(action))
            except GitHubError as error:
                failed[action.subject] = error
                yield Outcome(action, None, error)
                if error.fatal:
                    return

    def _apply(self, action: Change) -> int:
        match action:
            case Create():
                return self._create(action)
            case Comment():
                return self._comment(action)
            case Edit():
                return self._patch(action.number, {"body": action.body})
            case Close():
                return self._patch(
                    action.number, {"body": action.body, "state": "closed", "state_reason": "completed"}
                )
            case Reopen():
                return self._patch(
                    action.number, {"body": action.body, "state": "open", "state_reason": "reopened"}
                )
            case _:
                assert_never(action)

    def _create(self, action: Create) -> int:
        what = f"create the issue of {action.subject}"

        def earlier() -> Issue | None:
            return next((i for i in self._written() if subject_of(i.body) == action.subject), None)

        def post() -> Issue:
            made = self._repository.create_issue(action.title, action.body, labels=[self._label])
            if not isinstance(made.number, int) or made.number < 1:
                raise GitHubError(
                    f"{what}: the answer of {self._name} names no issue; was the repository renamed?"
                )
            return _issue(made)

        issue = self._post(post, earlier, what)
        if self._label not in issue.labels:
            raise GitHubError(
                f"{what}: issue #{issue.number} of {self._name} was made without the label {self._label}; "
                "give the token write access, or add the label by hand"
            )
        if issue.author != self.author:
            raise GitHubError(
                f"{what}: issue #{issue.number} of {self._name} was written as {issue.author}, not as "
                f"{self.author}; set --author {issue.author}, or the issue will not be found again"
            )
        return issue.number

    def _comment(self, action: Comment) -> int:
        what = f"comment on #{action.number}"
        issue = self._call(lambda: self._repository.get_issue(action.number), what)

        def earlier() -> int | None:
            comments = self._call(lambda: list(issue.get_comments()), what)
            mine = (c for c in comments if c.user is not None and c.user.login == self.author)
            return next((action.number for c in mine if event_of(c.body or "") == action.event), None)

        def post() -> int:
            made = issue.create_comment(action.body)
            if not isinstance(made.id, int) or event_of(made.body or "") != action.event:
                raise GitHubError(f"{what}: the answer of {self._name} is not the comment; was it renamed?")
            return action.number

        return earlier() or self._post(post, earlier, what)

    def _patch(self, number: int, change: dict[str, str]) -> int:
        what = f"edit #{number}"
        url = f"{self._repository.url}/issues/{number}"
        # Not Issue.edit: after a redirect without effect it would leave the object as it was and say nothing.
        _, data = self._call(
            lambda: self._client.requester.requestJsonAndCheck("PATCH", url, input=change), what
        )
        answer: dict[str, Any] = data if isinstance(data, dict) else {}
        if answer.get("number") != number or answer.get("state") != change.get("state", answer.get("state")):
            raise GitHubError(
                f"{what}: {self._name} did not carry it out; was the repository or issue moved?"
            )
        return number

    def _written(self) -> list[Issue]:
        """What we have written, with or without the label."""
        # The annotation is narrower than the documentation: a login may be given as text.
        author: Any = self.author
        found = self._list(lambda: self._repository.get_issues(state="all", creator=author))
        return [issue for issue in found if issue.author == self.author]

    def _list(self, issues: Callable[[], Any]) -> list[Issue]:
        # html_url, since asking for pull_request would make PyGithub fetch each issue once more.
        found = self._call(
            lambda: [_issue(i) for i in issues() if "/pull/" not in i.html_url],
            f"list issues of {self._name}",
        )
        return sorted(found, key=lambda issue: issue.number)

    def _ask_author(self) -> str:
        try:
            return str(self._client.get_user().login)
        except GithubException as error:
            if error.status == 403:
                return WORKFLOW_AUTHOR
            raise self._error(error, "ask who the token belongs to", fatal=True) from None
        except RequestException as error:
            raise self._error(error, "ask who the token belongs to", fatal=True) from None

    def _post(self, post: Callable[[], _T], earlier: Callable[[], _T | None], what: str) -> _T:
        """Tries a POST until it is known to be done: what may have been carried out is looked for first."""
        for attempt in range(self._pace.attempts):
            try:
                return post()
            except (GithubException, RequestException) as error:
                wait = self._wait(error, attempt)
                if wait is None or attempt == self._pace.attempts - 1:
                    raise self._error(error, what) from None
            self._pace.sleep(wait)
            if found := earlier():
                return found
        raise AssertionError("attempts is at least 1")

    def _wait(self, error: GithubException | RequestException, attempt: int) -> float | None:
        """Seconds to wait before another try; None when another try is useless or too far away."""
        backoff: float = self._pace.backoff * 2**attempt
        if isinstance(error, RequestException) or error.status >= 500:
            return backoff
        limited = error.status == 429 or isinstance(error, RateLimitExceededException)
        if not limited and not (error.status == 403 and _header(error, "retry-after")):
            return None
        asked = _header(error, "retry-after")
        wait = max(float(asked) if asked.isdigit() else self._pace.secondary, backoff)
        return wait if wait <= self._pace.longest else None

    def _call(self, call: Callable[[], _T], what: str, *, fatal: bool = False) -> _T:
        try:
            return call()
        except (GithubException, RequestException) as error:
            raise self._error(error, what, fatal=fatal) from None

    def _error(
        self, error: GithubException | RequestException, what: str, *, fatal: bool = False
    ) -> GitHubError:
        if isinstance(error, GithubException):
            advice, hopeless = _ADVICE.get(error.status, ("try again later", False))
            said = error.message or (
                error.data.get("message") if isinstance(error.data, dict) else error.data
            )
            detail = f"GitHub answered {error.status} ({_one_line(said)}); {advice}"
        else:
            detail, hopeless = f"no answer from GitHub ({_one_line(error)}); try again later", False
        return GitHubError(self._token.redact(f"{what}: {detail}"), fatal=fatal or hopeless)


_ADVICE = {
    401: ("check that the token is valid", True),
    403: ("check that the token may write issues (permissions: issues: write)", False),
    404: ("check the repository's name and that the token can see it", False),
    410: ("the issue was deleted, or issues are switched off", False),
    422: ("this is a mistake of llama-tracker: please report it", False),
    429: ("the rate limit is exhausted; try again in an hour", False),
}


def _issue(issue: Any) -> Issue:
    return Issue(
        number=issue.number,
        author=issue.user.login if issue.user is not None else "ghost",
        title=issue.title,
        body=issue.body or "",
        open=issue.state == "open",
        closed_as=issue.state_reason if issue.state != "open" else None,
        labels=frozenset(label.name for label in issue.labels),
    )


def _header(error: GithubException, name: str) -> str:
    return (error.headers or {}).get(name, "")


def _one_line(value: object) -> str:
    return " ".join(str(value).split())[:300]
