"""The state of a block while it runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ptokit.engine.runnable import Listener
from ptokit.engine.storage import ADDRESS_SPACE, OnChip, Storage
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, Where
from ptokit.isa.policy import TileType
from ptokit.program.expr import BLOCK_IDX, Expr, ExpressionError, Var, evaluate
from ptokit.program.ir import TileDecl
from ptokit.program.verify_call import verify_address

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Frame:
    """The state of a block: numbers, arguments, tiles. Reused by the next launch, with the memory of its tiles."""

    def __init__(self) -> None:
        self.tensors: Mapping[str, Storage] = {}
        self.values: dict[Var, int] = {}
        self.listener: Listener = tuple
        self.where: Where | None = None
        self.iteration = 0
        """The iteration of the innermost loop."""
        self.tiles: dict[str, Storage] = {}
        self.addresses: dict[str, int] = {}
        self.copies: dict[str, list[tuple[Storage, Bytes]]] = {}
        self.memories: dict[TileType, OnChip] = {}
        self.computed: tuple[int, ...] = ()
        """Numbers of a loop or a branch, for an engine that runs the body itself."""

    def begin(self, block: int) -> None:
        """Start a block: memories become poison again."""
        self.values[BLOCK_IDX] = block
        self.iteration = 0
        for memory in self.memories.values():
            memory.forget()

    @property
    def when(self) -> str:
        """The block, for messages."""
        return f"in block {self.values[BLOCK_IDX]}"

    def value(self, expr: Expr) -> int:
        """The current value of an expression."""
        return evaluate(expr, self.values)

    def run(self, call: Iterable[Sequence[Finding]], spelled: Callable[[str], str] = str) -> None:
        """Run a call of the current statement to its end, and report its findings. `spelled` writes a fix as the
        program's source does."""
        try:
            for findings in call:
                self.report([replace(finding, fix=spelled(finding.fix)) for finding in findings])
        except (VerifyError, OutOfBoundsError) as problem:
            found = (replace(finding, fix=spelled(finding.fix)) for finding in problem.findings)
            raise type(problem)(self.placed(found)) from None

    @contextmanager
    def expressions_refused(self) -> Generator[None]:
        """Turn an expression without a value into a finding at the current statement."""
        try:
            yield
        except ExpressionError as problem:
            finding = Finding("error", "KN-11", str(problem), fix="keep divisors and shifts in range")
            raise VerifyError(self.placed([finding])) from None

    def report(self, findings: Sequence[Finding]) -> None:
        """Report findings of the current statement."""
        self.listener(self.placed(findings))

    def placed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings with the current block and statement."""
        return [replace(f, message=f"{f.message}, {self.when}", where=self.where) for f in findings]

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Bind a tile to an address of its memory."""
        spec = replace(tile.spec, addr=address)
        if problems := verify_address(spec, target):
            raise VerifyError(self.placed(problems))
        if address + spec.nbytes > ADDRESS_SPACE:
            message = f"{tile.name} at {address:#x} lies beyond every memory"
            finding = Finding("error", "A-38", message, None, tile.name, fix="use lower addresses")
            raise VerifyError(self.placed([finding]))
        memory = self.memories.setdefault(spec.loc, OnChip())
        self.tiles[tile.name] = Storage(memory.at(address, spec.nbytes).view(spec.dtype.bits), spec.dtype)
        self.addresses[tile.name] = address
