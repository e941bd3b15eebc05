"""The C library's single-precision functions over numpy arrays, bit for bit.

llama.cpp calls ``expf``, ``logf`` and their kin one number at a time; numpy has vectorised ones of its own
that differ in the last bit for a good third of the arguments. Everything here returns what libm returns. It
does not know what the numbers are for.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from oracle import OracleError

Floats = npt.NDArray[np.float32]

_NEAR_TIE = 0.45
"""Distance from the rounded value, in units of the last place, from which libm itself is asked.

A rounded double-precision exponential equals ``expf`` unless the exact value lies about half way between two
floats; how near depends on the error of ``expf`` before rounding. The C libraries in use state 0.502 units in
the last place for it, so anything up to 0.498 would do; 0.45 leaves a margin of twenty-five times that error.
"""


def _library() -> ctypes.CDLL:
    name = ctypes.util.find_library("m") or "libm.so.6"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise OracleError(
            f"cannot load the C mathematics library {name}: {error}; install libc's libm"
        ) from None


def _function(name: str, arguments: int, kind: type = ctypes.c_float) -> Callable[..., float]:
    function = getattr(_LIBM, name)
    function.restype = kind
    function.argtypes = [kind] * arguments
    return function  # type: ignore[no-any-return]


_LIBM = _library()
_expf = _function("expf", 1)
_logf = _function("logf", 1)
_log2f = _function("log2f", 1)
_powf = _function("powf", 2)
_exp = _function("exp", 1, ctypes.c_double)


def _each(function: Callable[..., float], values: Floats) -> Floats:
    return np.fromiter(map(function, values.tolist()), np.float32, len(values))


def expf_each(values: Floats) -> Floats:
    """``expf`` of every value through libm itself: the definition, slow (0.3 µs a value)."""
    return _each(_expf, values)


def expf(values: Floats) -> Floats:
    """``expf`` of every value, equal to `expf_each` and ten times as fast.

    Args:
        values: float32, shape (n,).

    Returns:
        float32, shape (n,).
    """
    with np.errstate(all="ignore"):
        exact = np.exp(values.astype(np.float64))
        rounded = exact.astype(np.float32)
        # A unit in the last place of the smaller neighbour: at a power of two the spacing below is half.
        unit = np.spacing(np.nextafter(rounded, np.float32(0))).astype(np.float64)
        doubtful = ~(np.abs(exact - rounded.astype(np.float64)) < _NEAR_TIE * unit)
    if doubtful.any():
        rounded[doubtful] = expf_each(values[doubtful])
    return rounded


def logf(values: Floats) -> Floats:
    """``logf`` of every value; float32, shape (n,)."""
    return _each(_logf, values)


def log2f(values: Floats) -> Floats:
    """``log2f`` of every value; float32, shape (n,)."""
    return _each(_log2f, values)


def exp(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Double-precision ``exp`` of every value; float64, shape (n,)."""
    return np.fromiter(map(_exp, values.tolist()), np.float64, len(values))


def logf_of(value: float) -> np.float32:
    """``logf`` of one number."""
    return np.float32(_logf(value))


def powf_of(base: float, exponent: float) -> np.float32:
    """``powf`` of two numbers."""
    return np.float32(_powf(base, exponent))
