"""Texts that are broken in any way are read or refused with an error: no traceback, no hang, no excessive memory."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.errors import MOST_SHOWN, TextError
from ptokit.text.forms import FORMS, print_program, read_program
from ptokit.text.mlir import print_module, read_module
from ptokit.text.ptoas import format_ptoas
from tests import forked
from tests.text.comparing import facts
from tests.text.hostile import hostile
from tests.text.mutations import monsters as monsters
from tests.text.mutations import mutated

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "tests" / "corpus"
BLOCK = re.compile(rb"^```(mlir|ptoas)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A text in a page of the documentation."""
FUZZ = os.environ.get("PTOKIT_FUZZ")
CHUNKS = 12 if FUZZ else 1
"""Parts in which the texts are tried, so that workers can share them; each takes the start of a process."""
LONGEST = 10_000_000 if FUZZ else 150_000
"""Bytes of the longest lines."""
SECONDS = 20
"""What one input may take, at the very most."""
MEMORY = 3 << 30
"""Address space that a worker may have."""


def round_trip(text: bytes) -> None:
    """Read; what can be read prints to a fixed point."""
    module = read_module(text, "fuzz.pto")
    printed = print_module(module)
    again = read_module(printed)
    assert facts(again) == facts(module), f"another module after\n{printed}"
    assert print_module(again) == printed, f"another text after\n{printed}"


def whole_way(text: bytes) -> None:
    """Read a program; check it, emit it, print it in every form and read it again."""
    program = read_program(text, "fuzz.pto")
    pto.check(TextKernel(program), grid=2)
    for target in ("a2a3", "a5"):
        with contextlib.suppress(pto.VerifyError):
            emit(program, profile(target))
    for form in FORMS:
        with contextlib.suppress(pto.VerifyError):
            printed = print_program(program, form)
            assert read_program(printed, "fuzz") == program, f"another program after\n{printed}"


def plain_round_trip(text: bytes) -> None:
    """Read the plain form; what can be read prints to a fixed point."""
    printed = format_ptoas(text, "fuzz.ptoas")
    assert format_ptoas(printed, "fuzz.ptoas") == printed, f"another text after\n{printed}"


@dataclass(frozen=True)
class Entry:
    """A reader of arbitrary text; it may raise only TextError."""

    call: Callable[[bytes], object]
    inputs: int
    """How many mutated texts are tried; a plain run tries the first twentieth of them."""
    files: str = "*.pto"
    """The texts that are mutated: files of the corpus, or `mlir` and `ptoas` of `pages`."""


ENTRIES = {
    "mlir": Entry(round_trip, 12_000),
    "program": Entry(whole_way, 4_000),
    "plain": Entry(plain_round_trip, 6_000, "*.ptoas"),
    "plain program": Entry(whole_way, 2_000, "*.ptoas"),
    "mlir of pages": Entry(round_trip, 1_200, "mlir"),
    "plain of pages": Entry(plain_round_trip, 1_200, "ptoas"),
}


def attempt(call: Callable[[bytes], object], text: bytes) -> None:
    """Call an entry point with a text, within a time limit; a refusal has a place, in a few lines."""
    refused: TextError | None = None
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        call(text)
    except TextError as error:
        refused = error
    faulthandler.cancel_dump_traceback_later()
    if refused is not None:
        assert refused.line >= 1 and refused.column >= 1
        assert all(len(error.shown) < 3000 for error in refused.errors) and len(refused.errors) <= 100
        assert len(str(refused)) < 3000 * MOST_SHOWN and "MemoryError" not in str(refused)


def work(name: str, texts: Iterable[tuple[str, bytes]]) -> None:
    """The work of a worker: all texts, under a memory limit. It prints its progress."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for label, text in texts:
        print(label, file=sys.stderr)
        attempt(ENTRIES[name].call, text)


def pages(word: str) -> list[bytes]:
    """The texts of the documentation in `mlir` or `ptoas`, and hostile ones.

    Those with regions are left out: an empty region of an unknown op is read as a dictionary again.
    """
    blocks = (block for page in sorted(ROOT.glob("docs/**/*.md")) for block in BLOCK.findall(page.read_bytes()))
    found = [text for kind, text in blocks if kind == word.encode()]
    suffix = {"mlir": ".pto", "ptoas": ".ptoas"}[word]
    made = [text for name, file, text in hostile((1_000,)) if file.endswith(suffix) and "regions" not in name]
    return found + [text.encode() for text in made]


def inputs(first: int, count: int, files: str = "*.pto") -> Iterable[tuple[str, bytes]]:
    """Mutated texts by their seeds."""
    texts = pages(files) if "*" not in files else [path.read_bytes() for path in sorted(CORPUS.glob(files))]
    return ((f"seed {seed}", mutated(seed, texts)) for seed in range(first, first + count))


def in_worker(statement: str) -> None:
    """Run a statement in a separate process, which must not crash."""
    code = f"import tests.text.test_fuzz as fuzz; {statement}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    command = [forked.python("tests.text.test_fuzz"), "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", ENTRIES)
def test_mutated_texts(name: str, chunk: int) -> None:
    entry = ENTRIES[name]
    count = -(-entry.inputs // (CHUNKS if FUZZ else 20))
    in_worker(f"fuzz.work({name!r}, fuzz.inputs({chunk * count}, {count}, {entry.files!r}))")


@pytest.mark.parametrize("name", ["mlir", "program", "plain"] if FUZZ else ["program", "plain"])
def test_monsters(name: str) -> None:
    """`plain program` is the same call as `program`."""
    in_worker(f"fuzz.work({name!r}, fuzz.monsters({LONGEST}))")


def test_mutations_are_the_same_every_time_and_not_all_refused() -> None:
    texts = dict(inputs(0, 300))
    assert texts == dict(inputs(0, 300))
    refused = 0
    for text in texts.values():
        try:
            read_module(text)
        except TextError:
            refused += 1
    assert 100 < refused < 295


@pytest.mark.parametrize(
    ("call", "sign"),
    [
        ("lambda text: [].append(1 / 0)", "ZeroDivisionError"),
        ("lambda text: bytearray(fuzz.MEMORY)", "MemoryError"),
        ("lambda text: __import__('time').sleep(60)", "Timeout"),
    ],
)
def test_a_worker_notices(call: str, sign: str) -> None:
    statement = f"fuzz.SECONDS = 1; fuzz.ENTRIES['bad'] = fuzz.Entry({call}, 1); fuzz.work('bad', [('one', b'')])"
    with pytest.raises(AssertionError, match=sign):
        in_worker(statement)
