"""Writes GGUF files from a description and says where every field went, honest or not.

It knows the format's layout and nothing of its rules: a description with two equal names is written as it
stands. Field names are ``header:KIND``, ``KEY:KIND`` and ``TENSOR:KIND``, elements ``KEY:N:KIND``.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from oracle.gguf.formats import BLOCK, DEFAULT_ALIGNMENT, MAGIC, SCALAR_FORMAT, GGMLType, ValueType
from tracker.errors import TrackerError


class FieldKind(StrEnum):
    """What a field is; findings are grouped by it."""

    MAGIC = "magic"
    VERSION = "version"
    TENSOR_COUNT = "tensor-count"
    KV_COUNT = "kv-count"
    KEY_LENGTH = "key-length"
    KEY = "key"
    VALUE_TYPE = "value-type"
    ELEMENT_TYPE = "element-type"
    ARRAY_COUNT = "array-count"
    STRING_LENGTH = "string-length"
    STRING = "string"
    NUMBER = "number"
    NAME_LENGTH = "name-length"
    NAME = "name"
    RANK = "rank"
    DIMENSION = "dimension"
    TENSOR_TYPE = "tensor-type"
    OFFSET = "offset"
    PADDING = "padding"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Field:
    """Bytes ``offset`` to ``offset + size`` of a file; ``owner`` is the key, the tensor or ``header``."""

    name: str
    kind: FieldKind
    owner: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A metadata value: numbers and strings with their type, lists with ``element`` as the type of each."""

    key: str
    type: ValueType
    value: int | float | str | Sequence[int] | Sequence[float] | Sequence[str]
    element: ValueType | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor; its data is a pattern of bytes that tells tensors apart."""

    name: str
    shape: tuple[int, ...]
    type: GGMLType = GGMLType.F32


@dataclass(frozen=True, slots=True)
class Description:
    """What a file is to say. ``alignment`` places tensors; the key for it is written like any other."""

    key_values: tuple[KeyValue, ...]
    tensors: tuple[Tensor, ...]
    version: int = 3
    alignment: int = DEFAULT_ALIGNMENT


class LayoutError(TrackerError):
    """A field that a layout does not have was named."""


@dataclass(frozen=True)
class Layout:
    """A written file with its fields in order; they cover every byte once."""

    data: bytes
    fields: tuple[Field, ...]
    data_offset: int

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def _offsets(self) -> list[int]:
        return [field.offset for field in self.fields]

    def field(self, name: str) -> Field:
        """The field of that name. LayoutError when there is none."""
        if name not in self._by_name:
            raise LayoutError(f"the layout has no field {name!r}: name one of Layout.fields")
        return self._by_name[name]

    def at(self, offset: int) -> Field:
        """The field that holds the byte at ``offset``; the last one beyond the end."""
        return self.fields[max(bisect.bisect_right(self._offsets, offset) - 1, 0)]

    def patched(self, values: Mapping[str, int | bytes]) -> bytes:
        """The file with fields overwritten: an integer in the field's width (modulo), bytes as they are."""
        data = bytearray(self.data)
        for name, value in values.items():
            field = self.field(name)
            if isinstance(value, int):
                value = (value % (1 << 8 * field.size)).to_bytes(field.size, "little")
            if len(value) != field.size:
                raise LayoutError(f"field {name!r} has {field.size} bytes, {len(value)} were given")
            data[field.offset : field.offset + field.size] = value
        return bytes(data)


def write_gguf(description: Description) -> Layout:
    """Lay a description out: directory, then tensors one after the other, padding between them only."""
    writer = _Writer()
    writer.add("header:magic", FieldKind.MAGIC, "header", MAGIC)
    writer.pack("header:version", FieldKind.VERSION, "header", "<I", description.version)
    writer.pack("header:tensor-count", FieldKind.TENSOR_COUNT, "header", "<Q", len(description.tensors))
    writer.pack("header:kv-count", FieldKind.KV_COUNT, "header", "<Q", len(description.key_values))
    for key_value in description.key_values:
        writer.key_value(key_value)
    relative = 0
    for tensor in description.tensors:
        writer.descriptor(tensor, relative)
        relative = _round_up(relative + _nbytes(tensor), description.alignment)
    if description.tensors:
        writer.pad("header:padding", "header", description.alignment)
    data_offset = len(writer.data)
    for i, tensor in enumerate(description.tensors):
        content = bytes((37 * i + j) % 251 + 1 for j in range(_nbytes(tensor)))
        writer.add(f"{tensor.name}:data", FieldKind.DATA, tensor.name, content)
        if i + 1 < len(description.tensors):
            writer.pad(f"{tensor.name}:padding", tensor.name, description.alignment)
    return Layout(bytes(writer.data), tuple(writer.fields), data_offset)


def _nbytes(tensor: Tensor) -> int:
    per_block, block_bytes = BLOCK[tensor.type]
    elements = 1
    for dimension in tensor.shape:
        elements *= dimension
    return elements // per_block * block_bytes


def _round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()
        self.fields: list[Field] = []

    def add(self, name: str, kind: FieldKind, owner: str, content: bytes) -> None:
        if content:
            self.fields.append(Field(name, kind, owner, len(self.data), len(content)))
            self.data += content

    def pack(self, name: str, kind: FieldKind, owner: str, form: str, value: int | float) -> None:
        self.add(name, kind, owner, struct.pack(form, value))

    def pad(self, name: str, owner: str, alignment: int) -> None:
        missing = _round_up(len(self.data), alignment) - len(self.data)
        self.add(name, FieldKind.PADDING, owner, bytes(missing))

    def string(self, name: str, owner: str, kinds: tuple[FieldKind, FieldKind], text: str) -> None:
        content = text.encode()
        self.pack(f"{name}{kinds[0]}", kinds[0], owner, "<Q", len(content))
        self.add(f"{name}{kinds[1]}", kinds[1], owner, content)

    def key_value(self, entry: KeyValue) -> None:
        key = entry.key
        self.string(f"{key}:", key, (FieldKind.KEY_LENGTH, FieldKind.KEY), key)
        self.pack(f"{key}:value-type", FieldKind.VALUE_TYPE, key, "<I", entry.type)
        if entry.element is None:
            self.value(f"{key}:", key, entry.type, entry.value)
            return
        if not isinstance(entry.value, Sequence) or isinstance(entry.value, str):
            raise LayoutError(f"key {key!r} is an array and needs a list of values")
        self.pack(f"{key}:element-type", FieldKind.ELEMENT_TYPE, key, "<I", entry.element)
        self.pack(f"{key}:array-count", FieldKind.ARRAY_COUNT, key, "<Q", len(entry.value))
        for i, element in enumerate(entry.value):
            self.value(f"{key}:{i}:", key, entry.element, element)

    def value(self, name: str, owner: str, kind: ValueType, value: object) -> None:
        if isinstance(value, str):
            self.string(name, owner, (FieldKind.STRING_LENGTH, FieldKind.STRING), value)
        elif isinstance(value, int | float):
            self.pack(f"{name}number", FieldKind.NUMBER, owner, SCALAR_FORMAT[kind], value)
        else:
            raise LayoutError(f"{name} has a value that is neither a number nor a string")

    def descriptor(self, tensor: Tensor, offset: int) -> None:
        name = tensor.name
        self.string(f"{name}:", name, (FieldKind.NAME_LENGTH, FieldKind.NAME), name)
        self.pack(f"{name}:rank", FieldKind.RANK, name, "<I", len(tensor.shape))
        for i, dimension in enumerate(tensor.shape):
            self.pack(f"{name}:{i}:dimension", FieldKind.DIMENSION, name, "<Q", dimension)
        self.pack(f"{name}:tensor-type", FieldKind.TENSOR_TYPE, name, "<I", tensor.type)
        self.pack(f"{name}:offset", FieldKind.OFFSET, name, "<Q", offset)
