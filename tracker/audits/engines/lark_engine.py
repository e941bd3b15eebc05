"""lark's Earley parser over single bytes, as an opinion on prefixes. Slow, so it is asked about samples."""

from __future__ import annotations

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF

from oracle.gbnf import Grammar
from tracker.audits.engines.lark_text import for_lark
from tracker.audits.engines.tally import Opinion


class LarkEarley:
    """lark's Earley parser of one grammar without token terminals.

    Raises:
        NoLanguage: the grammar has no string.
    """

    def __init__(self, grammar: Grammar):
        self._parser = Lark(for_lark(grammar), parser="earley", lexer="dynamic", ambiguity="resolve")

    def ask(self, data: bytes) -> Opinion:
        """What lark says of these bytes."""
        try:
            self._parser.parse(data.decode("latin-1"))
        except UnexpectedCharacters:
            return Opinion(False, False)
        except UnexpectedEOF:
            return Opinion(True, False)
        return Opinion(True, True)
