"""The workflows as they are written: valid, linted, pinned, and with no more rights than they need."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from nights import ROOT, WORKFLOWS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tracker.cli import app

FILES = sorted(WORKFLOWS.glob("*.yml"))
NAMES = [path.stem for path in FILES]
BIN = Path(sys.executable).parent


def load(path: Path) -> dict[str, Any]:
    # BaseLoader: "on" stays a key, not a truth value.
    loaded: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    return loaded


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path.stem}/{name}", job) for path in FILES for name, job in load(path)["jobs"].items()]


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_three_workflows() -> None:
    assert NAMES == ["bisect", "ci", "nightly"]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_workflow_fits_the_schema(path: Path) -> None:
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", path)


def test_actionlint_has_nothing_to_say() -> None:
    run(BIN / "actionlint", *FILES)


def test_zizmor_has_nothing_to_say_at_its_strictest() -> None:
    run(BIN / "zizmor", "--offline", "--persona=pedantic", "--no-progress", *FILES)


def test_zizmor_would_say_something(tmp_path: Path) -> None:
    text = (WORKFLOWS / "nightly.yml").read_text()
    broken = tmp_path / "nightly.yml"
    broken.write_text(text.replace('run "$RELEASE"', "run ${{ matrix.release }}"))
    assert broken.read_text() != text
    command = [BIN / "zizmor", "--offline", "--persona=pedantic", "--no-progress", broken]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode != 0
    assert "template-injection" in done.stdout


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_action_is_pinned_to_a_commit_and_says_its_version(path: Path) -> None:
    uses = re.findall(r"uses: (.+)", path.read_text())
    assert uses
    for line in uses:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_a_job_has_the_rights_it_needs_and_no_others(name: str, job: dict[str, Any]) -> None:
    writes = {"contents": "write", "issues": "write"}
    assert job["permissions"] == (writes if name == "nightly/publish" else {"contents": "read"})
    assert int(job["timeout-minutes"]) <= 360


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_nothing_is_permitted_by_default_and_runs_do_not_overlap(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["group"]


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_only_the_publishing_job_sees_a_token(name: str, job: dict[str, Any]) -> None:
    text = yaml.safe_dump(job)
    assert "secrets." not in text
    if name != "nightly/publish":
        assert "github.token" not in text
        assert "GITHUB_TOKEN" not in text
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


def test_the_publishing_job_runs_no_upstream_code() -> None:
    steps = load(WORKFLOWS / "nightly.yml")["jobs"]["publish"]["steps"]
    commands = [c for step in steps for c in re.findall(r"llama-tracker (\w+)", step.get("run", ""))]
    assert commands == ["merge", "report", "notify"]


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_no_expression_reaches_a_shell(name: str, job: dict[str, Any]) -> None:
    """What comes from a matrix, an input or an output reaches commands through the environment only."""
    for step in job["steps"]:
        assert "${{" not in step.get("run", ""), f"{name}: {step}"


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_what_is_installed_is_pinned(name: str, job: dict[str, Any]) -> None:
    installs = [step["run"] for step in job["steps"] if "pip install" in step.get("run", "")]
    assert all("--constraint .github/constraints.txt" in command for command in installs)


def test_every_dependency_has_a_pin_that_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / ".github" / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    for wanted in map(Requirement, project["dependencies"]):
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), wanted


def test_the_schedule_avoids_the_full_hour() -> None:
    [schedule] = load(WORKFLOWS / "nightly.yml")["on"]["schedule"]
    assert 5 < int(schedule["cron"].split()[0]) < 55


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_command_of_the_program_is_one_that_it_has_with_the_options_it_has(path: Path) -> None:
    program: Any = typer.main.get_command(app)
    for job in load(path)["jobs"].values():
        for step in job["steps"]:
            for line in re.findall(
                r"^llama-tracker (.+)$", step.get("run", "").replace("\\\n", " "), re.MULTILINE
            ):
                name, *words = line.split()
                known = {option for parameter in program.commands[name].params for option in parameter.opts}
                assert {word for word in words if word.startswith("--")} <= known
