"""Vocabularies: the bytes of tokens, the trie over them, and files in GGUF."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import vocabulary_of

from oracle import OracleError
from oracle.vocabulary import TokenKind, Trie, Vocabulary, byte_alphabet, read_vocabulary

pieces_of_any_shape = st.lists(
    st.one_of(st.binary(max_size=6), st.sampled_from([b"", b"a", b"aa", b"ab", b"\x00", b"\xff\xff"])),
    min_size=1,
    max_size=40,
)


# -- trie ----------------------------------------------------------------------------------------------------


@given(pieces_of_any_shape)
@settings(max_examples=200)
def test_the_way_from_a_tokens_node_to_the_root_spells_its_bytes(pieces):
    trie = Trie(pieces)
    for piece, node in zip(pieces, trie.node_of_token.tolist(), strict=True):
        spelled = b""
        while node:
            spelled = bytes([trie.byte[node]]) + spelled
            node = int(trie.parent[node])
        assert spelled == piece


@given(pieces_of_any_shape)
@settings(max_examples=200)
def test_there_is_one_node_for_every_beginning_of_a_token_and_levels_are_lengths(pieces):
    trie = Trie(pieces)
    beginnings = {piece[:size] for piece in pieces for size in range(len(piece) + 1)}
    assert len(trie) == len(beginnings) == trie.levels[-1]
    sizes = [sum(len(one) == size for one in beginnings) for size in range(max(map(len, pieces)) + 1)]
    assert np.diff(trie.levels).tolist() == sizes


@given(pieces_of_any_shape)
@settings(max_examples=100)
def test_children_of_a_node_are_one_range_in_the_order_of_their_bytes(pieces):
    trie = Trie(pieces)
    for node in range(len(trie)):
        children = list(range(trie.first_child[node], trie.first_child[node] + trie.children[node]))
        assert children == [n for n in range(1, len(trie)) if trie.parent[n] == node]
        order = [int(trie.byte[child]) for child in children]
        assert order == sorted(set(order))


def test_a_vocabulary_without_any_text_has_a_trie_of_one_node():
    trie = Trie([b"", b""])
    assert len(trie) == 1 and trie.node_of_token.tolist() == [0, 0]


# -- look-ups ------------------------------------------------------------------------------------------------


def test_special_tokens_win_over_ordinary_ones_of_the_same_text():
    normal, control, user = TokenKind.NORMAL, TokenKind.CONTROL, TokenKind.USER_DEFINED
    kinds = np.array([normal, control, control, user, normal], dtype=np.uint8)
    vocabulary = Vocabulary((b"<a>", b"<a>", b"<a>", b"<b>", b"<b>"), kinds, frozenset())
    assert vocabulary.ids_by_text == {b"<a>": 1, b"<b>": 3}


def test_tokens_without_text_cannot_be_named():
    assert vocabulary_of([b"", b"a"]).ids_by_text == {b"a": 1}


def test_shortest_tokens_come_first_and_equal_lengths_by_their_bytes():
    vocabulary = vocabulary_of([b"bb", b"a", b"", b"ab", b"b", b"abc"])
    assert vocabulary.shortest_first.tolist() == [2, 1, 4, 3, 0, 5]


@given(st.lists(st.binary(max_size=3), max_size=40))
def test_the_order_by_length_is_a_sort_and_each_token_knows_its_place(pieces: list[bytes]):
    vocabulary = vocabulary_of(pieces)
    order = sorted(range(len(pieces)), key=lambda token: (len(pieces[token]), pieces[token], token))
    assert vocabulary.shortest_first.tolist() == order
    assert [vocabulary.place_by_length[token] for token in order] == list(range(len(pieces)))


def test_bytes_are_spelled_by_single_byte_tokens():
    vocabulary = vocabulary_of([b"ab", b"b", b"a", b"a"])
    assert vocabulary.tokens_of_bytes(b"abba") == (2, 1, 1, 2)
    assert vocabulary.tokens_of_bytes(b"") == ()
    with pytest.raises(OracleError, match="single byte 63"):
        vocabulary.tokens_of_bytes(b"abc")


# -- files ---------------------------------------------------------------------------------------------------


def test_the_byte_alphabet_is_that_of_gpt2():
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    # Space, newline, tab and NUL as they are known from every GPT-2 vocabulary: Ġ, Ċ, ĉ, Ā.
    assert [alphabet[ord(c)] for c in "ĠĊĉĀ"] == [0x20, 0x0A, 0x09, 0x00]
    # The bytes left over: 68 of them, of which the soft hyphen is the last.
    assert max(alphabet) == 0x100 + 67 and alphabet[0x100 + 67] == 0xAD
    assert all(alphabet[ord(c)] == ord(c) for c in "!~¡ÿ")


def write(path: Path, tokens: list[bytes], kinds: list[int], model: str = "gpt2", **ends: int) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    for name, value in ends.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_pieces_are_the_bytes_that_a_token_appends_by_its_kind(tmp_path):
    texts = ["a", "Ġthe", "ä¸ĸ", "Ã©", "Ā", "<|end|>", "Ġé", "x", "y"]
    kinds = [1, 1, 1, 1, 1, 3, 4, 5, 2]
    path = write(tmp_path / "v.gguf", [t.encode() for t in texts], kinds, eos=5, eot=6)
    vocabulary = read_vocabulary(path)
    # The third and fourth are the bytes of 世 and é in the alphabet; user-defined text is no alphabet.
    assert vocabulary.pieces == (
        b"a",
        b" the",
        "世".encode(),
        "é".encode(),
        b"\x00",
        b"<|end|>",
        "Ġé".encode(),
        b"",
        b"y",
    )
    assert vocabulary.kinds.tolist() == kinds
    assert vocabulary.end_tokens == frozenset({5, 6})
    assert len(vocabulary) == 9


@pytest.mark.parametrize(
    ("tokens", "kinds", "model", "message"),
    [
        ([b"a"], [1], "llama", "tokenizer model 'llama' is not supported"),
        ([b"a", b"b"], [1], "gpt2", "2 tokens but 1 token types"),
        ([b"a", "世".encode()], [1, 1], "gpt2", "token 1"),
        ([b"a b"], [1], "gpt2", "token 0"),
        ([b"a", "a\u00a0".encode()], [1, 1], "gpt2", "token 1"),
        (["\u0144".encode()], [1], "gpt2", "token 0"),
    ],
)
def test_a_file_that_is_no_byte_level_vocabulary_is_refused_in_one_line(
    tmp_path, tokens, kinds, model, message
):
    path = write(tmp_path / "v.gguf", tokens, kinds, model)
    with pytest.raises(OracleError, match=message) as raised:
        read_vocabulary(path)
    assert "\n" not in str(raised.value)
