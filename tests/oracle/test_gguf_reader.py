"""Our GGUF reader against the ``gguf`` package, hand-made files and the rules of the format."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_cases import (
    ALIGN,
    ARRAY,
    BOOL,
    I32,
    REFUSED,
    STRING,
    U8,
    U32,
    gguf_file,
    key_value,
    string,
    tensor,
)
from gguf_package import assert_same_as_package
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import OracleError
from oracle.gguf import GGMLType, GGUFError, Rule, ValueType, parse_gguf, read_gguf
from oracle.gguf.formats import BLOCK


def refusal(data: bytes) -> GGUFError:
    with pytest.raises(GGUFError) as caught:
        parse_gguf(data)
    return caught.value


# --- agreement with the gguf package ----------------------------------------------------------------------


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
NAMES = st.text("abcdefgh._0123", min_size=1, max_size=20)
SCALARS = st.one_of(
    st.tuples(st.just("uint8"), st.integers(0, 2**8 - 1)),
    st.tuples(st.just("int16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("uint32"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("uint64"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("float64"), st.floats(allow_nan=False)),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("string"), st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)),
    st.tuples(st.just("array"), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8)),
    st.tuples(
        st.just("array"), st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=8)
    ),
    st.tuples(st.just("array"), st.lists(st.booleans(), min_size=1, max_size=8)),
)
RESERVED = {"general.architecture", "general.alignment", "tokenizer.ggml.token_type"}


@settings(max_examples=40)
@given(
    values=st.dictionaries(KEYS.filter(lambda key: key not in RESERVED and key[:5] != "GGUF."), SCALARS),
    names=st.lists(NAMES, unique=True, max_size=5),
    shapes=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=5, max_size=5),
    kinds=st.lists(st.sampled_from([np.float32, np.float16, np.int8, np.int64]), min_size=5, max_size=5),
    alignment=st.sampled_from([None, 8, 64]),
)
def test_reads_what_the_gguf_package_writes_as_the_package_does(
    tmp_path_factory: pytest.TempPathFactory,
    values: dict[str, tuple[str, object]],
    names: list[str],
    shapes: list[list[int]],
    kinds: list[type[np.generic]],
    alignment: int | None,
) -> None:
    path = tmp_path_factory.mktemp("written") / "file.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for key, (kind, value) in values.items():
        getattr(writer, f"add_{kind}")(key, value)
    for name, shape, dtype in zip(names, shapes, kinds, strict=False):
        count = int(np.prod(shape))
        writer.add_tensor(name, np.arange(count).astype(dtype).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_same_as_package(path)


def test_block_sizes_are_those_of_the_package_but_for_q8_1() -> None:
    # The package says 40 bytes for Q8_1; ggml's block_q8_1 is two halves and 32 bytes, 36. Q2_0 is newer.
    theirs = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    ours = {int(kind): sizes for kind, sizes in BLOCK.items() if kind in theirs}
    assert set(theirs) <= set(BLOCK)
    assert {kind for kind in ours if ours[kind] != theirs[kind]} <= {int(GGMLType.Q8_1)}
    assert BLOCK[GGMLType.Q8_1] == (32, 2 + 2 + 32)
    assert BLOCK[GGMLType.Q2_0] == (64, 2 + 64 // 4)


# --- rules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "rule", "offset"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_refuses_by_rule_and_names_the_byte(data: bytes, rule: Rule, offset: int) -> None:
    error = refusal(data)
    assert (error.rule, error.offset) == (rule, offset)
    assert str(error).startswith(f"<memory>: byte {offset}: ")
    assert len(str(error).splitlines()) == 1


def test_every_rule_about_content_has_a_case() -> None:
    elsewhere = {Rule.UNREADABLE, Rule.LIMIT, Rule.MISSING, Rule.WRONG_TYPE, Rule.EXPERTS}
    assert {case[2] for case in REFUSED} == set(Rule) - elsewhere


def test_accepts_alignment_1_and_a_gap_and_reports_the_gap() -> None:
    packed = gguf_file([key_value(ALIGN, U32, b"\1\0\0\0")], [tensor(b"t", (3,), 24, 0)], b"abc", alignment=1)
    file = parse_gguf(packed)
    assert file.alignment == 1
    assert bytes(file.data(file.tensor("t"))) == b"abc"
    gapped = gguf_file([], [tensor(b"a", (4,), 0, 32), tensor(b"b", (4,), 0, 0)], bytes(48))
    assert not parse_gguf(gapped).contiguous


def test_a_file_with_more_pairs_than_the_limit_is_refused_before_they_are_read() -> None:
    count = 2**16 + 1
    error = refusal(b"GGUF" + struct.pack("<IQQ", 3, 0, count) + bytes(13 * count))
    assert (error.rule, error.offset) == (Rule.LIMIT, 16)


def densest(kind: int, content: bytes, count: int) -> bytes:
    keys = [bytes([33 + i % 90, 33 + i // 90]) for i in range(count)]
    return gguf_file([key_value(key, kind, content) for key in keys], [])


@pytest.mark.parametrize(
    "data",
    [
        densest(U8, b"\1", 8000),
        densest(STRING, bytes(8), 8000),
        densest(ARRAY, struct.pack("<IQ", BOOL, 1) + b"\1", 8000),
        densest(ARRAY, struct.pack("<IQ", STRING, 0), 8000),
        gguf_file([key_value(b"k", ARRAY, struct.pack("<IQ", STRING, 10**5) + bytes(8 * 10**5))], []),
        gguf_file(
            [key_value(ALIGN, U32, b"\1\0\0\0")],
            [tensor(b"%d" % i, (1,), GGMLType.I8, i) for i in range(5000)],
            bytes(5000),
            alignment=1,
        ),
    ],
    ids=["numbers", "strings", "arrays of a bool", "empty arrays", "array of empty strings", "tensors"],
)
def test_the_densest_valid_files_cost_a_small_multiple_of_their_size(data: bytes) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        parse_gguf(data)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= 24 * len(data)


# --- access -----------------------------------------------------------------------------------------------


def test_typed_access_says_what_is_there_instead() -> None:
    file = parse_gguf(
        gguf_file([key_value(b"n", U32, b"\5\0\0\0"), key_value(b"s", STRING, string(b"\xff\n"))], [])
    )
    assert file.integer("n") == 5
    assert file.raw("s") == b"\xff\n"
    for ask, rule in [
        (lambda: file.integer("s"), Rule.WRONG_TYPE),
        (lambda: file.text("s"), Rule.WRONG_TYPE),
        (lambda: file.strings("n"), Rule.WRONG_TYPE),
        (lambda: file.array("n"), Rule.WRONG_TYPE),
        (lambda: file.boolean("n"), Rule.WRONG_TYPE),
        (lambda: file.integer("absent\n"), Rule.MISSING),
        (lambda: file.tensor("absent"), Rule.MISSING),
    ]:
        with pytest.raises(OracleError) as caught:
            ask()
        assert isinstance(caught.value, GGUFError)
        assert caught.value.rule is rule
        assert "\n" not in str(caught.value)


def test_a_bool_is_no_integer() -> None:
    file = parse_gguf(gguf_file([key_value(b"b", BOOL, b"\1")], []))
    assert file.boolean("b") is True
    with pytest.raises(GGUFError):
        file.integer("b")
    with pytest.raises(GGUFError):
        file.number("b")


def test_data_and_arrays_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    numbers = key_value(b"k", ARRAY, struct.pack("<IQ3i", I32, 3, 1, -2, 3))
    path.write_bytes(gguf_file([numbers], [tensor(b"t", (2,), 26, 0)], struct.pack("<2i", 7, 8)))
    file = read_gguf(path)
    array, view = file.array("k"), file.data(file.tensor("t"))
    assert array.tolist() == [1, -2, 3]
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert view.readonly
    del file
    assert bytes(view) == struct.pack("<2i", 7, 8)


@given(st.lists(st.binary(max_size=5), max_size=20))
def test_string_arrays_behave_as_the_list_of_their_strings(texts: list[bytes]) -> None:
    content = struct.pack("<IQ", STRING, len(texts)) + b"".join(map(string, texts))
    array = parse_gguf(gguf_file([key_value(b"k", ARRAY, content)], [])).strings("k")
    assert list(array) == texts
    assert len(array) == len(texts)
    assert [array[i] for i in range(-len(texts), len(texts))] == texts + texts
    assert array[1:-1] == texts[1:-1]
    for outside in (len(texts), -len(texts) - 1):
        with pytest.raises(IndexError):
            array[outside]


# --- files that are none ----------------------------------------------------------------------------------


def test_what_cannot_be_mapped_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    for path, rule in [
        (tmp_path / "absent", Rule.UNREADABLE),
        (tmp_path, Rule.UNREADABLE),
        (tmp_path / "fifo", Rule.UNREADABLE),
        (Path("/dev/zero"), Rule.UNREADABLE),
        (tmp_path / "empty", Rule.TRUNCATED),
        (tmp_path / "nul\0name", Rule.UNREADABLE),
        (tmp_path / ("n" * 5000), Rule.UNREADABLE),
    ]:
        with pytest.raises(GGUFError) as caught:
            read_gguf(path)
        assert caught.value.rule is rule
        assert len(str(caught.value).splitlines()) == 1


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_with_our_error_alone(data: bytes) -> None:
    for whole in (data, b"GGUF\3\0\0\0" + data):
        try:
            parse_gguf(whole)
        except GGUFError as error:
            assert error.offset is not None
            assert 0 <= error.offset <= len(whole)


def test_value_types_are_the_format_s_thirteen() -> None:
    assert [int(kind) for kind in ValueType] == [int(kind) for kind in gguf.GGUFValueType]
