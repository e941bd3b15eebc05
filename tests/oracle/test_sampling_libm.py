"""The C library's functions over arrays."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracle.sampling import libm

floats = st.floats(width=32, allow_nan=False)


@given(st.lists(floats, min_size=1, max_size=50))
def test_the_fast_exponential_is_libms_bit_for_bit(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert np.array_equal(libm.expf(array).view(np.uint32), libm.expf_each(array).view(np.uint32))


def test_the_fast_exponential_is_libms_over_a_wide_sweep() -> None:
    random = np.random.RandomState(1)
    sweep = np.concatenate(
        [
            np.linspace(-110, 90, 20_001, dtype=np.float32),
            -np.abs(random.standard_normal(20_000)).astype(np.float32) * 20,
            random.standard_normal(5_000).astype(np.float32) * np.float32(1e-3),
        ]
    )
    assert np.array_equal(libm.expf(sweep).view(np.uint32), libm.expf_each(sweep).view(np.uint32))


def test_exponentials_at_the_ends_are_the_limits() -> None:
    ends = np.array([-np.inf, np.inf, 0, np.nan], np.float32)
    assert libm.expf(ends)[:3].tolist() == [0.0, math.inf, 1.0]
    assert np.isnan(libm.expf(ends)[3])


def test_numpys_own_exponential_would_not_do() -> None:
    # The reason for this module; should it ever fail, the module may go.
    values = np.linspace(-20, 0, 20_001, dtype=np.float32)
    assert (np.exp(values) != libm.expf_each(values)).sum() > 100


def test_logarithms_are_within_one_unit_of_the_exact_ones() -> None:
    values = np.array([0.05, 0.5, 1.0, 3.0, 1e-30, 3e38], np.float32)
    for function, exact in ((libm.logf, math.log), (libm.log2f, math.log2)):
        wanted = np.array([exact(value) for value in values.tolist()])
        assert np.all(np.abs(function(values) - wanted) <= np.spacing(np.abs(wanted).astype(np.float32)))


def test_cumsum_adds_one_by_one_in_single_precision() -> None:
    # 2^24 + 1 rounds back to 2^24, so only a sum in this order loses every one of the ones.
    values = np.array([2**24, *[1] * 1000], np.float32)
    assert np.cumsum(values, dtype=np.float32)[-1] == 2**24
