"""An archive is unpacked whole and safely, or refused as a whole."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath

import pytest
from archives import link, write_archive
from hypothesis import given
from hypothesis import strategies as st

from tracker.releases import ReleaseError, Unavailable, archive
from tracker.releases.archive import unpack


def everything(name: PurePosixPath) -> Path:
    return Path(name)


def test_wanted_files_are_written_where_the_placement_says(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "a.tar.gz", {"top/a/b.txt": b"one", "top/c": b"two", "top/skip": b"x"})
    placed = {"top/a/b.txt": Path("x/b.txt"), "top/c": Path("c")}
    assert unpack(source, tmp_path / "out", lambda name: placed.get(str(name))) == 2
    found = {
        str(p.relative_to(tmp_path / "out")): p.read_bytes()
        for p in (tmp_path / "out").rglob("*")
        if p.is_file()
    }
    assert found == {"x/b.txt": b"one", "c": b"two"}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a/..", "a\\..\\x"])
def test_a_name_that_leads_out_refuses_the_archive_even_if_nobody_wants_it(tmp_path: Path, name: str) -> None:
    source = write_archive(tmp_path / "a.tar.gz", {"a/good": b"", name: b"evil"})
    with pytest.raises(ReleaseError, match="leads outside"):
        unpack(source, tmp_path / "out", lambda _: None)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "member",
    [
        link("a/l", "/etc/passwd"),
        link("a/l", "../../x"),
        link("l", ".."),
        link("a/l", "/etc/passwd", tarfile.LNKTYPE),
        link("a/l", "../x", tarfile.LNKTYPE),
    ],
    ids=lambda member: f"{member.type.decode()}-{member.linkname}",
)
def test_a_link_that_leads_out_refuses_the_archive(tmp_path: Path, member: tarfile.TarInfo) -> None:
    with pytest.raises(ReleaseError, match="leads outside"):
        unpack(write_archive(tmp_path / "a.tar.gz", {"a/good": b""}, member), tmp_path / "out", everything)


def test_no_link_is_ever_written_so_that_none_can_be_written_through(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "a.tar.gz", {"a/b": b"1"}, link("a/l", "b"))
    assert unpack(source, tmp_path / "out", everything) == 1
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_devices_and_set_user_id_bits_do_not_arrive(tmp_path: Path) -> None:
    device = tarfile.TarInfo("a/device")
    device.type = tarfile.CHRTYPE
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("a/tool")
        member.mode = 0o6777
        tar.addfile(member)
        tar.addfile(device)
    unpack(path, tmp_path / "out", everything)
    assert [p.name for p in (tmp_path / "out" / "a").iterdir()] == ["tool"]
    assert (tmp_path / "out" / "a" / "tool").stat().st_mode & 0o7777 == 0o755


def test_a_bomb_is_stopped_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAXIMUM_BYTES", 100_000)
    source = write_archive(tmp_path / "a.tar.gz", {f"a/{i}": bytes(30_000) for i in range(5)})
    assert source.stat().st_size < 5_000
    with pytest.raises(ReleaseError, match="more than"):
        unpack(source, tmp_path / "out", everything)
    assert sum(p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file()) <= 100_000


def test_a_bomb_in_the_headers_is_stopped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAXIMUM_BYTES", 100_000)
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("a/x")
        member.pax_headers = {"comment": "c" * 1_000_000}
        tar.addfile(member)
    with pytest.raises(ReleaseError, match="more than"):
        unpack(path, tmp_path / "out", everything)


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAXIMUM_MEMBERS", 10)
    source = write_archive(tmp_path / "a.tar.gz", {f"a/{i}": b"" for i in range(11)})
    with pytest.raises(ReleaseError, match="more than 10 members"):
        unpack(source, tmp_path / "out", everything)


@given(cut=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255), at=st.floats(0, 1, exclude_max=True))
def test_damage_is_a_release_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, cut: float, flip: int, at: float
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    content = bytes(range(256)) * 40
    data = bytearray(write_archive(folder / "a.tar.gz", {"a/x": content, "a/y": content}).read_bytes())
    data[int(at * len(data))] ^= flip
    (folder / "a.tar.gz").write_bytes(data[: int(cut * len(data))] if cut < 0.5 else data)
    try:
        unpack(folder / "a.tar.gz", folder / "out", everything)
    except ReleaseError as error:
        assert "\n" not in str(error)


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "a.tar.gz", {"a": b"content"})
    with pytest.raises(Unavailable, match="No space left"):
        unpack(source, tmp_path, lambda _: Path("/dev/full"))
