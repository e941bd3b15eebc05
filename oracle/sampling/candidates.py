"""The candidates of one step, and the two operations that most samplers share: sorting and softmax.

The invariant: ``ids``, ``logits`` and ``p`` have one length and describe the same tokens in the same order,
and ``ordered`` is set only when the logits descend. NaN counts as less likely than everything else, −∞
included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oracle import OracleError
from oracle.sampling import libm

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Order = npt.NDArray[np.intp]


class UndefinedDistribution(OracleError):
    """The logits define no probabilities: the right outcome is a refusal, not a token."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """What a sampler is handed and hands on.

    ``ids`` int32, ``logits`` and ``p`` float32, all of shape (n,); ``selected`` is an index or −1.

    ``tie_rank`` settles the order of equal scores, which a sort leaves open: int64 by token id, smaller
    first. Without it equal scores keep the order they are in. Ranks from its length on mark tokens to be cut
    where a cut has to choose among equals.
    """

    ids: Ids
    logits: Floats
    p: Floats
    selected: int = -1
    ordered: bool = False
    tie_rank: npt.NDArray[np.int64] | None = None

    @staticmethod
    def of(logits: npt.ArrayLike, tie_rank: npt.NDArray[np.int64] | None = None) -> Candidates:
        """All tokens 0 … n − 1 in the order of their ids, with p = 0, as a decoder starts."""
        scores = np.array(logits, np.float32)
        return Candidates(
            ids=np.arange(len(scores), dtype=np.int32),
            logits=scores,
            p=np.zeros(len(scores), np.float32),
            tie_rank=tie_rank,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, order: Order | slice | npt.NDArray[np.bool_], *, ordered: bool) -> Candidates:
        """The candidates picked out by an index array, a slice or a boolean mask, in that order."""
        return Candidates(
            ids=self.ids[order],
            logits=self.logits[order],
            p=self.p[order],
            selected=self.selected,
            ordered=ordered,
            tie_rank=self.tie_rank,
        )

    def by_score(self, scores: Floats) -> Order:
        """The order that makes ``scores`` ascend, NaN last, equal ones by ``tie_rank``; intp, shape (n,)."""
        if self.tie_rank is None:
            return np.argsort(scores, kind="stable")
        return np.lexsort((self.tie_rank[self.ids], scores))

    def sort(self) -> Candidates:
        """The candidates in descending order of their logits."""
        return self if self.ordered else self.take(self.by_score(-self.logits), ordered=True)

    def cut_first(self) -> Candidates:
        """Ordered candidates with those to be cut in front of their equals, for a cut from the front."""
        if self.tie_rank is None:
            return self
        rank = self.tie_rank[self.ids]
        order = np.lexsort((rank, rank < len(self.tie_rank), -self.logits))
        return self.take(order, ordered=True)

    def best(self, count: int) -> Candidates:
        """The ``count`` candidates that `sort` puts first, without sorting the others."""
        if self.ordered or count >= len(self) or np.isnan(self.logits).any():
            return self.sort().take(slice(count), ordered=True)
        limit = -np.partition(-self.logits, count - 1)[count - 1]
        return self.take(self.logits >= limit, ordered=False).sort().take(slice(count), ordered=True)

    def maximum(self) -> np.float32:
        """The largest logit, NaN disregarded; −∞ when there is none."""
        return np.float32(np.fmax.reduce(self.logits, initial=np.float32(-np.inf)))

    def exponentials(self) -> Floats:
        """exp(lᵢ − m) in float32, m the largest logit; float32, shape (n,).

        Raises:
            UndefinedDistribution: a logit is NaN or +∞, or all are −∞.
        """
        top = self.maximum()
        if not np.isfinite(top) or np.isnan(self.logits).any():
            bad = int(np.isnan(self.logits).sum())
            raise UndefinedDistribution(
                f"{len(self)} logits, {bad} of them NaN and the largest other {top}, have no probabilities; "
                "mask what is not finite and leave something"
            )
        with np.errstate(over="ignore"):
            return libm.expf(self.logits - top)

    def softmax(self) -> Candidates:
        """pᵢ = eᵢ / S with S the float32 sum of the eᵢ, one after another in the order they are in.

        No candidates have no probabilities, and stay as they are.
        """
        if not len(self):
            return self
        e = self.exponentials()
        # cumsum adds one by one, as a loop does; sum() would add pairwise and round differently.
        return replace(self, p=e / np.cumsum(e, dtype=np.float32)[-1])
