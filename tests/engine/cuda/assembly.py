"""Programs as PTX, assembled many at a time.

`python -m tests.engine.cuda.assembly` takes every program that the examples of clauses make, and those of the gallery:
`make test-ptx`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ptokit import spec
from ptokit.engine.cuda import ptx
from ptokit.engine.cuda.stage import GPU, GridStage
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.independent import candidates, page
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.program.ir import Program
from tests.engine.cuda import test_ptx
from tests.engine.cuda.emulated import EmulatedDevice
from tests.engine.native import calls
from tests.examples.test_gallery import GALLERY, Entry, rng

CAPABILITIES = (80, 90)
AT_ONCE = 40
"""Kernels of one file."""
ONCE = (".version", ".target", ".address_size", ".extern")
"""Lines that a file has once."""


class Emitted:
    """Programs whose code was written for the CPU; each can be written for a GPU."""

    def __init__(self) -> None:
        self.programs: list[tuple[Any, Any]] = []

    def texts(self, step: int = 1) -> list[str]:
        """The LLVM text of every so many of them for a GPU, each once."""
        return [*dict.fromkeys(text for given in self.programs[::step] for text in self._texts(given))]

    def _texts(self, given: tuple[Any, Any]) -> list[str]:
        """The text of a program, and the one that records its scatters if it can."""
        stage, variants = given
        program, slots = stage.program, stage.slots
        if isinstance(program, calls.CallProgram):  # as in a kernel: its tiles are declared first
            program = Program(program.name, program.arguments, (*program.held, *program.body))
            slots = Slots(program)
            (number,) = (slots.numbers[id(stmt)] for stmt in stage.program.body)
            variants = {number: variants[0]}
        found = [page(program, slots, number, variants.get(number, ())) for number in candidates(program, slots)]
        pages = [each for each in found if each is not None]
        stages = [GridStage(program, slots, GPU, EmulatedDevice.shared)]
        if pages:
            stages.append(GridStage(program, slots, GPU, EmulatedDevice.shared, pages))
        return [Emitter(there, variants).text() for there in stages]


@contextmanager
def emitted() -> Iterator[Emitted]:
    """Within, programs are collected."""
    found, usual = Emitted(), Emitter.__init__

    def init(emitter: Emitter, stage: Any, variants: Any) -> None:
        usual(emitter, stage, variants)
        if not isinstance(stage, GridStage):
            found.programs.append((stage, variants))

    with patch.object(Emitter, "__init__", init):
        yield found


def joined(modules: Sequence[str]) -> str:
    """PTX of many kernels as one file, in which they have names of their own."""
    lines = [line.replace(ENTRY, f"{ENTRY}_{k}") for k, text in enumerate(modules) for line in text.splitlines()]
    once = {line: k for k, line in reversed([*enumerate(lines)]) if line.startswith(ONCE)}
    return "\n".join(line for k, line in enumerate(lines) if once.get(line, k) == k)


def complaint(modules: Sequence[str], capability: int) -> str:
    """What the assembler says of faults in PTX; empty if there are none, or if there is no assembler."""
    with TemporaryDirectory() as folder:
        return test_ptx.complaint(joined(modules), capability, Path(folder)) if modules else ""


# --- all of them


class _Collected(Exception):
    """A call has been collected, and need not be compiled."""


def _texts_of(names: Sequence[str]) -> list[str]:
    """The programs of some examples."""
    from tests.conformance.harness import check_example

    def refuse(*_: object) -> None:
        raise _Collected

    def collect(call: calls.Watched, storages: Sequence[Any]) -> None:
        try:
            both.native((*call.key, call.workspace), storages)
        except _Collected:
            return

    both = calls.Both(calls.Ways())
    compiles_nothing = patch.object(calls, "jit", SimpleNamespace(library=refuse, IrSource=None))
    with emitted() as found, compiles_nothing, calls.every_call(collect, workspaces=True):
        for name in names:
            check_example(name)
    return found.texts()


def _texts_of_gallery(entry: Entry, capability: int) -> list[str]:
    cases = [entry.make(rng(), **sizes) for sizes in entry.sizes]
    return [test_ptx.text_of(entry.kernel, case, target, capability) for case, target in product(cases, entry.targets)]


def _complaint(given: tuple[Sequence[str], int]) -> str:
    texts, capability = given
    return complaint([ptx.compiled(text, capability) for text in texts], capability)


def main() -> int:
    if not shutil.which("ptxas"):
        print("this needs ptxas, of the CUDA toolkit")
        return 1
    os.environ["PTOKIT_CACHE"] = "off"
    began, names, workers = perf_counter(), sorted(spec.examples()), os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        parts = [*pool.map(_texts_of, [names[k :: 4 * workers] for k in range(4 * workers)])]
        batches: list[tuple[Sequence[str], int]] = []
        for capability in CAPABILITIES:
            gallery = (_texts_of_gallery(entry, capability) for entry in GALLERY)
            texts = [*dict.fromkeys(text for part in (*parts, *gallery) for text in part)]
            batches += [(texts[k : k + AT_ONCE], capability) for k in range(0, len(texts), AT_ONCE)]
        took = perf_counter() - began
        print(f"{len(texts)} programs of {len(names)} examples and the gallery after {took:.0f} s", flush=True)
        said = [problem for problem in pool.map(_complaint, batches) if problem]
    listed = " and ".join(f"sm_{capability}" for capability in CAPABILITIES)
    print(f"assembled for {listed} after {perf_counter() - began:.0f} s; {len(said)} of the files have errors")
    print(*said, sep="\n")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
