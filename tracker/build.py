"""Source tree -> built libllama in the cache.

Knows CMake's options, the toolchain's identity, and the contract of a build's folder; it does not know
where sources come from nor what a library is used for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import Timeout

from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.libllama.header import declarations
from tracker.releases import ResolvedRelease, Source
from tracker.toolchain import CMAKE, NINJA, Toolchain, compiler_cache, environment, toolchain

_RECIPE = 1
"""Raised when the settings below change what is built."""

_SETTINGS = (
    "BUILD_SHARED_LIBS=ON",
    "GGML_NATIVE=OFF",
    "GGML_OPENMP=OFF",
    # Vocabulary, grammar and sampler chain need no backend, and this one is a fifth of the build.
    "GGML_CPU=OFF",
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

_STAMP = "build.json"
_FAILED = "failed.json"
_LOG = "build.log"
_DECLARATIONS = "declarations.h"
_LOG_TAIL = 8000
_ERROR_LINE = re.compile(r"\berror:|CMake Error|ninja: error")
_MACHINE_TO_BLAME = re.compile(
    r"No space left on device|Killed signal|virtual memory exhausted|Cannot allocate"
)


class BuildError(TrackerError):
    """A build failed, now or when it was last tried; ``log`` holds the end of its log."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A built library in the cache.

    ``id`` names it in results and file names (``llama-cpp-python-0.3.36``; other than default options add a
    suffix); ``key`` adds toolchain and options. ``library`` is libllama (or libggml-base for that target),
    ``libraries`` all that were built, ``header`` is llama.h, ``declarations`` its reduction
    for cffi, ``tree`` the source tree (grammars/, models/ and
    tests/ are readable there), ``folder`` the build's own place in the cache.
    """

    key: str
    id: str
    release: ResolvedRelease
    options: BuildOptions
    folder: Path
    library: Path
    libraries: tuple[Path, ...]
    header: Path
    declarations: Path
    tree: Path


Progress = Callable[[str], None]
"""Told one line at a time what is being done."""


def build_key(source: Source, options: BuildOptions, tools: Toolchain) -> str:
    """The name of a build's folder: release, options, toolchain and recipe, in one digest."""
    identity = {
        "release": asdict(source.release),
        "options": asdict(options),
        "toolchain": tools.identity,
        "recipe": _RECIPE,
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{_build_id(source, options)}-{digest[:12]}"


def find_build(source: Source, *, cache: Cache, options: BuildOptions | None = None) -> Build | None:
    """The build of a source if it is in the cache. Raises ToolchainError."""
    options = options or BuildOptions()
    key = build_key(source, options, toolchain())
    return _stamped(cache.folder("builds") / key, source, options)


def build_release(
    source: Source,
    *,
    cache: Cache,
    jobs: int = 0,
    options: BuildOptions | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Build:
    """The build of a source, made unless it is in the cache.

    ``jobs`` is the number of compile processes, 0 for the number of processors. A build that failed before
    is not tried again unless ``retry_failed``. Raises BuildError.
    """
    options = options or BuildOptions()
    tell = progress or (lambda line: None)
    tools = toolchain()
    key = build_key(source, options, tools)
    folder = cache.folder("builds") / key
    with cache.lock(f"build-{key}"):
        build = _stamped(folder, source, options)
        if build is not None:
            return build
        if not retry_failed:
            _raise_remembered(folder)
        shutil.rmtree(folder, ignore_errors=True)
        with cache.working_folder() as working, _slot(cache, source.tree) as tree:
            result = working / "result"
            result.mkdir()
            recipe = _Recipe(tree, working, options, tools, cache, tell)
            try:
                recipe.run(jobs or os.cpu_count() or 1)
            except _StepFailed as failure:
                message = f"{_build_id(source, options)}: does not build: {failure}"
                if not failure.passing:
                    _remember(result, folder, message, failure.log)
                raise BuildError(message, failure.log) from None
            _collect(working, result, source, tools)
            os.replace(result, folder)
        build = _stamped(folder, source, options)
        if build is None:
            raise BuildError(f"{key}: vanished from the cache while it was built; run again")
        return build


class _StepFailed(Exception):
    """A step of the recipe failed. ``passing`` when the machine is to blame, not the source."""

    def __init__(self, message: str, log: str, *, passing: bool) -> None:
        super().__init__(message)
        self.log = log
        self.passing = passing


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The steps from a source tree to libraries in ``working/build``."""

    tree: Path
    working: Path
    options: BuildOptions
    tools: Toolchain
    cache: Cache
    tell: Progress

    def run(self, jobs: int) -> None:
        """Configure and build. Raises _StepFailed."""
        launcher = compiler_cache(self.cache)
        settings = [*_SETTINGS, *_SANITIZE * self.options.sanitize, *self.options.defines]
        settings += [f"CMAKE_BUILD_TYPE={self.options.build_type}", f"CMAKE_MAKE_PROGRAM={NINJA}"]
        settings += [f"CMAKE_C_COMPILER={self.tools.c}", f"CMAKE_CXX_COMPILER={self.tools.cxx}"]
        if launcher is not None:
            settings += [
                f"CMAKE_{language}_COMPILER_LAUNCHER={launcher.launcher}" for language in ("C", "CXX")
            ]
        build = self.working / "build"
        self.tell("configuring")
        configure: list[str | Path] = [CMAKE, "-G", "Ninja", "-S", self.tree, "-B", build]
        variables = {} if launcher is None else dict(launcher.variables)
        self._step([*configure, *(f"-D{setting}" for setting in settings)], variables)
        self.tell(f"compiling with {jobs} processes" + (f" and {launcher.launcher.name}" if launcher else ""))
        self._step([NINJA, "-C", build, "-j", str(jobs), self.options.target], variables)

    def _step(self, command: Sequence[str | Path], variables: Mapping[str, str]) -> None:
        home = self.working / "home"
        home.mkdir(exist_ok=True)
        log = self.working / "build.log"
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command,
                env=environment(variables, home),
                cwd=self.working,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                status = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if status != 0:
            text = log.read_text("utf-8", "replace").replace(str(self.tree), ".")
            raise _StepFailed(
                _reason(text),
                text[-_LOG_TAIL:],
                passing=status < 0 or _MACHINE_TO_BLAME.search(text) is not None,
            )


def _reason(log: str) -> str:
    """The line of a log that says what went wrong."""
    lines = log.splitlines()
    first = next((line for line in lines if _ERROR_LINE.search(line)), lines[-1] if lines else "no output")
    return first.strip()[:300]


@contextmanager
def _slot(cache: Cache, tree: Path) -> Iterator[Path]:
    """The tree under a path that is the same for all builds, so that a compiler cache knows their objects."""
    for number in itertools.count():
        lock = cache.lock(f"slot-{number}", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            continue
        try:
            link = cache.folder("slots") / str(number)
            link.unlink(missing_ok=True)
            link.symlink_to(tree, target_is_directory=True)
            yield link
            return
        finally:
            lock.release()


def _collect(working: Path, result: Path, source: Source, tools: Toolchain) -> None:
    """Put libraries, declarations and stamp into ``result``; the stamp last."""
    libraries = result / "lib"
    libraries.mkdir()
    found = [path for path in (working / "build").rglob("lib*.so*") if "CMakeFiles" not in path.parts]
    for path in found:
        shutil.copy2(path, libraries / path.name, follow_symlinks=False)
    (result / _DECLARATIONS).write_text(declarations(source.tree, tools.c))
    shutil.copy2(working / "build.log", result / _LOG)
    stamp = {"libraries": sorted(path.name for path in found), "toolchain": tools.identity}
    (result / _STAMP).write_text(json.dumps(stamp, indent=2, sort_keys=True) + "\n")


def _stamped(folder: Path, source: Source, options: BuildOptions) -> Build | None:
    """The build in a folder, or None when its stamp is not there."""
    try:
        names = json.loads((folder / _STAMP).read_text())["libraries"]
    except (OSError, ValueError, KeyError):
        return None
    return Build(
        key=folder.name,
        id=_build_id(source, options),
        release=source.release,
        options=options,
        folder=folder,
        library=folder / "lib" / ("libllama.so" if options.target == "llama" else f"lib{options.target}.so"),
        libraries=tuple(folder / "lib" / name for name in names),
        header=source.tree / "include" / "llama.h",
        declarations=folder / _DECLARATIONS,
        tree=source.tree,
    )


def _remember(result: Path, folder: Path, message: str, log: str) -> None:
    (result / _FAILED).write_text(json.dumps({"message": message, "log": log}, indent=2) + "\n")
    os.replace(result, folder)


def _raise_remembered(folder: Path) -> None:
    try:
        failure = json.loads((folder / _FAILED).read_text())
        message, log = str(failure["message"]), str(failure["log"])
    except (OSError, ValueError, KeyError):
        return
    raise BuildError(f"{message} (remembered; --retry tries again)", log)


def _build_id(source: Source, options: BuildOptions) -> str:
    if options == BuildOptions():
        return source.release.id
    digest = hashlib.sha256(json.dumps(asdict(options), sort_keys=True).encode()).hexdigest()
    return f"{source.release.id}+{digest[:6]}"
