"""What a GGUF file says: metadata, tensors, and where their bytes are. Immutable, and never a copy of data.

It knows how to look things up in a file that was already checked; the checks themselves are in ``reader``.
All byte offsets count from the start of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from oracle.gguf.errors import GGUFError, Rule, shown
from oracle.gguf.formats import GGMLType, ValueType

_INTEGERS = frozenset(ValueType) - {
    ValueType.FLOAT32,
    ValueType.FLOAT64,
    ValueType.BOOL,
    ValueType.STRING,
    ValueType.ARRAY,
}


class StringArray(Sequence[bytes]):
    """An array of strings inside the file: eight bytes of index a string, contents read on access."""

    __slots__ = ("_buffer", "_starts")

    def __init__(self, buffer: memoryview, starts: npt.NDArray[np.uint64]) -> None:
        """``starts``: n + 1 offsets; string i takes the bytes from ``starts[i]`` to ``starts[i + 1] - 8``."""
        self._buffer = buffer
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return self._buffer[int(self._starts[index]) : int(self._starts[index + 1]) - 8].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        starts = self._starts.tolist()
        for start, following in itertools.pairwise(starts):
            yield self._buffer[start : following - 8].tobytes()


Content: TypeAlias = int | float | bool | memoryview | StringArray | npt.NDArray[Any]
"""A value: a string is a view of its bytes, an array of numbers a read-only numpy view of the file."""


@dataclass(frozen=True, slots=True)
class Value:
    """One metadata value: ``element`` is the element type of an array, ``offset`` the byte after its type."""

    type: ValueType
    element: ValueType | None
    offset: int
    content: Content


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: ``shape`` as stored (fastest dimension first), its bytes' offset in the file and number."""

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GGUFFile:
    """A checked GGUF file. Views keep the mapping alive; it goes when the last of them goes.

    The file must not be shortened by others while it is in use: the operating system answers a read beyond
    the new end with SIGBUS, which no check can prevent.
    """

    source: str
    version: int
    alignment: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    data_offset: int
    """Where the tensors' section starts."""
    nbytes: int
    """Size of the file."""
    contiguous: bool
    """Tensors lie in the order of the directory without gaps but padding."""
    buffer: memoryview = field(repr=False, compare=False)

    def __contains__(self, key: str) -> bool:
        return key in self.metadata

    def value(self, key: str) -> Value:
        """The value of ``key``. GGUFError when there is none."""
        found = self.metadata.get(key)
        if found is None:
            raise self._error(Rule.MISSING, f"there is no key {shown(key.encode())}")
        return found

    def integer(self, key: str) -> int:
        """An integer of any width. GGUFError when absent or of another type."""
        value = self.value(key)
        if value.type not in _INTEGERS or not isinstance(value.content, int):
            raise self._wrong(key, value, "an integer")
        return value.content

    def number(self, key: str) -> float:
        """An integer or a float. GGUFError when absent or of another type."""
        value = self.value(key)
        if isinstance(value.content, bool) or not isinstance(value.content, int | float):
            raise self._wrong(key, value, "a number")
        return value.content

    def boolean(self, key: str) -> bool:
        """A truth value. GGUFError when absent or of another type."""
        value = self.value(key)
        if not isinstance(value.content, bool):
            raise self._wrong(key, value, "a bool")
        return value.content

    def raw(self, key: str) -> bytes:
        """A string's bytes. GGUFError when absent or of another type."""
        value = self.value(key)
        if not isinstance(value.content, memoryview):
            raise self._wrong(key, value, "a string")
        return value.content.tobytes()

    def text(self, key: str) -> str:
        """A string. GGUFError when absent, of another type or not UTF-8."""
        try:
            return self.raw(key).decode()
        except UnicodeDecodeError as error:
            offset = self.value(key).offset
            raise self._error(Rule.WRONG_TYPE, f"{shown(key.encode())} is not UTF-8", offset) from error

    def strings(self, key: str) -> StringArray:
        """An array of strings, as bytes. GGUFError when absent or of another type."""
        value = self.value(key)
        if not isinstance(value.content, StringArray):
            raise self._wrong(key, value, "an array of strings")
        return value.content

    def array(self, key: str) -> npt.NDArray[Any]:
        """An array of numbers, shape (n,), a read-only view. GGUFError when absent or of another type."""
        value = self.value(key)
        if not isinstance(value.content, np.ndarray):
            raise self._wrong(key, value, "an array of numbers")
        return value.content

    def tensor(self, name: str) -> TensorInfo:
        """The tensor of that name. GGUFError when there is none."""
        found = self.tensors.get(name)
        if found is None:
            raise self._error(Rule.MISSING, f"there is no tensor {shown(name.encode())}")
        return found

    def data(self, tensor: TensorInfo) -> memoryview:
        """The tensor's bytes: a read-only view of the mapped file, ``tensor.nbytes`` long."""
        return self.buffer[tensor.offset : tensor.offset + tensor.nbytes]

    def _wrong(self, key: str, value: Value, wanted: str) -> GGUFError:
        is_now = value.type.name if value.element is None else f"an array of {value.element.name}"
        return self._error(
            Rule.WRONG_TYPE, f"{shown(key.encode())} is {is_now} and not {wanted}", value.offset
        )

    def _error(self, rule: Rule, what: str, offset: int | None = None) -> GGUFError:
        return GGUFError(rule, what, offset=offset, source=self.source)
