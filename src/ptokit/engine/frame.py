"""What a block sees while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ptokit.engine.prepared import Tell
from ptokit.engine.storage import ADDRESS_SPACE, OnChip, Storage
from ptokit.finding import Finding, VerifyError, Where
from ptokit.isa.policy import TileType
from ptokit.program.expr import BLOCK_IDX, Expr, Var, evaluate
from ptokit.program.ir import TileDecl
from ptokit.program.verify_call import verify_address

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Frame:
    """What a block sees while it runs: numbers, arguments, tiles. Kept for the next launch, for its tiles."""

    def __init__(self) -> None:
        self.tensors: Mapping[str, Storage] = {}
        self.values: dict[Var, int] = {}
        self.report: Tell = tuple
        self.where: Where | None = None
        self.turn = 0
        """The iteration of the innermost loop."""
        self.tiles: dict[str, Storage] = {}
        self.addresses: dict[str, int] = {}
        self.copies: dict[str, list[tuple[Storage, Bytes]]] = {}
        self.memories: dict[TileType, OnChip] = {}
        self.computed: tuple[int, ...] = ()
        """Numbers of a loop or a branch, for an engine that runs the body itself."""

    def begin(self, block: int) -> None:
        """Start a block: memories are poison again."""
        self.values[BLOCK_IDX] = block
        self.turn = 0
        for memory in self.memories.values():
            memory.forget()

    @property
    def when(self) -> str:
        """The time, in words."""
        return f"in block {self.values[BLOCK_IDX]}"

    def worth(self, expr: Expr) -> int:
        """What an expression is worth now."""
        return evaluate(expr, self.values)

    def tell(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Take findings of the current statement to the user, with the time at which they were made."""
        return self.report([replace(f, message=f"{f.message}, {self.when}", where=self.where) for f in findings])

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Let a tile show what its memory holds at an address."""
        spec = replace(tile.spec, addr=address)
        if problems := verify_address(spec, target):
            raise VerifyError(self.tell(problems))
        if address + spec.nbytes > ADDRESS_SPACE:
            said = f"{tile.name} at {address:#x} lies beyond every memory"
            raise VerifyError(self.tell([Finding("error", "A-38", said, None, tile.name, fix="use lower addresses")]))
        memory = self.memories.setdefault(spec.loc, OnChip())
        self.tiles[tile.name] = Storage(memory.at(address, spec.nbytes).view(spec.dtype.bits), spec.dtype)
        self.addresses[tile.name] = address
