"""Requests about the vocabulary and the grammar sampler.

A parsed grammar is kept, and each request works on a clone of it, so that a grammar asked 2,000 times is
parsed once. The answer is the library's own: which logits are above minus infinity after
llama_sampler_apply.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

import numpy as np

from tracker.libllama.binding import TOKEN_DATA, Library, LibraryError
from tracker.libllama.stage import Stage, during

_KEPT_GRAMMARS = 4


def vocabulary(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Lengths (u32 each), end-of-generation bits (packed), and the pieces one after the other."""
    count = library.n_vocab
    pieces = [library.piece(token) for token in range(count)]
    lengths = np.fromiter(map(len, pieces), "<u4", count)
    eog = np.fromiter((library.is_eog(token) for token in range(count)), np.bool_, count)
    return {"n_vocab": count}, b"".join([lengths.tobytes(), np.packbits(eog).tobytes(), *pieces])


def accepted(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Whether the payload, a grammar's text, is accepted."""
    sampler, seconds = _parsed(library, payload, header["root"])
    return {"accepted": sampler is not None, "init_seconds": seconds}, b""


def mask(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The packed mask after ``path``, for the payload as grammar; see ``MaskReply`` for the times."""
    pristine, init_seconds = _parsed(library, payload, header["root"])
    if pristine is None:
        return {"rejected": True}, b""
    candidates = _candidates(library)
    array = library.token_data_array(candidates)
    started = time.perf_counter()
    sampler = library.c.llama_sampler_clone(pristine)
    try:
        with during(Stage.ACCEPTING):
            refused_at = _accept(library, sampler, header["path"], header["check_path"])
        accepted_at = time.perf_counter()
        cpu = time.process_time()
        wall = time.perf_counter()
        with during(Stage.APPLYING):
            library.c.llama_sampler_apply(sampler, array)
        wall = time.perf_counter() - wall
        cpu = time.process_time() - cpu
    finally:
        library.c.llama_sampler_free(sampler)
    if array.size != len(candidates):
        raise LibraryError(f"the grammar sampler changed the number of candidates to {array.size}")
    if candidates["id"].tobytes() != library.state["ids"]:
        raise LibraryError("the grammar sampler changed the order of the candidates")
    allowed = candidates["logit"] > -np.inf
    reply = {
        "n_vocab": len(candidates),
        "refused_at": refused_at,
        "apply_cpu_seconds": cpu,
        "apply_wall_seconds": wall,
        "accept_seconds": accepted_at - started,
        "init_seconds": init_seconds,
    }
    return reply, np.packbits(allowed).tobytes()


def _accept(library: Library, sampler: Any, path: list[int], check: bool) -> int | None:
    """Accept a token path; the index of the first token that is masked at its turn, if asked to look."""
    count = library.n_vocab
    for index, token in enumerate(path):
        if not 0 <= token < count:
            raise ValueError(f"token {token} at index {index} of the path is not in the vocabulary")
        if check and not library.allows(sampler, token):
            return index
        library.c.llama_sampler_accept(sampler, token)
    return None


def _parsed(library: Library, text: bytes, root: str) -> tuple[Any | None, float]:
    """A pristine sampler of a grammar (None when refused) and the seconds it took to make, 0 when kept."""
    if b"\0" in text or "\0" in root:
        raise ValueError("a grammar's text cannot hold a NUL byte")
    kept: OrderedDict[tuple[bytes, str], Any] = library.state.setdefault("grammars", OrderedDict())
    key = (text, root)
    if key in kept:
        kept.move_to_end(key)
        return kept[key], 0.0
    while len(kept) >= _KEPT_GRAMMARS:
        library.c.llama_sampler_free(kept.popitem(last=False)[1])
    started = time.perf_counter()
    with during(Stage.READING):
        sampler = library.grammar_sampler(text, root.encode())
    seconds = time.perf_counter() - started
    if sampler is not None:
        kept[key] = sampler
    return sampler, seconds


def _candidates(library: Library) -> np.ndarray[Any, np.dtype[np.void]]:
    """All tokens with logit 0; one array for all requests, since fresh pages cost more than the copy."""
    if "candidates" not in library.state:
        template = np.zeros(library.n_vocab, TOKEN_DATA)
        template["id"] = np.arange(library.n_vocab)
        library.state["ids"] = template["id"].tobytes()
        library.state["candidates"] = template, template.copy()
    template, candidates = library.state["candidates"]
    candidates.view(np.uint8)[:] = template.view(np.uint8)  # ten times as fast as member by member
    result: np.ndarray[Any, np.dtype[np.void]] = candidates
    return result
