"""A child process: started with limits and nothing of this process's surroundings, asked, and buried.

Knows processes, pipes and what an exit status means; it does not know libllama. The child's standard error
goes into an unnamed file of bounded size, so that its last lines are there after any kind of death and
nobody has to read along.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tracker.libllama import protocol
from tracker.libllama.stage import SharedStage, Stage
from tracker.libllama.worker import EXIT_OUT_OF_MEMORY

_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    # Otherwise an abort inside ggml starts a debugger on the process.
    "GGML_NO_BACKTRACE": "1",
    # numpy's linear algebra is not used; its threads would only take address space.
    "OPENBLAS_NUM_THREADS": "1",
}
_PROJECT = Path(__file__).resolve().parents[2]
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tracker.libllama.worker import main; main(sys.argv[2:])"
)
_MEMORY = re.compile(
    rb"bad_alloc|MemoryError|insufficient memory|[Cc]annot allocate memory|failed to allocate"
)
_PART = 4000
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one request may use.

    ``cpu_seconds`` is the deadline that normally counts: it does not depend on what else the machine does
    (the kernel counts in whole seconds, rounded up). ``wall_seconds`` catches a child that waits instead of
    computing. ``address_space`` is in bytes, for the whole child.
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


class ChildDied(Exception):
    """The child is gone: ``kind``, ``signal`` (number or None), ``detail`` (the last lines it wrote).

    ``stage`` is the library's call that it was in.
    """

    def __init__(self, kind: DeathKind, signal: int | None, detail: str, stage: Stage) -> None:
        super().__init__(kind)
        self.kind = kind
        self.signal = signal
        self.detail = detail
        self.stage = stage


class Child:
    """One running worker. After ChildDied, or ``close``, it is over."""

    def __init__(self, address_space: int) -> None:
        request_reader, self._writer = os.pipe()
        self._reader, answer_writer = os.pipe()
        self._errors = tempfile.TemporaryFile()
        self._stage = SharedStage()
        self._errors_start = 0
        self._broken = False
        setup = {
            "reader": request_reader,
            "writer": answer_writer,
            "stage": self._stage.fd,
            "parent": os.getpid(),
            "address_space": address_space,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOTSTRAP, str(_PROJECT), json.dumps(setup)],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(request_reader, answer_writer, self._stage.fd),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(self._writer)
            os.close(self._reader)
            self._errors.close()
            self._stage.close()
            raise
        finally:
            os.close(request_reader)
            os.close(answer_writer)
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, handler: str, header: dict[str, Any], payload: bytes, limits: Limits) -> bool:
        """Put a request behind those that are not answered yet; False when the child does not take it.

        Why it does not is told by ``receive``.
        """
        if self._broken:
            return False
        self._errors_start = self._errors_end()
        asked = {**header, "handler": handler, "cpu_seconds": limits.cpu_seconds}
        try:
            protocol.write_frame(self._writer, asked, payload, time.monotonic() + limits.wall_seconds)
        except (protocol.Closed, protocol.DeadlinePassed):
            # There may be half a frame in the pipe.
            self._broken = True
            return False
        return True

    def receive(self, limits: Limits) -> tuple[dict[str, Any], bytes]:
        """The answer to the oldest request. Raises ChildDied, after which the child is closed."""
        try:
            return protocol.read_frame(self._reader, time.monotonic() + limits.wall_seconds)
        except protocol.DeadlinePassed:
            raise self._buried(DeathKind.HANG) from None
        except protocol.Malformed as error:
            os.write(self._errors.fileno(), f"the child answered with {error}\n".encode())
            raise self._buried(DeathKind.CRASH) from None
        except protocol.Closed:
            raise self._buried(None) from None

    def errors(self) -> str:
        """What the child wrote to standard error since the last request began: its first and last part."""
        end = self._errors_end()
        head = os.pread(self._errors.fileno(), _PART, self._errors_start)
        start = max(self._errors_start + len(head), end - _PART)
        return (head + os.pread(self._errors.fileno(), _PART, start)).decode("utf-8", "backslashreplace")

    def _errors_end(self) -> int:
        # Never a seek: the child writes at an offset that both processes share.
        return os.fstat(self._errors.fileno()).st_size

    def close(self) -> None:
        """End the process and give everything back."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if not self._errors.closed:
            os.close(self._writer)
            os.close(self._reader)
            self._errors.close()
            self._stage.close()

    def _buried(self, kind: DeathKind | None) -> ChildDied:
        if kind is None:
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        else:
            self._process.kill()
        status = self._process.wait()
        number = -status if status < 0 else None
        detail = self.errors()
        if kind is None:
            kind = _kind(status, number, detail)
        stage = self._stage.read()
        self.close()
        return ChildDied(kind, number, detail, stage)


def _kind(status: int, number: int | None, detail: str) -> DeathKind:
    if number == signal.SIGXCPU:
        return DeathKind.HANG
    if status == EXIT_OUT_OF_MEMORY or _MEMORY.search(detail.encode()):
        return DeathKind.OOM
    return DeathKind.CRASH
