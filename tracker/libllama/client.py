"""The parent's side of a child process that holds one libllama.

Knows how to start, ask, bound and replace the child, and what its death means; the requests' meaning is in
``tracker.libllama.handlers``. No upstream code ever runs in this process.

A request is self-contained: the name of a handler, a JSON header and raw bytes. When the child dies at a
request, ``WorkerDied`` is raised and the next request gets a fresh child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tracker.build import Build
from tracker.errors import TrackerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may use.

    ``cpu_seconds`` is the deadline that normally counts: it does not depend on what else the machine does.
    ``wall_seconds`` catches a child that waits instead of computing. ``address_space`` is in bytes, for the
    whole child.
    """

    cpu_seconds: float = 30.0
    wall_seconds: float = 120.0
    address_space: int = 3 << 30


class DeathKind(StrEnum):
    """Why a child died; the values are those of ``tracker.results.Kind``."""

    CRASH = "CRASH"
    """A signal or an exit that no limit explains."""
    HANG = "HANG"
    """A deadline passed."""
    OOM = "OOM"
    """The address-space limit was hit."""


class WorkerDied(TrackerError):
    """The child died at a request.

    ``kind`` and ``signal`` (number or None) say how, ``detail`` holds the last lines of its standard error,
    ``request`` one line that names the request.
    """

    def __init__(self, kind: DeathKind, signal: int | None, detail: str, request: str) -> None:
        self.kind = kind
        self.signal = signal
        self.detail = detail
        self.request = request
        super().__init__(f"libllama {kind} at {request}")


class GrammarRejected(TrackerError):
    """The build refuses a grammar's text; ``detail`` holds what it wrote about it."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class RequestRefused(TrackerError):
    """The child refused a request without dying: something the build cannot do, or a wrong request."""


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyPieces:
    """The vocabulary as the build sees it.

    ``pieces[i]`` are the bytes of llama_token_to_piece with ``special=true``; ``eog`` is np.bool_[n_vocab].
    """

    pieces: tuple[bytes, ...]
    eog: npt.NDArray[np.bool_]
    n_vocab: int


@dataclass(frozen=True, slots=True, eq=False)
class MaskReply:
    """What the build allows after a token path.

    ``allowed`` is np.bool_[n_vocab], True where a logit stays above minus infinity. ``refused_at`` is the index
    of the first path element that the build had masked when its turn came (only with ``check_path``); the mask
    is then the one at that point. Times are in seconds; those of ``apply`` are taken around
    llama_sampler_apply alone.
    """

    allowed: npt.NDArray[np.bool_]
    refused_at: int | None
    apply_cpu_seconds: float
    apply_wall_seconds: float
    accept_seconds: float
    init_seconds: float


class LibllamaClient:
    """A child process with one build's libllama and one vocabulary; a context manager.

    The child is started at the first request and replaced after a death. Not safe for use by several threads
    at once: open one client a thread.
    """

    def __init__(self, build: Build, vocabulary: Path | None, limits: Limits | None = None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def vocabulary(self) -> VocabularyPieces:
        """Pieces and end-of-generation tokens of the whole vocabulary. Raises WorkerDied."""
        raise NotImplementedError

    def mask(
        self, grammar: bytes | str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> MaskReply:
        """The mask after a token path; the empty path is the start.

        Accepting a token that is masked aborts the library, so a path that the build may refuse needs
        ``check_path``. Raises GrammarRejected and WorkerDied.
        """
        raise NotImplementedError

    def grammar_accepted(self, grammar: bytes | str, root: str = "root") -> bool:
        """Whether the build takes the grammar's text. Raises WorkerDied."""
        raise NotImplementedError

    def request(
        self, handler: str, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """The answer of a handler, for audits with handlers of their own.

        ``handler`` is ``module.function`` below ``tracker.libllama.handlers``; the function takes
        ``(library: Library, header: dict, payload: bytes)`` and returns ``(dict, bytes)``. Raises WorkerDied,
        and RequestRefused when the handler raised.
        """
        raise NotImplementedError
