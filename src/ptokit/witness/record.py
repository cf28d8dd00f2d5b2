"""Runs an entry of a C++ source that is compiled with the headers of a checkout, and reads what they did."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ptokit.cxx.compile import Build, CompileError, CompileOptions, KeptLibraries, compile_source, precompile
from ptokit.cxx.folders import temporary_prefix
from ptokit.cxx.names import INCLUDE
from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.cxx.recording import CoreName, RecordingProblem
from ptokit.witness.effects import MOST_CALLS, Observed, observed
from ptokit.witness.headers import Checkout
from ptokit.witness.prelude import prelude, table_of

HEADER = "pto/pto-inst.hpp"
PUBLIC = f"#include <{HEADER}>"
FLAGS = ("-fpermissive",)
"""Headers convert types that a host compiler keeps apart."""


@dataclass(frozen=True)
class ObservedBlock:
    """What the instructions of a block did, on one of its cores."""

    index: int
    core: CoreName
    subblock: int
    calls: tuple[Observed, ...]


class Witness:
    """The headers of a checkout, ready for a host compiler, until `close` or the end of a `with` removes the files.

    `written` is the folder of another one, which stays; `kept` are libraries that are not compiled again; `first`
    are folders of headers that GCC has read before, for sources that include the public ones."""

    def __init__(
        self,
        checkout: Checkout,
        written: Path | None = None,
        kept: KeptLibraries | None = None,
        first: Sequence[Path] = (),
    ) -> None:
        self.checkout, self.kept, self.first = checkout, kept, first
        self.close: Callable[[], object] = _nothing
        if written is not None:
            self.folder = written
            return
        self.folder = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
        self.close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        checkout.write(self.folder)
        for name, text in prelude().items():
            file = self.folder / "ptokit" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def precompile(self, target: str) -> None:
        """Have the compiler read the headers once for the sources of a target, and compile the recorder. GCC forgets
        `#pragma once` of what it has read before: such headers, and those that do not compile, are left to each
        source."""
        source, options = self.folder / f"{target}.cpp", options_with(self.folder, CompileOptions())
        source.write_text(f"{PUBLIC}\n", encoding="utf-8")
        for read in (lambda: precompile(target, options, self.folder / target, PUBLIC), tuple[Path]):
            with suppress(CompileError):
                self.first = read()
                self.compile(source, target).close()
                return

    def compile(self, source: Path, target: str, options: CompileOptions | None = None) -> Build:
        """Compile a source with these headers. Raises `CompileError`, which names what the headers call and the table
        of intrinsics does not have."""
        first = self.first if self.first and HEADER in source.read_text("utf-8", "replace") else ()
        options = options_with(self.folder, options or CompileOptions(), first)
        return compile_source(source, target, options, kept=self.kept)

    def run(
        self,
        build: Build,
        entry: str,
        arguments: Sequence[ArrayArgument | ScalarArgument],
        grid: int | None = None,
        subblocks: int = 1,
    ) -> tuple[list[ObservedBlock], Sequence[RecordingProblem]]:
        """Run an entry: the blocks of its launches, and what stopped it. `subblocks`: as in `record`."""
        recording = record(build, entry, arguments, grid, subblocks=subblocks)
        table = table_of(build.target)
        recorded = [block for launch in recording.launches for block in launch.blocks]
        blocks = [
            ObservedBlock(block.index, block.core, block.subblock, tuple(observed(recording, block, table)))
            for block in recorded
        ]
        most = max((len(block.calls) for block in recorded), default=0)
        cut = [RecordingProblem("limit", f"a block calls {most} intrinsics, of which {MOST_CALLS} are read")]
        return blocks, (*recording.problems, *(cut if most > MOST_CALLS else ()))


def options_with(folder: Path, options: CompileOptions, first: Sequence[Path] = ()) -> CompileOptions:
    """Options for a source that is compiled with the headers in a folder, and those of folders that come first."""
    return replace(options, flags=(*FLAGS, *options.flags), headers=(*first, INCLUDE / "witness", folder))


def _nothing() -> None:
    """What closing a witness does whose files belong to another one."""
