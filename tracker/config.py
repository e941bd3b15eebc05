"""builds.yaml → ``Config``: what is audited, what is watched, who is told.

It knows the file's keys and what each may hold. It resolves no release, reads no corpus and asks no network:
it only says, with file, line and key, what of the file cannot be meant.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from tracker.errors import UsageError
from tracker.releases import ChannelName, Release, parse_range, parse_release
from tracker.results import AuditName, Cause, Kind
from tracker.yaml_source import YamlProblem, YamlSource

DEFAULT_FILE = "builds.yaml"
MAX_SIZE = 1_000_000
"""Bytes of a configuration file; a larger one is some other file."""

REPOSITORY_VARIABLE = "GITHUB_REPOSITORY"
"""What Actions calls the repository it runs in."""

_ALLOWED = {
    "vocabulary": "qwen2.5",
    "releases": "a list of releases or of mappings with release, grammars, states, note",
    "release": "llama-cpp-python==VERSION (or ==latest, or a range: >=0.3.24), git+URL@REF, path:DIR",
    "corpus": "a folder with corpus.yaml, relative to this file",
    "bounds": "a mapping with states",
    "notification": "a mapping with repository, label, max_new_issues, health, after_failures",
    "watches": "a list of mappings with name, audit, kinds, causes, grammars, mid_code_point, title, about",
    "states": "a whole number from 1 to 1000000",
    "grammars": "a list of names or patterns such as json-*",
    "kinds": ", ".join(Kind),
    "causes": ", ".join(Cause),
    "audit": ", ".join(AuditName),
    "audits": "a list of " + ", ".join(AuditName),
    "name": "letters, digits, '.', '_' and '-', at most 64",
    "mid_code_point": "true or false",
    "repository": "OWNER/NAME",
    "max_new_issues": "a whole number from 0 to 50",
    "after_failures": "a whole number from 1 to 30",
    "health": "true or false",
    "note": "a text (in quotes, when YAML takes it for something else)",
}
"""What may stand under a key, by the key's name; for errors."""


class ConfigError(UsageError):
    """builds.yaml cannot be used as it stands."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _release_text(text: str) -> str:
    try:
        if parse_range(text) is None:
            parse_release(text)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return text


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Pattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+/@*?\[\]!-]{1,120}$")]
States = Annotated[int, Field(ge=1, le=1_000_000)]


class ReleaseEntry(_Section):
    """One line under ``releases``; a plain text is short for a mapping with only ``release``.

    ``grammars`` are shell patterns over the corpus (empty: all of it), ``states`` overrides the bound.
    """

    release: Annotated[str, AfterValidator(_release_text)]
    grammars: tuple[Pattern, ...] = ()
    states: States | None = None
    note: str = ""

    @property
    def exact(self) -> Release | None:
        """The one release it names (``latest`` among them), or None for a range."""
        return None if self.versions else parse_release(self.release)

    @property
    def versions(self) -> tuple[ChannelName, SpecifierSet] | None:
        """The range of versions it names, or None."""
        return parse_range(self.release)


class Bounds(_Section):
    """Where a walk over one grammar stops; None leaves it to the corpus entry."""

    states: States | None = None


class Watch(_Section):
    """A named filter over findings. An empty or missing filter lets everything through.

    ``grammars`` are shell patterns over the names of subjects, whatever the audit calls them.
    """

    name: Name
    audit: Literal["grammar", "sampler", "gguf"] = "grammar"
    kinds: tuple[Kind, ...] = ()
    causes: tuple[str, ...] = ()
    grammars: tuple[Pattern, ...] = ()
    mid_code_point: bool | None = None
    title: str = ""
    """What an issue about it is called; empty leaves it to the publisher."""
    about: str = ""
    """One or two sentences for its page and its issue."""


class Notification(_Section):
    """Who is told. ``repository`` is empty when the environment is to say it (in Actions it does).

    ``after_failures`` nights in a row without a result make it a matter of the health issue.
    """

    repository: Annotated[str, Field(pattern=r"^([A-Za-z0-9-]{1,39}/[A-Za-z0-9_.-]{1,100})?$")] = ""
    label: Annotated[str, Field(min_length=1, max_length=50)] = "llama-tracker"
    max_new_issues: Annotated[int, Field(ge=0, le=50)] = 3
    health: bool = True
    after_failures: Annotated[int, Field(ge=1, le=30)] = 3

    def target(self, environment: Mapping[str, str] = os.environ) -> str:
        """``OWNER/NAME`` to write to. ConfigError when neither the file nor the environment has it."""
        name = self.repository or environment.get(REPOSITORY_VARIABLE, "")
        if not re.fullmatch(r"[A-Za-z0-9-]{1,39}/[A-Za-z0-9_.-]{1,100}", name):
            raise ConfigError(
                f"notification.repository: nobody to tell: write OWNER/NAME or set {REPOSITORY_VARIABLE}"
            )
        return name


class Config(_Section):
    """A whole builds.yaml."""

    vocabulary: Literal["qwen2.5"] = "qwen2.5"
    releases: Annotated[tuple[ReleaseEntry, ...], Field(min_length=1)]
    audits: Annotated[tuple[AuditName, ...], Field(min_length=1)] = (AuditName.GRAMMAR,)
    corpus: str = "grammars"
    bounds: Bounds = Bounds()
    watches: tuple[Watch, ...] = ()
    notification: Notification = Notification()

    _folder: Path = PrivateAttr(default=Path())

    @property
    def corpus_folder(self) -> Path:
        """The folder that holds corpus.yaml, seen from where the file lies."""
        return self._folder / self.corpus

    def watch(self, name: str) -> Watch:
        """The watch of that name. Raises ConfigError with the names there are."""
        for watch in self.watches:
            if watch.name == name:
                return watch
        names = ", ".join(watch.name for watch in self.watches) or "none"
        raise ConfigError(f"watch {name!r}: not in the configuration; there are: {names}")


def load_config(path: Path = Path(DEFAULT_FILE)) -> Config:
    """Read a configuration file. Raises ConfigError that names file, line, key and what is allowed."""
    try:
        if path.stat().st_size > MAX_SIZE:
            raise ConfigError(
                f"{path}: larger than {MAX_SIZE} bytes: this is no configuration of llama-tracker"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}: give a configuration with --config FILE") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8") from None
    return parse_config(text, str(path), path.parent)


def parse_config(text: str, name: str = DEFAULT_FILE, folder: Path = Path()) -> Config:
    """The configuration that a text describes; ``name`` is what errors call it. Raises ConfigError."""
    try:
        source = YamlSource.read(text)
    except YamlProblem as problem:
        raise ConfigError(f"{name}:{problem.line}: {problem}") from None
    raw = source.value
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}:1: must be a mapping; allowed keys: {_keys(Config)}")
    releases = raw.get("releases")
    if isinstance(releases, list):
        raw["releases"] = [{"release": item} if isinstance(item, str) else item for item in releases]
    try:
        # By way of JSON, where strict types mean what a person expects: a list is a list, no number a text.
        config = Config.model_validate_json(json.dumps(raw, default=str))
    except ValidationError as error:
        raise ConfigError(_in_words(name, source, error)) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}:1: refers to itself or nests too deeply: write it out") from None
    _refuse_twice(name, source, "releases", [entry.release for entry in config.releases])
    _refuse_twice(name, source, "watches", [watch.name for watch in config.watches])
    config._folder = folder
    return config


def _refuse_twice(name: str, source: YamlSource, key: str, values: Sequence[str]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ConfigError(f"{name}:{source.line((key, index))}: {key}: {value!r} is listed twice")


def _in_words(name: str, source: YamlSource, error: ValidationError) -> str:
    """The first error as one line: file, line, key, what is wrong, what is allowed."""
    errors = error.errors(include_url=False)
    # A list with a bad item also counts as too short.
    errors = [item for item in errors if item["type"] != "too_short"] or errors
    first = errors[0]
    location = first["loc"]
    key = next((str(part) for part in reversed(location) if isinstance(part, str)), "")
    shown = ".".join(str(part) for part in location)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{name}:{source.line(location)}: {shown}: {_problem(first, key, location)}{more}"


def _problem(first: ErrorDetails, key: str, location: tuple[int | str, ...]) -> str:
    if first["type"] == "extra_forbidden":
        return f"there is no such key; allowed here: {_keys(_section(location[:-1]))}"
    if first["type"] == "missing":
        return f"is missing; allowed: {_ALLOWED.get(key, 'a value')}"
    if first["type"] == "too_short":
        return f"must not be empty; allowed: {_ALLOWED.get(key, 'a list')}"
    if first["type"] == "value_error":
        return first["msg"].removeprefix("Value error, ")
    value = first["input"]
    shown = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return f"{' '.join(shown.split())[:80]} is not allowed; allowed: {_ALLOWED.get(key, first['msg'])}"


def _section(location: tuple[int | str, ...]) -> type[_Section]:
    sections: dict[str, type[_Section]] = {
        "releases": ReleaseEntry,
        "bounds": Bounds,
        "watches": Watch,
        "notification": Notification,
    }
    return sections[str(location[0])] if location else Config


def _keys(section: type[_Section]) -> str:
    return ", ".join(section.model_fields)
