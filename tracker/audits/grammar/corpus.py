"""The corpus: which grammars are audited, with which bounds, and what is known to be right about them.

``grammars/corpus.yaml`` names each grammar; its text is a file beside it, or is made from a pattern where the
text is only large. Grammars that a build carries in its own source tree are read from there at run time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tracker.errors import UsageError

CORPUS_FOLDER = Path(__file__).resolve().parents[3] / "grammars"

DEFAULT_STATES = 60


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Nested(_Entry):
    """A text made by nesting: ``open`` repeated, ``core``, ``close`` repeated."""

    open: str
    core: str
    close: str
    count: int


class Chain(_Entry):
    """A text made of numbered lines, ``line`` with ``{i}`` and ``{next}`` filled in, and then ``last``."""

    line: str
    last: str
    count: int


class KnownMask(_Entry):
    """A right value that does not come from the oracle: how many tokens may follow some bytes."""

    after: str = ""
    tokens: int
    source: str


class Visit(_Entry):
    """An output that is compared before the walk begins: ``text`` repeated."""

    text: str
    times: int = 1


class CorpusEntry(_Entry):
    """One grammar of the corpus.

    ``states`` bounds the walk; each state is compared after up to ``paths`` token paths. ``oracle_only``
    grammars are ones that upstream documents as unsupported: the oracle is controlled with them, the build is
    not asked. ``group`` says what it is there for; ``robustness`` grammars may kill the library and get a
    short deadline. ``text`` is filled in by ``load_corpus``.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    why: str
    group: Literal["published", "masks", "parsing", "robustness", "source-tree", "file"] = "masks"
    file: str | None = None
    inline: str | None = None
    nested: Nested | None = None
    chain: Chain | None = None
    states: int = Field(default=DEFAULT_STATES, ge=1)
    paths: int = Field(default=1, ge=1)
    oracle_only: bool = False
    expected: tuple[KnownMask, ...] = ()
    visit: tuple[Visit, ...] = ()
    text: str = ""

    @model_validator(mode="after")
    def _one_text(self) -> CorpusEntry:
        given = [name for name in ("file", "inline", "nested", "chain") if getattr(self, name) is not None]
        if len(given) != 1 and self.group not in ("source-tree", "file"):
            raise ValueError("give exactly one of file, inline, nested, chain")
        return self

    @property
    def sha256(self) -> str:
        """Of the text, hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_corpus(folder: Path = CORPUS_FOLDER) -> tuple[CorpusEntry, ...]:
    """Read ``corpus.yaml`` and the texts it names.

    Raises:
        UsageError: the file or a grammar is missing, or an entry is not as it must be.
    """
    index = folder / "corpus.yaml"
    try:
        raw = yaml.safe_load(index.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{index}: {error.strerror}: the corpus has to have an index") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{index}: {str(error).splitlines()[0]}: not valid YAML") from None
    entries: list[CorpusEntry] = []
    for number, item in enumerate(raw or [], 1):
        try:
            entry = CorpusEntry.model_validate(item)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "entry"
            raise UsageError(f"{index}: entry {number}, {key}: {first['msg']}") from None
        entries.append(entry.model_copy(update={"text": _text(entry, folder)}))
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{index}: the name '{twice[0]}' is used twice: names must be unique")
    if not entries:
        raise UsageError(f"{index}: no grammar at all: nothing would be audited")
    return tuple(entries)


def _text(entry: CorpusEntry, folder: Path) -> str:
    if entry.inline is not None:
        return entry.inline
    if entry.nested is not None:
        shape = entry.nested
        return f"root ::= {shape.open * shape.count}{shape.core}{shape.close * shape.count}\n"
    if entry.chain is not None:
        lines = [
            entry.chain.line.replace("{i}", str(i)).replace("{next}", str(i + 1))
            for i in range(entry.chain.count)
        ]
        return "\n".join([*lines, entry.chain.last]) + "\n"
    path = folder / str(entry.file)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: named by corpus.yaml entry '{entry.name}'") from None


def source_tree_grammars(tree: Path, states: int) -> tuple[CorpusEntry, ...]:
    """The grammars in the ``grammars`` folder of a build's source tree, by name; none where there is none."""
    found = []
    for path in sorted((tree / "grammars").glob("*.gbnf")):
        name = "upstream-" + path.stem.lower().replace("_", "-")
        found.append(
            CorpusEntry(
                name=name,
                why="carried in the source tree of the build under audit",
                group="source-tree",
                states=states,
                text=path.read_text(encoding="utf-8", errors="replace"),
            )
        )
    return tuple(found)


MAX_FILE = 16 << 20
"""Bytes of the largest grammar file that is read: a device has no end."""


def grammar_file(path: Path, states: int) -> CorpusEntry:
    """A grammar of the user's own.

    Raises:
        UsageError: the file cannot be read or is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise UsageError(f"{path}: is larger than {MAX_FILE >> 20} MiB: give the path of a GBNF file")
        text = content.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: give the path of a GBNF file") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8: save the grammar as UTF-8") from None
    if "\0" in text:
        before = text[: text.index("\0")]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise UsageError(f"{path}: line {line}, column {column}: NUL character: no grammar can hold one")
    return CorpusEntry(name="grammar", why="given by the user", group="file", states=states, text=text)
