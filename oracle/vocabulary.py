"""The bytes and kind of every token, and the trie over them.

Read from a GGUF file with our own reader. For byte-level BPE (``tokenizer.ggml.model`` = ``gpt2``) a token's
text spells its bytes in the 256 printable characters of the GPT-2 tokenizer (Radford et al. 2019,
``bytes_to_unicode``); control and user-defined tokens are their text in UTF-8. This module knows no grammars.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracle import OracleError
from oracle.gguf import read_gguf


class TokenKind(IntEnum):
    """Values of ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A vocabulary of n tokens.

    Attributes:
        pieces: by id, the bytes that a token appends to the output; empty for tokens without text.
        kinds: uint8 array of shape (n,), values of ``TokenKind``.
        end_tokens: ids that the file itself declares as end of generation.
    """

    pieces: tuple[bytes, ...]
    kinds: NDArray[np.uint8]
    end_tokens: frozenset[int]

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def trie(self) -> Trie:
        """The trie over all pieces."""
        return Trie(self.pieces)

    @cached_property
    def ids_by_text(self) -> dict[bytes, int]:
        """Text to id, as ``<name>`` in a grammar is resolved; special tokens win over ordinary ones."""
        special = (TokenKind.CONTROL, TokenKind.USER_DEFINED)
        ids: dict[bytes, int] = {}
        for token, (piece, kind) in enumerate(zip(self.pieces, self.kinds.tolist(), strict=True)):
            if piece and (piece not in ids or (kind in special and self.kinds[ids[piece]] not in special)):
                ids[piece] = token
        return ids

    @cached_property
    def single_bytes(self) -> dict[int, int]:
        """Byte value to the id of the (first) token that is exactly this byte."""
        ids: dict[int, int] = {}
        for token, piece in enumerate(self.pieces):
            if len(piece) == 1:
                ids.setdefault(piece[0], token)
        return ids

    @cached_property
    def shortest_first(self) -> NDArray[np.int32]:
        """All ids, those with the fewest bytes first, then by bytes and id: int32 array of shape (n,)."""
        by_bytes = self.trie.tokens
        lengths = np.fromiter(map(len, self.pieces), dtype=np.int32, count=len(self))
        return by_bytes[np.argsort(lengths[by_bytes], kind="stable")].astype(np.int32)

    @cached_property
    def place_by_length(self) -> NDArray[np.int32]:
        """The place of each token in ``shortest_first``: int32 array of shape (n,)."""
        places = np.empty(len(self), dtype=np.int32)
        places[self.shortest_first] = np.arange(len(self), dtype=np.int32)
        return places

    def tokens_of_bytes(self, data: bytes) -> tuple[int, ...]:
        """A token path that spells these bytes one by one.

        Raises:
            OracleError: the vocabulary has no token for one of the bytes.
        """
        missing = sorted(set(data) - self.single_bytes.keys())
        if missing:
            raise OracleError(f"the vocabulary has no token for the single byte {missing[0]:02x}")
        return tuple(self.single_bytes[byte] for byte in data)


class Trie:
    """A byte trie in level order.

    Node 0 is the root; the nodes of a level stand together, sorted by parent and byte, so the children of a
    node are one range. All arrays are indexed by node unless said otherwise.

    Attributes:
        parent: intp, the parent (0 for the root).
        byte: uint8, the byte on the edge from the parent.
        first_child, children: intp and int32, range of the children.
        tokens, rank: intp; all tokens in the order of their bytes (those without bytes first), and by token:
            its place in that order.
        token_begin, token_end, below_end: intp; ``tokens[token_begin[n]:token_end[n]]`` are the tokens of
            node n, ``tokens[token_begin[n]:below_end[n]]`` those of n and of all nodes below it.
        weight: intp, of shape (nodes + 1,): ``weight[b] - weight[a]`` counts the nodes ``a`` to ``b - 1`` and
            all those below them.
        run, run_begin, run_end: intp; ``run[run_begin[n]:run_end[n]]`` are the nodes below n that are reached
            by repeating n's own byte, nearest first.
        repeats: bool, whether there are such nodes.
        levels: starts of the levels and, last, the number of nodes.
        node_of_token: intp, by token: its node; 0 for an empty piece.
    """

    def __init__(self, pieces: Sequence[bytes]):
        lengths = np.fromiter((len(piece) for piece in pieces), dtype=np.int32, count=len(pieces))
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        data = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        self.node_of_token = np.zeros(len(pieces), dtype=np.intp)
        parents = [np.zeros(1, dtype=np.intp)]
        edge_bytes = [np.zeros(1, dtype=np.uint8)]
        self.levels = [0, 1]
        alive = np.flatnonzero(lengths)
        depth = 0
        while len(alive):
            byte = data[offsets[alive] + depth]
            key = self.node_of_token[alive] * 256 + byte
            keys, where = np.unique(key, return_inverse=True)
            self.node_of_token[alive] = self.levels[-1] + where
            parents.append((keys // 256).astype(np.intp))
            edge_bytes.append((keys % 256).astype(np.uint8))
            self.levels.append(self.levels[-1] + len(keys))
            depth += 1
            alive = alive[lengths[alive] > depth]
        self.parent = np.concatenate(parents)
        self.byte = np.concatenate(edge_bytes)
        self.children = np.bincount(self.parent[1:], minlength=len(self.parent)).astype(np.int32)
        self.first_child = (1 + np.cumsum(self.children) - self.children).astype(np.intp)
        self._order_tokens()
        self._find_runs()

    def _order_tokens(self) -> None:
        """Order the tokens by their bytes: counted from the leaves up, placed from the root down."""
        own = np.bincount(self.node_of_token, minlength=len(self.parent))
        below = own.copy()
        nodes = np.ones(len(self.parent), dtype=np.intp)
        spans = list(itertools.pairwise(self.levels[1:]))
        for begin, end in reversed(spans):
            np.add.at(below, self.parent[begin:end], below[begin:end])
            np.add.at(nodes, self.parent[begin:end], nodes[begin:end])
        self.weight = np.concatenate([[0], np.cumsum(nodes)]).astype(np.intp)
        self.token_begin = np.zeros(len(self.parent), dtype=np.intp)
        for begin, end in spans:
            parent = self.parent[begin:end]
            earlier = np.cumsum(below[begin:end]) - below[begin:end]
            siblings = earlier - earlier[self.first_child[parent] - begin]
            self.token_begin[begin:end] = self.token_begin[parent] + own[parent] + siblings
        self.token_end = self.token_begin + own
        self.below_end = self.token_begin + below
        by_node = np.argsort(self.node_of_token, kind="stable")
        first = np.cumsum(own) - own
        node = self.node_of_token[by_node]
        self.rank = np.empty(len(by_node), dtype=np.intp)
        self.rank[by_node] = self.token_begin[node] + np.arange(len(by_node)) - first[node]
        self.tokens = np.empty_like(self.rank)
        self.tokens[self.rank] = np.arange(len(by_node))

    def _find_runs(self) -> None:
        """Put each node together with those that repeat its byte below it: runs of spaces and the like."""
        head = np.arange(len(self.parent))
        repeats = (self.byte == self.byte[self.parent]) & (self.parent != 0)
        for begin, end in itertools.pairwise(self.levels[1:]):
            again = begin + np.flatnonzero(repeats[begin:end])
            head[again] = head[self.parent[again]]
        # Nodes are numbered from the root down, so that a stable sort by head keeps a run in its order.
        self.run = np.argsort(head, kind="stable")
        place = np.empty_like(self.run)
        place[self.run] = np.arange(len(self.run))
        ends = np.searchsorted(head[self.run], np.arange(len(head)), side="right")
        self.run_begin = place + 1
        self.run_end = ends[head]
        self.repeats = self.run_begin < self.run_end

    def __len__(self) -> int:
        return len(self.parent)


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read the vocabulary of a GGUF file.

    Raises:
        GGUFError: the file is no valid GGUF file or lacks the tokenizer's keys.
        OracleError: the tokenizer is not byte-level BPE, or a token's text is not in its alphabet.
    """
    file = read_gguf(path)
    model = file.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise OracleError(
            f"{path}: tokenizer model '{model}' is not supported: use a byte-level BPE ('gpt2')"
        )
    kinds = np.asarray(file.array("tokenizer.ggml.token_type")).astype(np.uint8)
    texts = file.strings("tokenizer.ggml.tokens")
    if len(texts) != len(kinds):
        raise OracleError(f"{path}: {len(texts)} tokens but {len(kinds)} token types")
    ends = {
        file.integer(key)
        for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
        if key in file
    }
    return Vocabulary(_pieces(texts, kinds), kinds, frozenset(ends))


def _pieces(texts: Sequence[bytes], kinds: NDArray[np.uint8]) -> tuple[bytes, ...]:
    # What is not in the alphabet goes where Latin-1 does not reach, so that encoding finds it.
    table = dict.fromkeys(range(0x100), 0x2FFF) | byte_alphabet()
    pieces: list[bytes] = []
    for token, (text, kind) in enumerate(zip(texts, kinds.tolist(), strict=True)):
        if kind in (TokenKind.CONTROL, TokenKind.USER_DEFINED, TokenKind.UNKNOWN):
            pieces.append(text)
        elif kind == TokenKind.NORMAL:
            try:
                pieces.append(text.decode("utf-8").translate(table).encode("latin-1"))
            except (UnicodeDecodeError, UnicodeEncodeError):
                raise OracleError(f"token {token}: text {text!r} is not in the byte-level alphabet") from None
        else:
            pieces.append(b"")
    return tuple(pieces)


def byte_alphabet() -> dict[int, int]:
    """Code point in a byte-level token's text to byte value.

    Printable bytes stand for themselves; the others are numbered from U+0100 in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {**{byte: byte for byte in printable}, **{0x100 + i: byte for i, byte in enumerate(others)}}


def ranges(begin: NDArray[np.intp], end: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All numbers of several ranges one after the other, and the ranges' lengths."""
    lengths = end - begin
    numbers = np.repeat(begin - (np.cumsum(lengths) - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers, lengths
