"""llguidance, an Earley engine in Rust with a lexer of derivatives, as a second opinion on masks.

It is driven over raw token bytes. Tokens without text and end-of-generation tokens get names behind FF, as
llguidance wants its special tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from oracle.gbnf import Grammar
from oracle.vocabulary import Vocabulary
from tracker.audits.engines.lark_text import for_llguidance
from tracker.audits.engines.tally import EngineGaveUp

PATIENT = 50_000_000
QUICK = 500_000
"""Items a mask may cost before the engine gives up; its own limit is 50,000; 20,000 take a millisecond.

Terminals of single characters make many items, so that JSON over a whole vocabulary needs millions.
"""


class _Tokens:
    """What llguidance asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary):
        self.special_token_ids = [
            token
            for token, piece in enumerate(vocabulary.pieces)
            if not piece or token in vocabulary.end_tokens
        ]
        special = set(self.special_token_ids)
        self.tokens = [
            b"\xff<%d>" % token if token in special else piece
            for token, piece in enumerate(vocabulary.pieces)
        ] + [b"\xff<|end|>"]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids.append(self.eos_token_id)

    def __call__(self, text: str | bytes) -> list[int]:
        """Never needed: nothing is forced."""
        return []


class Llguidance:
    """llguidance over one vocabulary.

    Args:
        vocabulary: the tokens; one more is added for the end.
        items: ``PATIENT`` or ``QUICK``.
        sliced: use the engine's precomputed slices for strings (its own default), else none.
    """

    def __init__(self, vocabulary: Vocabulary, items: int = QUICK, sliced: bool = False):
        self.vocabulary = vocabulary
        tokens = _Tokens(vocabulary)
        self.end = tokens.eos_token_id
        self._limits = LLParserLimits(
            max_items_in_row=20_000, step_max_items=items, step_lexer_fuel=20_000_000
        )
        slices = LLTokenizer.general_slices() if sliced else []
        self.tokenizer = LLTokenizer(TokenizerWrapper(tokens), slices=slices)

    def start(self, grammar: Grammar) -> Matcher:
        """A matcher at the start.

        Raises:
            NoLanguage: the grammar has no string.
            EngineGaveUp: llguidance refuses the text.
        """
        text = for_llguidance(grammar, self.vocabulary.ids_by_text, [*self.vocabulary.end_tokens, self.end])
        return Matcher(self, LLMatcher(self.tokenizer, text, log_level=0, limits=self._limits))


class Matcher:
    """One grammar's matcher at one place."""

    def __init__(self, engine: Llguidance, matcher: LLMatcher):
        self._engine = engine
        self._matcher = matcher
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise EngineGaveUp(self._matcher.get_error().strip().partition("\n")[0].partition(";")[0][:100])

    def after(self, path: Sequence[int]) -> Matcher:
        """The matcher after a token path from here; this one stays where it is."""
        copy = self._matcher.deep_copy()
        copy.consume_tokens(list(path))
        return Matcher(self._engine, copy)

    def compute(self) -> bytes:
        """The mask as the engine gives it, one bit a token."""
        return self._matcher.compute_bitmask()

    def mask(self) -> tuple[NDArray[np.bool_], bool]:
        """Allowed tokens, bool array over the vocabulary, and whether the output may end here."""
        packed = np.frombuffer(self.compute(), dtype=np.uint8)
        self._check()
        count = len(self._engine.vocabulary)
        bits = np.unpackbits(packed, bitorder="little")[: self._engine.end + 1].view(np.bool_)
        return bits[:count].copy(), bool(self._matcher.is_accepting())
