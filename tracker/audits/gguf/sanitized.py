"""A build's GGUF reader under AddressSanitizer and UndefinedBehaviorSanitizer, file by file.

It knows how the library and the small program around it (``harness.c``) are built, and how a report becomes a
cause and a stack that are the same on every machine: functions and file names, no paths, addresses or lines.
An executable needs no preloaded runtime, which a sanitized library in a Python process does.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracker.audits.gguf.build_reader import Outcome, OutcomeKind, cause_of_death
from tracker.build import Build, BuildError, BuildOptions
from tracker.errors import TrackerError
from tracker.results import Kind
from tracker.toolchain import toolchain

_FLAGS = "-fno-sanitize-recover=all -fsanitize=float-cast-overflow"
_HARNESS = Path(__file__).resolve().with_name("harness.c")
_CPU_SECONDS = 5
_WALL_SECONDS = 600
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "GGML_NO_BACKTRACE": "1",
    # The limit of address space cannot be used: the sanitizer reserves terabytes. Its own limit is as large.
    "ASAN_OPTIONS": "detect_leaks=0:max_allocation_size_mb=96:allocator_may_return_null=0:handle_abort=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


def sanitizer_options(*, whole: bool = False) -> BuildOptions:
    """How a sanitized library is built: the reader's (half a minute), or the whole one (20 minutes)."""
    return BuildOptions(
        build_type="RelWithDebInfo",
        target="llama" if whole else "ggml-base",
        sanitize=True,
        defines=(f"CMAKE_C_FLAGS={_FLAGS}", f"CMAKE_CXX_FLAGS={_FLAGS}"),
    )


class HarnessError(TrackerError):
    """The program around the library cannot be built, or does not answer."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a file: ``kind`` and ``cause`` when something is wrong; ``stack`` innermost first."""

    accepted: bool
    kind: Kind | None = None
    cause: str = ""
    stack: tuple[str, ...] = ()


def compile_harness(build: Build, folder: Path) -> Path:
    """The program around a sanitized build, made in ``folder``. Raises HarnessError."""
    program = folder / "harness"
    whole = build.options.target == "llama"
    libraries = build.library.parent
    command = [toolchain().c, "-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", str(_HARNESS)]
    command += ["-I", str(build.tree / "ggml" / "include"), "-I", str(build.tree / "include")]
    command += ["-DWITH_LLAMA"] if whole else []
    command += ["-o", str(program), "-L", str(libraries), *(["-lllama"] if whole else []), "-lggml-base"]
    command += [f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}", "-lstdc++", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no output"]
        reason = next((line for line in lines if "error" in line), lines[-1])
        raise HarnessError(f"{build.id}: the sanitizer harness does not compile: {reason}")
    return program


def reports(program: Path, files: Sequence[bytes]) -> Iterator[Report]:
    """One report for each file, in order; a new process after each that ended one. Raises HarnessError."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        starts = []
        for data in files:
            starts.append(given.tell())
            given.write(struct.pack("=I", len(data)) + data)
        given.flush()
        done = 0
        while done < len(files):
            os.lseek(given.fileno(), starts[done], os.SEEK_SET)
            answers, status, hung = _run(program, given.fileno(), errors.fileno())
            yield from (Report(answer == ord("A")) for answer in answers)
            done += len(answers)
            if done < len(files):
                yield parse_death(
                    status, hung, os.pread(errors.fileno(), 1 << 16, 0).decode("utf-8", "replace")
                )
                done += 1


def _run(program: Path, given: int, errors: int) -> tuple[bytes, int, bool]:
    """Let one process work from where ``given`` stands: ``(answers, exit status, whether it hung)``."""
    os.ftruncate(errors, 0)
    os.lseek(errors, 0, os.SEEK_SET)
    try:
        process = subprocess.Popen(
            [program, str(_CPU_SECONDS)],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise HarnessError(f"the sanitizer harness does not start: {error.strerror}") from None
    try:
        answers, _ = process.communicate(timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        answers, _ = process.communicate()
        return answers, process.returncode, True
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode == 3:
        raise HarnessError("the sanitizer harness cannot read its files: is there room in memory?")
    return answers, process.returncode, False


_UNDEFINED = re.compile(r"runtime error: (.+)$", re.MULTILINE)
_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (\S+?)(?::|\s)")
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (.+?) (?:\((\S+?)\+0x|(\S+?):\d+)", re.MULTILINE)
_OWN = ("/ggml/", "/src/", "/include/")
_TOO_MUCH = ("allocation-size-too-big", "out-of-memory", "calloc-overflow", "requested")
_DEEPEST = 6


def parse_death(status: int, hung: bool, said: str) -> Report:
    """What a process that ended at a file says: its exit status, whether it hung, its standard error."""
    number = -status if status < 0 else None
    if hung or number == signal.SIGXCPU:
        return Report(False, Kind.HANG, "no answer in time")
    stack = upstream_frames(said)
    place = f" in {stack[0]}" if stack else ""
    if match := _UNDEFINED.search(said):
        return Report(False, Kind.SANITIZER, f"undefined: {_plain(match[1])}{place}", stack)
    if match := _ADDRESS.search(said):
        if match[1] == "ABRT":
            said_by = Outcome(OutcomeKind.CRASH, signal.SIGABRT, said)
            return Report(False, Kind.CRASH, cause_of_death(said_by), stack)
        if match[1] in _TOO_MUCH:
            return Report(False, Kind.OOM, f"address: allocation beyond the limit{place}", stack)
        return Report(False, Kind.SANITIZER, f"address: {match[1]}{place}", stack)
    return Report(False, Kind.CRASH, cause_of_death(Outcome(OutcomeKind.CRASH, number, said)), stack)


def upstream_frames(report: str) -> tuple[str, ...]:
    """The innermost frames in upstream's own code: ``function (file)``."""
    frames: list[str] = []
    for function, module, source in _FRAME.findall(report):
        place = source or module
        if not _is_upstream(place):
            continue
        frame = f"{_bare(function)} ({Path(place).name})"
        if not frames or frames[-1] != frame:
            frames.append(frame)
    return tuple(frames[:_DEEPEST])


def _is_upstream(place: str) -> bool:
    """Whether a source file or a library is upstream's: not the sanitizer's, the system's, or the harness."""
    if Path(place).name.startswith(("libggml", "libllama")):
        return True
    return (
        "libsanitizer" not in place and not place.startswith("/usr") and any(part in place for part in _OWN)
    )


def _bare(function: str) -> str:
    """A function's name without its parameters and template arguments."""
    name = function.split("(")[0]
    while "<" in name and (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.split(" ")[-1]


def _plain(message: str) -> str:
    """A report's message without numbers, which differ from file to file."""
    message = re.sub(r"0x[0-9a-f]+|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "N", message)
    return re.sub(r"[^\x20-\x7e]", "?", message)[:160]


def require_sanitized(build: Build) -> None:
    """Refuse a build that would report nothing. Raises BuildError."""
    if not build.options.sanitize:
        raise BuildError(f"{build.id}: is not built with sanitizers: use sanitizer_options()")
