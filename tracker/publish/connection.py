"""How GitHub is called: as whom, how patiently, and how often again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import github
from github.GithubException import GithubException
from github.GithubRetry import GithubRetry
from urllib3.response import BaseHTTPResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How patiently GitHub is called; times in seconds.

    ``writes`` and ``reads`` are the least time between two calls; GitHub asks for a second between writes.
    ``attempts`` counts all tries of a call, ``backoff`` is the first wait between them (doubled each time),
    ``secondary`` the wait after a secondary rate limit, ``longest`` the longest wait that is worth it.
    """

    writes: float = 1.0
    reads: float = 0.25
    attempts: int = 5
    backoff: float = 1.0
    secondary: float = 60.0
    longest: float = 300.0
    timeout: int = 30
    sleep: Callable[[float], None] = time.sleep


class Token:
    """A credential that does not show itself when printed. An empty one reads what is public."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The credential itself."""
        return self._value

    def redact(self, text: str) -> str:
        """The text without the credential."""
        return text.replace(self._value, "***") if self._value else text

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Token(***)"


def connect(api_url: str, token: Token, pace: Pace) -> github.Github:
    """A client that repeats what may be repeated: reads and edits. A POST that failed may have been done."""
    return github.Github(
        base_url=api_url.rstrip("/"),
        auth=github.Auth.Token(token.reveal()) if token else None,
        timeout=pace.timeout,
        retry=_Retry(
            total=pace.attempts - 1,
            backoff_factor=pace.backoff,
            secondary_rate_wait=pace.secondary,
            max_rate_limit_wait=pace.longest,
            status_forcelist=[429, *range(500, 600)],
            allowed_methods={"GET", "PATCH"},
        ),
        seconds_between_requests=pace.reads,
        seconds_between_writes=pace.writes,
        per_page=100,
    )


class _Retry(GithubRetry):
    """PyGithub's own, but it gives up instead of sleeping for hours when the server asks for that."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        wait = super().get_retry_after(response)
        longest = self.max_rate_limit_wait
        if wait is not None and longest is not None and wait > longest:
            raise GithubException(
                response.status, message=f"asked to wait {wait:.0f} s, more than {longest:.0f} s"
            )
        return wait
