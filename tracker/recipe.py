"""The steps from a source tree to libraries: CMake's settings, Ninja, and what a failure looks like.

Knows how llama.cpp is configured; it does not know where the tree came from nor where the libraries go.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from tracker.cache import Cache
from tracker.toolchain import CMAKE, NINJA, CompilerCache, Toolchain, environment, slot

RECIPE = 1
"""Raised when the settings below change what is built."""

_SETTINGS = (
    "BUILD_SHARED_LIBS=ON",
    "GGML_NATIVE=OFF",
    "GGML_OPENMP=OFF",
    "GGML_AMX=OFF",
    # The compiler cache is set from here, not found by upstream's own search.
    "GGML_CCACHE=OFF",
    *(f"LLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER", "APP")),
    "LLAMA_CURL=OFF",
    # Otherwise git looks upward for a repository and finds the wrong one. Constants, so that neighbouring
    # releases share objects.
    "LLAMA_BUILD_NUMBER=0",
    "LLAMA_BUILD_COMMIT=unknown",
    "LLAMA_BUILD_IS_DEV=OFF",
    # Libraries are moved together after the build and find each other there.
    "CMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "CMAKE_INSTALL_RPATH=$ORIGIN",
)
_SANITIZE = tuple(
    f"{project}_SANITIZE_{kind}=ON" for project in ("LLAMA", "GGML") for kind in ("ADDRESS", "UNDEFINED")
)

_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Python that becomes the command in its arguments, which then ends when this process is killed (prctl 1 is
PR_SET_PDEATHSIG): nobody else would end a compilation that nobody waits for."""

LOG = "build.log"
_LOG_TAIL = 8000
_TELL_SECONDS = 20.0
_NINJA_STEP = re.compile(r"^\[(\d+)/(\d+)\]", re.MULTILINE)
_ERROR_LINE = re.compile(r"\berror:|CMake Error|ninja: error")
_MACHINE_TO_BLAME = re.compile(
    r"No space left on device|Disk quota exceeded|Killed signal|command: Killed"
    r"|virtual memory exhausted|[Cc]annot allocate|LLVM ERROR: out of memory"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What may differ between two builds of one source; all of it is part of the key.

    ``build_type`` is CMake's; ``sanitize`` instruments ggml and llama with AddressSanitizer and
    UndefinedBehaviorSanitizer; ``target`` is the CMake target (``llama``, or ``ggml-base`` for the GGUF
    reader alone); ``defines`` are further ``-D`` settings as ``NAME=VALUE``.
    """

    build_type: str = "Release"
    target: str = "llama"
    sanitize: bool = False
    defines: tuple[str, ...] = ()


Progress = Callable[[str], None]
"""Told one line at a time what is being done."""


class StepFailed(Exception):
    """A step of the recipe failed. ``passing`` when the machine is to blame, not the source."""

    def __init__(self, message: str, log: str, *, passing: bool) -> None:
        super().__init__(message)
        self.log = log
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps from a source tree to libraries in ``build``, with what is thrown away in ``working``."""

    tree: Path
    build: Path
    working: Path
    options: BuildOptions
    tools: Toolchain
    launcher: CompilerCache | None
    cache: Cache
    tell: Progress

    def run(self, jobs: int) -> None:
        """Configure and build. Raises StepFailed."""
        launcher = self.launcher
        settings = [*_SETTINGS, f"GGML_CPU={'ON' if _needs_processor_backend(self.tree) else 'OFF'}"]
        settings += [*_SANITIZE * self.options.sanitize, *self.options.defines]
        settings += [f"CMAKE_BUILD_TYPE={self.options.build_type}", f"CMAKE_MAKE_PROGRAM={NINJA}"]
        settings += [f"CMAKE_C_COMPILER={self.tools.c}", f"CMAKE_CXX_COMPILER={self.tools.cxx}"]
        if launcher is not None:
            settings += [
                f"CMAKE_{language}_COMPILER_LAUNCHER={launcher.launcher}" for language in ("C", "CXX")
            ]
        self.tell("configuring")
        configure: list[str | Path] = [CMAKE, "-G", "Ninja", "-S", self.tree, "-B", self.build]
        # No step may find a repository above the cache and read its configuration.
        variables = {"GIT_CEILING_DIRECTORIES": str(self.cache.root)}
        if launcher is not None:
            variables |= launcher.variables
        self._step([*configure, *(f"-D{setting}" for setting in settings)], variables)
        with_what = launcher.launcher.name if launcher else "no compiler cache"
        self.tell(f"compiling with {jobs} processes and {with_what}")
        self._step([NINJA, "-C", self.build, "-j", str(jobs), self.options.target], variables)

    def _step(self, command: Sequence[str | Path], variables: Mapping[str, str]) -> None:
        home = self.working / "home"
        home.mkdir(exist_ok=True)
        log = self.working / LOG
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _DIE_WITH_PARENT, *command],
                env=environment(variables, home),
                cwd=self.working,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                while (status := _waited(process)) is None:
                    if how_far := _how_far(log):
                        self.tell(how_far)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if status != 0:
            text = log.read_text("utf-8", "replace")
            for folder in (f"{self.tree}/", f"{self.build}/", f"{self.working}/"):
                text = text.replace(folder, "")
            raise StepFailed(
                _reason(text),
                text[-_LOG_TAIL:],
                passing=status < 0 or _MACHINE_TO_BLAME.search(text) is not None,
            )


def _waited(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status, or None when the process still runs after a while."""
    try:
        return process.wait(_TELL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _how_far(log: Path) -> str:
    """Ninja's count of steps in the last lines of a log, in words; empty before the first."""
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL))
        steps = _NINJA_STEP.findall(file.read().decode("utf-8", "replace"))
    return f"compiled {steps[-1][0]} of {steps[-1][1]} files" if steps else ""


def _needs_processor_backend(tree: Path) -> bool:
    """Whether ggml calls the processor's backend without asking if it is there (before 2025).

    Elsewhere it is left out: vocabulary, grammar and sampler chain need none, and it is a fifth of the build.
    """
    registry = tree / "ggml" / "src" / "ggml-backend-reg.cpp"
    return not registry.is_file() or "GGML_USE_CPU" not in registry.read_text("utf-8", "replace")


def _reason(log: str) -> str:
    """What went wrong, in one line; CMake puts it into the paragraph after its headline."""
    lines = log.splitlines() or ["no output"]
    start = next((i for i, line in enumerate(lines) if _ERROR_LINE.search(line)), len(lines) - 1)
    reason = lines[start : start + 1]
    if lines[start].endswith(":"):
        reason += itertools.takewhile(str.strip, lines[start + 1 :])
    return " ".join(line.strip() for line in reason)[:300]


@contextmanager
def stable_paths(cache: Cache, tree: Path, build: Path) -> Iterator[tuple[Path, Path]]:
    """Both folders under paths that are the same for all builds, so that a compiler cache knows objects."""
    for number in itertools.count():
        lock = cache.lock(f"slot-{number}", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        try:
            links = slot(cache, number)
            for link, folder in zip(links, (tree, build), strict=True):
                link.unlink(missing_ok=True)
                link.symlink_to(folder, target_is_directory=True)
            yield links
            return
        finally:
            lock.release()
