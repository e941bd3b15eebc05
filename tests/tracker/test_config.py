"""builds.yaml: what is accepted, and that each error names line, key and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.config import Config, ConfigError, Notification, load_config, parse_config
from tracker.errors import ExitCode
from tracker.releases import ChannelName
from tracker.results import Kind

SHIPPED = Path(__file__).resolve().parents[2] / "builds.yaml"
MINIMAL = "releases: [llama-cpp-python==0.3.36]\n"


def test_the_shipped_file_lists_the_promised_releases_and_the_default_watch() -> None:
    config = load_config(SHIPPED)
    assert [entry.release for entry in config.releases] == [
        "llama-cpp-python==0.3.8",
        "llama-cpp-python==0.3.16",
        "llama-cpp-python==0.3.24",
        "llama-cpp-python==0.3.30",
        "llama-cpp-python==0.3.36",
        "llama-cpp-python==latest",
    ]
    watch = config.watch("match_partial_char")
    assert watch.kinds == (Kind.UNSOUND, Kind.OVER_RESTRICTIVE, Kind.EOS_UNSOUND)
    assert watch.mid_code_point is True
    assert config.vocabulary == "qwen2.5"
    assert config.corpus_folder == SHIPPED.parent / "grammars"


def test_a_release_may_be_text_or_mapping_and_exact_or_range() -> None:
    config = parse_config(
        "releases:\n"
        "  - llama-cpp-python==0.3.8\n"
        "  - release: llama-cpp-python>=0.3.24,<0.3.30\n"
        "    grammars: [json-*]\n"
        "    states: 60\n"
        "    note: only JSON\n"
        "  - path:../llama.cpp\n"
        "  - git+https://example.org/llama.cpp@b11312\n"
    )
    exact, versions, path, git = config.releases
    assert exact.exact is not None and exact.exact.version == "0.3.8" and exact.versions is None
    assert versions.exact is None and versions.versions is not None
    channel, specifiers = versions.versions
    assert channel is ChannelName.PYTHON and "0.3.29" in specifiers and "0.3.30" not in specifiers
    assert (versions.grammars, versions.states, versions.note) == (("json-*",), 60, "only JSON")
    assert path.exact is not None and path.exact.channel is ChannelName.PATH
    assert git.exact is not None and git.exact.version == "b11312"


@pytest.mark.parametrize(
    ("text", "line", "key", "allowed"),
    [
        ("", 1, "empty", ""),
        ("- a\n", 1, "mapping", "releases"),
        ("{}", 1, "releases", "a list of releases"),
        ("\nreleases: []\n", 2, "releases", "must not be empty"),
        ("releases:\n  - llama-cpp-python==0.3.8\n  - llama-cpp-python==x.y\n", 3, "releases.1", "VERSION"),
        ("releases:\n  - release: llama-cpp-python==0.3.8\n    note: yes\n", 3, "note", "in quotes"),
        ("releases:\n  - release: llama-cpp-python==0.3.8\n    states: 0\n", 3, "states", "from 1"),
        ("releases:\n  - release: llama-cpp-python==0.3.8\n    states: '60'\n", 3, "states", "whole number"),
        ("releases:\n  - releas: llama-cpp-python==0.3.8\n", 2, "release", "missing"),
        (MINIMAL + "bounds:\n  depth: 3\n", 3, "bounds.depth", "states"),
        (
            MINIMAL + "watches:\n  - name: a\n    kinds:\n      - UNSOUND\n      - UNSOND\n",
            6,
            "kinds.1",
            "EOS_MISSING",
        ),
        (MINIMAL + "watches:\n  - kinds: [UNSOUND]\n", 3, "watches.0.name", "letters"),
        (MINIMAL + "watches:\n  - name: a b\n", 3, "watches.0.name", "letters"),
        (MINIMAL + "watches:\n  - name: a\n  - name: a\n", 4, "watches", "twice"),
        (MINIMAL + "notification:\n  lable: x\n", 3, "notification.lable", "label"),
        (MINIMAL + "notification:\n  repository: no-slash\n", 3, "notification.repository", "OWNER/NAME"),
        (MINIMAL + "notification: 3\n", 2, "notification", "mapping"),
        (MINIMAL + "vocabulary: llama3\n", 2, "vocabulary", "qwen2.5"),
        (MINIMAL + "audits: [grammars]\n", 2, "audits.0", "grammar, sampler, gguf"),
        (MINIMAL + "folder: /tmp\n", 2, "folder", "releases"),
        (MINIMAL + MINIMAL, 2, "releases", "twice"),
        ("releases: [llama-cpp-python==0.3.8, llama-cpp-python==0.3.8]\n", 1, "releases", "twice"),
        ("releases: [\n", 2, "YAML", ""),
        ("releases: &a [*a]\n", 1, "refers to itself", ""),
        (MINIMAL + "corpus: [2026-13-41]\n", 2, "corpus", "a folder"),
    ],
)
def test_an_error_names_file_line_key_and_what_is_allowed(
    text: str, line: int, key: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "my.yaml")
    message = str(caught.value)
    assert message.startswith(f"my.yaml:{line}: ")
    assert key in message
    assert allowed in message
    assert "\n" not in message
    assert caught.value.exit_code is ExitCode.USAGE


def test_an_error_counts_the_others() -> None:
    with pytest.raises(ConfigError, match=r"bounds\.depth.*\(and 1 more\)$"):
        parse_config(MINIMAL + "bounds: {depth: 3}\nnotification: {lable: x}\n")


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_a_one_line_error(text: str) -> None:
    try:
        config = parse_config(text)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(config, Config)


_yaml_keys = st.sampled_from(["releases", "watches", "bounds", "notification", "audits", "corpus", "x", "1"])
_yaml_values = st.recursive(
    st.sampled_from(["null", "1", "-1", "yes", "a", "'1'", "1.5", ".nan", "llama-cpp-python==0.3.8"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
        | st.dictionaries(st.sampled_from(["name", "release", "states", "label"]), inner, max_size=2).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(_yaml_keys, _yaml_values, max_size=4))
def test_an_error_points_to_a_line_of_the_file(sections: dict[str, str]) -> None:
    lines = [f"{key}: {value}" for key, value in sections.items()]
    text = "\n".join(["# one line a key", *lines])
    try:
        parse_config(text, "f")
    except ConfigError as error:
        line = int(str(error).split(":")[1])
        assert 1 <= line <= len(lines) + 1
        named = [key for key in sections if f": {key}" in str(error)]
        if named and line > 1:
            assert lines[line - 2].startswith(tuple(named))


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.*--config"):
        load_config(tmp_path / "builds.yaml")


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "builds.yaml").write_bytes(b"releases: \xff\n")
    with pytest.raises(ConfigError, match="byte 10 is not UTF-8"):
        load_config(tmp_path / "builds.yaml")


def test_the_repository_comes_from_the_file_or_the_environment() -> None:
    assert Notification().target({"GITHUB_REPOSITORY": "a/b"}) == "a/b"
    assert Notification(repository="c/d").target({"GITHUB_REPOSITORY": "a/b"}) == "c/d"
    with pytest.raises(ConfigError, match="GITHUB_REPOSITORY"):
        Notification().target({})


def test_an_unknown_watch_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'x'.*there are: a, b"):
        parse_config(MINIMAL + "watches: [{name: a}, {name: b}]").watch("x")
