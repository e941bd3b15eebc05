"""A build's own llama.h (and gguf.h) -> the text that cffi reads.

Struct layouts and argument lists changed in most of the releases under audit, and a stale declaration
corrupts memory silently, so declarations always come from the tree that was built. The headers are
preprocessed by the compiler that builds the library (no further dependency, and the same view of the
macros), parsed by pycparser, and reduced to the wanted functions and the types these need. Structs that are
only pointed to stay opaque.

Knows C declarations; it does not know what any function does.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser
from pycparser.c_parser import ParseError

from tracker.errors import TrackerError

WANTED_FUNCTIONS = re.compile(
    r"llama_(?:sampler_\w+|vocab_\w+|token_\w+|n_vocab|backend_(?:init|free)|log_set|tokenize"
    r"|model_default_params|model_load_from_file|model_free|model_get_vocab"
    r"|load_model_from_file|free_model|print_system_info|context_default_params)"
    r"|gguf_\w+"
    r"|ggml_(?:free|get_first_tensor|get_next_tensor|get_tensor|get_name|nbytes|nelements|log_set)"
)
"""Functions whose declarations are kept."""

WANTED_STRUCTS = ("llama_token_data", "llama_token_data_array", "llama_logit_bias", "gguf_init_params")
"""Structs that are filled here, so that their members are kept although only pointers to them are passed."""

_STANDARD_HEADERS = (
    "assert.h",
    "limits.h",
    "math.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "string.h",
)
_STANDARD_TYPES = (
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "bool"),
)
"""Types that cffi knows by itself; the parser is told that they are types."""

_PROLOGUE = "".join(f"typedef int {name};\n" for name in _STANDARD_TYPES) + "typedef struct FILE FILE;\n"


class HeaderError(TrackerError):
    """A header cannot be preprocessed or parsed."""


def declarations(tree: Path, compiler: str = "cc") -> str:
    """The declarations of a source tree's headers, for ``cffi.FFI.cdef``. Raises HeaderError."""
    return reduced(preprocessed(tree, compiler), str(tree / "include" / "llama.h"))


def preprocessed(tree: Path, compiler: str = "cc") -> str:
    """llama.h and gguf.h of a tree without macros and without the standard library's declarations."""
    with tempfile.TemporaryDirectory() as stubs:
        for name in _STANDARD_HEADERS:
            Path(stubs, name).write_text("")
        gguf = (tree / "ggml" / "include" / "gguf.h").is_file()
        unit = '#include "llama.h"\n' + ('#include "gguf.h"\n' if gguf else "")
        command = [compiler, "-E", "-P", "-nostdinc", "-undef", "-x", "c", "-D__attribute__(x)=", "-DNDEBUG"]
        command += ["-I", stubs, "-I", str(tree / "include"), "-I", str(tree / "ggml" / "include"), "-"]
        result = subprocess.run(command, input=unit, capture_output=True, text=True, check=False, timeout=120)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no output"])[0]
        raise HeaderError(f"{tree / 'include' / 'llama.h'}: {compiler} cannot preprocess it: {last}")
    return result.stdout


def reduced(text: str, name: str) -> str:
    """The wanted functions of a preprocessed header and the types they need, in the header's order.

    ``name`` is for the error message. Raises HeaderError.
    """
    try:
        unit = c_parser.CParser().parse(_PROLOGUE + text, name)
    except ParseError as error:
        raise HeaderError(f"{name}: cannot be parsed: {error}") from None
    return _Reduction(unit).text()


class _Reduction:
    """The closure of the wanted functions over the types of one translation unit."""

    def __init__(self, unit: c_ast.FileAST) -> None:
        self._unit = unit
        self._typedefs: dict[str, c_ast.Typedef] = {}
        self._records: dict[tuple[type[c_ast.Node], str], c_ast.Node] = {}
        self._needed_typedefs: set[str] = set()
        self._complete: set[tuple[type[c_ast.Node], str]] = set()
        for node in unit.ext:
            if isinstance(node, c_ast.Typedef):
                self._typedefs.setdefault(node.name, node)
            self._collect_records(node)
        self._functions = [
            node
            for node in unit.ext
            if isinstance(node, c_ast.Decl)
            and isinstance(node.type, c_ast.FuncDecl)
            and WANTED_FUNCTIONS.fullmatch(node.name)
        ]

    def text(self) -> str:
        """The reduced declarations."""
        for function in self._functions:
            self._need(function.type, pointed_to=False)
        for name in WANTED_STRUCTS:
            key = (c_ast.Struct, name)
            if key in self._records:
                self._need(c_ast.Struct(name, None), pointed_to=False)
        generator = c_generator.CGenerator()
        lines = []
        for node in self._unit.ext:
            kept = self._kept(node)
            if kept is not None:
                lines.append(generator.visit(kept) + ";")
        return "\n".join(lines) + "\n"

    def _collect_records(self, node: c_ast.Node) -> None:
        if isinstance(node, (c_ast.Struct, c_ast.Union)) and node.name and node.decls is not None:
            self._records[type(node), node.name] = node
        if isinstance(node, c_ast.Enum) and node.name and node.values is not None:
            self._records[c_ast.Enum, node.name] = node
        for _, child in node.children():
            self._collect_records(child)

    def _need(self, node: c_ast.Node, *, pointed_to: bool) -> None:
        """Mark what a type needs; members of a struct that is only pointed to are not needed."""
        match node:
            case c_ast.PtrDecl():
                self._need(node.type, pointed_to=True)
            case c_ast.FuncDecl():
                self._need(node.type, pointed_to=False)
                for parameter in node.args.params if node.args else []:
                    if not isinstance(parameter, c_ast.EllipsisParam):
                        self._need(parameter.type, pointed_to=False)
            case c_ast.TypeDecl() | c_ast.ArrayDecl() | c_ast.Typename() | c_ast.Decl():
                self._need(node.type, pointed_to=pointed_to)
            case c_ast.IdentifierType():
                for name in node.names:
                    if name in self._typedefs and name not in _STANDARD_TYPES:
                        self._needed_typedefs.add(name)
                        self._need(self._typedefs[name].type, pointed_to=pointed_to)
            case c_ast.Enum():
                self._complete.add((c_ast.Enum, node.name))
            case c_ast.Struct() | c_ast.Union():
                self._need_record(node, pointed_to=pointed_to)

    def _need_record(self, node: c_ast.Node, *, pointed_to: bool) -> None:
        if not node.name:
            for member in node.decls or []:
                self._need(member.type, pointed_to=False)
            return
        key = (type(node), node.name)
        if pointed_to or key in self._complete:
            return
        self._complete.add(key)
        definition = self._records.get(key)
        for member in definition.decls if definition is not None else []:
            self._need(member.type, pointed_to=False)

    def _kept(self, node: c_ast.Node) -> c_ast.Node | None:
        """The node as it is to be written, or None."""
        if node in self._functions:
            return node
        if isinstance(node, c_ast.Typedef):
            needed = node.name in self._needed_typedefs or self._defines_complete(node)
            return self._without_members(node) if needed else None
        if isinstance(node, c_ast.Decl) and isinstance(node.type, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            key = (type(node.type), node.type.name)
            return node if key in self._complete and self._records.get(key) is node.type else None
        return None

    def _defines_complete(self, node: c_ast.Typedef) -> bool:
        """Whether a typedef holds the definition of a record that is used by its tag, as a value."""
        record = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        if not isinstance(record, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            return False
        key = (type(record), record.name)
        return key in self._complete and self._records.get(key) is record

    def _without_members(self, node: c_ast.Typedef) -> c_ast.Typedef:
        """A typedef whose struct is opaque unless its members are needed."""
        inner = node.type
        if isinstance(inner, c_ast.TypeDecl) and isinstance(inner.type, (c_ast.Struct, c_ast.Union)):
            record = inner.type
            if record.name and record.decls is not None and (type(record), record.name) not in self._complete:
                inner.type = type(record)(record.name, None)
        return node
