"""YAML text → plain values, together with the line that each part stands on.

It knows YAML and nothing of what a file means; whoever validates the values asks it where to point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Leaves dates as text: nothing here is one, and an impossible one would be an error without a line."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class YamlProblem(Exception):
    """A text is not YAML that can be used; one line, at ``line``."""

    def __init__(self, line: int, problem: str | None) -> None:
        super().__init__(" ".join(str(problem).split()))
        self.line = line


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A YAML document: its value as ``yaml.safe_load`` gives it (but dates are text), and its nodes."""

    value: Any
    root: yaml.Node

    @classmethod
    def read(cls, text: str) -> YamlSource:
        """Raises YamlProblem for what is not YAML, is empty, or gives a key twice."""
        try:
            root = yaml.compose(text, _Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise YamlProblem(mark.line + 1 if mark else 1, f"not YAML: {error.problem}") from None
        except RecursionError:
            raise YamlProblem(1, "not YAML: nested too deeply") from None
        except yaml.YAMLError as error:
            raise YamlProblem(1, f"not YAML: {error}") from None
        if root is None:
            raise YamlProblem(1, "is empty")
        _refuse_duplicate_keys(root)
        loader = _Loader("")
        try:
            return cls(loader.construct_document(root), root)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None) or root.start_mark
            problem = getattr(error, "problem", None) or error
            raise YamlProblem(mark.line + 1, f"{problem}: write the value in quotes") from None
        finally:
            loader.dispose()

    def line(self, location: Sequence[int | str]) -> int:
        """The line, counted from 1, of the innermost part of a location that the text has."""
        node, line = self.root, self.root.start_mark.line + 1
        for part in location:
            if isinstance(node, yaml.MappingNode):
                found = [(key, value) for key, value in node.value if key.value == part]
                if not found:
                    break
                line, node = found[0][0].start_mark.line + 1, found[0][1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                line = node.start_mark.line + 1
            else:
                break
        return line


def _refuse_duplicate_keys(root: yaml.Node) -> None:
    # PyYAML lets the last one win, which hides a slip of the hand.
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        if not isinstance(node, yaml.MappingNode):
            continue
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise YamlProblem(key.start_mark.line + 1, f"the key {key.value!r} is given twice")
            keys.add(key.value if isinstance(key, yaml.ScalarNode) else "")
            waiting.append(value)
