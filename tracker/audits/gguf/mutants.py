"""Files that no honest writer makes, each derived from a seed and nameable: the same name, the same bytes.

Besides cases, three families: every strict truncation; boundary values of 4 and 8 bytes at every offset of
the directory; and random multi-mutations from a number. It does not know what readers make of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tracker.audits.gguf.cases import cases
from tracker.audits.gguf.seeds import seeds
from tracker.audits.gguf.writer import Layout

_BOUNDARY = {
    4: (0, 1, 2**31 - 1, 2**31, 2**32 - 1),
    8: (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1),
}
_MOST_OPERATIONS = 6


class Family(StrEnum):
    """How a mutant came to be."""

    SEED = "seed"
    """The seed itself, which has to be accepted."""
    TRUNCATION = "truncation"
    BOUNDARY = "boundary"
    RANDOM = "random"
    CASE = "case"
    """A file of a finding or of a public report."""


CASES = "cases"
"""What stands for the seed of files that have a description of their own."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file; ``name`` makes it again. ``seed`` names what it came from, or ``CASES``."""

    name: str
    seed: str
    family: Family
    data: bytes


def untouched() -> Iterator[Mutant]:
    """The seeds."""
    for seed, layout in seeds().items():
        yield Mutant(f"{seed}/seed", seed, Family.SEED, layout.data)


def written_cases() -> Iterator[Mutant]:
    """The files of public reports and of findings."""
    for name, case in cases().items():
        yield Mutant(name, CASES, Family.CASE, case.data)


def layout_of(mutant: Mutant) -> Layout:
    """The honest file that a mutant differs from."""
    return cases()[mutant.name].layout if mutant.seed == CASES else seeds()[mutant.seed]


def truncations() -> Iterator[Mutant]:
    """Every strict prefix of every seed."""
    for seed, layout in seeds().items():
        for length in range(len(layout.data)):
            yield Mutant(f"{seed}/truncation/{length}", seed, Family.TRUNCATION, layout.data[:length])


def boundaries() -> Iterator[Mutant]:
    """Boundary values, and the true value plus and minus one, at every offset of the directory."""
    for seed, layout in seeds().items():
        for offset in range(layout.data_offset):
            for width, values in _BOUNDARY.items():
                if offset + width > len(layout.data):
                    continue
                true = int.from_bytes(layout.data[offset : offset + width], "little")
                limit = 1 << 8 * width
                for value in sorted({*values, (true - 1) % limit, (true + 1) % limit} - {true}):
                    data = bytearray(layout.data)
                    data[offset : offset + width] = value.to_bytes(width, "little")
                    name = f"{seed}/boundary/{offset}/{width}/{value}"
                    yield Mutant(name, seed, Family.BOUNDARY, bytes(data))


def randoms(count: int, start: int = 0) -> Iterator[Mutant]:
    """``count`` random multi-mutations, over the seeds in turn. Number i is the same whatever the count."""
    layouts = list(seeds().items())
    for number in range(start, start + count):
        seed, layout = layouts[number % len(layouts)]
        generator = random.Random(number)
        data = bytearray(layout.data)
        for _ in range(generator.randrange(1, _MOST_OPERATIONS + 1)):
            operation = _OPERATIONS[generator.randrange(len(_OPERATIONS))]
            operation(generator, data, layout)
        yield Mutant(f"{seed}/random/{number}", seed, Family.RANDOM, bytes(data))


def mutants(count: int) -> Iterator[Mutant]:
    """Seeds, cases, truncations, boundary values, and ``count`` random mutants: always in this order."""
    yield from untouched()
    yield from written_cases()
    yield from truncations()
    yield from boundaries()
    yield from randoms(count)


def _flip_bit(generator: random.Random, data: bytearray, layout: Layout) -> None:
    if data:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)


def _boundary_at_field(generator: random.Random, data: bytearray, layout: Layout) -> None:
    field = layout.fields[generator.randrange(len(layout.fields))]
    width = field.size if field.size in _BOUNDARY else 8
    values = _BOUNDARY[width]
    value = values[generator.randrange(len(values))]
    # Multiples of the alignment near the limit are what passes the check of alignment and wraps around.
    if generator.randrange(2):
        value -= value % 32
    if field.offset + width <= len(data):
        data[field.offset : field.offset + width] = value.to_bytes(width, "little")


def _small_at_field(generator: random.Random, data: bytearray, layout: Layout) -> None:
    field = layout.fields[generator.randrange(len(layout.fields))]
    if field.offset < len(data):
        data[field.offset] = generator.randrange(48)


def _copy_field(generator: random.Random, data: bytearray, layout: Layout) -> None:
    source = layout.fields[generator.randrange(len(layout.fields))]
    target = layout.fields[generator.randrange(len(layout.fields))]
    width = min(source.size, target.size)
    data[target.offset : target.offset + width] = data[source.offset : source.offset + width]


def _random_bytes(generator: random.Random, data: bytearray, layout: Layout) -> None:
    if data:
        at = generator.randrange(len(data))
        width = generator.randrange(1, 9)
        data[at : at + width] = generator.randbytes(width)[: len(data) - at]


def _cut(generator: random.Random, data: bytearray, layout: Layout) -> None:
    at = generator.randrange(len(data) + 1)
    del data[at : at + generator.randrange(1, 17)]


def _insert(generator: random.Random, data: bytearray, layout: Layout) -> None:
    at = generator.randrange(len(data) + 1)
    data[at:at] = bytes(generator.randrange(1, 17))


def _truncate(generator: random.Random, data: bytearray, layout: Layout) -> None:
    del data[generator.randrange(len(data) + 1) :]


_Operation = Callable[[random.Random, bytearray, Layout], None]
_OPERATIONS: tuple[_Operation, ...] = (
    _flip_bit,
    _flip_bit,
    _boundary_at_field,
    _boundary_at_field,
    _boundary_at_field,
    _small_at_field,
    _small_at_field,
    _copy_field,
    _copy_field,
    _random_bytes,
    _cut,
    _insert,
    _truncate,
)
"""Operations by weight: those that keep the file's structure are more frequent, because they get further."""
