"""The requests that the child answers, by subject.

A module here is a handler module: each of its public functions with the signature ``Handler`` answers the
request ``module.function``. The child imports handler modules from this package alone, and only when their
name is in ``ALLOWED``: add a module there to add requests. Handlers run upstream code: a crash inside one
kills the child, which the parent sees; ``LibraryError`` and ``ValueError`` are answered as a refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker.libllama.binding import Library

Handler = Callable[[Library, dict[str, Any], bytes], tuple[dict[str, Any], bytes]]
"""(library, header, payload) -> (header, payload); headers are JSON objects."""

ALLOWED = frozenset({"grammar", "gguf", "sampler"})
"""Names of the handler modules."""
