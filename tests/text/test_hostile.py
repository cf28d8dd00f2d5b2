"""What a text may take follows from its length: memory, and work as a number of calls, which no clock measures."""

from __future__ import annotations

import contextlib
import resource
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.text import limits
from ptokit.text.errors import TextError
from ptokit.text.forms import convert, format_text, read_program
from ptokit.text.limits import BYTES, CALLS, MOST_BYTES, MOST_CALLS
from ptokit.text.ptoas import format_ptoas
from tests.text.hostile import hostile, plain
from tests.text.test_fuzz import FUZZ, attempt, in_worker

CHUNKS = 4 if FUZZ else 2
SIZES = (2_000, 24_000) if FUZZ else (2_000,)
SHARE = 16
"""By how much less there is for every text than the limits say, whatever its length: this makes the tests short."""


class TooMuchWork(Exception):
    """More calls than a text of this length may take."""


def address_space() -> int:
    """The bytes of address space that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextlib.contextmanager
def within_limits(length: int) -> Any:
    """Let work take what a text of a length may: bytes of memory, and calls of functions."""
    left = CALLS * length + MOST_CALLS // SHARE

    def count(_frame: object, event: str, _value: object) -> None:
        nonlocal left
        left -= event.endswith("call")
        if left < 0:
            raise TooMuchWork

    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + BYTES * length + MOST_BYTES, most))
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def formatted(text: bytes, file: str) -> None:
    """Format a text."""
    format_text(text, file)


def converted(text: bytes, file: str) -> None:
    """Convert a text, and check its program."""
    convert(text, file, "as" if file.endswith("pto") else "l2")
    pto.check(TextKernel(read_program(text, file)))


def measured(chunk: int) -> None:
    """Format and convert texts within their limits; a refusal is a TextError with few lines."""
    for use in (formatted, converted):  # what they load is loaded before it is measured
        with contextlib.suppress(TextError):
            use(b".kernel k\n.arg %m : !pto.ptr<f32>\n", "k.ptoas")
            use(b"func.func @f() {\nreturn\n}\n", "k.pto")
    limits.ROOM //= SHARE
    for number, (name, file, text) in enumerate(hostile(SIZES)):
        for use in (formatted, converted) if number % CHUNKS == chunk else ():
            print(f"{use.__name__}: {name}", file=sys.stderr)
            with within_limits(len(text)):
                attempt(lambda text, file=file, use=use: use(text, file), text.encode())


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the address space of a process, as on Linux")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_hostile_text_takes_no_more_than_its_length_allows(chunk: int) -> None:
    in_worker(f"import tests.text.test_hostile as hostile; hostile.measured({chunk})")


@pytest.mark.parametrize("name", ["long types", "values that are not declared"])
def test_the_memory_of_a_longer_text_follows_from_its_length(name: str) -> None:
    """Those that take most: without what every text may take besides."""
    format_text(".kernel k\n", "k.ptoas")
    text = dict(plain(20_000))[name]
    tracemalloc.start()
    with contextlib.suppress(TextError):
        format_text(text, "k.ptoas")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < BYTES * len(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("!a = i1\n" + "".join(f"!a{'b' * k}b = tuple<!a{'b' * k}, !a{'b' * k}>\n" for k in range(60)), 18),
        ("module {\n%a:999999999 = foo.bar\n}", 2),
    ],
)
def test_a_text_that_stands_for_too_much_is_refused_once_at_its_line(text: str, line: int) -> None:
    with pytest.raises(TextError, match=r"of more than [0-9]+ characters, with aliases written out") as refused:
        format_text(text, "k.pto")
    assert len(refused.value.errors) == 1
    assert abs(refused.value.line - line) < 4


def test_aliases_of_ordinary_texts_are_written_out() -> None:
    lines = "".join(f"  %t{k} = pto.alloc_tile : !t\n" for k in range(20_000))
    assert (
        format_text(f"!t = !pto.tile_buf<vec, 16x8xf32>\nmodule {{\n{lines}}}\n", "k.pto").count("16x8xf32") == 20_000
    )


def test_a_long_name_makes_no_long_error() -> None:
    with pytest.raises(TextError) as caught:
        format_ptoas(f".kernel k\n%a = arith.addi %{'x' * 100_000}, 1\n.end\n", "long.ptoas")
    assert all(len(error.shown) < 3000 for error in caught.value.errors)
