"""What the command line prints, and where: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tracker.atomic import write_atomic
from tracker.errors import UsageError

WIDE = 160
"""Columns of output that is no terminal's."""

LINE_EVERY_SECONDS = 10.0
"""How often a run without a terminal says where it is."""


@dataclass
class Output:
    """The state of this process's output; one for the program, set by the options."""

    quiet: bool = False
    verbose: bool = False
    out: Console = field(default_factory=lambda: _console())
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, soft_wrap=True))

    def say(self, line: str) -> None:
        """A line about what is being done."""
        if not self.quiet:
            self.err.print(line, markup=False)

    def detail(self, line: str) -> None:
        """A line that is wanted only with ``--verbose``."""
        if self.verbose and not self.quiet:
            self.err.print(line, markup=False)

    def problem(self, line: str) -> None:
        """A line about something that went wrong; printed with ``--quiet`` as well."""
        self.err.print(line, markup=False)

    def result(self, text: str = "") -> None:
        """A line of the result itself."""
        self.out.print(text, markup=False)


def _console() -> Console:
    """Standard output; in a file or a pipe tables are as wide as they need to be."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=WIDE)


OUTPUT = Output()


def check_json_target(target: str) -> None:
    """``check_target`` for ``--json``, where ``-`` is standard output."""
    if target not in ("", "-"):
        check_target("--json", Path(target))


def check_target(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done.

    Raises:
        UsageError: the folder is not there or cannot be written to, or what is there is no regular file.
    """
    unfit = path.exists() and not path.is_file()
    if unfit or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{option} {path}: cannot be written: give a file in a folder that is there")


def check_folder(path: Path) -> None:
    """Make a folder for reports, or refuse it before any work is done.

    Raises:
        UsageError: it cannot be made or written to.
    """
    try:
        (path / "data").mkdir(parents=True, exist_ok=True)
        writable = os.access(path / "data", os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise UsageError(f"--reports {path}: cannot be written: give a folder that can be made")


def write_json(target: str, document: Any) -> None:
    """Write one JSON document to a file, or to standard output for ``-``.

    Args:
        target: ``-`` or a path, which is written whole or not at all.
        document: something ``json`` can encode, or a text that is JSON already.

    Raises:
        UsageError: the file cannot be written.
    """
    text = document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
    if not text.endswith("\n"):
        text += "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        write_atomic(Path(target), text.encode())
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}: give --json a file that can be written") from None


class StateProgress:
    """Progress of audits: a bar on a terminal, a line now and then elsewhere. Safe to call from threads."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None) if bar else None
        self._lock = threading.Lock()
        self._states: dict[str, int] = {}
        self._said = time.monotonic()

    def __call__(self, grammar: str, states: int, left: int) -> None:
        """Note that a grammar has come to so many states."""
        with self._lock:
            self._states[grammar] = states
            total = sum(self._states.values())
            text = f"{total} states, {len(self._states)} grammars, now {grammar}"
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=total, description=text)
            elif time.monotonic() - self._said > LINE_EVERY_SECONDS:
                self._said = time.monotonic()
                OUTPUT.say(f"  {text}")


@contextmanager
def state_progress() -> Iterator[StateProgress]:
    """Progress for the duration of an audit."""
    if OUTPUT.quiet or not OUTPUT.err.is_terminal:
        yield StateProgress(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=OUTPUT.err, transient=True) as bar:
        yield StateProgress(bar)
