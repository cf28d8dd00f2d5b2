"""Room that instructions compute in: where text has it among the operands, and how much of it they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ptokit.isa.dtype import DType, dtype
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Saturation, TileType

WORKSPACE = {
    "trowsum": 1, "trowmax": 1, "trowmin": 1, "ttrans": 1, "trowexpandmul": 2, "trowexpandsub": 2, "trowexpanddiv": 2,
    "trowexpandadd": 2, "trowexpandmax": 2, "trowexpandmin": 2, "tcolsum": 1,
    "tgather": 2, "tsel": 3, "tsels": 2, "tcvt": 1,
}  # fmt: skip
"""Instructions that text gives a workspace, and where it stands among the sources."""


@dataclass(frozen=True)
class Scratch:
    """A tile that an instruction computes in, which the program does not know of."""

    spec: TileSpec
    like: str = ""
    """The operand whose valid extents it has; its own are all of it."""


def _row(kind: DType, count: int) -> TileSpec:
    return TileSpec(kind, TileType.Vec, 1, count, 1, count)


def _all_of(spec: TileSpec) -> TileSpec:
    return replace(spec, valid_rows=spec.rows, valid_cols=spec.cols, dynamic=(False, False), addr=None)


def _turned(call: Call) -> Scratch:
    src = call.src
    unit = 32 if src.dtype.size == 1 else 16
    cols = -(-src.rows // unit) * unit
    return Scratch(TileSpec(src.dtype, TileType.Vec, src.cols, cols, src.cols, cols))


NARROWING = {("float32", "int16"), ("float16", "int16"), ("float16", "int8")}
"""Conversions that need a workspace when they do not saturate, on these targets."""
NARROWS = ("a2a3",)


def _narrowed(call: Call) -> Scratch | None:
    src = call.src
    pair = src.dtype.name, call.dst.dtype.name
    if call.saturation is not Saturation.Off or pair not in NARROWING or call.family not in NARROWS:
        return None
    across, down = -(-src.cols // 64), min(src.rows, 255) - 1
    size = max(256 * min(across, 255), 32 * (down * -(-src.cols // 8) + 8)) if src.dtype.size == 4 else 256
    return Scratch(_row(dtype("uint8"), size))


def _same_as_source(call: Call) -> Scratch:
    return Scratch(_all_of(call.src))


SCRATCHES: dict[str, Callable[[Call], Scratch | None]] = {
    **dict.fromkeys(("trowsum", "trowmax", "trowmin"), _same_as_source),
    "ttrans": _turned,
    "tgather": lambda c: Scratch(replace(c.idx, addr=None), "idx"),
    "tsel": lambda c: Scratch(_row(dtype("uint32"), 16)),
    "tsels": lambda c: Scratch(_row(c.src.dtype, 32 // c.src.dtype.size)),
    "tcvt": _narrowed,
}
"""By instruction: its workspace. A5 and the simulator ignore most of them, but their calls take one all the same."""


def scratch_of(call: Call) -> Scratch | None:
    """The workspace that a call needs, if any."""
    make = SCRATCHES.get(call.instruction.name)
    return make(call) if make else None
