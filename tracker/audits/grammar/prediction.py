"""The predictive table: what the numeric range check of upstream should let through, against what it does.

Next to a four-byte alternative, a three-byte code point C is also found in the range of a four-byte lead F0
whose next bytes spell C with a leading zero: the overlong form F0, 80 | C >> 12, and C's two continuation
bytes. So exactly the tokens that spell a beginning of that form should be allowed after F0, and none of them
is viable. The model is computed here from the code point alone; the observation comes from the build.
"""

from __future__ import annotations

import numpy as np

from oracle.mask import Oracle
from oracle.vocabulary import Vocabulary
from tracker.audits.grammar.compare import Ends
from tracker.libllama.client import LibllamaClient
from tracker.results import Prediction

CODE_POINTS = (0x4E16, 0x5E16, 0x6E16, 0x4123, 0x7ABC, 0x3055, 0x20AC, 0x0E01, 0xFF21)
"""The seven of the published result, and one from either end of the three-byte range."""

LEAD = 0xF0
OTHER = 0x1F600


def predicted_tokens(code_point: int, vocabulary: Vocabulary) -> list[bytes]:
    """Tokens that spell a beginning of the overlong form behind F0, sorted."""
    overlong = bytes(
        (0x80 | code_point >> 12, 0x80 | (code_point >> 6) & 0x3F, 0x80 | code_point & 0x3F),
    )
    beginnings = {overlong[:size] for size in (1, 2, 3)}
    return sorted(beginnings & vocabulary.ids_by_text.keys())


def prediction_row(code_point: int, vocabulary: Vocabulary, client: LibllamaClient, ends: Ends) -> Prediction:
    """Ask the build after F0 in ``root ::= ("C" | U+1F600)`` and hold the answer against the model.

    Raises:
        WorkerDied, GrammarRejected: the build gives no answer.
    """
    grammar = f'root ::= ("\\u{code_point:04x}" | "\\U{OTHER:08x}")'
    oracle = Oracle(grammar, vocabulary, end_tokens=ends.ids)
    path = vocabulary.tokens_of_bytes(bytes([LEAD]))
    right = oracle.mask(oracle.walk(path)).tokens
    allowed = client.mask(grammar, path).allowed
    extra = np.flatnonzero(allowed & ~right & ~ends.all).tolist()
    observed = sorted({vocabulary.pieces[token] for token in extra})
    predicted = predicted_tokens(code_point, vocabulary)
    return Prediction(
        code_point=f"U+{code_point:04X}",
        grammar=grammar,
        prefix=f"{LEAD:02x}",
        predicted=tuple(piece.hex() for piece in predicted),
        observed=tuple(piece.hex() for piece in observed),
        exact=predicted == observed,
    )
