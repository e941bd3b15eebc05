"""What a patch does to the functions it changes, and to upstream's own tests.

A tree's ``src/llama-grammar.cpp`` is compiled into a program that is linked with the release's library: the
program's functions go before those of the library, so nothing else of llama.cpp is built again. Knows how to
ask; which answers are wanted is said next door (``__main__``). What is right comes from Python's codec.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracker.build import Build
from tracker.errors import TrackerError
from tracker.toolchain import environment, toolchain

_MATCHING = Path(__file__).with_name("matching.cpp")
_GRAMMAR = "src/llama-grammar.cpp"
_HELPERS = (
    "json-schema-to-grammar",
    "json-schema",
    "json-partial",
    "json",
    "trie",
    "unicode",
    "common",
    "log",
)
"""What ``test-grammar-integration`` uses of upstream's folder ``common``, where a release has it."""

_TIMEOUT_SECONDS = 600


class CheckError(TrackerError):
    """A program of the check does not compile, or does not answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What one function answered: ``first`` is the first case that it got wrong, as text."""

    function: str
    cases: int
    wrong: int
    first: str


@dataclass(frozen=True, slots=True)
class Workshop:
    """Programs around the grammar code of trees of one release.

    Attributes:
        build: the release without a patch, for all that patches leave alone.
        folder: an empty one to work in.
    """

    build: Build
    folder: Path
    _objects: dict[Path, Path] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def answers(self, tree: Path) -> tuple[Answers, ...]:
        """Ask the matching functions of a tree all that ``matching.cpp`` asks. Raises CheckError."""
        program = self._linked([self._compiled(_MATCHING, tree)])
        done = self._run([program], encodings())
        if done.returncode != 0:
            raise CheckError(f"{_MATCHING.name}: {_told(done)}")
        lines = [line.split(" ", 3) for line in done.stdout.splitlines()]
        return tuple(Answers(name, int(cases), int(wrong), first) for name, cases, wrong, first in lines)

    def failure(self, test: str, tree: Path) -> str:
        """Run a test program of a tree's folder ``tests``; why it fails, empty when it passes.

        Raises CheckError when it does not compile.
        """
        sources = [tree / "tests" / f"{test}.cpp", tree / _GRAMMAR]
        objects = [self._compiled(source, tree) for source in sources]
        if test == "test-grammar-integration":
            common = self.build.tree / "common"
            helpers = [path for name in _HELPERS if (path := common / f"{name}.cpp").is_file()]
            objects += [self._compiled(path, self.build.tree) for path in helpers]
        done = self._run([self._linked(objects)])
        return _told(done) or f"exit status {done.returncode}" if done.returncode else ""

    def _compiled(self, source: Path, tree: Path) -> Path:
        """The object of a source with the headers of a tree; that of a tree's own source is made once."""
        if source in self._objects:
            return self._objects[source]
        made = self.folder / f"{source.stem}-{next(self._numbers)}.o"
        headers = ["src", "include", "ggml/include", "common", "vendor"]
        includes = [f"-I{tree / name}" for name in headers]
        # Sections, so that what a test does not use of a file needs no further files.
        self._make(["-std=c++17", "-O2", "-ffunction-sections", *includes, "-c", source, "-o", made])
        if source != _MATCHING:
            self._objects[source] = made
        return made

    def _linked(self, objects: Sequence[Path]) -> Path:
        made = self.folder / f"program-{next(self._numbers)}"
        libraries = self.build.library.parent
        paths = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"]
        self._make([*objects, "-Wl,--gc-sections", "-o", made, *paths, "-lllama", "-lggml", "-lggml-base"])
        return made

    def _make(self, arguments: Sequence[str | Path]) -> None:
        done = self._run([toolchain().cxx, *arguments])
        if done.returncode != 0:
            raise CheckError(f"{self.build.id}: {_told(done)}")

    def _run(self, command: Sequence[str | Path], given: str = "") -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TIMEOUT_SECONDS,
                cwd=self.folder,
                env=environment({}, self.folder),
            )
        except subprocess.TimeoutExpired:
            raise CheckError(f"{Path(command[0]).name}: no end after {_TIMEOUT_SECONDS} seconds") from None


def encodings() -> str:
    """Every scalar value but U+0000 in ascending order, one a line: code point and UTF-8, both in hex."""
    scalars = itertools.chain(range(1, 0xD800), range(0xE000, 0x110000))
    return "".join(f"{scalar:x} {chr(scalar).encode().hex()}\n" for scalar in scalars)


def _told(done: subprocess.CompletedProcess[str]) -> str:
    """The line of a program's errors that says why it failed, without folders."""
    lines = done.stderr.strip().splitlines() or [""]
    marked = (
        line for mark in ("Assertion", "error:", "undefined reference") for line in lines if mark in line
    )
    line = next(marked, lines[-1])
    return " ".join(os.path.basename(word) if word.startswith("/") else word for word in line.split())[:300]
