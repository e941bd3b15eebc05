"""The coverage-guided fuzz finds what is there to be found, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracker.audits.gguf.guided import GuidedError, fuzz_guided
from tracker.audits.gguf.seeds import seeds

STARTS = [layout.data for layout in seeds().values()]


def test_a_short_run_covers_the_reader_and_finds_nothing() -> None:
    pytest.importorskip("atheris")
    report = fuzz_guided(STARTS, 300)
    assert report.violation is None
    assert report.files >= 300
    assert report.edges > 80


def test_a_target_that_fails_is_found_and_its_file_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("atheris")
    (tmp_path / "failing_target.py").write_text(
        "import sys, atheris\n"
        "def one(data):\n"
        "    if b'router' not in data and data[:4] == b'GGUF':\n"
        "        raise AssertionError('planted')\n"
        "atheris.Setup(sys.argv, one)\n"
        "atheris.Fuzz()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = fuzz_guided(STARTS, 100, target="failing_target")
    assert report.violation is not None
    assert report.violation.mutant.data in (b"", *STARTS) or report.violation.mutant.data[:4] == b"GGUF"


def test_a_target_that_does_not_start_is_an_error_and_no_pass() -> None:
    with pytest.raises(GuidedError):
        fuzz_guided(STARTS, 10, target="no_such_module")
