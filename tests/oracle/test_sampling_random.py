"""The C++ standard library's random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.sampling.random import Mersenne


def test_the_ten_thousandth_word_is_the_standards() -> None:
    # [rand.predef]: the 10000th consecutive invocation of a default-constructed mt19937 gives 4123659995.
    assert Mersenne(5489).words(10_000)[-1] == 4_123_659_995


def test_a_double_is_made_of_two_words_low_one_first() -> None:
    low, high = Mersenne(7).words(2).tolist()
    assert Mersenne(7).uniform() == pytest.approx((low + high * 2**32) / 2**64, abs=0)


def test_doubles_at_once_are_doubles_one_by_one() -> None:
    one_by_one = Mersenne(3)
    assert Mersenne(3).uniforms(5).tolist() == [one_by_one.uniform() for _ in range(5)]


def test_a_float_is_made_of_one_word() -> None:
    word = Mersenne(7).words(1)[0]
    assert Mersenne(7).uniform_float() == np.float32(word) / np.float32(2**32)


def test_uniform_numbers_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = Mersenne(1)
    monkeypatch.setattr(largest, "words", lambda count: np.full(count, 2**32 - 1, np.uint32))
    assert largest.uniform() == np.nextafter(1.0, 0.0)
    assert largest.uniform_float() == np.nextafter(np.float32(1), np.float32(0))
