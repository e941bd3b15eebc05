"""What libFuzzer calls: one file, through our reader. Started by ``guided`` in a process of its own.

The reader is imported here and nowhere before, because only what is imported through atheris is instrumented.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

try:
    atheris: Any = importlib.import_module("atheris")
except ImportError:
    sys.exit("atheris is not installed: pip install atheris")

with atheris.instrument_imports(include=["oracle.gguf"]):
    from tracker.audits.gguf.mutants import CASES, Family, Mutant
    from tracker.audits.gguf.own_reader import complaint_about


def examine(data: bytes) -> None:
    """Raise AssertionError when our reader does something wrong with a file."""
    complaint = complaint_about(Mutant("guided", CASES, Family.CASE, data))
    if complaint is not None:
        raise AssertionError(complaint)


if __name__ == "__main__":
    atheris.Setup(sys.argv, examine)
    atheris.Fuzz()
