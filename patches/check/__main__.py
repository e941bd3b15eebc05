"""``python -m patches.check [RELEASE]``: check the patches of this folder on a release.

Exits with 1 when one fails. Without a release it is the one that they are made for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from patches.check import Workshop
from tracker.cache import Cache
from tracker.errors import TrackerError
from tracker.patching import apply_patch, read_patch
from tracker.pipeline import prepare_build
from tracker.releases import Source

MADE_FOR = "llama-cpp-python==0.3.36"
MATCHING = "grammar-well-formed-utf8"
FIXES = (MATCHING, "grammar-no-end-inside-code-point")
"""Each has its tests in a patch of its own, which adds them to ``test-grammar-integration``."""

TESTS = ("test-llama-grammar", "test-grammar-parser", "test-grammar-integration")
ADDED_TO = "test-grammar-integration"

_FOLDER = Path(__file__).resolve().parents[1]


def check(workshop: Workshop, cache: Cache) -> Iterator[tuple[str, bool]]:
    """What is found, a line at a time, and whether it is as it should be. Raises TrackerError."""
    plain = Source(workshop.build.release, workshop.build.tree)

    def patched(source: Source, name: str) -> Source:
        return apply_patch(source, read_patch(_FOLDER / f"{name}.patch"), cache).source

    fixed = {name: patched(plain, name) for name in FIXES}
    for before, after in zip(
        workshop.answers(plain.tree), workshop.answers(fixed[MATCHING].tree), strict=True
    ):
        line = f"{after.function}: {after.cases:,} cases; wrong: {before.wrong:,} without the patch"
        line += f" (first: {before.first}), {after.wrong:,} with it"
        yield (
            line + (f" (first: {after.first})" if after.wrong else ""),
            before.wrong > 0 and after.wrong == 0,
        )
    for test in TESTS:
        yield _passes(f"{test} without a patch", workshop.failure(test, plain.tree))
    for name in FIXES:
        for test in TESTS:
            yield _passes(f"{test} with {name}", workshop.failure(test, fixed[name].tree))
        tests = f"{name}-tests"
        yield _passes(
            f"{ADDED_TO} with {name} and {tests}",
            workshop.failure(ADDED_TO, patched(fixed[name], tests).tree),
        )
        failure = workshop.failure(ADDED_TO, patched(plain, tests).tree)
        yield f"{ADDED_TO} with {tests} alone: {failure or 'passes'}", "Assertion" in failure


def _passes(what: str, failure: str) -> tuple[str, bool]:
    return f"{what}: {failure or 'passes'}", not failure


def main() -> int:
    """Check and print."""
    parser = argparse.ArgumentParser(prog="python -m patches.check", description=__doc__)
    parser.add_argument("release", nargs="?", default=MADE_FOR)
    release = parser.parse_args().release
    cache = Cache.default()
    all_right = True
    try:
        build = prepare_build(
            release, cache, jobs=0, retry_failed=False, tell=lambda line: print(line, file=sys.stderr)
        )
        with tempfile.TemporaryDirectory() as folder:
            for line, right in check(Workshop(build, Path(folder)), cache):
                print(line if right else f"WRONG: {line}", flush=True)
                all_right &= right
    except TrackerError as error:
        print(f"patches.check: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
