"""The tools that a build uses: compilers, CMake and Ninja from their Python packages, a compiler cache.

Knows where they are, what identifies them, and in what environment they run: an allow-list, so that nothing
of this process's environment (tokens least of all) reaches upstream's build scripts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cmake
import ninja

from tracker.cache import Cache
from tracker.errors import TrackerError

CMAKE = Path(cmake.CMAKE_BIN_DIR) / "cmake"
NINJA = Path(ninja.BIN_DIR) / "ninja"

COMPILER_CACHE_VARIABLE = "LLAMA_TRACKER_COMPILER_CACHE"

_CACHE_SIZE = "4G"
_IDLE_SECONDS = "120"
_SLOTS = 16
"""Builds at once whose objects are shared; see ``tracker.build``."""
_LONGEST_SOCKET_PATH = 100
"""Unix domain sockets take 107 bytes on Linux."""


class ToolchainError(TrackerError):
    """No compiler."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The compilers in use; ``identity`` is what makes two builds of one source differ."""

    c: str
    cxx: str
    identity: str


def toolchain() -> Toolchain:
    """The compilers that ``CC`` and ``CXX`` name, else ``cc`` and ``c++``. Raises ToolchainError."""
    paths = []
    for variable, default in (("CC", "cc"), ("CXX", "c++")):
        name = os.environ.get(variable) or default
        path = shutil.which(name)
        if path is None:
            raise ToolchainError(f"no compiler {name!r} found; install one (gcc, g++) or set {variable}")
        paths.append(path)
    c, cxx = paths
    return Toolchain(
        c, cxx, f"{_first_line(c, '--version')} / {_first_line(cxx, '--version', '-dumpmachine')}"
    )


def environment(extra: Mapping[str, str], home: Path) -> dict[str, str]:
    """The whole environment of a build step; ``home`` is an empty folder that is thrown away."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(home), **extra}


def slot(cache: Cache, number: int) -> tuple[Path, Path]:
    """Where the compiler sees the source and the folder of objects; a number for each build at one time."""
    slots = cache.folder("slots")
    return slots / str(number), slots / f"{number}-build"


@dataclass(frozen=True, slots=True)
class CompilerCache:
    """A program that is put before the compiler, and the variables it needs."""

    launcher: Path
    variables: Mapping[str, str]


def compiler_cache(cache: Cache) -> CompilerCache | None:
    """ccache or sccache, from this Python environment or the PATH, ready for use; None when there is none.

    ``LLAMA_TRACKER_COMPILER_CACHE`` names the one to use, or ``none``. Raises ToolchainError when the one
    named is not there.
    """
    wanted = os.environ.get(COMPILER_CACHE_VARIABLE, "")
    if wanted == "none":
        return None
    if wanted not in ("", "ccache", "sccache"):
        raise ToolchainError(f"{COMPILER_CACHE_VARIABLE}={wanted}: give ccache, sccache or none")
    found = _compiler_cache(cache, wanted)
    if wanted and found is None:
        raise ToolchainError(f"{COMPILER_CACHE_VARIABLE}={wanted}: is not there or does not start; unset it")
    return found


def _compiler_cache(cache: Cache, wanted: str) -> CompilerCache | None:
    folder = cache.folder("compiler-cache")
    if wanted != "sccache" and (ccache := _tool("ccache")) is not None:
        return CompilerCache(ccache, {"CCACHE_DIR": str(folder), "CCACHE_MAXSIZE": _CACHE_SIZE})
    sccache = _tool("sccache")
    socket = cache.folder("locks") / "sccache"
    if wanted == "ccache" or sccache is None or len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
        return None
    variables = {
        "SCCACHE_DIR": str(folder),
        "SCCACHE_CACHE_SIZE": _CACHE_SIZE,
        "SCCACHE_CONF": os.devnull,
        "SCCACHE_SERVER_UDS": str(socket),
        "SCCACHE_IDLE_TIMEOUT": _IDLE_SECONDS,
        # What one slot has compiled, another one finds.
        "SCCACHE_BASEDIRS": os.pathsep.join(str(path) for n in range(_SLOTS) for path in slot(cache, n)),
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
    }
    return CompilerCache(sccache, variables) if _server_runs(sccache, variables, folder) else None


def _server_runs(sccache: Path, variables: Mapping[str, str], folder: Path) -> bool:
    """Start sccache's server if none listens, without our pipes, locks and terminal: it outlives us."""
    try:
        subprocess.run(
            [sccache, "--start-server"],
            env=environment(variables, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
            timeout=60,
        )
        # Starting fails when a server runs already; asking it tells the two apart.
        answer = subprocess.run(
            [sccache, "--show-stats"],
            env=environment(variables, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def _tool(name: str) -> Path | None:
    beside = Path(sys.executable).parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    return None if found is None else Path(found)


def _first_line(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    lines = result.stdout.splitlines() if result.returncode == 0 else []
    if not lines:
        raise ToolchainError(f"{command[0]} does not say its version; set CC and CXX to working compilers")
    return lines[0].strip()
