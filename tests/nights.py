"""Nights of the real nightly workflow, run by the real ``act`` against the stand-in for GitHub.

``Nights`` is a git repository with the workflow, its origin, a server, and the releases that upstream has
made so far. ``act`` runs the jobs on this machine (no containers); the actions that need GitHub's own
services (artifacts, cache, Python) have local stand-ins of a few lines, and ``night_tracker`` stands in for
building llama.cpp. ``python tests/nights.py FILE`` writes the story of six nights.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import builders
import yaml
from github_server import Call, GitHubServer

from tracker.results import GrammarDocument, GrammarResult
from tracker.store import Store

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"
TOKEN = "token-of-the-bot"
_ORDER = ["Plan", "Audit", "Publish"]
REPOSITORY = "someone/llama-tracker"

CONFIGURATION = """\
releases:
  - llama-cpp-python==latest
watches:
  - name: match_partial_char
    title: Grammar masks are wrong inside a code point
    about: The sampler never asks whether the bytes consumed so far fit the code point's UTF-8 form.
    mid_code_point: true
"""

STAND_INS = {
    "actions/setup-python": ({"python-version": ""}, 'echo "$NIGHT_BIN" >> "$GITHUB_PATH"'),
    "actions/cache": ({"path": "", "key": ""}, "true"),
    "actions/upload-artifact": (
        {"name": "", "path": "", "if-no-files-found": "warn", "retention-days": "90"},
        'if [ -d "$INPUT_PATH" ]; then\n'
        '  mkdir -p "$NIGHT_ARTIFACTS/$INPUT_NAME" && cp -R "$INPUT_PATH/." "$NIGHT_ARTIFACTS/$INPUT_NAME"\n'
        'elif [ "$INPUT_IF_NO_FILES_FOUND" != ignore ]; then exit 1; fi',
    ),
    "actions/download-artifact": (
        {"path": "", "pattern": ""},
        'mkdir -p "$INPUT_PATH"\n'
        'for one in "$NIGHT_ARTIFACTS"/$INPUT_PATTERN; do\n'
        '  if [ -d "$one" ]; then cp -R "$one" "$INPUT_PATH"; fi\ndone',
    ),
}
"""The actions that are not run for real: their inputs with defaults, and what they do instead."""


@dataclass
class Night:
    """What one run of the workflow did: its exit code, what it printed, the calls, the state of each job."""

    code: int
    log: str
    calls: list[Call]
    jobs: dict[str, str] = field(default_factory=dict)


class Nights:
    """A repository whose nights can be lived through one by one."""

    def __init__(self, folder: Path, server: GitHubServer) -> None:
        self.folder, self.server = folder, server
        self.clone, self.origin = folder / "clone", folder / "origin.git"
        self.documents = Store(folder / "documents")
        self.documents.root.mkdir()
        self._number = 0
        self._make_programs()
        self._actions = list(self._make_stand_ins())
        self._make_repository()

    def release(self, *documents: GrammarDocument) -> None:
        """Upstream makes releases, which would be audited with this result."""
        for document in documents:
            self.documents.write(document)

    def live(self) -> Night:
        """The next night: a checkout of what is on the server, and the workflow on it."""
        self._number += 1
        self.server.now += timedelta(days=1)
        self._git("pull", "--quiet", "origin", "main")
        artifacts = self.folder / "artifacts"
        shutil.rmtree(artifacts, ignore_errors=True)
        artifacts.mkdir()
        before = len(self.server.calls)
        environment = {
            "GITHUB_API_URL": self.server.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(self._number),
            "NIGHT_DOCUMENTS": str(self.documents.root),
            "NIGHT_ARTIFACTS": str(artifacts),
            "NIGHT_BIN": str(self.folder / "bin"),
        }
        command = [str(_script("act")), "schedule", "-W", ".github/workflows/nightly.yml"]
        command += ["-P", "ubuntu-24.04=-self-hosted", "--no-cache-server", *self._actions]
        for name, value in environment.items():
            command += ["--env", f"{name}={value}"]
        done = subprocess.run(
            [*command, "-s", "GITHUB_TOKEN"],
            cwd=self.clone,
            env=self._environment() | {"GITHUB_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return Night(done.returncode, done.stdout, self.server.calls[before:], _job_states(done.stdout))

    def committed(self) -> list[str]:
        """Subjects of the commits on the server, newest first."""
        self._git("fetch", "--quiet", "origin", "main")
        return self._git("log", "--format=%s", "FETCH_HEAD").splitlines()

    def pull(self) -> Path:
        """A checkout of what is on the server now."""
        self._git("pull", "--quiet", "origin", "main")
        return self.clone

    def _make_programs(self) -> None:
        # What `pip install` would install is the very program that the tests run with.
        folder = self.folder / "bin"
        folder.mkdir()
        tracker = (
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{ROOT}/tests/night_tracker.py" "$@"\n'
        )
        python = f'#!/bin/sh\ncase "$*" in "-m pip install "*) exit 0;; esac\nexec "{sys.executable}" "$@"\n'
        for name, text in (("llama-tracker", tracker), ("python", python)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def _make_stand_ins(self) -> list[str]:
        pins = set(re.findall(r"uses: ([\w/-]+@[0-9a-f]{40})", (WORKFLOWS / "nightly.yml").read_text()))
        arguments: list[str] = []
        for pin in sorted(pins):
            name = pin.partition("@")[0]
            if name == "actions/checkout":
                continue  # act does it itself, by copying
            inputs, script = STAND_INS[name]
            folder = self.folder / "actions" / name
            folder.mkdir(parents=True)
            environment = {
                f"INPUT_{key.upper().replace('-', '_')}": f"${{{{ inputs.{key} }}}}" for key in inputs
            }
            step = {"shell": "bash", "run": script, "env": environment}
            action = {
                "name": name,
                "inputs": {key: {"default": value} for key, value in inputs.items()},
                "runs": {"using": "composite", "steps": [step]},
            }
            (folder / "action.yml").write_text(yaml.safe_dump(action))
            arguments += ["--local-repository", f"{pin}={folder}"]
        return arguments

    def _make_repository(self) -> None:
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", self.origin], check=True)
        self.clone.mkdir()
        shutil.copytree(WORKFLOWS, self.clone / ".github" / "workflows")
        (self.clone / "builds.yaml").write_text(CONFIGURATION)
        (self.clone / ".gitignore").write_text("handover/\n.cache/\n")
        self._git("init", "--quiet", "-b", "main")
        self._git("add", ".")
        self._git(
            "-c", "user.name=A person", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "Begin"
        )
        self._git("remote", "add", "origin", str(self.origin))
        self._git("push", "--quiet", "origin", "main")

    def _git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.clone, env=self._environment(), check=True, capture_output=True, text=True
        )
        return done.stdout

    def _environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        path = os.environ["PATH"]
        return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "GIT_PAGER": "cat", "NO_COLOR": "1"}


def _job_states(log: str) -> dict[str, str]:
    """How each job ended. By its steps: act gives the jobs of a matrix one result in common."""
    jobs = set(re.findall(r"^\[nightly/(.+?)(?:-\d+)?\s*\] .* Complete job$", log, re.MULTILINE))
    failed = set(re.findall(r"^\[nightly/(.+?)(?:-\d+)?\s*\] .* Failure - Main", log, re.MULTILINE))
    ordered = sorted(jobs, key=lambda name: (_ORDER.index(name.split()[0]), name))
    return {name: "failed" if name in failed else "succeeded" for name in ordered}


def _script(name: str) -> Path:
    return Path(sys.executable).parent / name


WIDE = "root ::= [\\u4e00-\\u9fff\\U0001F300-\\U0001F5FF]+\n"


def _pair(*tokens: str) -> GrammarResult:
    found = [builders.deviation("f0", tokens, escape=builders.escape())] if tokens else []
    return builders.grammar("pair", *found)


def _wide(*tokens: str) -> GrammarResult:
    found = [builders.deviation("f0", tokens)] if tokens else []
    return builders.grammar("cjk-or-emoji", *found, text=WIDE)


def result(day: int, version: str, *grammars: GrammarResult) -> GrammarDocument:
    """The result of a release of that day."""
    return builders.document(builders.build(version, day=day, number=11_000 + day), *grammars)


STORY: list[tuple[str, list[GrammarDocument]]] = [
    (
        "The first run. Upstream has two releases, and both show it.",
        [
            result(10, "0.3.35", _pair("84"), _wide("84", "85")),
            result(20, "0.3.36", _pair("84"), _wide("84", "85")),
        ],
    ),
    ("Nothing new.", []),
    ("A release changes what is wrong.", [result(30, "0.3.37", _pair("84", "8481"), _wide("85"))]),
    (
        "A release does not build.",
        [
            builders.untestable(
                builders.build("0.3.38", day=40, number=11_040),
                "the build failed: error: 'x' | was not declared",
            )
        ],
    ),
    ("A release has the fix. The one before still does not build.", [result(50, "0.3.39", _pair(), _wide())]),
    (
        "A release brings it back. The other has not built for three nights now: that is told apart.",
        [result(60, "0.3.40", _pair("84"), _wide())],
    ),
]


def tell(folder: Path) -> str:
    """The story of six nights, as markdown: the calls of each, and the issues as they stand after it."""
    lines = [
        "# Six nights",
        "",
        "What the nightly workflow does on GitHub, night by night. Written by `python tests/nights.py "
        "docs/six-nights.md`: the real workflow, run by `act` on a git repository, against the server of "
        "`tests/github_server.py`, which checks every call with GitHub's own description. The results of the "
        "audits are made up (`tests/nights.py` has them), and so is the time.",
    ]
    seen: dict[object, str] = {}
    with GitHubServer(REPOSITORY) as server:
        nights = Nights(folder, server)
        for number, (title, documents) in enumerate(STORY, 1):
            nights.release(*documents)
            night = nights.live()
            assert "Success - Main Tell" in night.log, night.log
            jobs = ", ".join(f"{name} {state}" for name, state in night.jobs.items())
            lines += ["", f"## Night {number}: {title}", "", f"Jobs: {jobs}.", "", "Calls:", "", "```text"]
            lines += [*map(str, night.calls), "```"]
            for issue in server.issues.values():
                state = issue["state"] + (
                    f" as {issue['state_reason']}" if issue["state"] == "closed" else ""
                )
                lines += ["", f"Issue #{issue['number']}, {state}: {issue['title']}"]
                lines += _shown(seen, issue["number"], issue["body"], "The first post is as it was.")
                for comment in server.comments[issue["number"]]:
                    if comment["id"] not in seen:
                        lines += ["", "A new comment:"]
                        lines += _shown(seen, comment["id"], comment["body"], "")
        assert server.violations == []
    return "\n".join(lines) + "\n"


def _shown(seen: dict[object, str], key: object, body: str, same: str) -> list[str]:
    if seen.get(key) == body:
        return ["", same]
    seen[key] = body
    return ["", "````markdown", *body.rstrip("\n").split("\n"), "````"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        Path(sys.argv[1]).write_text(tell(Path(temporary)))
