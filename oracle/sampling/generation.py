"""The generations of the arithmetic: what changed in llama.cpp's samplers, and since when.

A generation is a set of named behaviours. Two releases of different generations give different numbers for
the same input and seed, and neither is wrong; the tracker's business is to notice. What no generation
explains is a deviation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One consistent set of behaviours, named and dated by the releases of llama-cpp-python that show it."""

    name: str
    seen_in: str
    """First and last release it was seen in."""
    date: str
    """Month of the first of these, ISO 8601."""
    zero_k_sorts: bool
    """``top_k`` with k ≤ 0 sorts all candidates instead of leaving them alone."""
    softmax_sorts: bool
    """Every softmax sorts first, so its sum runs in descending order."""
    dist_is_discrete: bool
    """``dist`` draws with ``std::discrete_distribution`` over float probabilities, not by a running sum."""
    single_candidate_draws: bool
    """``dist`` with one candidate consumes a random number."""
    sigma_ends_with_softmax: bool
    """``top_n_sigma`` sorts and computes probabilities after its cut."""
    sigma_counts_masked: bool
    """``top_n_sigma`` takes −∞ into mean and deviation (which become −∞ and NaN)."""


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        name="new",
        seen_in="0.3.36",
        date="2026-11",
        zero_k_sorts=False,
        softmax_sorts=False,
        dist_is_discrete=False,
        single_candidate_draws=True,
        sigma_ends_with_softmax=False,
        sigma_counts_masked=False,
    ),
    Generation(
        name="mid",
        seen_in="0.3.19 – 0.3.30",
        date="2026-03",
        zero_k_sorts=False,
        softmax_sorts=False,
        dist_is_discrete=False,
        single_candidate_draws=False,
        sigma_ends_with_softmax=True,
        sigma_counts_masked=False,
    ),
    Generation(
        name="old",
        seen_in="0.3.16",
        date="2025-08",
        zero_k_sorts=False,
        softmax_sorts=True,
        dist_is_discrete=True,
        single_candidate_draws=False,
        sigma_ends_with_softmax=True,
        sigma_counts_masked=False,
    ),
    Generation(
        name="ancient",
        seen_in="0.3.8",
        date="2025-03",
        zero_k_sorts=True,
        softmax_sorts=True,
        dist_is_discrete=True,
        single_candidate_draws=False,
        sigma_ends_with_softmax=True,
        sigma_counts_masked=True,
    ),
)
"""The known generations, newest first."""

NEWEST = GENERATIONS[0]
