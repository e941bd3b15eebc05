"""Requests about samplers: build some from descriptions, call them on logits, say what came out.

A request is a *script*: descriptions of samplers as ``oracle.sampling.to_json`` writes them, arrays of
logits, and calls one after another. It knows the C API's samplers; it does not know what is right.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracker.libllama.binding import TOKEN_DATA, Library, LibraryError
from tracker.libllama.protocol import Closed, read_frame, write_frame

_NOMINAL_VOCABULARY = 151_936
"""Given where a sampler asks for the number of tokens and has no use for it outside a graph."""

_PR_SET_PDEATHSIG = 1
_FORK_CPU_SECONDS = 10


def available(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Which of the samplers named under ``samplers`` the library has."""
    return {"samplers": [name for name in header["samplers"] if library.has(_init(name))]}, b""


def run(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Carry out a script.

    ``chain`` holds the descriptions, ``bare`` asks for the only sampler without a chain around it, ``sizes``
    the lengths of the float32 arrays that the payload holds one after another, ``calls`` the calls, each a
    list with the name first. Objects are numbered from 0, which is the chain; ``clone`` makes the next one.

    The answer holds under ``outcomes`` what each call returned, and as payload the candidates after each
    ``apply`` (TOKEN_DATA) and the tokens of each ``draws`` (int32), one after another.
    """
    script = _Script(library, header, payload)
    try:
        outcomes = [script.call(name, arguments) for name, *arguments in header["calls"]]
    finally:
        script.free()
    return {"outcomes": outcomes}, b"".join(script.output)


def isolated(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Carry out a script as `run` does, in a fork of this process.

    Scripts that may kill the process cost a fork (milliseconds) instead of a new process, and none sees what
    another one did to the memory. When the fork dies, the answer is ``died``: the number of the signal, and
    ``detail``: the last that it wrote to its standard error.
    """
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _answer_once(library, header, payload, writer, errors.fileno())
        os.close(writer)
        try:
            answer: tuple[dict[str, Any], bytes] | None = read_frame(reader)
        except Closed:
            answer = None
        finally:
            os.close(reader)
            _, status = os.waitpid(child, 0)
        errors.seek(0)
        detail = errors.read().decode("utf-8", "backslashreplace")
    if answer is None:
        return {"died": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "detail": detail[-2000:]}, b""
    if "refused" in answer[0]:
        raise LibraryError(answer[0]["refused"])
    return answer


def _answer_once(library: Library, header: dict[str, Any], payload: bytes, writer: int, errors: int) -> None:
    """Carry out a script in a fork, write the answer, and end the process."""
    # The parent's death must not leave a hanging fork behind, nor may it use more than its own share.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CPU, (_FORK_CPU_SECONDS, _FORK_CPU_SECONDS + 1))
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    try:
        answer = run(library, header, payload)
    except Exception as error:
        answer = {"refused": f"{type(error).__name__}: {error}"}, b""
    write_frame(writer, *answer)
    os._exit(0)


class _Script:
    """The objects and inputs of one request."""

    def __init__(self, library: Library, header: dict[str, Any], payload: bytes) -> None:
        self.library = library
        self.inputs: list[np.ndarray[Any, np.dtype[np.float32]]] = []
        start = 0
        for size in header["sizes"]:
            self.inputs.append(np.frombuffer(payload, "<f4", size, offset=start))
            start += 4 * size
        self.output: list[bytes] = []
        self.selected: dict[int, int] = {}
        samplers = [_sampler(library, description) for description in header["chain"]]
        self.objects: list[Any] = samplers if header["bare"] else [_chain(library, samplers)]
        if len(self.objects) != 1:
            raise ValueError(f"{len(self.objects)} samplers cannot go without a chain")

    def free(self) -> None:
        """Free what the script made."""
        for made in self.objects:
            self.library.c.llama_sampler_free(made)

    def call(self, name: str, arguments: list[int]) -> Any:
        """Carry out one call and return what it says about itself."""
        calls: Mapping[str, Callable[..., Any]] = {
            "apply": self.apply,
            "accept": self.accept,
            "reset": self.reset,
            "clone": self.clone,
            "draws": self.draws,
            "null": self.null,
            "add_null": self.add_null,
            "get": self.get,
            "remove": self.remove,
        }
        if name not in calls:
            raise ValueError(f"no call {name!r}")
        return calls[name](*arguments)

    def apply(self, which: int, source: int) -> dict[str, Any]:
        """Apply to a fresh copy of an input."""
        candidates, array = self.candidates(source)
        self.library.c.llama_sampler_apply(self.objects[which], array)
        if array.size > len(candidates):
            raise LibraryError(f"the sampler made {array.size} candidates out of {len(candidates)}")
        # The array may point elsewhere now: a sampler may move it.
        kept = bytes(self.library.ffi.buffer(array.data, array.size * TOKEN_DATA.itemsize))
        self.output.append(kept)
        selected = int(array.selected)
        self.selected.pop(which, None)
        if 0 <= selected < array.size:
            self.selected[which] = int(np.frombuffer(kept, TOKEN_DATA)["id"][selected])
        return {"size": int(array.size), "selected": selected, "ordered": bool(array.sorted)}

    def draws(self, which: int, source: int, count: int) -> dict[str, Any]:
        """Apply ``count`` times to fresh copies; the tokens selected, −1 for none."""
        tokens = np.full(count, -1, np.int32)
        candidates, array = self.candidates(source)
        pristine, data = candidates.copy(), array.data
        for i in range(count):
            candidates[:] = pristine
            array.data, array.size, array.selected, array.sorted = data, len(pristine), -1, False
            self.library.c.llama_sampler_apply(self.objects[which], array)
            if 0 <= array.selected < array.size:
                tokens[i] = array.data[array.selected].id
        self.output.append(tokens.tobytes())
        return {"size": count}

    def candidates(self, source: int) -> tuple[Any, Any]:
        """A fresh array of all tokens with an input's logits, and the C structure over it."""
        logits = self.inputs[source]
        candidates = np.zeros(len(logits), TOKEN_DATA)
        candidates["id"] = np.arange(len(logits))
        candidates["logit"] = logits
        return candidates, self.library.token_data_array(candidates)

    def accept(self, which: int, token: int) -> bool:
        """Accept a token; −1 stands for the one selected last, and is skipped if there is none."""
        if token < 0:
            token = self.selected.get(which, -1)
        if token >= 0:
            self.library.c.llama_sampler_accept(self.objects[which], token)
        return token >= 0

    def reset(self, which: int) -> None:
        """Reset."""
        self.library.c.llama_sampler_reset(self.objects[which])

    def clone(self, which: int) -> bool:
        """Clone into a new object; whether one was returned."""
        made = self.library.c.llama_sampler_clone(self.objects[which])
        self.objects.append(made)
        if which in self.selected:
            self.selected[len(self.objects) - 1] = self.selected[which]
        return bool(made != self.library.ffi.NULL)

    def null(self, function: int) -> None:
        """Call a function of ``NULL_CALLS`` without a sampler."""
        nothing = self.library.ffi.NULL
        _, array = self.candidates(0)
        arguments = {"apply": (nothing, array), "accept": (nothing, 0)}
        name = NULL_CALLS[function]
        getattr(self.library.c, f"llama_sampler_{name}")(*arguments.get(name, (nothing,)))

    def add_null(self, which: int) -> None:
        """Add NULL to a chain, as happens when an init function has returned it."""
        self.library.c.llama_sampler_chain_add(self.objects[which], self.library.ffi.NULL)

    def get(self, which: int, index: int) -> bool:
        """Whether the chain returns a sampler at an index."""
        return bool(
            self.library.c.llama_sampler_chain_get(self.objects[which], index) != self.library.ffi.NULL
        )

    def remove(self, which: int, index: int) -> bool:
        """Take the sampler at an index out of the chain; whether there was one."""
        made = self.library.c.llama_sampler_chain_remove(self.objects[which], index)
        self.library.c.llama_sampler_free(made)
        return bool(made != self.library.ffi.NULL)


NULL_CALLS = ("apply", "accept", "reset", "clone", "free")
"""Functions of the API that take a sampler first, in the order that ``null`` numbers them."""


def _chain(library: Library, samplers: list[Any]) -> Any:
    chain = library.c.llama_sampler_chain_init(library.c.llama_sampler_chain_default_params())
    for sampler in samplers:
        library.c.llama_sampler_chain_add(chain, sampler)
    return chain


def _init(name: str) -> str:
    return f"llama_sampler_init_{name}"


def _sampler(library: Library, description: Mapping[str, Any]) -> Any:
    parameters = {key: value for key, value in description.items() if key != "sampler"}
    name = description["sampler"]
    if not library.has(_init(name)):
        raise LibraryError(f"the library has no sampler {name}")
    function = getattr(library.c, _init(name))
    arguments = list(parameters.values())
    count = len(library.ffi.typeof(function).args)
    if name == "penalties" and count == 5:
        arguments = [_NOMINAL_VOCABULARY, *arguments]
    elif name == "dry":
        # Neither vocabulary nor context length matter without sequence breakers and with a window given.
        context = [1 << 20] if count == 8 else []
        arguments = [library.ffi.NULL, *context, *arguments, library.ffi.NULL, 0]
    elif name == "logit_bias":
        biases = library.ffi.new("llama_logit_bias[]", [tuple(bias) for bias in parameters["biases"]])
        arguments = [_NOMINAL_VOCABULARY, len(parameters["biases"]), biases]
    elif name == "infill":
        arguments = [library.vocab]
    if len(arguments) != count:
        raise LibraryError(f"{_init(name)} takes {count} arguments, {len(arguments)} are known")
    return function(*arguments)
