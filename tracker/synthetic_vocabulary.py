"""A vocabulary made for the audit: every byte, and the tokens of several bytes that decoders get wrong.

No trained vocabulary has most of them: overlong forms, leads followed by ASCII, NUL inside a token,
continuation bytes first, encoded surrogates, bytes beyond U+10FFFF. A build that decodes whole tokens is
audited by what it makes of these. A few thousand tokens make a mask so cheap that every state of the corpus
can be visited.

The file is written by our own writer, the tracker's GGUF tests check it against the ``gguf`` package, and a
real build loads it. Token ``b`` below 256 is the single byte ``b``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from oracle.gguf.formats import ValueType
from oracle.vocabulary import TokenKind, Vocabulary, byte_alphabet
from tracker.atomic import write_atomic
from tracker.audits.gguf.writer import Description, KeyValue, write_gguf

END_TEXT = "<|end|>"
CALL_TEXT = "<|call|>"
"""A control token that ends the generation, and a user-defined one that does not."""

_BOUNDS = (0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xFFFF)
_ASTRAL_BOUNDS = (0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF)
_CHARACTERS = "é«»ßäÀÿ€世丗一鿿あ界😀😁🌀🗿𝄞"
_LEADS = (*range(0xC2, 0xE0), *range(0xE0, 0xF5))
_NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))
_EDGES = (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)
"""Continuation bytes at which table 3-7 of the Unicode Standard draws a line."""

_STRUCTURE = (
    '{"', '":', '": "', '",', '", "', '"}', '"]', '[{', '}]', '{}', '[]', '[[', ']]', '},{', '": [', '": {',
    "true", "false", "null", "tru", "ue", "ull", "\\n", '\\"', "\\\\", "\\u", "\\u00", "u00e", "\\ud83d",
    "  ", "    ", "\n\n", "\n  ", "\t\t", "\r\n", " \n", ", ", ": ", "-1", "0.", ".5", "1e", "e+", "E-", "12",
    "100", "2024", "ab", "abc", "aab", "ba", "bc", "xx", "xy", "the", "and", " the", " a", "if", "int",
    "else", "return", "==", "+=", "<=", "//", "/*", "*/", "</", "<s>", "</s>", "x</s>", "</s", "call", "name",
    "arguments", "<|", "|>", "O-O", "Nf3", "e4", "1.", "- ", "* ", "a\n", ".\n", "??", "!?", "...",
)  # fmt: skip


def synthetic_pieces() -> tuple[bytes, ...]:
    """The bytes of all ordinary tokens: the 256 single bytes, then the others without repetition."""
    singles = [bytes([byte]) for byte in range(256)]
    return tuple(dict.fromkeys([*singles, *_several_bytes()]))


def _several_bytes() -> Iterator[bytes]:
    yield from (text.encode() for text in _STRUCTURE)
    yield from (bytes(pair) for pair in itertools.product(b'abcxyz019 "{}[]:,\\\n.-+', repeat=2))
    encoded = [chr(c).encode() for c in (*_BOUNDS, *_ASTRAL_BOUNDS)] + [c.encode() for c in _CHARACTERS]
    for one in encoded:
        yield from _parts(one)
        yield from (one + one, one + b"a", b"a" + one, b'"' + one, one + b'"', one + one[:1], one[-1:] + one)
    for byte in (0x00, 0x1F, 0x22, 0x2D, 0x5C, 0x61, 0x7F):
        yield from (_overlong(byte, size) for size in (2, 3, 4))
    for one in encoded:
        code_point = ord(one.decode())
        yield from (_overlong(code_point, size) for size in range(len(one) + 1, 5))
        yield from (_overlong(code_point, size)[:-1] for size in range(len(one) + 1, 5))
    yield from (bytes((lead, ascii)) for lead in (*_LEADS, *_NEVER) for ascii in b'a" \n{\x00')
    yield from (bytes((lead, second)) for lead in (*_LEADS, *_NEVER) for second in _EDGES)
    yield from (bytes(pair) for pair in itertools.product((0xC2, 0xE0, 0xE4, 0xED, 0xF0, 0xF4), repeat=2))
    yield from (bytes(pair) for pair in itertools.product(_EDGES, repeat=2))
    yield from (bytes(triple) for triple in itertools.product((0x80, 0x9F, 0xBF), repeat=3))
    yield from (bytes((second, other)) for second in _EDGES for other in b'a" ,}\x00\xc3\xe4\xf0')
    yield from (
        b"\x00a",
        b"a\x00",
        b"a\x00b",
        b"\x00\x00",
        b"\x00\xc3\xa9",
        b"\xc3\xa9\x00",
        b'"\x00"',
        b"\x00\x9f",
    )
    for high, low in itertools.product((0xA0, 0xA3, 0xAF), (0xB0, 0xBD, 0xBF)):
        surrogate = bytes((0xED, high, 0x80)), bytes((0xED, low, 0x80))
        yield from (*surrogate, surrogate[0] + surrogate[1], b"a" + surrogate[0])
    yield from (
        b"\xf4\x90\x80\x80",
        b"\xf4\x90\x80",
        b"\xf5\x80\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xf8\x88\x80\x80\x80",
    )
    yield from (
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xfe\xff",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xef\xbb",
        b"\xff\xff\xff\xff",
    )


def _parts(encoded: bytes) -> Iterator[bytes]:
    """All beginnings and ends of an encoding, and the ends with a letter behind."""
    for size in range(1, len(encoded) + 1):
        yield encoded[:size]
        yield encoded[-size:]
        yield encoded[-size:] + b"a"


def _overlong(code_point: int, size: int) -> bytes:
    """A code point in as many bytes as asked, whether that is its form or not."""
    lead = (0xC0, 0xE0, 0xF0)[size - 2]
    tail = [0x80 | code_point >> 6 * place & 0x3F for place in reversed(range(size - 1))]
    return bytes([(lead | code_point >> 6 * (size - 1)) & 0xFF, *tail])


def synthetic_vocabulary() -> Vocabulary:
    """The vocabulary as the oracle holds it, without a file."""
    pieces = synthetic_pieces()
    kinds = [TokenKind.NORMAL] * len(pieces) + [TokenKind.CONTROL, TokenKind.USER_DEFINED]
    texts = (END_TEXT.encode(), CALL_TEXT.encode())
    return Vocabulary((*pieces, *texts), np.array(kinds, dtype=np.uint8), frozenset({len(pieces)}))


def write_synthetic_vocabulary(path: Path) -> None:
    """Write the vocabulary as a GGUF file without tensors, atomically; always the same bytes."""
    letter = {byte: chr(code_point) for code_point, byte in byte_alphabet().items()}
    pieces = synthetic_pieces()
    texts = ["".join(letter[byte] for byte in piece) for piece in pieces] + [END_TEXT, CALL_TEXT]
    kinds = [TokenKind.NORMAL] * len(pieces) + [TokenKind.CONTROL, TokenKind.USER_DEFINED]
    end = len(pieces)
    number, text, array = ValueType.UINT32, ValueType.STRING, ValueType.ARRAY
    fields = (
        KeyValue("general.architecture", text, "llama"),
        KeyValue("general.name", text, "llama-tracker synthetic vocabulary"),
        KeyValue("llama.block_count", number, 1),
        KeyValue("llama.context_length", number, 128),
        KeyValue("llama.embedding_length", number, 64),
        KeyValue("llama.feed_forward_length", number, 64),
        KeyValue("llama.attention.head_count", number, 1),
        KeyValue("llama.attention.layer_norm_rms_epsilon", ValueType.FLOAT32, 1e-6),
        KeyValue("tokenizer.ggml.model", text, "gpt2"),
        KeyValue("tokenizer.ggml.pre", text, "qwen2"),
        KeyValue("tokenizer.ggml.tokens", array, texts, text),
        KeyValue("tokenizer.ggml.token_type", array, [int(kind) for kind in kinds], ValueType.INT32),
        # Upstream insists on merges; nothing here is ever tokenized.
        KeyValue("tokenizer.ggml.merges", array, ["a b"], text),
        KeyValue("tokenizer.ggml.eos_token_id", number, end),
        KeyValue("tokenizer.ggml.bos_token_id", number, end),
    )
    write_atomic(path, write_gguf(Description(fields, ())).data)
