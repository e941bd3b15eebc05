"""A stateful stand-in for GitHub's issue API, held to GitHub's own OpenAPI description.

It knows the part of the API that the bot uses, keeps issues, comments and labels in memory, and checks each
request and each answer of its own with the pydantic models of ``githubkit_schemas``, which are generated from
that description. What does not fit is recorded in ``violations``; a test that uses the server asserts that
there are none. Faults can be put in the way of any call, before or after the change it asks for.

It does not know rate limits by count, permissions other than the token's, or anything of pull requests beyond
that they are listed among the issues.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from githubkit_schemas.latest import models
from pydantic import BaseModel, TypeAdapter, ValidationError

BODY_LIMIT = 65_536
MAX_PER_PAGE = 100

_LIST_QUERY = frozenset(
    "milestone state assignee type creator mentioned labels sort direction since per_page page".split()
)
_BARE_LABELS: TypeAdapter[list[str]] = TypeAdapter(list[str])


class When(Enum):
    """What a fault does to a call."""

    REFUSED = auto()
    """The answer is the fault's; nothing was changed."""
    LOST = auto()
    """The change is made, and the answer is the fault's."""
    CUT_BEFORE = auto()
    """The connection ends without an answer; nothing was changed."""
    CUT_AFTER = auto()
    """The change is made, and the connection ends without an answer."""


@dataclass
class Fault:
    """The next ``times`` calls of that method whose path matches go wrong."""

    method: str
    path: str
    when: When = When.REFUSED
    status: int = 502
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1


@dataclass(frozen=True)
class Call:
    """One request as it came in, and the status it was answered with (0: the connection was cut)."""

    method: str
    path: str
    query: str
    body: Any
    status: int

    def __str__(self) -> str:
        return f"{self.method} {self.path}{'?' + self.query if self.query else ''} -> {self.status or 'cut'}"


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class GitHubServer:
    """A repository's issues on 127.0.0.1, as a context manager."""

    def __init__(self, repository: str = "someone/llama-tracker") -> None:
        self.repository = repository
        self.tokens = {"token-of-the-bot": "github-actions[bot]"}
        self.user_endpoint = False
        """Whether GET /user answers; it does not for the token that a workflow is given."""
        self.can_label = True
        """Whether the token may set labels; without push access GitHub drops them silently."""
        self.renamed_from: set[str] = set()
        self.issues: dict[int, dict[str, Any]] = {}
        self.gone: set[int] = set()
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.labels: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.now = datetime(2026, 10, 1, 2, 17, tzinfo=UTC)
        self._ids = 1000
        self._lock = threading.Lock()

    def __enter__(self) -> GitHubServer:
        self._server = _Http(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What a client takes as the API's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def writes(self) -> list[Call]:
        """The calls that ask for a change."""
        return [call for call in self.calls if call.method != "GET"]

    def rename(self, repository: str) -> None:
        """The repository moves; its old name redirects."""
        self.renamed_from.add(self.repository)
        self.repository = repository

    def add_issue(
        self,
        title: str,
        body: str,
        labels: tuple[str, ...] = (),
        author: str = "github-actions[bot]",
        **changes: Any,
    ) -> dict[str, Any]:
        """An issue made by somebody, without a call."""
        with self._lock:
            issue = self._new_issue(author, title, body, list(labels))
            return self._patched(issue, changes) if changes else issue

    def answer(
        self, method: str, target: str, token: str, raw: bytes
    ) -> tuple[int, Any, dict[str, str]] | None:
        """The answer to one request, or None when the connection is to be cut."""
        with self._lock:
            parts = urlsplit(target)
            path = unquote(parts.path)
            body = json.loads(raw) if raw else None
            fault = next(
                (f for f in self.faults if f.method == method and re.search(f.path, path) and f.times > 0),
                None,
            )
            if fault:
                fault.times -= 1
            status, answer, headers = 0, None, {}
            if fault is None or fault.when in (When.LOST, When.CUT_AFTER):
                try:
                    status, answer, headers = self._route(method, path, parts.query, token, body)
                except Refusal as refusal:
                    status, headers = refusal.status, refusal.headers
                    answer = {"message": refusal.message, "documentation_url": "https://docs.github.com/rest"}
                    self._check(models.BasicError, answer, f"answer to {method} {path}")
            if fault and fault.when in (When.CUT_BEFORE, When.CUT_AFTER):
                self.calls.append(Call(method, path, parts.query, body, 0))
                return None
            if fault:
                status, answer, headers = fault.status, {"message": fault.message}, dict(fault.headers)
            self.calls.append(Call(method, path, parts.query, body, status))
            return status, answer, headers

    def _route(
        self, method: str, path: str, query: str, token: str, body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        login = self.tokens.get(token)
        if login is None:
            raise Refusal(401, "Bad credentials")
        if (method, path) == ("GET", "/user"):
            if not self.user_endpoint:
                raise Refusal(403, "Resource not accessible by integration")
            user = {
                **self._user(login),
                **_NO_PROFILE,
                "created_at": _time(self.now),
                "updated_at": _time(self.now),
            }
            return 200, self._checked(models.PublicUser, user, "user"), {}
        match = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?|/repositories/77(/.*)?", path)
        if match is None:
            raise Refusal(404, "Not Found")
        name, rest = match[1], match[2] or match[3] or ""
        if name in self.renamed_from:
            location = f"{self.url}/repositories/77{rest}{'?' + query if query else ''}"
            raise Refusal(
                301 if method == "GET" else 307,
                "Moved Permanently" if method == "GET" else "Temporary Redirect",
                {"Location": location},
            )
        if name is not None and name.casefold() != self.repository.casefold():
            raise Refusal(404, "Not Found")
        return self._in_repository(method, rest, parse_qs(query, keep_blank_values=True), login, body)

    def _in_repository(
        self, method: str, rest: str, query: dict[str, list[str]], login: str, body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        issue = re.fullmatch(r"/issues/(\d+)(/comments|/labels)?", rest)
        match method, rest:
            case "GET", "":
                return 200, self._checked(models.FullRepository, self._repository(), "repository"), {}
            case "GET", "/issues":
                return self._list_issues(query)
            case "POST", "/issues":
                self._check_request(models.ReposOwnerRepoIssuesPostBody, body)
                self._limit(body)
                labels = body.get("labels", []) if self.can_label else []
                return (
                    201,
                    self._issue(self._new_issue(login, body["title"], body.get("body") or "", labels)),
                    {},
                )
            case _ if issue:
                return self._one_issue(method, int(issue[1]), issue[2] or "", query, login, body)
        raise Refusal(404, "Not Found")

    def _one_issue(
        self, method: str, number: int, rest: str, query: dict[str, list[str]], login: str, body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        if number in self.gone:
            raise Refusal(410, "This issue was deleted")
        if number not in self.issues:
            raise Refusal(404, "Not Found")
        issue = self.issues[number]
        match method, rest:
            case "GET", "":
                return 200, self._issue(issue), {}
            case "PATCH", "":
                self._check_request(models.ReposOwnerRepoIssuesIssueNumberPatchBody, body)
                self._limit(body)
                return 200, self._issue(self._patched(issue, body)), {}
            case "GET", "/comments":
                page, links = self._page(self.comments[number], query, f"/issues/{number}/comments")
                return 200, [self._checked(models.IssueComment, c, "comment") for c in page], links
            case "POST", "/comments":
                self._check_request(models.ReposOwnerRepoIssuesIssueNumberCommentsPostBody, body)
                self._limit(body)
                return 201, self._new_comment(number, login, body["body"]), {}
            case "POST", "/labels":
                # The description allows the bare list that PyGithub sends only in prose.
                try:
                    names = _BARE_LABELS.validate_python(body, strict=True)
                except ValidationError as error:
                    self.violations.append(f"POST labels: {error}")
                    names = []
                issue["labels"] = [*issue["labels"], *(n for n in names if n not in issue["labels"])]
                return 200, [self._label(name) for name in issue["labels"]], {}
        raise Refusal(404, "Not Found")

    def _list_issues(self, query: dict[str, list[str]]) -> tuple[int, Any, dict[str, str]]:
        unknown = query.keys() - _LIST_QUERY
        if unknown:
            self.violations.append(f"GET issues: no such parameters: {', '.join(sorted(unknown))}")
        state, creator = query.get("state", ["open"])[0], query.get("creator", [""])[0]
        labels = [name for name in query.get("labels", [""])[0].split(",") if name]
        found = [
            issue
            for number, issue in sorted(self.issues.items(), reverse=True)
            if number not in self.gone
            and state in ("all", issue["state"])
            and (not creator or issue["author"] == creator)
            and all(name in issue["labels"] for name in labels)
        ]
        page, links = self._page(found, query, "/issues")
        return 200, [self._issue(issue) for issue in page], links

    def _page(
        self, items: list[dict[str, Any]], query: dict[str, list[str]], path: str
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        size, page = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        if not 1 <= size <= MAX_PER_PAGE:
            self.violations.append(f"GET {path}: per_page={size} is not between 1 and {MAX_PER_PAGE}")
        links = {}
        if page * size < len(items):
            others = "".join(f"{k}={quote(v[0])}&" for k, v in query.items() if k != "page")
            links["Link"] = f'<{self.url}/repositories/77{path}?{others}page={page + 1}>; rel="next"'
        return items[(page - 1) * size : page * size], links

    def _limit(self, body: dict[str, Any]) -> None:
        if len(body.get("body") or "") > BODY_LIMIT:
            raise Refusal(422, f"Validation Failed: body is too long (maximum is {BODY_LIMIT} characters)")

    def _tick(self) -> str:
        self.now += timedelta(seconds=1)
        return _time(self.now)

    def _new_issue(self, login: str, title: str, body: str, labels: list[str]) -> dict[str, Any]:
        number = max([*self.issues, *self.gone], default=0) + 1
        self._ids += 1
        self.issues[number] = {
            "id": self._ids,
            "number": number,
            "title": title,
            "body": body,
            "author": login,
            "labels": list(labels),
            "state": "open",
            "state_reason": None,
            "created_at": self._tick(),
            "updated_at": _time(self.now),
            "closed_at": None,
        }
        self.comments[number] = []
        return self.issues[number]

    def _patched(self, issue: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        before = issue["state"]
        issue.update(body, updated_at=self._tick())
        if issue["state"] == "closed":
            issue["state_reason"] = body.get("state_reason", issue["state_reason"] or "completed")
            issue["closed_at"] = issue["closed_at"] or _time(self.now)
        elif before == "closed":
            issue.update(state_reason="reopened", closed_at=None)
        return issue

    def _new_comment(self, number: int, login: str, text: str) -> dict[str, Any]:
        self._ids += 1
        url = f"{self.url}/repos/{self.repository}/issues"
        comment = {
            "id": self._ids,
            "node_id": f"IC_{self._ids}",
            "url": f"{url}/comments/{self._ids}",
            "html_url": f"https://github.com/{self.repository}/issues/{number}#issuecomment-{self._ids}",
            "issue_url": f"{url}/{number}",
            "body": text,
            "user": self._user(login),
            "created_at": self._tick(),
            "updated_at": _time(self.now),
            "author_association": "NONE",
        }
        self.comments[number].append(comment)
        return self._checked(models.IssueComment, comment, "comment")

    def _label(self, name: str) -> dict[str, Any]:
        self._ids += name not in self.labels
        label = self.labels.setdefault(
            name,
            {
                "id": self._ids,
                "node_id": f"LA_{self._ids}",
                "url": f"{self.url}/repos/{self.repository}/labels/{quote(name)}",
                "name": name,
                "description": None,
                "color": "ededed",
                "default": False,
                "archived_at": None,
                "archived_by": None,
            },
        )
        return self._checked(models.Label, label, "label")

    def _issue(self, issue: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.url}/repos/{self.repository}/issues/{issue['number']}"
        shown = {
            **{k: v for k, v in issue.items() if k not in ("author", "labels")},
            "node_id": f"I_{issue['id']}",
            "url": url,
            "repository_url": f"{self.url}/repos/{self.repository}",
            "labels_url": url + "/labels{/name}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "html_url": f"https://github.com/{self.repository}/issues/{issue['number']}",
            "user": self._user(issue["author"]),
            "labels": [self._label(name) for name in issue["labels"]],
            "assignees": [],
            "milestone": None,
            "locked": False,
            "comments": len(self.comments[issue["number"]]),
            "author_association": "NONE",
        }
        return self._checked(models.Issue, shown, "issue")

    def _user(self, login: str) -> dict[str, Any]:
        url = f"{self.url}/users/{quote(login)}"
        links = "followers following gists starred subscriptions organizations repos events received_events"
        user = {
            "login": login,
            "id": 1 + sum(map(ord, login)),
            "node_id": f"U_{login}",
            "avatar_url": f"{url}/avatar",
            "gravatar_id": "",
            "url": url,
            "html_url": f"https://github.com/{login}",
            **{f"{name}_url": f"{url}/{name}" for name in links.split()},
            "type": "Bot" if login.endswith("[bot]") else "User",
            "site_admin": False,
        }
        return self._checked(models.SimpleUser, user, "user")

    def _repository(self) -> dict[str, Any]:
        owner, name = self.repository.split("/")
        url = f"{self.url}/repos/{self.repository}"
        shown: dict[str, Any] = {"id": 77, "node_id": "R_77", "name": name, "full_name": self.repository}
        shown |= {"owner": self._user(owner), "url": url}
        for key, model in models.FullRepository.model_fields.items():
            alias = model.alias or key
            if not model.is_required() or alias in shown:
                continue
            if alias.endswith("_url"):
                shown[alias] = f"{url}/{alias.removesuffix('_url')}"
            elif alias.endswith("_at"):
                shown[alias] = _time(self.now)
            else:
                shown[alias] = {bool: True, int: 0, str: "main"}.get(model.annotation)  # type: ignore[arg-type]
        shown.update(private=False, fork=False, archived=False, disabled=False)
        return shown

    def _check_request(self, model: type[BaseModel], body: Any) -> None:
        name = model.__name__
        self._check(model, body, f"request {name}")
        known = {field.alias or key for key, field in model.model_fields.items()}
        for key in body.keys() - known if isinstance(body, dict) else ():
            self.violations.append(f"request {name}: the description has no {key!r}")

    def _check(self, model: type[BaseModel], value: Any, what: str) -> None:
        try:
            model.model_validate(value)
        except ValidationError as error:
            self.violations.append(f"{what}: {error}")

    def _checked(self, model: type[BaseModel], value: dict[str, Any], what: str) -> dict[str, Any]:
        self._check(model, value, what)
        return value


_NO_PROFILE = {
    **dict.fromkeys(("name", "company", "location", "email", "hireable", "bio")),
    **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
    "blog": "",
}


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], github: GitHubServer) -> None:
        self.github = github
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        """Calls are recorded, not printed."""

    def _handle(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Authorization", "").partition(" ")[2]
        try:
            answer = self.server.github.answer(self.command, self.path, token, raw)
        except Exception as error:  # a bug of the stand-in must not look like an answer of GitHub's
            self.server.github.violations.append(f"{self.command} {self.path}: {error!r}")
            answer = None
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, data, headers = answer
        payload = json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle
