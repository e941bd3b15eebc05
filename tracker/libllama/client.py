"""The parent's side of a child process that holds one libllama.

Knows how to start, ask, bound and replace the child, and what its death means; the requests' meaning is in
``tracker.libllama.handlers``. No upstream code ever runs in this process.

A request is self-contained: the name of a handler, a JSON header and raw bytes. When the child dies at a
request, ``WorkerDied`` is raised and the next request gets a fresh child.
"""

from __future__ import annotations

import re
import signal
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tracker.build import Build
from tracker.errors import TrackerError
from tracker.libllama.child import Child, ChildDied, DeathKind, Limits
from tracker.libllama.stage import Stage

__all__ = [
    "DeathKind",
    "GrammarRejected",
    "LibllamaClient",
    "Limits",
    "MaskReply",
    "RequestRefused",
    "Spent",
    "VocabularyPieces",
    "WorkerDied",
]

_LOADING = Limits(cpu_seconds=60, wall_seconds=300)
"""For starting a child, which takes a second, or more on a busy machine; it is not what is under audit."""
_SIGNALS_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PARSE_ERROR = re.compile(r"^\w+: error parsing grammar: (.*)$", re.MULTILINE)
_LOAD = "load"
_PATHS = {"library", "declarations", "vocabulary"}


class WorkerDied(TrackerError):
    """The child died at a request.

    ``kind`` and ``signal`` (number or None) say how, ``detail`` holds the last lines of its standard error,
    ``request`` one line that names the request, and ``stage`` the library's call that it died in.
    """

    def __init__(
        self, kind: DeathKind, signal: int | None, detail: str, request: str, stage: Stage = Stage.OTHER
    ) -> None:
        self.kind = kind
        self.signal = signal
        self.detail = detail
        self.request = request
        self.stage = stage
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

    ``allowed`` is np.bool_[n_vocab], True where a logit stays above minus infinity. ``refused_at`` is the
    index of the first path element that the build had masked when its turn came (only with ``check_path``);
    the mask is then the one at that point. Times are in seconds; those of ``apply`` are taken around
    llama_sampler_apply alone.
    """

    allowed: npt.NDArray[np.bool_]
    refused_at: int | None
    apply_cpu_seconds: float
    apply_wall_seconds: float
    accept_seconds: float
    init_seconds: float


@dataclass(slots=True)
class Spent:
    """Where a client's children spent their time so far, in seconds of the clock.

    ``answers`` is that of all answers; ``apply`` the part of it inside llama_sampler_apply, ``apply_cpu`` the
    processor's time there; ``died`` that of requests at which the child died, by the call it died in;
    ``starting`` that of starting children.
    """

    apply: float = 0.0
    apply_cpu: float = 0.0
    answers: float = 0.0
    died: defaultdict[Stage, float] = field(default_factory=lambda: defaultdict(float))
    starting: float = 0.0


@dataclass(slots=True)
class _Request:
    """A request on its way; ``again`` once it was put to a second child."""

    handler: str
    header: dict[str, Any]
    payload: bytes
    again: bool = False


class LibllamaClient:
    """A child process with one build's libllama and one vocabulary; a context manager.

    The child is started at the first request and replaced after a death. Masks can be asked for ahead
    (``send_mask``, ``receive_mask``): the child goes from one to the next without waiting for us. Without a
    vocabulary only requests that need none can be asked. Not safe for use by several threads at once: open
    one client a thread, and keep the thread alive while the client is (the child dies with the thread that
    started it).
    """

    def __init__(self, build: Build, vocabulary: Path | None, limits: Limits | None = None) -> None:
        self._build = build
        self._vocabulary = vocabulary
        self._limits = limits or Limits()
        self._child: Child | None = None
        self._sent: deque[_Request] = deque()
        self._written = 0  # of those sent, how many this child has
        self.spent = Spent()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child, if there is one, and forget what it was asked."""
        self._sent.clear()
        self._written = 0
        if self._child is not None:
            self._child.close()
            self._child = None

    @property
    def pid(self) -> int | None:
        """The child's process id, or None when none is running."""
        return None if self._child is None else self._child.pid

    def vocabulary(self) -> VocabularyPieces:
        """Pieces and end-of-generation tokens of the whole vocabulary. Raises WorkerDied."""
        header, payload = self.request("grammar.vocabulary", {})
        count = int(header["n_vocab"])
        lengths = np.frombuffer(payload, "<u4", count)
        packed = np.frombuffer(payload, np.uint8, (count + 7) // 8, offset=4 * count)
        ends = 4 * count + len(packed) + np.cumsum(lengths, dtype=np.int64)
        pieces = tuple(
            payload[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        )
        return VocabularyPieces(pieces, np.unpackbits(packed, count=count).view(np.bool_), count)

    def mask(
        self, grammar: bytes | str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> MaskReply:
        """The mask after a token path; the empty path is the start.

        Accepting a token that is masked aborts the library, so a path that the build may refuse needs
        ``check_path``. Raises GrammarRejected and WorkerDied.
        """
        if self._sent:
            raise RuntimeError("masks that were asked for ahead have to be received first")
        self.send_mask(grammar, path, root, check_path=check_path)
        return self.receive_mask()

    def send_mask(
        self, grammar: bytes | str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> None:
        """Ask for a mask as ``mask`` does; ``receive_mask`` has the answers in the order of asking."""
        asked = {"root": root, "path": [int(token) for token in path], "check_path": check_path}
        self._send(_Request("grammar.mask", asked, _encoded(grammar)))

    def receive_mask(self) -> MaskReply:
        """The answer to the oldest mask that was asked for and not received.

        Raises GrammarRejected, and WorkerDied; what was asked behind a death is put to the next child.
        """
        request = self._sent[0]
        header, payload = self._receive()
        if header.get("rejected"):
            reason, detail = self._rejection(request)
            raise GrammarRejected(f"{self._build.id}: refuses the grammar: {reason}", detail)
        self.spent.apply += header["apply_wall_seconds"]
        self.spent.apply_cpu += header["apply_cpu_seconds"]
        count = int(header["n_vocab"])
        return MaskReply(
            allowed=np.unpackbits(np.frombuffer(payload, np.uint8), count=count).view(np.bool_),
            refused_at=header["refused_at"],
            apply_cpu_seconds=header["apply_cpu_seconds"],
            apply_wall_seconds=header["apply_wall_seconds"],
            accept_seconds=header["accept_seconds"],
            init_seconds=header["init_seconds"],
        )

    def grammar_accepted(self, grammar: bytes | str, root: str = "root") -> bool:
        """Whether the build takes the grammar's text. Raises WorkerDied."""
        request = _Request("grammar.accepted", {"root": root}, _encoded(grammar))
        self._send(request)
        header, _ = self._receive()
        if not header["accepted"]:
            self._rejection(request)
        return bool(header["accepted"])

    def _rejection(self, request: _Request) -> tuple[str, str]:
        """Why the last grammar was refused, in one line and in full.

        Upstream's parser catches every exception and calls the text wrong, also when memory ran out: that
        is a death like any other, so it raises WorkerDied and the child goes.
        """
        detail = self._child.errors() if self._child is not None else ""
        match = _PARSE_ERROR.search(detail)
        reason = match[1] if match else detail.strip().rpartition("\n")[2] or "no reason given"
        if reason == "std::bad_alloc":
            self.close()
            raise WorkerDied(DeathKind.OOM, None, detail, self._named(request), Stage.READING)
        return reason, detail

    def request(
        self, handler: str, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """The answer of a handler, for audits with handlers of their own.

        ``handler`` is ``module.function`` below ``tracker.libllama.handlers``; the function takes
        ``(library: Library, header: dict, payload: bytes)`` and returns ``(dict, bytes)``. Raises
        WorkerDied, and RequestRefused when the handler raised. A child that was killed from outside is
        replaced and asked once more: that is not upstream's doing.
        """
        self._send(_Request(handler, header, payload))
        return self._receive()

    def _send(self, request: _Request) -> None:
        self._sent.append(request)
        try:
            self._write()
        except BaseException:
            # An interrupted exchange leaves half a frame in the pipe: this child cannot be asked again.
            self.close()
            raise

    def _write(self) -> Child:
        """Give the child what it has not been given yet."""
        child = self._running_child()
        while self._written < len(self._sent):
            request = self._sent[self._written]
            if not child.send(request.handler, request.header, request.payload, self._limits):
                break
            self._written += 1
        return child

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        request = self._sent[0]
        begun = time.perf_counter()
        try:
            answer, body = self._write().receive(self._limits)
        except ChildDied as death:
            self.spent.died[death.stage] += time.perf_counter() - begun
            self._child = None
            self._written = 0
            from_outside = death.signal in _SIGNALS_FROM_OUTSIDE and death.kind is DeathKind.CRASH
            if from_outside and not request.again:
                request.again = True
                return self._receive()
            self._sent.popleft()
            raise WorkerDied(
                death.kind, death.signal, death.detail, self._named(request), death.stage
            ) from None
        except BaseException:
            self.close()
            raise
        self._sent.popleft()
        self._written -= 1
        self.spent.answers += answer.pop("handler_seconds")
        if "refused" in answer:
            raise RequestRefused(f"{self._named(request)}: {answer['refused']}")
        return answer, body

    def _named(self, request: _Request) -> str:
        return f"{self._build.id}: {request.handler} {_described(request.header, request.payload)}"

    def _running_child(self) -> Child:
        """The child, started and loaded. Raises WorkerDied and RequestRefused when it cannot be loaded."""
        if self._child is None:
            begun = time.perf_counter()
            child = Child(self._limits.address_space)
            setup = {
                "library": str(self._build.library),
                "declarations": str(self._build.declarations),
                "vocabulary": None if self._vocabulary is None else str(self._vocabulary),
            }
            loading = _Request(_LOAD, setup, b"")
            try:
                child.send(_LOAD, setup, b"", _LOADING)
                answer, _ = child.receive(_LOADING)
            except ChildDied as death:
                raise WorkerDied(death.kind, death.signal, death.detail, self._named(loading)) from None
            except BaseException:
                child.close()
                raise
            if "refused" in answer:
                child.close()
                raise RequestRefused(f"{self._named(loading)}: {answer['refused']}")
            self._child = child
            self.spent.starting += time.perf_counter() - begun
        return self._child


def _encoded(grammar: bytes | str) -> bytes:
    return grammar.encode("utf-8", "surrogatepass") if isinstance(grammar, str) else grammar


def _described(header: dict[str, Any], payload: bytes) -> str:
    """A request in at most one short line."""
    text = ", ".join(f"{name}={value}" for name, value in header.items() if name not in _PATHS)
    start = payload[:60].decode("utf-8", "backslashreplace").replace("\n", "\\n")
    return f"({text[:200]}) {start!r}" if payload else f"({text[:200]})"
