"""Requests that put files through a build's GGUF reader, many a request, surviving each death.

The child that answers forks before it lets upstream code near a file, and forks again after each death, so
that a death costs milliseconds and never spoils the files after it. Each file is an unnamed one in memory. It
knows how the build's readers are called and what can be checked on what they accept; it does not know which
files should be accepted.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from tracker.libllama.binding import Library

_PR_SET_PDEATHSIG = 1
_TAIL = 2000
_FAILED = "failed"
_PAGE = 4096
_MEMORY = re.compile(
    rb"bad_alloc|insufficient memory|failed to allocate|[Cc]annot allocate memory|MemoryError"
)

Examine = Callable[[Library, bytes, bytes], tuple[bool, list[str]]]
"""(library, path, contents) -> whether the file is accepted, and what does not hold of it although it is."""


def examine(library: Library, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """What one of the build's readers does with each file.

    ``side`` names the reader, ``sizes`` the files' lengths; the payload is the files one after the other.
    ``each`` bounds each file: ``cpu_seconds``, ``wall_seconds``, and ``memory``, the bytes of address space
    on top of what the process has before it sees a file. The answer's ``outcomes`` has for each file a list:
    the outcome (``refused``, ``accepted``, ``crash``, ``hang``, ``memory``), the signal or None, the last of
    what was written to standard error, and the notes on an accepted file.
    """
    reader = _SIDES[header["side"]]
    files, at = [], 0
    for size in header["sizes"]:
        files.append(payload[at : at + size])
        at += size
    outcomes: list[list[Any]] = []
    while len(outcomes) < len(files):
        _one_process(library, reader, files, outcomes, header["each"])
        failed = next((outcome for outcome in outcomes if outcome[0] == _FAILED), None)
        if failed is not None:
            raise ValueError(failed[2])
    return {"outcomes": outcomes}, b""


def _one_process(
    library: Library, reader: Examine, files: list[bytes], outcomes: list[list[Any]], each: dict[str, float]
) -> None:
    """Let one process work through the files from the first without an outcome, until it dies or is done."""
    errors = os.memfd_create("errors")
    answers, writer = os.pipe()
    worker = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == worker:
                os.dup2(errors, 1)
                os.dup2(errors, 2)
                _work(library, reader, files[len(outcomes) :], writer, each)
        except Exception as error:
            # Ours, not upstream's: a function that the library lacks, say. It must not look like a crash.
            os.write(
                writer, json.dumps([_FAILED, None, f"{type(error).__name__}: {error}", []]).encode() + b"\n"
            )
        finally:
            os._exit(0)
    os.close(writer)
    try:
        hung = _collect(answers, outcomes, each["wall_seconds"])
    finally:
        os.close(answers)
        if len(outcomes) < len(files):
            _give_time_to_die(pid)
        _, status = os.waitpid(pid, 0)
    if len(outcomes) < len(files):
        outcomes.append(_death(os.waitstatus_to_exitcode(status), hung, _tail(errors)))
    os.close(errors)


def _work(library: Library, reader: Examine, files: list[bytes], writer: int, each: dict[str, float]) -> None:
    file = os.memfd_create("file")
    path = f"/proc/self/fd/{file}".encode()
    _allow_memory(int(each["memory"]))
    for contents in files:
        os.ftruncate(file, 0)
        os.pwrite(file, contents, 0)
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
        _allow_cpu_seconds(each["cpu_seconds"])
        accepted, notes = reader(library, path, contents)
        text = _tail(2)
        outcome = "accepted" if accepted else "refused"
        if not accepted and _MEMORY.search(text):
            outcome = "memory"
        answer = json.dumps([outcome, None, text.decode("utf-8", "backslashreplace"), notes])
        os.write(writer, answer.encode() + b"\n")


def _allow_cpu_seconds(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _allow_memory(more: int) -> None:
    with open("/proc/self/statm") as statistics:
        pages = int(statistics.read().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (min(pages * resource.getpagesize() + more, hard), hard))


def _collect(answers: int, outcomes: list[list[Any]], wall_seconds: float) -> bool:
    """Take answers until the other side ends; True when it fell silent for too long instead."""
    pending = b""
    while True:
        ready, _, _ = select.select([answers], [], [], wall_seconds)
        if not ready:
            return True
        chunk = os.read(answers, 1 << 16)
        if not chunk:
            return False
        *lines, pending = (pending + chunk).split(b"\n")
        outcomes.extend(json.loads(line) for line in lines)


def _give_time_to_die(pid: int) -> None:
    """A process whose pipe is closed is dying or hangs; after a moment it is ended."""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        # Without reaping, so that the status is still there for the caller.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)


def _death(code: int, hung: bool, text: bytes) -> list[Any]:
    number = -code if code < 0 else None
    if hung or number == signal.SIGXCPU:
        outcome = "hang"
    elif _MEMORY.search(text):
        outcome = "memory"
    else:
        outcome = "crash"
    return [outcome, None if hung else number, text.decode("utf-8", "backslashreplace"), []]


def _tail(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL, max(0, size - _TAIL))


# --- the build's readers ----------------------------------------------------------------------------------


def _directory(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    """gguf_init_from_file as a model load calls it: tensors without their data."""
    return _init(library, path, contents, no_alloc=True)


def _data(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    """gguf_init_from_file with the tensors' data, every byte of which is then read."""
    return _init(library, path, contents, no_alloc=False)


def _vocabulary(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    """A vocabulary-only load of the whole library."""
    parameters = library.c.llama_model_default_params()
    parameters.vocab_only = True
    current = library.has("llama_model_load_from_file")
    load = library.c.llama_model_load_from_file if current else library.c.llama_load_model_from_file
    model = load(path, parameters)
    if model == library.ffi.NULL:
        return False, []
    (library.c.llama_model_free if library.has("llama_model_free") else library.c.llama_free_model)(model)
    return True, []


def _init(library: Library, path: bytes, contents: bytes, *, no_alloc: bool) -> tuple[bool, list[str]]:
    ffi, c = library.ffi, library.c
    tensors = ffi.new("struct ggml_context **")
    parameters = ffi.new("struct gguf_init_params *")
    parameters.no_alloc = no_alloc
    parameters.ctx = tensors
    context = c.gguf_init_from_file(path, parameters[0])
    if context == ffi.NULL:
        return False, []
    notes = _beyond_file(library, context, len(contents))
    if not no_alloc:
        notes += _read_tensors(library, context, tensors[0])
    c.gguf_free(context)
    if tensors[0] != ffi.NULL:
        c.ggml_free(tensors[0])
    return True, sorted(set(notes))


def _beyond_file(library: Library, context: Any, size: int) -> list[str]:
    """What the build itself says of the tensors' places, against the file's size."""
    c = library.c
    notes: list[str] = []
    names = set()
    count = c.gguf_get_n_tensors(context)
    for i in range(count):
        names.add(library.ffi.string(c.gguf_get_tensor_name(context, i)))
        end = c.gguf_get_data_offset(context) + c.gguf_get_tensor_offset(context, i)
        end += c.gguf_get_tensor_size(context, i) if library.has("gguf_get_tensor_size") else 0
        if end > size:
            notes.append("tensor-beyond-file")
    if len(names) != count:
        notes.append("equal-names")
    return notes


def _read_tensors(library: Library, context: Any, tensors: Any) -> list[str]:
    """Read each tensor's bytes, one a page and the last: that covers every expert's slice of a small file."""
    ffi, c = library.ffi, library.c
    if "gguf_get_data" not in library.state:
        ffi.cdef("void * ggml_get_data(const struct ggml_tensor * tensor);")
        library.state["gguf_get_data"] = True
    notes: list[str] = []
    blob = c.ggml_get_first_tensor(tensors)
    if blob == ffi.NULL:
        return notes
    start = int(ffi.cast("uintptr_t", c.ggml_get_data(blob)))
    stop = start + c.ggml_nbytes(blob)
    tensor = c.ggml_get_next_tensor(tensors, blob)
    while tensor != ffi.NULL:
        nbytes = c.ggml_nbytes(tensor)
        data = ffi.cast("unsigned char *", c.ggml_get_data(tensor))
        place = int(ffi.cast("uintptr_t", data))
        if nbytes and not start <= place <= place + nbytes <= stop:
            notes.append("tensor-beyond-data")
        elif nbytes:
            _ = [data[i] for i in range(0, nbytes, _PAGE)], data[nbytes - 1]
        tensor = c.ggml_get_next_tensor(tensors, tensor)
    return notes


# --- positive controls: what the audit must be able to see -------------------------------------------------


def _abort(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    os.abort()


def _spin(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    while True:
        pass


def _allocate(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    size = resource.getrlimit(resource.RLIMIT_AS)[0]
    try:
        return bool(bytearray(size)), []
    except MemoryError:
        os.write(2, b"MemoryError\n")
        return False, []


def _lack(library: Library, path: bytes, contents: bytes) -> tuple[bool, list[str]]:
    return bool(library.c.gguf_function_that_no_release_has(path)), []


_SIDES: dict[str, Examine] = {
    "directory": _directory,
    "data": _data,
    "vocabulary": _vocabulary,
    "control-crash": _abort,
    "control-hang": _spin,
    "control-memory": _allocate,
    "control-lack": _lack,
}
