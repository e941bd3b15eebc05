"""Each check of our GGUF reader is taken out, one at a time: something has to notice, or it is no check."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType

import pytest
from gguf_cases import REFUSED

from oracle.gguf import GGUFError, GGUFFile, Rule
from tracker.audits.gguf.mutants import Mutant, boundaries, randoms, truncations, untouched
from tracker.audits.gguf.own_reader import complaint_about, fuzz

MODULES = ("cursor", "metadata", "tensors", "reader")
Parse = Callable[[bytes], GGUFFile]
Site = tuple[str, str, str]
"""(module, function, rule)"""


def rule_of(node: ast.stmt) -> str | None:
    """The rule that an ``if`` refuses by, when it does nothing else."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.body[-1], ast.Raise):
        return None
    raised = node.body[-1].exc
    if (
        not isinstance(raised, ast.Call)
        or not isinstance(raised.func, ast.Attribute)
        or raised.func.attr != "error"
    ):
        return None
    return ast.unparse(raised.args[0]).removeprefix("Rule.")


def sites() -> Iterator[Site]:
    for name in MODULES:
        tree = ast.parse(inspect.getsource(importlib.import_module(f"oracle.gguf.{name}")))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.stmt) and (rule := rule_of(node)):
                        yield name, function.name, rule


def changed_reader(transform: Callable[[str, ast.Module], ast.Module]) -> Parse:
    """``parse_gguf`` of a copy of the reader's modules, each passed through ``transform``."""
    full = {name: f"oracle.gguf.{name}" for name in MODULES}
    kept = {name: sys.modules[name] for name in full.values()}
    try:
        for name, dotted in full.items():
            tree = transform(name, ast.parse(inspect.getsource(kept[dotted])))
            module = ModuleType(dotted)
            sys.modules[dotted] = module
            exec(compile(ast.fix_missing_locations(tree), dotted, "exec"), module.__dict__)
        parse: Parse = sys.modules[full["reader"]].parse_gguf
        return parse
    finally:
        sys.modules.update(kept)


def without(site: Site) -> Parse:
    """The reader without the checks of one rule in one function."""
    removed = 0

    class Remover(ast.NodeTransformer):
        def __init__(self, module: str) -> None:
            self.module = module
            self.function = ""

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            self.function = node.name
            return self.generic_visit(node)

        def visit_If(self, node: ast.If) -> ast.AST:
            nonlocal removed
            self.generic_visit(node)
            if (self.module, self.function, rule_of(node)) == site:
                removed += 1
                return ast.Pass()
            return node

    parse = changed_reader(lambda name, tree: Remover(name).visit(tree))
    assert removed, f"{site} names no check"
    return parse


def outcome(parse: Parse, data: bytes) -> object:
    try:
        parse(data)
    except GGUFError as error:
        return error.rule, error.offset
    except Exception as error:
        return type(error)
    return "accepted"


def directory_fields() -> Iterator[Mutant]:
    yield from (mutant for mutant in boundaries() if mutant.seed == "directory")


def corpus() -> Iterator[Mutant]:
    return chain(untouched(), truncations(), directory_fields(), randoms(1000))


def noticed(parse: Parse) -> str | None:
    """What the fuzz complains about first; the slow look at memory comes after everything else."""
    complaints = (complaint for mutant in corpus() if (complaint := complaint_about(mutant, parse)))
    violations = (violation for mutant in corpus() for violation in fuzz([mutant], parse).violations)
    return next(complaints, None) or next((violation.what for violation in violations), None)


CONTENT_SITES = sorted({site for site in sites() if site[2] != "LIMIT"} - {("cursor", "string", "too_long")})


@pytest.mark.parametrize("site", CONTENT_SITES, ids="-".join)
def test_a_removed_check_changes_the_verdict_on_a_case(site: Site) -> None:
    parse = without(site)
    assert any(outcome(parse, data) != (rule, offset) for _, data, rule, offset in REFUSED)


def test_the_unchanged_copy_changes_no_verdict() -> None:
    parse = changed_reader(lambda name, tree: tree)
    assert all(outcome(parse, data) == (rule, offset) for _, data, rule, offset in REFUSED)


HISTORICAL = {
    "count-sized allocation": ("reader", "_check_count", "COUNT"),
    "offset beyond the file": ("tensors", "_placed", "EXTENT"),
    "unbounded array of tokens": ("metadata", "_value", "ARRAY_LENGTH"),
    "unbounded token": ("metadata", "_strings", "LENGTH"),
}


@pytest.mark.parametrize("site", HISTORICAL.values(), ids=HISTORICAL.keys())
def test_the_fuzz_notices_a_historical_defect(site: Site) -> None:
    assert noticed(without(site))


def test_the_fuzz_notices_offsets_that_wrap_around_in_64_bits() -> None:
    changed = 0

    class Wrapper(ast.NodeTransformer):
        """``tensor.offset + tensor.nbytes > len(...)`` as C computes it."""

        def visit_Compare(self, node: ast.Compare) -> ast.AST:
            nonlocal changed
            if ast.unparse(node.left) == "tensor.offset + tensor.nbytes":
                changed += 1
                node.left = ast.parse(f"({ast.unparse(node.left)}) % 2**64", mode="eval").body
            return node

    parse = changed_reader(lambda name, tree: Wrapper().visit(tree) if name == "tensors" else tree)
    assert changed == 1
    assert noticed(parse)


def test_every_rule_that_is_about_content_is_checked_somewhere() -> None:
    checked = {Rule[name] for _, _, name in sites() if name in Rule.__members__}
    by_other_means = {
        Rule.KEY_LONG,
        Rule.NAME_LONG,
        Rule.KEY_UTF8,
        Rule.NAME_UTF8,
        Rule.TENSOR_TYPE,
        Rule.UNREADABLE,
        Rule.MISSING,
        Rule.WRONG_TYPE,
        Rule.EXPERTS,
    }
    assert checked == set(Rule) - by_other_means
