"""``llama-tracker check``: is my grammar affected by this release?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.audits.grammar.audit import LIMITS, audit_build
from tracker.audits.grammar.corpus import grammar_file, load_corpus
from tracker.audits.grammar.question import StateAnswer, ask_state
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, check_json_target, state_progress, write_json
from tracker.errors import ExitCode, UsageError
from tracker.explain import explain_grammar, explain_state
from tracker.pipeline import load_vocabulary, prepare_build
from tracker.store import encode

DEFAULT_STATES = 200


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.gbnf", help="The grammar.")],
    release: Annotated[
        str, typer.Option("--release", "-r", help="The release to ask.")
    ] = options.DEFAULT_RELEASE,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="HEX", help="Show one state: the output so far in hex ('' for the start)."
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", metavar="ID,ID", help="Show one state: the output so far as token ids."),
    ] = None,
    states: Annotated[int, typer.Option(min=1, help="Compare at most so many states.")] = DEFAULT_STATES,
    paths: options.Paths = 1,
    jobs: options.Jobs = options.DEFAULT_JOBS,
    json_to: options.Json = "",
    exit_code: options.ExitCodeOption = False,
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Is my grammar affected by this release? Compares the release's masks with the right ones.

    Example: llama-tracker check my.gbnf --release llama-cpp-python==0.3.36

    One state: llama-tracker check my.gbnf --at f0
    """
    if at is not None and tokens is not None:
        raise UsageError("--at and --tokens: give one of them")
    check_json_target(json_to)
    entry = grammar_file(file, states).model_copy(update={"paths": paths})
    output = _bytes(at)
    path = _token_ids(tokens)
    cache = Cache.default()
    build = prepare_build(release, cache, jobs=jobs, retry_failed=retry_failed, tell=OUTPUT.detail)
    vocabulary = load_vocabulary(cache, [build.tree])
    if output is not None or path is not None:
        answer = ask_state(
            entry.text, build, vocabulary, output=output or b"", path=path, limits=LIMITS, name=str(file)
        )
        if json_to:
            write_json(json_to, answer.as_json())
        if json_to != "-":
            OUTPUT.result(explain_state(answer, build.id))
        return _code(exit_code, _differs(answer))
    OUTPUT.say(f"asking {build.id} about {file}")
    with state_progress() as progress:
        document, _ = audit_build(
            build, vocabulary, [entry], jobs=1, known=load_corpus(), predictions=False, progress=progress
        )
    if not document.trustworthy:
        OUTPUT.problem(f"llama-tracker: {build.id}: no verdict: {document.reason}")
        return ExitCode.INCOMPLETE
    result = document.grammars[0]
    if result.status == "untestable":
        OUTPUT.problem(f"llama-tracker: {file}: no verdict: {result.reason}")
        return ExitCode.INCOMPLETE
    if not result.states and not result.deviations:
        raise UsageError(f"{file}: {result.notes[0]}; {build.id} refuses it as well")
    if json_to:
        write_json(json_to, encode(document).decode())
    if json_to != "-":
        OUTPUT.result(explain_grammar(document))
    return _code(exit_code, bool(result.deviations))


def _code(exit_code: bool, found: bool) -> int:
    return ExitCode.CHANGED if exit_code and found else ExitCode.OK


def _differs(answer: StateAnswer) -> bool:
    return bool(answer.unsound or answer.over_restrictive or answer.oracle_eos != answer.build_eos)


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"--at {text}: not hex: write two digits a byte, such as f09f") from None


def _token_ids(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UsageError(f"--tokens {text}: not token ids: write numbers with commas between") from None
