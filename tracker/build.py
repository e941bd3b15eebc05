"""Source tree -> built libllama in the cache.

Knows CMake's options, the toolchain's identity, and the contract of a build's folder; it does not know where
sources come from nor what a library is used for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.releases import ResolvedRelease, Source


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

    ``jobs`` is the number of compile processes, 0 for the number of processors. A build that failed before is
    not tried again unless ``retry_failed``. Raises BuildError.
    """
    raise NotImplementedError
