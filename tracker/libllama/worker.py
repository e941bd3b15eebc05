"""The child process that runs upstream code: reads requests, calls handlers, writes answers.

It takes its limits before it loads anything of upstream, and dies when its parent does. It knows the protocol
and how handlers are found; it does not know what they do. Started by ``tracker.libllama.client`` alone.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from tracker.libllama.protocol import Closed, read_frame, write_frame
from tracker.libllama.stage import share

EXIT_PARENT_GONE = 81
EXIT_OUT_OF_MEMORY = 82

_PR_SET_PDEATHSIG = 1
_MAXIMUM_FILE = 64 << 20


def main(arguments: list[str]) -> NoReturn:
    """Answer requests until the parent closes the pipe. The one argument is a JSON object ."""
    setup = json.loads(arguments[0])
    _take_limits(setup["address_space"], setup["parent"])
    share(setup["stage"])
    reader, writer = setup["reader"], setup["writer"]
    library: Any = None
    while True:
        try:
            header, payload = read_frame(reader)
        except Closed:
            os._exit(0)
        _allow_cpu_seconds(header.pop("cpu_seconds"))
        handler = header.pop("handler")
        begun = time.perf_counter()
        try:
            if handler == "load":
                library = _load(header)
                answer: tuple[dict[str, Any], bytes] = ({}, b"")
            else:
                answer = _handler(handler)(library, header, payload)
        except MemoryError:
            os.write(2, b"MemoryError\n")
            os._exit(EXIT_OUT_OF_MEMORY)
        except Exception as error:
            answer = ({"refused": f"{type(error).__name__}: {error}"}, b"")
        answer[0]["handler_seconds"] = time.perf_counter() - begun
        write_frame(writer, *answer)


def _take_limits(address_space: int, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_PARENT_GONE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAXIMUM_FILE, _MAXIMUM_FILE))


def _allow_cpu_seconds(seconds: float) -> None:
    """Let this request use that much processor time; SIGXCPU ends the process after it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def _load(header: dict[str, Any]) -> Any:
    from tracker.libllama.binding import Library

    library = Library(Path(header["library"]), Path(header["declarations"]).read_text())
    if header["vocabulary"] is not None:
        library.load_vocabulary(Path(header["vocabulary"]))
    return library


def _handler(name: str) -> Any:
    from tracker.libllama.handlers import ALLOWED

    module, _, function = name.partition(".")
    if module not in ALLOWED or not function.isidentifier() or function.startswith("_"):
        raise ValueError(f"no handler {name!r}")
    return getattr(importlib.import_module(f"tracker.libllama.handlers.{module}"), function)


if __name__ == "__main__":
    main(sys.argv[1:])
