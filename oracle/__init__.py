"""Independent references for constrained decoding, sampling and GGUF.

Nothing here imports llama.cpp or the tracker; numpy and the standard library are the only dependencies.
"""

from __future__ import annotations


class OracleError(Exception):
    """Base of every error that the oracle raises on purpose."""
