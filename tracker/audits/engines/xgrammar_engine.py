"""xgrammar, an Earley engine in C++, as an opinion on masks that reads GBNF text itself. Optional.

Its Python package wants torch and transformers for what is not used here. Therefore its compiled library is
loaded alone, through apache-tvm-ffi, which needs neither; no module stands in for another. What is called is
the interface of one version, and what is known of its faults holds for that one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.gbnf import Grammar
from oracle.vocabulary import Vocabulary
from tracker.audits.engines.lark_text import NoLanguage, finishable
from tracker.audits.engines.tally import EngineGaveUp
from tracker.audits.engines.xgrammar_text import for_xgrammar, reads_alike, respelled

VERSION = "0.2.9"
HOW_TO_HAVE_IT = f"pip install --no-deps xgrammar=={VERSION} apache-tvm-ffi"
_NAMES = ("TokenizerInfo", "GrammarCompiler", "CompiledGrammar", "Grammar", "GrammarMatcher")
_RAW_VOCABULARY = 0
_NO_LIMIT = -1


def missing() -> str | None:
    """Why xgrammar cannot be used here and how to have it, in one line; None when it can."""
    try:
        found = importlib.metadata.version("xgrammar")
    except importlib.metadata.PackageNotFoundError:
        return f"xgrammar is not installed: {HOW_TO_HAVE_IT}"
    if found != VERSION:
        return f"xgrammar {found} is installed and {VERSION} is what is known here: {HOW_TO_HAVE_IT}"
    if importlib.util.find_spec("tvm_ffi") is None:
        return f"xgrammar is installed without apache-tvm-ffi: {HOW_TO_HAVE_IT}"
    return None


@cache
def _library() -> dict[str, Any]:
    """The classes of the compiled library by name."""
    ffi = import_module("tvm_ffi")
    import_module("tvm_ffi.libinfo").load_lib_module("xgrammar", "xgrammar_bindings")
    return {
        name: ffi.register_object(f"xgrammar.tvm_ffi_binding.{name}")(type(name, (ffi.Object,), {}))
        for name in _NAMES
    }


class Xgrammar:
    """xgrammar over one vocabulary.

    Args:
        vocabulary: the tokens; one more, without text, is added for the end, so that the text of
            end-of-generation tokens is text, as it is in the oracle.
        ahead: make all reusable masks while a grammar is compiled (its own default), else on first need.
    """

    def __init__(self, vocabulary: Vocabulary, ahead: bool = False):
        self.vocabulary = vocabulary
        self.end = len(vocabulary)
        classes = _library()
        # Tokens without text are special to it: no grammar's bytes take them.
        info = classes["TokenizerInfo"]([*vocabulary.pieces, b""], _RAW_VOCABULARY, None, [self.end], False)
        self._compiler = classes["GrammarCompiler"](info, 1, False, _NO_LIMIT, not ahead)

    def start(self, text: str, grammar: Grammar) -> Matcher:
        """A matcher at the start of a grammar, given as text and as what the oracle's parser made of it.

        Raises:
            NoLanguage: the grammar has no string.
            EngineGaveUp: xgrammar refuses the text.
        """
        spelled, as_written = self.spelled(text, grammar)
        return Matcher(self, self.compile(spelled), as_written)

    def spelled(self, text: str, grammar: Grammar) -> tuple[str, bool]:
        """A grammar in xgrammar's notation, and whether that is its own text (else printed from the tree).

        Raises:
            NoLanguage: the grammar has no string.
        """
        if grammar.root not in finishable(grammar)[1]:
            raise NoLanguage
        if reads_alike(text, grammar):
            return respelled(text), True
        ordinary = sorted(set(range(self.end)) - self.vocabulary.end_tokens)
        return for_xgrammar(grammar, self.vocabulary.ids_by_text, ordinary), False

    def compile(self, text: str) -> Any:
        """A matcher of the library for a text in xgrammar's notation.

        Raises:
            EngineGaveUp: xgrammar refuses the text.
        """
        try:
            compiled = self._compiler.compile_grammar_from_strings(text, "root")
        except RuntimeError as error:
            raise EngineGaveUp(_said(error)) from None
        return _library()["GrammarMatcher"](compiled, None, False, _NO_LIMIT, None)


class Matcher:
    """One grammar's matcher at one place. ``as_written``: the grammar was read from its own text."""

    def __init__(self, engine: Xgrammar, matcher: Any, as_written: bool):
        self._engine = engine
        self._matcher = matcher
        self.as_written = as_written

    def after(self, path: Sequence[int]) -> Matcher:
        """The matcher after a token path from here; this one stays where it is.

        Raises:
            EngineGaveUp: it does not take a token of the path.
        """
        copy = self._matcher.fork()
        for token in path:
            if not copy.accept_token(token, False):
                raise EngineGaveUp(f"token {token} is not accepted")
        return Matcher(self._engine, copy, self.as_written)

    def accepts(self, path: Sequence[int], tokens: Sequence[int]) -> list[bool]:
        """What the parser says when it is handed each of the tokens after a path, whatever the mask says."""
        there = self.after(path)._matcher
        answers = []
        for token in tokens:
            answers.append(bool(there.accept_token(token, False)))
            if answers[-1]:
                there.rollback(1)
        return answers

    def compute(self) -> NDArray[np.int32]:
        """The mask as the engine gives it, one bit a token, in words of 32 bits."""
        packed = np.full((1, (self._engine.end + 32) // 32), -1, dtype=np.int32)
        self._matcher.fill_next_token_bitmask(packed, 0, False)
        return packed

    def mask(self) -> tuple[NDArray[np.bool_], bool]:
        """Allowed tokens, bool array over the vocabulary, and whether the output may end here."""
        bits = np.unpackbits(self.compute().view(np.uint8)[0], bitorder="little")
        return bits[: self._engine.end].astype(np.bool_), bool(bits[self._engine.end])


def _said(error: RuntimeError) -> str:
    """What the library says is wrong, without time and place in its own source."""
    return str(error).strip().partition("\n")[0].rpartition("error at ")[2][:100]
