"""``python docs/bisect/neighbours.py DIR [COUNT]``: a repository of small commits, to measure bisects with.

Each commit changes one source of llama.cpp's folder ``src``; every tenth one changes a header that most of
them include. From three fifths of the commits on, a grammar with a bound of 2,000 is refused. Prints the
first and the last commit.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tracker.cache import Cache
from tracker.releases import parse_release
from tracker.releases.channels import fetch

RELEASE = "llama-cpp-python==0.3.36"
HEADER = "src/llama-hparams.h"
GRAMMAR = "src/llama-grammar.cpp"


def main(folder: Path, count: int) -> None:
    """Make the repository."""

    def git(*arguments: str) -> str:
        names = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
        command = ["git", "-C", str(folder), *names, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    shutil.copytree(fetch(parse_release(RELEASE), Cache.default()).tree, folder)
    git("init", "--quiet")
    sources = sorted(path for path in (folder / "src").rglob("*.cpp") if path != folder / GRAMMAR)
    commits = []
    for number in range(count):
        changed = folder / HEADER if number % 10 == 9 else sources[number * 7 % len(sources)]
        if number == count * 3 // 5:
            changed = folder / GRAMMAR
            text = changed.read_text("utf-8")
            changed.write_text(text.replace("> MAX_REPETITION", ">= MAX_REPETITION", 1))
        with open(changed, "a", encoding="utf-8") as file:
            file.write(f"\nextern int change_{number};\n")
        git("add", "--all")
        git("commit", "--quiet", "--message", f"change {number}")
        commits.append(git("rev-parse", "HEAD"))
    print(commits[0], commits[-1])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
