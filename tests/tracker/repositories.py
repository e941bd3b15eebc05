"""Git repositories made to order, with llama.cpp's layout."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


class Repository:
    """A repository on disk; ``url`` speaks git's own protocol to it, filters included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}"
        self._time = 1_700_000_000
        folder.mkdir(parents=True)
        self.git("init", "--quiet")
        self.git("config", "uploadpack.allowFilter", "true")
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")

    def git(self, *arguments: str) -> str:
        """What a git command prints."""
        names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {f"GIT_{who}_DATE": f"{self._time} +0100" for who in ("AUTHOR", "COMMITTER")}
        result = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", "-C", str(self.folder), *arguments],
            env={**names, **dates, "PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"},
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout.strip()

    def commit(self, files: Mapping[str, bytes]) -> str:
        """Write files and commit everything, a minute after the last commit; the commit."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._time += 60
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")
        return self.git("rev-parse", "HEAD")
