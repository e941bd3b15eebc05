"""Source tree -> built libllama in the cache.

Knows a build's identity and the contract of its folder; how it is compiled is next door (``recipe``,
``toolchain``), and it does not know where sources come from nor what a library is used for.

    builds/<key>/lib/            the libraries, which find each other wherever the folder is
    builds/<key>/declarations.h  the C API for cffi, from the build's own headers builds/<key>/build.log
    builds/<key>/build.json      written last: a folder with it is complete; its time is that of the last
    use builds/<key>/failed.json     instead of all that, when the source does not build
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tracker.atomic import write_atomic
from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.kept import kept_tree
from tracker.libllama.header import HeaderError, declarations
from tracker.recipe import LOG, RECIPE, BuildOptions, Progress, Recipe, StepFailed, stable_paths
from tracker.releases import ChannelName, ResolvedRelease, Source
from tracker.toolchain import CompilerCache, Toolchain, compiler_cache, toolchain

__all__ = ["Build", "BuildError", "BuildOptions", "Progress", "build_key", "build_release", "find_build"]


_STAMP = "build.json"
_FAILED = "failed.json"
_DECLARATIONS = "declarations.h"


class BuildError(TrackerError):
    """A build failed, now or when it was last tried; ``log`` holds the end of its log.

    ``passing``: see ``TrackerError``; such a failure is not remembered.
    """

    def __init__(self, message: str, log: str = "", *, passing: bool = False) -> None:
        super().__init__(message)
        self.log = log
        self.passing = passing


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A built library in the cache.

    ``id`` names it in results and file names (``llama-cpp-python-0.3.36``; other than default options add a
    suffix); ``key`` adds toolchain and options. ``library`` is libllama (or libggml-base for that target),
    ``libraries`` all that were built, ``header`` is llama.h, ``declarations`` its reduction for cffi,
    ``tree`` the source tree (grammars/, models/ and tests/ are readable there), ``folder`` the build's own
    place in the cache.
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


def build_key(source: Source, options: BuildOptions, tools: Toolchain) -> str:
    """The name of a build's folder: release, options, toolchain and recipe, in one digest."""
    identity = {
        "release": asdict(source.release),
        "options": asdict(options),
        "toolchain": tools.identity,
        "recipe": RECIPE,
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
        launcher = compiler_cache(cache)
        with (
            cache.working_folder() as working,
            _tree(source, options, tools, launcher, cache, working) as copy,
            stable_paths(cache, copy, working / "build") as (tree, objects),
        ):
            result = working / "result"
            for made in (result, working / "build"):
                made.mkdir(exist_ok=True)
            recipe = Recipe(tree, objects, working, options, tools, launcher, cache, tell)
            try:
                recipe.run(jobs or os.cpu_count() or 1)
                _collect(working, result, source, options, tools)
            except StepFailed as failure:
                message = f"{_build_id(source, options)}: does not build: {failure}"
                if failure.passing:
                    message += ": this machine is to blame: make room (disk, memory) and run again"
                else:
                    content = json.dumps({"message": message, "log": failure.log}, indent=2) + "\n"
                    write_atomic(folder / _FAILED, content.encode())
                raise BuildError(message, failure.log, passing=failure.passing) from None
            os.replace(result, folder)
        build = _stamped(folder, source, options)
        if build is None:
            raise BuildError(f"{key}: vanished from the cache while it was built; run again")
        return build


@contextmanager
def _tree(
    source: Source,
    options: BuildOptions,
    tools: Toolchain,
    launcher: CompilerCache | None,
    cache: Cache,
    working: Path,
) -> Iterator[Path]:
    """The tree to build: without a compiler cache, a copy with the objects of the channel's last build."""
    channel = source.release.channel
    # A folder of the user's own may hold anything, links out of it as well.
    if launcher is not None or channel is ChannelName.PATH:
        yield source.tree
        return
    identity = json.dumps([asdict(options), tools.identity, RECIPE], sort_keys=True)
    name = f"{channel}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    with kept_tree(cache, name, source.tree, working) as tree:
        yield tree


def _collect(working: Path, result: Path, source: Source, options: BuildOptions, tools: Toolchain) -> None:
    """Put libraries, declarations and stamp into ``result``; the stamp last. Raises StepFailed."""
    libraries = result / "lib"
    libraries.mkdir()
    found = [path for path in (working / "build").rglob("lib*.so*") if "CMakeFiles" not in path.parts]
    for path in found:
        shutil.copy2(path, libraries / path.name, follow_symlinks=False)
    if not (libraries / _library_name(options)).exists():
        raise StepFailed(f"target {options.target} made no {_library_name(options)}", "", passing=False)
    try:
        (result / _DECLARATIONS).write_text(declarations(source.tree, tools.c))
    except HeaderError as error:
        raise StepFailed(str(error), "", passing=False) from None
    shutil.copy2(working / LOG, result / LOG)
    stamp = {"libraries": sorted(path.name for path in found), "toolchain": tools.identity}
    write_atomic(result / _STAMP, (json.dumps(stamp, indent=2, sort_keys=True) + "\n").encode())


def _library_name(options: BuildOptions) -> str:
    return "libllama.so" if options.target == "llama" else f"lib{options.target}.so"


def _stamped(folder: Path, source: Source, options: BuildOptions) -> Build | None:
    """The build in a folder, or None when its stamp is not there."""
    try:
        names = json.loads((folder / _STAMP).read_text())["libraries"]
        os.utime(folder / _STAMP)
    except (OSError, ValueError, KeyError):
        return None
    return Build(
        key=folder.name,
        id=_build_id(source, options),
        release=source.release,
        options=options,
        folder=folder,
        library=folder / "lib" / _library_name(options),
        libraries=tuple(folder / "lib" / name for name in names),
        header=source.tree / "include" / "llama.h",
        declarations=folder / _DECLARATIONS,
        tree=source.tree,
    )


def _raise_remembered(folder: Path) -> None:
    try:
        failure = json.loads((folder / _FAILED).read_text())
        message, log = str(failure["message"]), str(failure["log"])
    except (OSError, ValueError, KeyError):
        return
    raise BuildError(f"{message} (remembered; --retry-failed tries again)", log)


def _build_id(source: Source, options: BuildOptions) -> str:
    if options == BuildOptions():
        return source.release.id
    digest = hashlib.sha256(json.dumps(asdict(options), sort_keys=True).encode()).hexdigest()
    return f"{source.release.id}+{digest[:6]}"
