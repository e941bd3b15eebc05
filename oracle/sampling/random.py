"""The random numbers of the C++ standard library, for the seeded samplers.

It knows ``std::mt19937`` and how libstdc++ turns its words into uniform numbers; not what is drawn with them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

RANDOM_SEED = 0xFFFFFFFF
"""llama.cpp's ``LLAMA_DEFAULT_SEED``: take a seed from the system. Not reproducible, so never audited."""


class Mersenne:
    """A seeded ``std::mt19937``.

    numpy's legacy ``RandomState`` seeds and steps the generator exactly as C++ prescribes, and its integers
    over the full 32-bit range are the generator's words.
    """

    def __init__(self, seed: int) -> None:
        """Start from ``seed``, 0 … 2³² − 1."""
        self._state = np.random.RandomState(seed)

    def words(self, count: int) -> npt.NDArray[np.uint32]:
        """The next ``count`` words; uint32, shape (count,)."""
        return self._state.randint(0, 2**32, size=count, dtype=np.uint32)

    def uniforms(self, count: int) -> npt.NDArray[np.float64]:
        """The next ``count`` of ``uniform_real_distribution<double>(0, 1)``; float64, shape (count,).

        Two words each: u = (w₁ + w₂·2³²) / 2⁶⁴ in double arithmetic, and the double below 1 should that round
        to 1 (``std::generate_canonical<double, 53>``).
        """
        words = self.words(2 * count).astype(np.float64).reshape(count, 2)
        drawn = (words[:, 0] + words[:, 1] * 2.0**32) / 2.0**64
        return np.minimum(drawn, np.nextafter(1.0, 0.0))

    def uniform(self) -> float:
        """The next uniform double."""
        return float(self.uniforms(1)[0])

    def uniform_float(self) -> np.float32:
        """The next ``uniform_real_distribution<float>(0, 1)``: one word, u = float(w) / 2³²."""
        drawn = self.words(1).astype(np.float32)[0] / np.float32(2**32)
        return np.float32(min(drawn, np.nextafter(np.float32(1), np.float32(0))))
