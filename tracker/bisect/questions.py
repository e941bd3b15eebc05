"""What can be asked of one build, and what its answer is.

A question knows how to get its verdict from a build that is there; it does not know how builds are made, nor
in which order they are asked. Whatever keeps a build from answering is a verdict of its own: untestable, with
the reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from tracker.bisect.search import Verdict
from tracker.build import Build
from tracker.errors import UsageError
from tracker.libllama.client import GrammarRejected, LibllamaClient, Limits, RequestRefused, WorkerDied

PROBE_SECONDS = 600
"""How long a command may take, unless told otherwise."""

_LONGEST_DETAIL = 300
_TAIL = 1 << 16
_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Reply:
    """A verdict, and one line about what was seen.

    Where builds differ in what can be looked at, ``shown`` holds of each thing that is present the places
    that show it, ``looked`` the places that a build without it was looked at, and ``unread`` names what this
    build could not be asked about at all; see ``tracker.bisect.looks.held_against``.
    """

    verdict: Verdict
    detail: str = ""
    shown: tuple[tuple[str, ...], ...] = ()
    looked: tuple[str, ...] = ()
    unread: str = ""


class Question(Protocol):
    """Something to ask of each build of a range. Frozen and picklable: other processes may ask it."""

    @property
    def text(self) -> str:
        """The question in words, one line."""
        ...

    @property
    def words(self) -> Mapping[Verdict, str]:
        """What the verdicts are called where this question is asked."""
        ...

    @property
    def identity(self) -> str:
        """Hex digits over everything on our side that decides the answer."""
        ...

    def ask(self, build: Build) -> Reply:
        """The build's verdict. Never raises for what the build does; UsageError for a senseless question."""
        ...


def untestable(reason: str) -> Reply:
    """The reply of a build that cannot answer."""
    return Reply(Verdict.UNTESTABLE, one_line(reason))


def one_line(text: str) -> str:
    """A text as one line of bounded length."""
    return " ".join(text.split())[:_LONGEST_DETAIL]


def digest(*parts: object) -> str:
    """Hex digits over what a question is made of."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Accepted:
    """Whether a build accepts a grammar's text at all.

    A build that dies over the text neither accepts nor refuses it; ask for that death with ``--kind``.
    ``vocabulary`` is any that the build can load: token names in a grammar are looked up in it.
    """

    name: str
    grammar: str
    vocabulary: Path
    limits: Limits = _LIMITS

    @property
    def text(self) -> str:
        """See ``Question``."""
        return f"is the grammar {self.name} accepted?"

    @property
    def words(self) -> Mapping[Verdict, str]:
        """See ``Question``."""
        return {Verdict.PRESENT: "accepted", Verdict.ABSENT: "refused", Verdict.UNTESTABLE: "untestable"}

    @property
    def identity(self) -> str:
        """See ``Question``."""
        return digest("accepted", self.grammar, repr(self.limits))

    def ask(self, build: Build) -> Reply:
        """See ``Question``."""
        with LibllamaClient(build, self.vocabulary, self.limits) as client:
            try:
                if client.grammar_accepted(self.grammar):
                    return Reply(Verdict.PRESENT)
                return Reply(Verdict.ABSENT, one_line(_reason(client, self.grammar)))
            except WorkerDied as death:
                return untestable(
                    f"{death.kind}: {death.detail or death}; ask for it with --kind {death.kind}"
                )
            except RequestRefused as error:
                return untestable(str(error))


def _reason(client: LibllamaClient, grammar: str) -> str:
    try:
        client.mask(grammar, ())
    except GrammarRejected as refusal:
        return str(refusal).rpartition("refuses the grammar: ")[2]
    return ""


@dataclass(frozen=True, slots=True)
class Command:
    """Whether a user's own command finds fault with a build, told by git-bisect's exit codes.

    0 is absent (good), 1 to 124 present (bad), 125 untestable. The command runs in a shell, as the user and
    in the user's environment, with ``LLAMA_TRACKER_*`` added: it is the user's program, not upstream's.
    One that does not end within ``seconds`` is untestable; what one leaves running in its process group is
    ended with it.

    ``range`` keeps the verdicts of one range of builds apart from those of another, since nothing tells
    whether the command still does the same; so do the folder that it runs in and the contents of files that
    it names.
    """

    command: str
    range: str
    seconds: float = PROBE_SECONDS

    @property
    def text(self) -> str:
        """See ``Question``."""
        return f"does `{self.command}` find fault?"

    @property
    def words(self) -> Mapping[Verdict, str]:
        """See ``Question``."""
        return {Verdict.PRESENT: "bad", Verdict.ABSENT: "good", Verdict.UNTESTABLE: "untestable"}

    @property
    def identity(self) -> str:
        """See ``Question``."""
        return digest("command", self.command, self.range, os.getcwd(), _files_named(self.command))

    def ask(self, build: Build) -> Reply:
        """See ``Question``. Raises UsageError when the command itself cannot be run."""
        # Into a file: a pipe would stay open as long as anything that the command has left behind.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self.command],
                env={**os.environ, **probe_environment(build)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                return untestable(f"the command did not end within {self.seconds:g} s; see --probe-seconds")
            finally:
                _end(process)
            last = _last_line(output)
        if code == 0:
            return Reply(Verdict.ABSENT, last)
        if code == 125:
            return untestable(last or "the command says so (125)")
        if 0 < code < 125:
            return Reply(Verdict.PRESENT, last or f"exit code {code}")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise UsageError(
            f"--probe: the command ended with {how}, which is no verdict ({last or 'no output'}): "
            f"let it exit with 0 (good), 1 (bad) or 125 (untestable)"
        )


def _files_named(command: str) -> list[tuple[str, str]]:
    """The files that are words of a command, each with a digest of what is in it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    files = sorted({word for word in words if Path(word).is_file()})
    return [(file, hashlib.sha256(Path(file).read_bytes()).hexdigest()) for file in files]


def probe_environment(build: Build) -> dict[str, str]:
    """What a command is told of the build."""
    return {
        "LLAMA_TRACKER_BUILD": str(build.folder),
        "LLAMA_TRACKER_BUILD_ID": build.id,
        "LLAMA_TRACKER_LIBRARY": str(build.library),
        "LLAMA_TRACKER_HEADER": str(build.header),
        "LLAMA_TRACKER_TREE": str(build.tree),
        "LLAMA_TRACKER_COMMIT": build.release.commit,
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has left running in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1]) if lines else ""
