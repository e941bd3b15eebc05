"""Saved findings: written, read, refused when wrong, and replayed through our reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oracle.gguf import GGUFError, parse_gguf
from tracker.audits.gguf.mutants import CASES, Family, Mutant
from tracker.audits.gguf.own_reader import complaint_about
from tracker.audits.gguf.saved import MAXIMUM_BYTES, SavedFile, load_files, save_files
from tracker.errors import UsageError

FINDINGS = load_files(Path(__file__).with_name("gguf_findings.yaml"))


@example([SavedFile("a", "\x85", b"")])
@given(
    st.lists(st.builds(SavedFile, st.text("abc/", min_size=1), st.text(max_size=20), st.binary(max_size=40)))
)
def test_files_come_back_in_order_of_their_names(
    tmp_path_factory: pytest.TempPathFactory, files: list[SavedFile]
) -> None:
    path = tmp_path_factory.mktemp("saved") / "files.yaml"
    save_files(path, files)
    assert load_files(path) == tuple(sorted(files, key=lambda file: file.name))


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "name: x",
        "- 1",
        "- {name: a, why: b}",
        "- {name: a, why: b, hex: xyz}",
        "- {name: a, why: b, hex: 3}",
    ],
)
def test_what_is_no_finding_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "files.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_files(path)
    assert len(str(caught.value).splitlines()) == 1


def test_files_beyond_one_kibibyte_are_neither_kept_nor_taken(tmp_path: Path) -> None:
    path = tmp_path / "files.yaml"
    with pytest.raises(UsageError):
        save_files(path, [SavedFile("a", "b", bytes(MAXIMUM_BYTES + 1))])
    path.write_text(f"- {{name: a, why: b, hex: '{'00' * (MAXIMUM_BYTES + 1)}'}}")
    with pytest.raises(UsageError):
        load_files(path)
    with pytest.raises(UsageError):
        load_files(tmp_path / "absent.yaml")


@pytest.mark.parametrize("finding", FINDINGS, ids=[file.name for file in FINDINGS])
def test_a_build_s_finding_is_refused_or_read_by_our_reader(finding: SavedFile) -> None:
    assert complaint_about(Mutant(finding.name, CASES, Family.CASE, finding.data)) is None
    if "/ACCEPTS_IMPOSSIBLE/" in finding.name:
        with pytest.raises(GGUFError) as caught:
            parse_gguf(finding.data)
        assert caught.value.impossible
