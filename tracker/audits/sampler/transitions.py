"""Which samplers changed their generation from one release to another, with the smallest example. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tracker.errors import TrackerError
from tracker.results.sampler import Example, SamplerDocument, SamplerResult


class NotComparable(TrackerError):
    """Two documents that were not made by the same questions, or cannot be trusted."""


@dataclass(frozen=True, kw_only=True)
class GenerationChange:
    """A sampler whose numbers changed from one known arithmetic to another.

    ``example`` is the smallest case that the later build answers and the earlier generation does not explain
    (or the other way round, as ``seen_in`` says); None if neither document holds one.
    """

    sampler: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    example: Example | None
    seen_in: str


def generation_changes(before: SamplerDocument, after: SamplerDocument) -> tuple[GenerationChange, ...]:
    """The samplers that no generation explains in both releases, in the documents' order.

    Raises:
        NotComparable: the audit versions differ, or a document's controls failed.
    """
    for document in (before, after):
        if not document.trustworthy:
            raise NotComparable(f"{document.build.id}: its sampler audit gives no verdict: audit it again")
    if before.audit_version != after.audit_version:
        raise NotComparable(
            f"{before.build.id} and {after.build.id}: audited by different versions of the sampler audit: "
            "audit both again"
        )
    earlier = {result.name: result for result in before.samplers}
    return tuple(
        _change(earlier[result.name], result, before, after)
        for result in after.samplers
        if result.name in earlier and _changed(earlier[result.name], result)
    )


def _changed(before: SamplerResult, after: SamplerResult) -> bool:
    return bool(before.fits and after.fits) and not set(before.fits) & set(after.fits)


def _change(
    before: SamplerResult, after: SamplerResult, first: SamplerDocument, second: SamplerDocument
) -> GenerationChange:
    example, seen_in = after.unlike.get(before.fits[0]), second.build.id
    if example is None:
        example, seen_in = before.unlike.get(after.fits[0]), first.build.id
    return GenerationChange(
        sampler=after.name, before=before.fits, after=after.fits, example=example, seen_in=seen_in
    )
