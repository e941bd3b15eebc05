"""A vocabulary small enough to reason about: all single bytes and a few longer tokens."""

from __future__ import annotations

import numpy as np

from oracle.vocabulary import TokenKind, Vocabulary

LONGER = (
    b"ab", b"zz", "é".encode(), "世".encode(), "😀".encode(), b"\xf0\x9f", b"a\xe4", b"\x84\xb8", b"</s>",
    b"<end>", b"<call>",
)  # fmt: skip
IDS = {piece: 256 + index for index, piece in enumerate(LONGER)}
END = IDS[b"<end>"]


def small_vocabulary() -> Vocabulary:
    """256 single bytes, then ``LONGER``; ``<end>`` is a control token that ends generation."""
    pieces = tuple(bytes([byte]) for byte in range(256)) + LONGER
    kinds = np.full(len(pieces), TokenKind.NORMAL, dtype=np.uint8)
    kinds[END] = TokenKind.CONTROL
    kinds[IDS[b"<call>"]] = TokenKind.USER_DEFINED
    return Vocabulary(pieces, kinds, frozenset({END}))
