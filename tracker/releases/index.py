"""The package index as pip is configured to see it: the source distributions there are, and their files.

Mirrors, extra indexes, link folders, certificates and trusted hosts come from pip's configuration (files
and ``PIP_*`` variables), so that a machine where ``pip download`` works needs no settings of its own. No
build backend is ever run. Knows the index; it does not know what is inside an archive.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from packaging.version import InvalidVersion, Version
from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient

from tracker.cache import Cache
from tracker.releases import ReleaseError, Unavailable

_MAXIMUM_DOWNLOAD = 1 << 30
_ATTEMPTS = 3
_GONE = (404, 410)
"""HTTP: not there. Asking again does not help."""
_SECTIONS = ("global", "install", "download", ":env:")
"""Sections of pip's configuration that count, later ones winning."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A source distribution on the index; ``uploaded`` is ISO 8601 in UTC or empty."""

    name: str
    version: Version
    filename: str
    url: str
    sha256: str
    uploaded: str


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages are looked for."""

    index_urls: tuple[str, ...]
    find_links: tuple[str, ...]
    trusted_hosts: tuple[str, ...]
    certificate: str
    timeout: float


def settings_from(configuration: Mapping[str, str]) -> IndexSettings:
    """The settings in pip's configuration, given as ``section.option`` -> value."""

    def option(name: str, default: str = "") -> str:
        for section in reversed(_SECTIONS):
            if f"{section}.{name}" in configuration:
                return configuration[f"{section}.{name}"]
        return default

    urls: list[str] = []
    if option("no-index").lower() not in ("1", "true", "yes", "on"):
        # Without a setting, the finder's own default is the one that pip has as well.
        urls = [option("index-url") or PackageFinder().sources[0]["url"], *option("extra-index-url").split()]
    try:
        timeout = float(option("timeout") or option("default-timeout") or 30)
    except ValueError:
        timeout = 30.0
    return IndexSettings(
        index_urls=tuple(urls),
        find_links=tuple(option("find-links").split()),
        trusted_hosts=tuple(option("trusted-host").split()),
        certificate=option("cert"),
        timeout=timeout,
    )


@lru_cache(maxsize=1)
def pip_configuration() -> Mapping[str, str]:
    """pip's configuration as it prints it itself; without pip, the ``PIP_*`` variables alone."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.returncode != 0:
        prefix = "PIP_"
        return {
            ":env:." + name.removeprefix(prefix).lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith(prefix)
        }
    configuration = {}
    for line in result.stdout.splitlines():
        name, separator, value = line.partition("=")
        if separator:
            try:
                configuration[name] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                continue
    return configuration


class PackageIndex:
    """Source distributions by name, and their files. Asks the network when it is asked, never before."""

    def __init__(self, cache: Cache, settings: IndexSettings | None = None) -> None:
        self._cache = cache
        self._settings = settings
        self._finder: PackageFinder | None = None
        self._listed: dict[str, Sequence[Distribution]] = {}

    def distributions(self, name: str) -> Sequence[Distribution]:
        """All source distributions of a name that were not withdrawn, oldest version first.

        Raises ReleaseError when the index cannot be asked or has none.
        """
        if name not in self._listed:
            found = {}
            for package in self._packages(name):
                if package.link.is_wheel or package.version is None:
                    continue
                try:
                    version = Version(package.version)
                except InvalidVersion:
                    continue
                sha256 = _stated_sha256(package.link)
                if sha256 and version not in found:
                    uploaded = _iso(package.link.upload_time)
                    url = package.link.url_without_fragment
                    found[version] = Distribution(name, version, package.link.filename, url, sha256, uploaded)
            self._listed[name] = [found[version] for version in sorted(found)]
        if not self._listed[name]:
            raise Unavailable(f"{name}: no source distribution on the index; see `pip config list`")
        return self._listed[name]

    def file(self, distribution: Distribution) -> Path:
        """The distribution's archive in the cache, its sha256 verified. Raises ReleaseError."""
        target = self._cache.folder("downloads") / f"{distribution.sha256[:16]}-{distribution.filename}"
        with self._cache.lock(f"download-{distribution.sha256[:16]}"):
            if target.is_file() and _sha256(target) == distribution.sha256:
                return target
            with self._cache.working_folder() as folder:
                partial = folder / "download"
                self._download(distribution, partial)
                if _sha256(partial) != distribution.sha256:
                    raise Unavailable(
                        f"{distribution.filename}: the file does not have the sha256 that the index states; "
                        "not kept, try again or ask who runs the index"
                    )
                os.replace(partial, target)
        return target

    def _packages(self, name: str) -> list[Any]:
        error: object = None
        for attempt in range(_ATTEMPTS):
            time.sleep(attempt)
            try:
                with _complaints() as complaints:
                    packages = list(self._opened().find_all_packages(name))
            except ReleaseError:
                raise
            except Exception as problem:  # the finder passes on what its HTTP library raises
                error = f"{type(problem).__name__}: {problem}"
                continue
            if packages or not complaints:
                return packages
            error = complaints[-1]
        raise Unavailable(f"{name}: the package index cannot be asked: {_short(error)}; check the network")

    def _download(self, distribution: Distribution, target: Path) -> None:
        error: object = None
        for attempt in range(_ATTEMPTS):
            time.sleep(attempt)
            try:
                stream = self._opened().session.get_stream(distribution.url)
                with stream as response, open(target, "wb") as file:
                    if response.status_code in _GONE:
                        raise ReleaseError(
                            f"{distribution.filename}: the index lists it and does not have it"
                        )
                    response.raise_for_status()
                    size = 0
                    for chunk in response.iter_bytes(1 << 20):
                        size += len(chunk)
                        if size > _MAXIMUM_DOWNLOAD:
                            raise ReleaseError(
                                f"{distribution.filename}: larger than {_MAXIMUM_DOWNLOAD} bytes"
                            )
                        file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
                return
            except (ReleaseError, KeyboardInterrupt):
                raise
            except Exception as problem:  # as above
                error = f"{type(problem).__name__}: {problem}"
        raise Unavailable(f"{distribution.filename}: download failed: {_short(error)}; check the network")

    def _opened(self) -> PackageFinder:
        if self._finder is None:
            settings = self._settings or settings_from(pip_configuration())
            if not settings.index_urls and not settings.find_links:
                raise Unavailable("pip is configured with no-index and no find-links: no source of releases")
            context: ssl.SSLContext | bool = True
            if settings.certificate:
                context = ssl.create_default_context(cafile=settings.certificate)
            client = PyPIClient(
                trusted_hosts=settings.trusted_hosts,
                verify=context,
                timeout=settings.timeout,
                follow_redirects=True,
            )
            client.auth = MultiDomainBasicAuth(index_urls=settings.index_urls)
            self._finder = PackageFinder(
                cast(Any, client),  # the finder's protocol is stricter than what it uses
                index_urls=settings.index_urls,
                find_links=settings.find_links,
                trusted_hosts=settings.trusted_hosts,
                no_binary=[":all:"],
                ignore_compatibility=True,
            )
        return self._finder


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the finder says in warnings: a page that cannot be read is no error to it."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    collector = Collector(logging.WARNING)
    logger = logging.getLogger("unearth")
    logger.addHandler(collector)
    try:
        yield messages
    finally:
        logger.removeHandler(collector)


def _short(error: object) -> str:
    return str(error).partition("\n")[0][:300]


def _stated_sha256(link: Any) -> str:
    """The digest that the index states for a file, or empty."""
    return str((link.hash_option or {}).get("sha256", [""])[0])


def _iso(moment: Any) -> str:
    return "" if moment is None else moment.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
