"""Our GGUF reader against the reader of the ``gguf`` package, field by field."""

from __future__ import annotations

from pathlib import Path

import gguf

from oracle.gguf import read_gguf


def assert_same_as_package(path: Path) -> None:
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    keys = [key for key in theirs.fields if not key.startswith("GGUF.")]
    assert list(ours.metadata) == keys
    for key in keys:
        field = theirs.fields[key]
        value = ours.value(key)
        assert value.type == field.types[0]
        if field.types[0] is gguf.GGUFValueType.ARRAY:
            parts = [field.parts[i] for i in field.data]
            if field.types[-1] is gguf.GGUFValueType.STRING:
                assert list(ours.strings(key)) == [part.tobytes() for part in parts]
            else:
                assert ours.array(key).tolist() == [element for part in parts for element in part.tolist()]
        elif field.types[0] is gguf.GGUFValueType.STRING:
            assert ours.text(key) == field.contents()
        else:
            assert value.content == field.contents()
    assert [t.name for t in ours.tensors.values()] == [t.name for t in theirs.tensors]
    for info in theirs.tensors:
        mine = ours.tensor(info.name)
        assert mine.shape == tuple(info.shape.tolist())
        assert (mine.type, mine.nbytes, mine.offset) == (info.tensor_type, info.n_bytes, info.data_offset)
        assert bytes(ours.data(mine)) == info.data.tobytes()
