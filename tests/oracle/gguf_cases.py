"""Small GGUF files written by hand, with the rule and the byte at which each has to be refused."""

from __future__ import annotations

import struct

from oracle.gguf import GGMLType, Rule


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def key_value(key: bytes, kind: int, content: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + content


def tensor(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    packed = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return string(name) + packed


def gguf_file(
    key_values: list[bytes], tensors: list[bytes], data: bytes = b"", *, alignment: int = 32, version: int = 3
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(key_values))
    head += b"".join(key_values) + b"".join(tensors)
    return head + bytes(-len(head) % alignment if tensors else 0) + data


ARRAY, STRING, U8, U32, I32, I64, BOOL, F32 = 9, 8, 0, 4, 5, 11, 7, 6
ALIGN = b"general.alignment"
TYPES = b"tokenizer.ggml.token_type"


def one_tensor(name: bytes, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return gguf_file([], [tensor(name, shape, kind, offset)], bytes(64))


def huge_count(at: int, count: int) -> bytes:
    data = bytearray(gguf_file([], [], bytes(200 - 24)))
    data[at : at + 8] = struct.pack("<Q", count)
    return bytes(data)


REFUSED = [
    ("no magic", b"GGML" + bytes(20), Rule.MAGIC, 0),
    ("empty", b"", Rule.TRUNCATED, 0),
    ("version 1", gguf_file([], [], version=1), Rule.VERSION, 4),
    ("version 4", gguf_file([], [], version=4), Rule.VERSION, 4),
    ("big-endian", gguf_file([], [], version=0x03000000), Rule.VERSION, 4),
    ("2^24 tensors in 200 bytes", huge_count(8, 2**24), Rule.COUNT, 8),
    ("2^63 tensors", huge_count(8, 2**63), Rule.COUNT, 8),
    ("8 tensors in 176 bytes", huge_count(8, 8), Rule.COUNT, 8),
    ("14 key-value pairs in 176 bytes", huge_count(16, 14), Rule.COUNT, 16),
    ("a key longer than the file", gguf_file([struct.pack("<Q", 2**63) + bytes(9)], []), Rule.LENGTH, 24),
    ("a key of 65,536 bytes", gguf_file([key_value(b"k" * 65536, U8, b"\1")], []), Rule.KEY_LONG, 24),
    ("an empty key", gguf_file([key_value(b"", U8, b"\1")], []), Rule.KEY_EMPTY, 24),
    (
        "general.alignment with a NUL",
        gguf_file([key_value(ALIGN + b"\0x", U32, b"\x08\0\0\0")], []),
        Rule.KEY_NUL,
        24 + 8 + 17,
    ),
    ("a key that is not UTF-8", gguf_file([key_value(b"k\xff", U8, b"\1")], []), Rule.KEY_UTF8, 24 + 8 + 1),
    ("a key twice", gguf_file([key_value(b"k", U8, b"\1")] * 2, []), Rule.KEY_DUPLICATE, 38),
    ("value type 13", gguf_file([key_value(b"k", 13, b"\1")], []), Rule.VALUE_TYPE, 33),
    ("a bool of 2", gguf_file([key_value(b"k", BOOL, b"\2")], []), Rule.BOOL, 37),
    (
        "an array with a bool of 2",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQ", BOOL, 3) + b"\1\0\2")], []),
        Rule.BOOL,
        49,
    ),
    (
        "an array of arrays",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQ", ARRAY, 0))], []),
        Rule.NESTED_ARRAY,
        37,
    ),
    (
        "2^40 strings",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQ", STRING, 2**40))], []),
        Rule.ARRAY_LENGTH,
        41,
    ),
    (
        "an array of 2^62 numbers of 8 bytes",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQ", I64, 2**62) + bytes(16))], []),
        Rule.ARRAY_LENGTH,
        41,
    ),
    (
        "a string longer than the file, in an array",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQQ", STRING, 1, 2**64 - 1))], []),
        Rule.LENGTH,
        49,
    ),
    (
        "an array that ends inside the length of its second string",
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQQ4s4x", STRING, 2, 4, b"abcd"))], []),
        Rule.TRUNCATED,
        49 + 8 + 4,
    ),
    (
        "a token type beyond int32",
        gguf_file([key_value(TYPES, ARRAY, struct.pack("<IQq", I64, 1, 2**31))], []),
        Rule.TOKEN_TYPE,
        24 + 8 + 25 + 4,
    ),
    (
        "token types as floats",
        gguf_file([key_value(TYPES, ARRAY, struct.pack("<IQf", F32, 1, 1.0))], []),
        Rule.TOKEN_TYPE,
        24 + 8 + 25 + 4,
    ),
    ("alignment 24", gguf_file([key_value(ALIGN, U32, b"\x18\0\0\0")], []), Rule.ALIGNMENT, 24 + 8 + 17 + 4),
    ("alignment 0", gguf_file([key_value(ALIGN, U32, bytes(4))], []), Rule.ALIGNMENT, 24 + 8 + 17 + 4),
    (
        "an alignment as int32",
        gguf_file([key_value(ALIGN, I32, b"\x20\0\0\0")], []),
        Rule.ALIGNMENT_TYPE,
        24 + 8 + 17 + 4,
    ),
    ("a name of 65 bytes", one_tensor(b"n" * 65, (4,)), Rule.NAME_LONG, 24),
    ("a name with a NUL", one_tensor(b"t\0x", (4,)), Rule.NAME_NUL, 24 + 8 + 1),
    ("a name that is not UTF-8", one_tensor(b"\xff", (4,)), Rule.NAME_UTF8, 24 + 8),
    (
        "a name twice",
        gguf_file([], [tensor(b"t", (4,), 0, 0), tensor(b"t", (4,), 0, 32)], bytes(64)),
        Rule.NAME_DUPLICATE,
        24 + 33,
    ),
    ("five dimensions", one_tensor(b"t", (1, 1, 1, 1, 1)), Rule.RANK, 33),
    ("no dimensions", one_tensor(b"t", ()), Rule.RANK_ZERO, 33),
    ("a dimension of 0", one_tensor(b"t", (4, 0)), Rule.DIMENSION_ZERO, 37),
    ("2^62 by 0 by 2^62", one_tensor(b"t", (2**62, 0, 2**62)), Rule.DIMENSION_RANGE, 37),
    ("a dimension of 2^63", one_tensor(b"t", (2**63,)), Rule.DIMENSION_RANGE, 37),
    ("a product of 2^64", one_tensor(b"t", (2**32, 2**32)), Rule.DIMENSION_RANGE, 37),
    ("the removed type 4", one_tensor(b"t", (32,), 4), Rule.TENSOR_TYPE, 45),
    ("type 2^32 - 1", one_tensor(b"t", (32,), 2**32 - 1), Rule.TENSOR_TYPE, 45),
    ("half a block", one_tensor(b"t", (16,), GGMLType.Q8_0), Rule.BLOCK, 45),
    ("an offset off the alignment", one_tensor(b"t", (4,), 0, 16), Rule.OFFSET_ALIGNMENT, 49),
    ("a tensor one byte too long", gguf_file([], [tensor(b"t", (4,), 0, 0)], bytes(15)), Rule.EXTENT, 49),
    ("an offset near 2^64", one_tensor(b"t", (4,), 0, 2**64 - 32), Rule.EXTENT, 49),
    (
        "two tensors near 2^64",
        gguf_file([], [tensor(b"a", (8,), 0, 2**64 - 64), tensor(b"b", (8,), 0, 2**64 - 32)], bytes(64)),
        Rule.EXTENT,
        49,
    ),
    (
        "tensors that share bytes",
        gguf_file([], [tensor(b"a", (9,), 0, 0), tensor(b"b", (4,), 0, 32)], bytes(64)),
        Rule.OVERLAP,
        24 + 33 + 25,
    ),
]
