"""The program as the nightly workflow runs it in tests: all of it, but for what would build llama.cpp.

``plan`` and ``run`` take prepared documents from the folder in NIGHT_DOCUMENTS instead of the package index
and a compiler; everything else (``merge``, ``report``, ``notify``) is the real command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tracker.cli import run
from tracker.errors import ExitCode
from tracker.publish.matrix import Job, encode_matrix
from tracker.results import AuditName
from tracker.store import Store, StoreError


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns its exit code."""
    prepared = Store(Path(os.environ["NIGHT_DOCUMENTS"]))
    match arguments:
        case ["plan", "--output", output]:
            return plan(prepared, Store(Path("reports/data")), Path(output))
        case ["run", release, "--reports", reports]:
            return audit(prepared, release, Store(Path(reports) / "data"))
        case _:
            return run(arguments)


def plan(prepared: Store, store: Store, output: Path) -> int:
    """As the real one: a job for each release without a result that another audit would only repeat."""
    jobs = []
    for document in prepared.documents(AuditName.GRAMMAR):
        try:
            current = store.read(document.build.id, AuditName.GRAMMAR).trustworthy
        except StoreError:
            current = False
        if not current:
            jobs.append(Job(document.build.id, f"{document.build.channel}=={document.build.version}"))
    matrix, count = encode_matrix(jobs)
    with output.open("a") as file:
        file.write(f"matrix={matrix}\ncount={count}\n")
    print(matrix)
    return ExitCode.OK


def audit(prepared: Store, release: str, store: Store) -> int:
    """As the real one: the result is stored, and one without verdicts is a failure."""
    document = prepared.read(release.replace("==", "-"), AuditName.GRAMMAR)
    store.write(document)
    if document.trustworthy:
        return ExitCode.OK
    print(f"llama-tracker: {document.build.id}: no result: {document.reason}", file=sys.stderr)
    return ExitCode.INCOMPLETE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
