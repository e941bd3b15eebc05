"""The next field of a file: numbers and strings, never beyond its end.

It knows nothing of what fields mean.
"""

from __future__ import annotations

import struct

from oracle.gguf.errors import GGUFError, Rule


class Cursor:
    """A place in a file: ``at`` is the next byte, ``left`` the bytes from there to the end."""

    def __init__(self, buffer: memoryview, source: str) -> None:
        self.buffer = buffer
        self.source = source
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return len(self.buffer) - self.at

    def error(self, rule: Rule, offset: int, what: str) -> GGUFError:
        """The refusal of this file because of the field at ``offset``."""
        return GGUFError(rule, what, offset=offset, source=self.source)

    def take(self, count: int, what: str) -> memoryview:
        """The next ``count`` bytes, a view. GGUFError when there are fewer."""
        if count > self.left:
            raise self.error(Rule.TRUNCATED, self.at, f"the file ends inside {what}")
        self.at += count
        return self.buffer[self.at - count : self.at]

    def number(self, form: str, what: str) -> int:
        """The next integer, in a ``struct`` format."""
        value: int = struct.unpack(form, self.take(struct.calcsize(form), what))[0]
        return value

    def string(self, what: str, longest: int, too_long: Rule) -> memoryview:
        """The next string's bytes, a view. GGUFError when it reaches beyond the file or ``longest``."""
        start = self.at
        length = self.number("<Q", f"the length of {what}")
        if length > self.left:
            raise self.error(
                Rule.LENGTH, start, f"{what} has {length} bytes, {self.left} are left in the file"
            )
        if length > longest:
            raise self.error(too_long, start, f"{what} has {length} bytes, {longest} are allowed")
        return self.take(length, what)
