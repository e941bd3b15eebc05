"""Sanitizer reports: what of them is the same on every machine."""

from __future__ import annotations

import pytest

from tracker.audits.gguf.sanitized import Report, parse_death, sanitizer_options, upstream_frames
from tracker.results import Kind

UNDEFINED = """\
{root}/ggml/src/gguf.cpp:{line}:30: runtime error: load of value {value}, not valid for 'ggml_type'
    #0 0x{address}  in gguf_init_from_reader {root}/ggml/src/gguf.cpp:{line}
    #1 0x{address}  in gguf_init_from_file {root}/ggml/src/gguf.cpp:1000
    #2 0x{address}  in directory {root}/harness.c:81
    #3 0x{address}  in main {root}/harness.c:140
    #4 0x{address}  in __libc_start_main (/lib/libc.so.6+0x2724a)
SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior {root}/ggml/src/gguf.cpp:{line}:30 in
"""

ADDRESS = """\
=================================================================
==4711==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000114 at pc 0x7f bp 0x7f sp 0x7f
READ of size 4 at 0x602000000114 thread T0
    #0 0x7f11 in __interceptor_memcpy ../../../../src/libsanitizer/asan/x.cpp:82
    #1 0x7f12 in std::vector<int, std::allocator<int> >::at(unsigned long) /usr/include/c++/12/bits/stl.h:9
    #2 0x7f13 in bool gguf_reader::read<int, std::vector<int> >(int&) const {root}/ggml/src/gguf.cpp:5
    #3 0x7f14 in gguf_init_from_file {root}/ggml/src/gguf.cpp:9

0x602000000114 is located 0 bytes to the right of 4-byte region
"""

TOO_MUCH = """\
==1==ERROR: AddressSanitizer: requested allocation size 0x40000000 (0x40001000 after) exceeds
    #0 0x7f11 in operator new(unsigned long) ../../../../src/libsanitizer/asan/asan_new_delete.cpp:95
    #1 0x7f12 in gguf_init_from_file {root}/ggml/src/gguf.cpp:9
"""


def undefined(root: str, line: int, value: int, address: str) -> str:
    text = UNDEFINED.format(root=root, line=line, value=value, address=address)
    return text.replace("  in", " in")


def test_the_same_report_from_another_machine_and_line_is_the_same() -> None:
    one = parse_death(1, False, undefined("/home/a/x", 812, 43, "7f0011"))
    other = parse_death(1, False, undefined("/builds/other", 799, 4294967295, "55d1c0"))
    assert one == other
    assert one == Report(
        accepted=False,
        kind=Kind.SANITIZER,
        cause="undefined: load of value N, not valid for 'ggml_type' in gguf_init_from_reader (gguf.cpp)",
        stack=("gguf_init_from_reader (gguf.cpp)", "gguf_init_from_file (gguf.cpp)"),
    )


def test_the_sanitizer_s_and_the_standard_library_s_frames_are_left_out() -> None:
    report = parse_death(1, False, ADDRESS.format(root="/r"))
    assert report.kind is Kind.SANITIZER
    assert report.cause == "address: heap-buffer-overflow in gguf_reader::read (gguf.cpp)"
    assert report.stack == ("gguf_reader::read (gguf.cpp)", "gguf_init_from_file (gguf.cpp)")


def test_an_assertion_is_a_crash_with_its_stack() -> None:
    said = (
        "/a/ggml.c:5: GGML_ASSERT(x) failed\n"
        "==7==ERROR: AddressSanitizer: ABRT on unknown address 0x0 (pc 0x7f bp 0x7f sp 0x7f T0)\n"
        "    #0 0x7f11 in raise (/lib/x86_64-linux-gnu/libc.so.6+0x3bf51)\n"
        "    #1 0x7f12 in ggml_init /a/ggml/src/ggml.c:5\n"
    )
    assert parse_death(1, False, said) == Report(
        accepted=False, kind=Kind.CRASH, cause="SIGABRT: GGML_ASSERT(x) failed", stack=("ggml_init (ggml.c)",)
    )


def test_frames_without_a_source_are_named_by_their_library() -> None:
    assert upstream_frames("    #0 0x7f in gguf_free (/x/lib/libggml-base.so.0+0x1234)\n") == (
        "gguf_free (libggml-base.so.0)",
    )


@pytest.mark.parametrize(
    ("status", "hung", "said", "kind", "cause"),
    [
        (
            1,
            False,
            TOO_MUCH,
            Kind.OOM,
            "address: allocation beyond the limit in gguf_init_from_file (gguf.cpp)",
        ),
        (-24, False, "", Kind.HANG, "no answer in time"),
        (-9, True, "", Kind.HANG, "no answer in time"),
        (-6, False, "/a/ggml.c:5: GGML_ASSERT(x) failed\n", Kind.CRASH, "SIGABRT: GGML_ASSERT(x) failed"),
    ],
)
def test_other_deaths(status: int, hung: bool, said: str, kind: Kind, cause: str) -> None:
    report = parse_death(status, hung, said.format(root="/r"))
    assert (report.kind, report.cause) == (kind, cause)


def test_both_projects_are_instrumented_and_float_casts_too() -> None:
    options = sanitizer_options()
    assert options.sanitize
    assert options.target == "ggml-base"
    assert all(
        "float-cast-overflow" in define and "no-sanitize-recover" in define for define in options.defines
    )
    assert sanitizer_options(whole=True).target == "llama"
