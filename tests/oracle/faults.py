"""Deliberate faults in each module of the oracle, and the test that each of them fails.

``python tests/oracle/faults.py`` puts them in one at a time, in a copy of ``oracle/``, runs the tests and prints
the table; ``test_oracle_faults.py`` is the same as a test. A fault that no test notices is a hole in the tests.
"""

# The table of faults is easier to read with one fault a line.
# ruff: noqa: E501

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("utf8", "gbnf", "lowering", "earley", "automaton", "vocabulary", "token_steps", "mask")


class Fault(NamedTuple):
    """``old`` stands once in the module and becomes ``new``."""

    module: str
    what: str
    old: str
    new: str


FAULTS = (
    Fault(
        "utf8", "surrogates count as scalar values", "((0, SURROGATES[0] - 1), (SURROGATES[1] + 1, LAST_CODE_POINT))",
        "((0, LAST_CODE_POINT),)",
    ),
    Fault("utf8", "a range is not cut where its end is ragged", "if high & tail != tail:", "if False:"),
    Fault("utf8", "a range is not cut where its start is ragged", "if low & tail:", "if False:"),
    Fault("utf8", "C1 counts as a lead", "if lead < 0xC2:", "if lead < 0xC1:"),
    Fault("utf8", "F4 may be followed by 90 to 9F", "if lead == 0xF4 and second >= 0x90:", "if lead == 0xF4 and second >= 0xA0:"),
    Fault("utf8", "E0 may be followed by 80 to 9F", "(lead == 0xE0 and second < 0xA0) or ", ""),
    Fault("utf8", "the complement keeps the last member", "begin = high + 1", "begin = high"),
    Fault("gbnf", "\\u takes five digits", '{"x": 2, "u": 4, "U": 8}', '{"x": 2, "u": 5, "U": 8}'),
    Fault("gbnf", "* wants one at least", '"*": (0, None)', '"*": (1, None)'),
    Fault("gbnf", "{,m} wants one at least", "return minimum or 0, maximum", "return minimum or 1, maximum"),
    Fault("gbnf", "negation of classes is lost", "matched = complement(ranges) if negated else", "matched ="),
    Fault("gbnf", "columns count from zero", "at - self.line_starts[line - 1] + 1)", "at - self.line_starts[line - 1])"),
    Fault("gbnf", "a second definition wins", "if name in self.rules:", "if False:"),
    Fault("gbnf", "a minus at the end of a class opens a range", ' and self.peek(1) != "]"', ""),
    Fault("gbnf", "a reversed range is let through", "if high < low:", "if False:"),
    Fault("lowering", "{n,} wants one more", "for _ in range(node.minimum - 1):", "for _ in range(node.minimum):"),
    Fault("lowering", "X+ may be empty", "[loop if node.minimum == 0 else end]", "[loop]"),
    Fault("lowering", "X* runs once at most", "network.silent[end].append(loop)", "pass"),
    Fault("lowering", "dead ends are kept behind bytes", "for e in network.byte_edges[node] if productive[e[2]]]", "for e in network.byte_edges[node]]"),
    Fault("lowering", "calls of rules without strings are kept", "if productive[target] and productive[network.starts[rule]]", "if True"),
    Fault("lowering", "every rule counts as nullable", "empty = _reaching(network, terminals=False)", "empty = _reaching(network, terminals=True)"),
    Fault("lowering", "no rule counts as nullable", "network.nullable = [empty[start] for start in network.starts]", "network.nullable = [False for start in network.starts]"),
    Fault("lowering", "inner nodes are shared across what follows", "key = (tails, target, inside)", "key = (tails, 0, inside)"),
    Fault("lowering", "negated classes are not marked", "2 if node.negated else 1", "1"),
    Fault("lowering", "an id behind the vocabulary is taken", "node.id >= self.tokens", "False"),
    Fault("automaton", "states are interned without their end", "key = (items, accepting)", "key = (items, True)"),
    Fault("automaton", "no tail calls", "            if not self._ends[node]:\n", "            if True:\n"),
    Fault("automaton", "families are interned by their rules alone", "key = frozenset(outside.items())", "key = frozenset((r, frozenset()) for r in outside)"),
    Fault("automaton", "what a nullable rule is followed by is not predicted", "if network.nullable[rule]:", "if False:"),
    Fault("automaton", "callers of callers are forgotten in tail calls", "elif (caller := -1 - continuation) not in seen:", "elif (caller := -1 - continuation) in ():"),
    Fault("automaton", "the last byte of a range is lost", "ends.setdefault(high + 1, [])", "ends.setdefault(high, [])"),
    Fault("automaton", "overlapping edges end with the first of them", "if not active[item]:", "if True:"),
    Fault("automaton", "a token terminal hides the token's bytes", "if by_bytes != DEAD:\n            kernel", "if False:\n            kernel"),
    Fault("automaton", "negated terminals match end tokens", "if token != excluded and not is_end:", "if token != excluded:"),
    Fault("automaton", "the end is lost beside a token terminal", "if self.accepting[by_bytes]:", "if False:"),
    Fault("automaton", "returns go on from the wrong end", "for following in self._contents[continuation]:\n                    add(following)", "for following in list(self._contents[continuation])[:1]:\n                    add(following)"),
    Fault("earley", "no step over nullable symbols", "if symbol in productions.nullable:", "if False:"),
    Fault("earley", "a token terminal begins inside its token", "for item in boundary\n", "for item in sets[-1]\n"),
    Fault("earley", "any finished start counts, wherever it began", "item.origin == 0\n            and ", ""),
    Fault("earley", "unfinishable productions are kept", "self._drop_unfinishable()\n        self.of", "self.of"),
    Fault("earley", "{n,m} allows one more", "for _ in range(node.maximum - node.minimum):", "for _ in range(node.maximum - node.minimum + 1):"),
    Fault("vocabulary", "the soft hyphen counts as printable", "*range(0xAE, 0x100)", "*range(0xAD, 0x100)"),
    Fault("vocabulary", "children are looked for one too early", "(1 + np.cumsum(self.children)", "(np.cumsum(self.children)"),
    Fault("vocabulary", "a node's own tokens are not counted in the order", "self.token_begin[parent] + own[parent] + siblings", "self.token_begin[parent] + siblings"),
    Fault("vocabulary", "ordinary tokens win over special ones", " or (kind in special and self.kinds[ids[piece]] not in special)", ""),
    Fault("vocabulary", "text outside the alphabet is let through", "dict.fromkeys(range(0x100), 0x2FFF) | byte_alphabet()", "byte_alphabet()"),
    Fault("vocabulary", "runs go on over other bytes", "(self.byte == self.byte[self.parent]) & (self.parent != 0)", "(self.parent != 0)"),
    Fault("token_steps", "a run is done although the state changes", "] == here\n", "] != DEAD\n"),
    Fault("token_steps", "states of the last walk stay in the nodes", "places[own] = np.repeat(states[nodes], counts)\n        states[nodes] = DEAD", "places[own] = np.repeat(states[nodes], counts)"),
    Fault("token_steps", "heavy children lose their own tokens", "np.concatenate([*born, alive, *self._walk_deep(alive)])", "np.concatenate([alive, *self._walk_deep(alive)])"),
    Fault("token_steps", "wide nodes among few are dropped", "wide.append(node)\n", "pass\n"),
    Fault("token_steps", "few nodes are walked one step only", "                    todo.append(child)\n", ""),
    Fault("token_steps", "what leaves a slice is dropped", "outside: NDArray[np.intp] = leaving[alive]", "outside: NDArray[np.intp] = leaving[:0]"),
    Fault("token_steps", "a slice is read from the wrong place", "base = int(trie.token_begin[node])", "base = 0"),
    Fault("token_steps", "sparse levels forget who came alive", "born.append(alive)\n        if alive is None", "pass\n        if alive is None"),
    Fault("token_steps", "where few nodes are left the walk is over", "                break\n            if alive is None", "                alive = alive[:0]\n                break\n            if alive is None"),
    Fault("token_steps", "the whole levels' last is not counted", "                whole = end\n", "                whole = begin\n"),
    Fault("slices", "all end in the first state of a neighbourhood", "ends[own - base] = np.repeat(local, lengths)", "ends[own - base] = 1"),
    Fault("slices", "dead and outside are mixed up", "local[table == DEAD] = 0\n", "local[table != DEAD] = 0\n"),
    Fault("slices", "slices are known by their node alone", "self._known.pop((signature, node), None)", "self._known.pop(next((k for k in self._known if k[1] == node), None), None)"),
    Fault("slices", "a node that leaves is taken to come from the first state", "before.append(come_from[outside])", "before.append(np.ones_like(come_from[outside]))"),
    Fault("mask", "positive token terminals are left out", "tokens[list(edges.positive)] = True", "pass"),
    Fault("mask", "negated terminals match end tokens", "whole[[excluded, *self.end_tokens]] = False", "whole[[excluded]] = False"),
    Fault("mask", "the end is allowed where no token is", "return Mask(tokens, self.automaton.accepting[state])", "return Mask(tokens, not tokens.any())"),
    Fault("mask", "masks are given out for another state", "known = self._masks.get(state)", "known = next(iter(self._masks.values()), None)"),
    Fault("mask", "successors leave token terminals out", "following[alike] = self.step(state, int(np.argmax(alike)))", "pass"),
)  # fmt: skip


def first_failure(fault: Fault) -> str | None:
    """The first test that fails with a fault in place; None when none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "oracle"
        shutil.copytree(ROOT / "oracle", copy, ignore=shutil.ignore_patterns("__pycache__"))
        module = copy / f"{fault.module}.py"
        text = module.read_text(encoding="utf-8")
        if text.count(fault.old) != 1:
            raise LookupError(
                f"{fault.module}: {fault.what}: the text to change stands {text.count(fault.old)} times"
            )
        module.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        own = fault.module if fault.module in TESTS else "token_steps"
        files = [f"{ROOT}/tests/oracle/test_{name}.py" for name in (own, *(n for n in TESTS if n != own))]
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--hypothesis-seed=1", "--timeout=60",
            "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-c", f"{ROOT}/pyproject.toml", "-o", f"pythonpath={folder}",
            *files,
        ]  # fmt: skip
        # Run where the copy is: the working folder comes first on the path.
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=900,
        )
    if done.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py)(?:::(\w+))?", done.stdout, re.MULTILINE)
    if found is None:
        if "Timeout" in done.stdout + done.stderr:
            return f"test_{own}.py (does not end)"
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return "::".join(part for part in found.groups() if part)


def main() -> int:
    """Print the table; 1 when a fault goes unnoticed."""
    unnoticed = 0
    chosen = sys.argv[1:]
    print("| module | fault | test that fails |\n|---|---|---|")
    for fault in FAULTS:
        if chosen and fault.module not in chosen:
            continue
        test = first_failure(fault)
        unnoticed += test is None
        print(f"| {fault.module} | {fault.what} | {f'`{test}`' if test else '**none**'} |", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    raise SystemExit(main())
