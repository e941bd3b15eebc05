"""The release ``installed``: the very libllama that a program in this environment loads.

Knows where the distribution llama-cpp-python keeps its library. The package is found by its metadata and
never imported, since that would run upstream code in this process. Declarations come from the header in the
source distribution of the same version.
"""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tracker.atomic import write_atomic
from tracker.build import Build, BuildOptions
from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.libllama.header import declarations
from tracker.releases import INSTALLED, ChannelName, DateKind, Release, ResolvedRelease
from tracker.releases.channels import fetch

DISTRIBUTION = "llama-cpp-python"
LIBRARY = "libllama.so"


class NotInstalled(TrackerError):
    """There is no llama-cpp-python in this environment, or not the library that it should have."""


def installed_build(cache: Cache, found: Distribution | None = None) -> Build:
    """The installed library as a build that can be audited.

    Args:
        cache: for the source distribution with the header.
        found: the distribution; by default that of this environment.

    Raises:
        NotInstalled: nothing is installed, or its library is not where it should be.
        ReleaseError, HeaderError: the matching source distribution cannot be had or read.
    """
    found = found or _distribution()
    library = _library(found)
    source = fetch(Release(ChannelName.PYTHON, found.version), cache)
    with open(library, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    build_id = f"{INSTALLED}-{source.release.id}-{sha256[:8]}"
    folder = cache.folder(INSTALLED, build_id)
    text = declarations(source.tree)
    write_atomic(folder / "declarations.h", text.encode())
    return Build(
        key=build_id,
        id=build_id,
        release=ResolvedRelease(
            channel=ChannelName.PYTHON,
            version=source.release.version,
            id=build_id,
            commit=source.release.commit,
            date=source.release.date,
            date_kind=source.release.date_kind if source.release.date else DateKind.NONE,
            build_number=source.release.build_number,
            sha256=sha256,
        ),
        options=BuildOptions(),
        folder=folder,
        library=library,
        libraries=tuple(sorted(library.parent.glob("lib*.so*"))),
        header=source.tree / "include" / "llama.h",
        declarations=folder / "declarations.h",
        tree=source.tree,
    )


def _distribution() -> Distribution:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise NotInstalled(
            f"installed: there is no {DISTRIBUTION} in this environment: "
            "pip install 'llama-tracker[installed]', or name a release"
        ) from None


def _library(found: Distribution) -> Path:
    """The shared library among the distribution's files."""
    for file in found.files or ():
        if file.name == LIBRARY:
            path = Path(os.path.abspath(str(found.locate_file(file))))
            if path.is_file():
                return path
    raise NotInstalled(
        f"installed: {DISTRIBUTION} {found.version} has no {LIBRARY} among its files: "
        "reinstall it, or name a release"
    )
