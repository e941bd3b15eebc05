"""One libllama through cffi's ABI mode, with the API differences between releases evened out.

Runs upstream code in this process, so it is for the child only. Knows how a vocabulary is loaded, what a
token's bytes are, and how a grammar becomes a sampler; it does not know what the answers are used for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from cffi import FFI

TOKEN_DATA = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
"""llama_token_data, the same in all releases under audit (checked against the declarations on load)."""

_WARNING = {"GGML_LOG_LEVEL_WARN", "GGML_LOG_LEVEL_ERROR"}


class LibraryError(Exception):
    """The library cannot do what is asked of it, without having died."""


class Library:
    """A loaded libllama; ``ffi`` and ``c`` give the whole declared API to handlers.

    ``state`` is for handlers that keep things between requests, under a key of their own.
    """

    def __init__(self, library: Path, declarations: str) -> None:
        # Any: what they declare is only known at run time.
        self.ffi = cast(Any, FFI())
        self.ffi.cdef(declarations)
        self.c = self.ffi.dlopen(str(library), self.ffi.RTLD_NOW)
        self.state: dict[str, Any] = {}
        self._model: Any = None
        self._vocab: Any = None
        self._log = self.ffi.callback("ggml_log_callback", self._write_log)
        if self.has("llama_log_set"):
            self.c.llama_log_set(self._log, self.ffi.NULL)
            self.c.llama_backend_init()
        else:
            self.c.ggml_log_set(self._log, self.ffi.NULL)

    def has(self, function: str) -> bool:
        """Whether the library declares and exports a function."""
        return hasattr(self.c, function)

    def load_vocabulary(self, path: Path) -> None:
        """Load a model's vocabulary alone. Raises LibraryError when the library refuses the file."""
        if self._model is not None:
            raise LibraryError("a vocabulary is already loaded")
        parameters = self.c.llama_model_default_params()
        parameters.vocab_only = True
        current = self.has("llama_model_load_from_file")
        load = self.c.llama_model_load_from_file if current else self.c.llama_load_model_from_file
        model = load(os.fsencode(path), parameters)
        if model == self.ffi.NULL:
            raise LibraryError(f"the library refuses the vocabulary file {path.name}")
        self._model = model
        self._vocab = self.c.llama_model_get_vocab(model) if self.has("llama_model_get_vocab") else model

    @property
    def vocab(self) -> Any:
        """What functions take for the vocabulary: llama_vocab*, in old releases llama_model*."""
        if self._vocab is None:
            raise LibraryError("no vocabulary is loaded")
        return self._vocab

    @property
    def n_vocab(self) -> int:
        """Number of tokens."""
        count = self.c.llama_vocab_n_tokens if self.has("llama_vocab_n_tokens") else self.c.llama_n_vocab
        return int(count(self.vocab))

    def piece(self, token: int) -> bytes:
        """The token's bytes, special tokens as their text."""
        size = 512
        while True:
            buffer = self.ffi.new("char[]", size)
            length = self.c.llama_token_to_piece(self.vocab, token, buffer, size, 0, True)
            if length >= 0:
                return bytes(self.ffi.buffer(buffer, length))
            size = -length

    def is_eog(self, token: int) -> bool:
        """Whether the library takes the token for an end of generation."""
        current = self.has("llama_vocab_is_eog")
        return bool((self.c.llama_vocab_is_eog if current else self.c.llama_token_is_eog)(self.vocab, token))

    def grammar_sampler(self, text: bytes, root: bytes) -> Any | None:
        """A new grammar sampler, or None when the library refuses the text.

        Old releases answer a refused text with a sampler that constrains nothing. A grammar of any content
        masks tokens whose bytes are none or begin with NUL, so a sampler that leaves one alone is such a one.
        """
        sampler = self.c.llama_sampler_init_grammar(self.vocab, text, root)
        if sampler == self.ffi.NULL:
            return None
        witness = self._always_masked_token()
        if witness is not None and self.allows(sampler, witness):
            self.c.llama_sampler_free(sampler)
            return None
        return sampler

    def allows(self, sampler: Any, token: int) -> bool:
        """Whether a grammar sampler leaves one token unmasked, asked for this token alone."""
        candidates = np.zeros(1, TOKEN_DATA)
        candidates["id"] = token
        self.c.llama_sampler_apply(sampler, self.token_data_array(candidates))
        return bool(candidates["logit"][0] > -np.inf)

    def token_data_array(self, candidates: npt.NDArray[np.void]) -> Any:
        """A llama_token_data_array over an array of TOKEN_DATA, which has to outlive it."""
        if self.ffi.sizeof("llama_token_data") != TOKEN_DATA.itemsize:
            raise LibraryError(f"llama_token_data has {self.ffi.sizeof('llama_token_data')} bytes, not 12")
        data = self.ffi.cast("llama_token_data *", candidates.ctypes.data)
        array = self.ffi.new("llama_token_data_array *")
        array.data, array.size, array.selected, array.sorted = data, len(candidates), -1, False
        return array

    def _always_masked_token(self) -> int | None:
        if "always_masked" not in self.state:
            unusable = (token for token in range(self.n_vocab) if self.piece(token)[:1] in (b"", b"\0"))
            self.state["always_masked"] = next(unusable, None)
        token: int | None = self.state["always_masked"]
        return token

    def _write_log(self, level: Any, text: Any, user_data: Any) -> None:
        name = self.ffi.string(self.ffi.cast("enum ggml_log_level", level))
        if name in _WARNING:
            os.write(2, self.ffi.string(text))
