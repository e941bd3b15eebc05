"""llama-tracker: builds llama.cpp releases, audits them against the oracle, reports what changed."""

from __future__ import annotations

__version__ = "0.1.0"
