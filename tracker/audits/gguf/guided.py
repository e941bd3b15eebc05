"""Coverage-guided fuzz of our reader with atheris (libFuzzer), in a process of its own.

libFuzzer takes a process over and ends it, so ``guided_target`` is started as a program. This module knows
how to give it the seeds and read what it found; what is wrong with a file is ``own_reader``'s to say.
A number of runs and a seed always give the same files, with the same version of atheris and of Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tracker.audits.gguf.mutants import CASES, Family, Mutant
from tracker.audits.gguf.own_reader import Violation, complaint_about
from tracker.errors import TrackerError

_LONGEST = 1024
_DONE = re.compile(r"^#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
_ROOT = Path(__file__).resolve().parents[3]


class GuidedError(TrackerError):
    """The fuzzer is missing, or ended in a way that says nothing about our reader."""


@dataclass(frozen=True, slots=True)
class GuidedReport:
    """What a guided run came to.

    ``edges`` and ``features`` are libFuzzer's measures of the reader's coverage, ``kept`` the files that each
    reached something new.
    """

    files: int
    edges: int
    features: int
    kept: int
    violation: Violation | None


def fuzz_guided(
    seeds: Iterable[bytes], runs: int, seed: int = 1, *, target: str = "tracker.audits.gguf.guided_target"
) -> GuidedReport:
    """Let libFuzzer make ``runs`` files from the seeds; it stops at the first violation.

    ``target`` is the module that libFuzzer drives; tests of the fuzz itself give another.

    Raises:
        GuidedError: atheris is not installed, or the fuzzer itself failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus, found = Path(folder, "corpus"), Path(folder, "found")
        corpus.mkdir()
        found.mkdir()
        for number, data in enumerate(seeds):
            (corpus / f"{number:04}").write_bytes(data)
        command = [sys.executable, "-m", target, f"-runs={runs}", f"-seed={seed}", f"-max_len={_LONGEST}"]
        command += ["-timeout=20", f"-artifact_prefix={found}/", str(corpus)]
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        artifacts = sorted(found.iterdir())
        if artifacts:
            mutant = Mutant(f"guided/{artifacts[0].name}", CASES, Family.CASE, artifacts[0].read_bytes())
            what = complaint_about(mutant) or f"libFuzzer says {artifacts[0].name.split('-')[0]}"
            return GuidedReport(0, 0, 0, 0, Violation(mutant, what))
    match = _DONE.search(done.stderr)
    if done.returncode != 0 or match is None:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise GuidedError(f"the guided fuzz failed: {last[:200]}")
    files, edges, features, kept = map(int, match.groups())
    return GuidedReport(files, edges, features, kept, None)
