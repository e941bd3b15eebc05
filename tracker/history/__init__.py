"""What became of the findings from build to build. Pure: documents in, transitions out.

``build_history`` orders the results of one audit and says at each build what changed since the closest
earlier result that it may be compared with; ``compare`` does it for two results. A result is handed over as
its ``Summary``; the findings themselves are asked for only where two digests differ.
"""

from __future__ import annotations

from tracker.history.compare import compare, compare_documents, place_of
from tracker.history.model import (
    Change,
    Entry,
    Evidence,
    EvidenceSource,
    History,
    Strand,
    SubjectSummary,
    Summary,
    Transition,
    evidence_of,
    summarise,
)
from tracker.history.order import in_order, order_key
from tracker.history.timeline import build_history, history_of

__all__ = [
    "Change",
    "Entry",
    "Evidence",
    "EvidenceSource",
    "History",
    "Strand",
    "SubjectSummary",
    "Summary",
    "Transition",
    "build_history",
    "compare",
    "compare_documents",
    "evidence_of",
    "history_of",
    "in_order",
    "order_key",
    "place_of",
    "summarise",
]
