"""Why a file is refused: the closed set of rules, and the error that names one of them with its place.

It knows nothing about how files are read. Every rule is either about files that cannot be what they say
(``IMPOSSIBLE``), or about files that another reader may accept with good reason (``POLICY``).
"""

from __future__ import annotations

from enum import StrEnum

from oracle import OracleError


class Rule(StrEnum):
    """What a file broke."""

    UNREADABLE = "unreadable"
    """Not a regular file, or the operating system refuses to open or map it."""
    MAGIC = "magic"
    VERSION = "version"
    TRUNCATED = "truncated"
    """A field of fixed size reaches beyond the end of the file."""
    COUNT = "count"
    """More tensors or key-value pairs than the file has room for."""
    LENGTH = "length"
    """A string longer than the rest of the file."""
    ARRAY_LENGTH = "array-length"
    """More array elements than the rest of the file has room for."""
    VALUE_TYPE = "value-type"
    NESTED_ARRAY = "nested-array"
    KEY_EMPTY = "key-empty"
    KEY_LONG = "key-long"
    KEY_NUL = "key-nul"
    KEY_UTF8 = "key-utf8"
    KEY_DUPLICATE = "key-duplicate"
    BOOL = "bool"
    """A truth value that is neither 0 nor 1."""
    TOKEN_TYPE = "token-type"
    """The vocabulary's token types are not an array of integers within int32."""
    ALIGNMENT_TYPE = "alignment-type"
    ALIGNMENT = "alignment"
    """An alignment that is not a power of two."""
    NAME_LONG = "name-long"
    NAME_NUL = "name-nul"
    NAME_UTF8 = "name-utf8"
    NAME_DUPLICATE = "name-duplicate"
    RANK = "rank"
    """More than four dimensions."""
    RANK_ZERO = "rank-zero"
    DIMENSION_ZERO = "dimension-zero"
    DIMENSION_RANGE = "dimension-range"
    """A dimension, or the product of all, beyond int64."""
    TENSOR_TYPE = "tensor-type"
    BLOCK = "block"
    """A row that is not a whole number of blocks."""
    OFFSET_ALIGNMENT = "offset-alignment"
    EXTENT = "extent"
    """A tensor that reaches beyond the end of the file."""
    OVERLAP = "overlap"
    """Two tensors that share bytes."""
    LIMIT = "limit"
    """More objects than this reader is willing to hold, in a file that has room for them."""
    MISSING = "missing"
    """A value or tensor that was asked for is not there."""
    WRONG_TYPE = "wrong-type"
    """A value that was asked for has another type, or is not UTF-8."""
    EXPERTS = "experts"
    """Expert tensors that do not fit each other."""


POLICY: frozenset[Rule] = frozenset(
    {
        Rule.KEY_LONG,
        Rule.KEY_UTF8,
        Rule.BOOL,
        Rule.TOKEN_TYPE,
        Rule.ALIGNMENT,
        Rule.NAME_UTF8,
        Rule.NAME_LONG,
        Rule.RANK_ZERO,
        Rule.DIMENSION_ZERO,
        Rule.TENSOR_TYPE,
        Rule.LIMIT,
    }
)
"""Rules that another reader may leave out with good reason; all others say that the file cannot be."""

_SHOWN_BYTES = 64


class GGUFError(OracleError):
    """A GGUF file is refused, or does not hold what was asked for.

    ``rule`` is what it broke, ``offset`` the byte where that field starts (None when no byte is at fault),
    ``source`` the file's name. The message is one line.
    """

    def __init__(self, rule: Rule, what: str, *, offset: int | None, source: str) -> None:
        self.rule = rule
        self.offset = offset
        self.source = source
        self.what = what
        place = source if offset is None else f"{source}: byte {offset}"
        super().__init__(f"{place}: {what}; {_advice(rule)}")

    @property
    def impossible(self) -> bool:
        """Whether no honest writer can have made the file (as against a matter of policy)."""
        return self.rule not in POLICY


def shown(text: bytes) -> str:
    """A name from a file, fit for one line of an error message."""
    short = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return ascii(short) + ("..." if len(text) > _SHOWN_BYTES else "")


def _advice(rule: Rule) -> str:
    if rule is Rule.UNREADABLE:
        return "name a readable regular file"
    if rule in (Rule.MAGIC, Rule.VERSION):
        return "convert the model to GGUF version 3, little-endian"
    if rule in (Rule.MISSING, Rule.WRONG_TYPE):
        return "use a file that has it"
    if rule in POLICY:
        return "write the file again with a current converter"
    return "the file is damaged or cut short, get it again"
