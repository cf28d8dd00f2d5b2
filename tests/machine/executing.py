"""Calls that are executed without a program, for tests of `Executed`; and lane outcomes from plain loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.engine.prepared import Prepared
from ptokit.engine.storage import Storage
from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import parse_modifiers
from ptokit.isa.layout import packed
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, SLayout, TileType
from ptokit.machine.site import Executed, site
from ptokit.program.ir import Instr
from ptokit.program.verify_call import Options
from ptokit.target import profile

HERE = Where("kernel.py", 12)


def vec(kind: str, rows: int, cols: int, valid: tuple[int, int] | None = None, addr: int | None = None) -> TileSpec:
    """A plain tile in UB."""
    return TileSpec(dtype(kind), TileType.Vec, rows, cols, *(valid or (rows, cols)), addr=addr)


def nz(kind: str, rows: int, cols: int, valid: tuple[int, int] | None = None, loc: TileType = TileType.Mat) -> TileSpec:
    """A fractal tile."""
    shape = (rows, cols, *(valid or (rows, cols)))
    return TileSpec(dtype(kind), loc, *shape, blayout=BLayout.ColMajor, slayout=SLayout.RowMajor)


def gm(kind: str, *shape: int, pitch: int | None = None, layout: GlobalLayout = GlobalLayout.ND) -> TensorSpec:
    """A tensor in global memory, rows `pitch` elements apart."""
    dims = (1,) * (5 - len(shape)) + shape
    stride = list(packed(dims))
    if pitch is not None:
        stride[:4] = [pitch * over for over in packed((*dims[:3], dims[3]))]
    return TensorSpec(dtype(kind), dims, tuple(stride), layout)  # type: ignore[arg-type]


def execute(
    name: str,
    target: str,
    operands: dict[str, OperandSpec],
    idx: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    block: int = 0,
    number: int = 7,
    where: Where = HERE,
    start: dict[str, int] | None = None,
    tolerant: bool = False,
    **modifiers: object,
) -> Executed:
    """Prepare a call, write its indices, run it. `start` is the offset of operands in an array, in elements."""
    instruction, here = INSTRUCTIONS[name], profile(target)
    given = [modifiers.pop(modifier.name, None) for modifier in instruction.modifiers]
    assert not modifiers, modifiers
    prepared = Prepared(instruction, here, Options(), list(operands.values()), parse_modifiers(instruction, given))
    assert prepared.plan is not None, prepared.refused
    storages = [_memory(spec, (start or {}).get(name, 0)) for name, spec in operands.items()]
    plan = prepared.tolerant if tolerant else prepared.plan
    wanted = None
    for step in plan.steps:
        if idx is not None and hasattr(step, "reader"):
            wanted = np.asarray(idx, np.int64).reshape(-1 if step.by_row else step.shape)  # type: ignore[attr-defined]
            _write(storages[step.idx], step.lanes.offsets(), wanted)  # type: ignore[attr-defined]
    lanes, _ = plan.resolve(storages)
    plan.run(storages, lanes)
    indices = [None if each is None else wanted for each in lanes]
    instr = Instr(name, (), where=where)
    todo = site(prepared, None, here)
    assert todo is not None
    return Executed(number, instr, prepared.call, todo.steps, plan, storages, lanes, indices, block)


def _memory(spec: OperandSpec, start: int) -> Storage:
    size = spec.span if isinstance(spec, TensorSpec) else spec.elements
    whole = Storage(np.zeros(start + size, spec.dtype.bits), spec.dtype)
    return whole.part(start, size) if start else whole


def _write(storage: Storage, offsets: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    bits = np.asarray(values & (1 << 8 * storage.dtype.size) - 1, np.uint64).astype(f"u{storage.dtype.size}")
    storage.bits[offsets.ravel()] = bits.ravel().view(storage.dtype.bits)


# --- plain loops ---------------------------------------------------------------------------------------------


@dataclass
class Lane:
    """The outcome of one lane."""

    index: int
    outcome: str
    cell: int
    fate: str = "none"
    by: int = -1


def landed(index: int, capacity: int, policy: str) -> tuple[str, int]:
    """How an index lands: as uint32, then by the policy (A-12)."""
    taken = index % (1 << 32)
    if taken < capacity:
        return "in bounds", taken
    return {
        "clamp": ("clamped", capacity - 1),
        "wrap": ("wrapped", taken % capacity),
        "zero": ("zeroed", -1),
        "skip": ("skipped", -1),
    }[policy]


def scattered(indices: Iterable[int], capacity: int, policy: str, *, adds: bool = False) -> list[Lane]:
    """Lanes of a scatter, one after the other; the last writer of a cell wins."""
    lanes = [Lane(index, *landed(index, capacity, policy)) for index in indices]
    for k, lane in enumerate(lanes):
        if lane.cell < 0:
            continue
        last = max(other for other, each in enumerate(lanes) if each.cell == lane.cell)
        lane.fate = "accumulated" if adds else "stored" if last == k else "overwritten"
        lane.by = -1 if adds or last == k else last
    return lanes


def first_repeat(cells: Sequence[Any]) -> tuple[int, int, int, int] | None:
    """The first lane with a repeated destination: the earlier lane, this lane, the last lane, and their number."""
    seen: dict[Any, int] = {}
    found, count = None, 0
    for lane, cell in enumerate(cells):
        if cell is None:
            continue
        if cell in seen:
            found = found or (seen[cell], lane)
            count += 1
        else:
            seen[cell] = lane
    if found is None:
        return None
    return *found, max(lane for lane, cell in enumerate(cells) if cell == cells[found[0]]), count


def row_warps(rows: int, cols: int, launched: int, share: int) -> Iterator[list[tuple[int, int]]]:
    """Lanes of each warp instruction of a row kernel: `share` warps process a row together (MG-SIMT-03 to -05)."""
    for warp in range(launched):
        for row in range(warp // share, rows, launched // share):
            for col in range(warp % share * 32, cols, share * 32):
                yield [(row, col + lane) for lane in range(32) if col + lane < cols]


def elem_warps(total: int, launched: int) -> Iterator[list[int]]:
    """Elements of each warp instruction of an element kernel, which strides by its threads (MG-SIMT-06, -07)."""
    for base in range(0, total, 32 * launched):
        for warp in range(launched):
            lanes = [base + 32 * warp + lane for lane in range(32) if base + 32 * warp + lane < total]
            if lanes:
                yield lanes


def transactions(warps: Iterable[Iterable[int]]) -> int:
    """128-byte segments that warps access, from the addresses of their lanes."""
    return sum(len({address // 128 for address in warp}) for warp in warps)
