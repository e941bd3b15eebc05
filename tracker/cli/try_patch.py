"""``llama-tracker try``: what a patch to llama.cpp would remove, and what it would bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tracker.audits.grammar.audit import VocabularyFile, audit_build
from tracker.audits.grammar.corpus import CorpusEntry, load_corpus
from tracker.build import Build
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, check_json_target, state_progress, write_json
from tracker.errors import ExitCode, UsageError
from tracker.patching import PatchedSource, apply_patch, read_patch
from tracker.pipeline import VOCABULARY_NAME, Selection, load_vocabulary, make_build, select_grammars
from tracker.releases import Source
from tracker.releases.channels import expand, fetch
from tracker.results import GrammarDocument
from tracker.trial import EXAMPLES, SideBySide, Trial, hold_against, side_by_side


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("try")(try_patch)


def try_patch(
    patch: Annotated[Path, typer.Argument(help="A patch in the format of git diff, for llama.cpp's tree.")],
    release: Annotated[str, typer.Argument(help="For example llama-cpp-python==0.3.36.")],
    grammar: options.GrammarNames = None,
    states: options.States = None,
    vocabulary: options.VocabularyName = VOCABULARY_NAME,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json: options.Json = "",
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Build a release with a patch, and say what the patch removes, what it adds and what else moves.

    Example: llama-tracker try patches/grammar-well-formed-utf8.patch llama-cpp-python==0.3.36
    """
    check_json_target(json)
    selection = Selection(tuple(grammar or ()), states, vocabulary=vocabulary)
    cache = Cache.default()
    wanted = read_patch(patch)
    names = expand(release, cache)
    if len(names) != 1:
        raise UsageError(f"{release}: names {len(names)} releases: give exactly one here")
    source = fetch(names[0], cache)
    entries = select_grammars(selection, source.tree)
    patched = apply_patch(source, wanted, cache)
    _tell_skipped(patched)

    def build(of: Source) -> Build:
        return make_build(of, cache, jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.say)

    before, after = build(source), build(patched.source)
    words = load_vocabulary(cache, [before.tree], vocabulary)
    documents = [
        _audit(built, words, entries, jobs, name) for built, name in ((before, None), (after, wanted.name))
    ]
    OUTPUT.say(f"{before.id} and {after.id}: comparing their masks state by state")
    with state_progress() as progress:
        masks = side_by_side(before, after, words, entries, progress)
    trial = hold_against(documents[0], documents[1], masks)
    if json:
        write_json(json, _document(trial, patched))
    if json != "-":
        _print(trial, words)
    for document in documents:
        if not document.trustworthy:
            OUTPUT.problem(f"llama-tracker: {document.build.id}: no verdict: {document.reason}")
            return ExitCode.INCOMPLETE
    return ExitCode.OK


def _tell_skipped(patched: PatchedSource) -> None:
    if patched.skipped:
        OUTPUT.say(f"left out, not part of what is built: {', '.join(map(str, patched.skipped))}")


def _audit(
    build: Build, vocabulary: VocabularyFile, entries: tuple[CorpusEntry, ...], jobs: int, patch: str | None
) -> GrammarDocument:
    OUTPUT.say(f"{build.id}: auditing")
    with state_progress() as progress:
        document, _ = audit_build(
            build, vocabulary, entries, jobs=jobs, known=load_corpus(), patch=patch, progress=progress
        )
    return document


def _print(trial: Trial, vocabulary: VocabularyFile) -> None:
    tell = OUTPUT.result
    for title, counts in (("removes", trial.removed), ("adds", trial.added)):
        tell(f"{title}: {sum(counts.values())} deviations" if counts else f"{title}: nothing")
        for (kind, cause), count in counts.items():
            tell(f"  {count:6} {kind} {cause}")
    for line in trial.incomparable:
        tell(f"not comparable: {line}")
    masks = trial.masks
    tell(
        f"masks at {masks.states} states: {masks.better} tokens at {len(masks.moves)} states were wrong and "
        f"are right now; {sum(move.worse for move in masks.worse)} were right and are wrong now"
    )
    for move in masks.worse[:EXAMPLES]:
        pieces = [vocabulary.vocabulary.pieces[token].hex() for token in move.tokens[:5]]
        tell(
            f"  {move.grammar} after '{move.prefix.hex(' ')}': {move.death or ' '.join(pieces) or 'the end'}"
        )
    for reason, grammars in _by_reason(masks.left_out):
        tell(f"not compared, {_count(len(grammars), 'grammar')}: {', '.join(grammars)} ({reason})")
    tell(_times(masks))


def _by_reason(left_out: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The grammars left out, those with the same reason together."""
    for reason in dict.fromkeys(left_out.values()):
        yield reason, [name for name, why in left_out.items() if why == reason]


def _times(masks: SideBySide) -> str:
    if not masks.states:
        return "apply: no state was compared"
    each = [1000 * seconds / masks.states for seconds in (masks.before_seconds, masks.after_seconds)]
    # Over a small vocabulary it may be less than the clock can tell.
    ratio = f"{masks.after_seconds / masks.before_seconds:.3f} of it; " if masks.before_seconds else ""
    return f"apply: {each[0]:.2f} ms a state before, {each[1]:.2f} ms after ({ratio}CPU time)"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _document(trial: Trial, patched: PatchedSource) -> dict[str, Any]:
    masks = trial.masks
    return {
        "schema_version": 1,
        "before": trial.before.build.model_dump(mode="json"),
        "after": trial.after.build.model_dump(mode="json"),
        "trustworthy": trial.before.trustworthy and trial.after.trustworthy,
        "skipped": [str(file) for file in patched.skipped],
        "removed": _counts(trial.removed),
        "added": _counts(trial.added),
        "incomparable": list(trial.incomparable),
        "masks": {
            "states": masks.states,
            "moved": len(masks.moves),
            "better": masks.better,
            "worse": [
                {
                    "grammar": move.grammar,
                    "prefix": move.prefix.hex(),
                    "tokens": list(move.tokens),
                    "count": move.worse,
                    "death": move.death,
                }
                for move in masks.worse
            ],
            "left_out": masks.left_out,
        },
        "apply_seconds": {"before": masks.before_seconds, "after": masks.after_seconds},
    }


def _counts(counts: Any) -> list[dict[str, Any]]:
    return [{"kind": kind, "cause": cause, "atoms": count} for (kind, cause), count in counts.items()]
