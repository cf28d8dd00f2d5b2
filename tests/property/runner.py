"""Runs a case twice, in ptokit and in the naive loops, and compares every byte of every memory."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import ptokit as pto
from tests.property import naive
from tests.property.strategies import ODD, Case, TensorArg, TileArg

LAYOUTS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "zz": ("row_major", "row_major"),
    "nn": ("col_major", "col_major"),
}
FAULTS = {"mgather": "H-10", "mscatter": "H-11", "tscatter": "H-12"}


@dataclass
class Result:
    """The results of both sides for a case."""

    outcome: naive.Outcome | None
    """None where the naive loop refused."""
    hazards: list[pto.Finding]
    event: pto.Event | None


class World:
    """The operands of a case on both sides, and the memories behind them."""

    def __init__(self) -> None:
        self.real: dict[str, np.ndarray[Any, Any]] = {}
        self.model: dict[str, bytearray] = {}
        self.operands: dict[str, Any] = {}
        self.plain: dict[str, Any] = {}

    def memory(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Both sides of a memory, with what the array holds now."""
        self.real[name] = array
        self.model[name] = bytearray(array.tobytes())

    def tile(self, name: str, arg: TileArg) -> None:
        """A tile at an address of the arena, or with separate memory."""
        blayout, slayout = LAYOUTS[arg.form]
        valid = tuple(pto.dyn(n) if d else n for n, d in zip(arg.valid, arg.dynamic, strict=True))
        tile = pto.Tile(
            arg.loc, element(arg.dtype), arg.rows, arg.cols, valid=valid, blayout=blayout, slayout=slayout,
            fractal=arg.fractal, pad=arg.pad, addr=arg.addr,
        )  # fmt: skip
        if arg.addr is None:
            raw = tile.buffer.view(np.uint8)
            raw[:] = np.frombuffer(arg.data, np.uint8)
            self.memory(name, raw)
        memory, base = (name, 0) if arg.addr is None else (arg.loc, arg.addr)
        self.operands[name] = tile
        self.plain[name] = naive.Tile(
            self.model[memory], base, arg.dtype, arg.rows, arg.cols, *arg.valid, arg.form, arg.fractal, arg.pad, arg.loc
        )

    def tensor(self, name: str, arg: TensorArg) -> None:
        """A tensor inside separate memory, with guards on both sides."""
        self.memory(name, np.frombuffer(bytearray(arg.data), np.uint8))
        self.tensor_over(name, arg, name, arg.before)

    def tensor_over(self, name: str, arg: TensorArg, memory: str, base: int) -> None:
        """A tensor over a part of any memory."""
        self.operands[name] = global_tensor(self.real[memory], base, arg)
        self.plain[name] = naive.Tensor(self.model[memory], base, arg.dtype, arg.shape, arg.stride, arg.layout)


def element(dtype: str) -> Any:
    return naive.NUMPY[dtype] if dtype in ODD else dtype


def global_tensor(memory: np.ndarray[Any, Any], base: int, arg: TensorArg) -> pto.GlobalTensor:
    size = naive.SIZE[arg.dtype]
    kind = np.dtype(f"u{size}") if arg.retyped else np.dtype(naive.NUMPY[arg.dtype])
    named: dict[str, Any] = {"dtype": element(arg.dtype)} if arg.retyped or arg.dtype == "hifloat8" else {}
    if arg.native:
        strides = [s * size for s in arg.stride]
        return pto.GlobalTensor(np.ndarray(arg.shape, kind, memory, base, strides), layout=arg.layout, **named)
    marks = arg.dynamic
    shape = [pto.dyn(n) if d else n for n, d in zip(arg.shape, marks[:5], strict=True)]
    stride = [pto.dyn(n) if d else n for n, d in zip(arg.stride, marks[5:], strict=True)]
    array = memory[base : base + (arg.room or arg.span) * size].view(kind)
    return pto.GlobalTensor(array, shape=shape, stride=stride, layout=arg.layout, **named)


def build(case: Case) -> World:
    world = World()
    for loc, content in case.arena.items():
        arena = pto.Tile(loc, "uint8", 1, len(content), addr=0, blayout="row_major", slayout="none_box").buffer
        arena[:] = np.frombuffer(content, np.uint8)
        world.memory(loc, arena)
    for name, arg in case.args.items():
        if isinstance(arg, TileArg):
            world.tile(name, arg)
        else:
            world.tensor(name, arg)
    return world


def call(case: Case, world: World) -> pto.Event:
    operands = dict(world.operands)
    words = dict(case.keywords)
    if "scratch" in operands:
        words["scratch"] = operands.pop("scratch")
    return getattr(pto, case.op)(*operands.values(), **words)


PADDED = {"a2a3": ("vec",), "a5": ("vec", "mat")}
"""The memories where a load pads blocks, by target; on others it fills the tile."""


def expect(case: Case, world: World) -> naive.Outcome:
    p, words = world.plain, case.keywords
    if case.op == "mgather":
        return naive.mgather(
            case.family, p["dst"], p["table"], p["idx"], mode=case.mode, oob=words["oob"], scratch=p.get("scratch")
        )
    if case.op == "mscatter":
        return naive.mscatter(
            case.family, p["table"], p["src"], p["idx"], mode=case.mode, atomic=words["atomic"], oob=words["oob"]
        )
    if case.op == "tscatter":
        return naive.tscatter(case.family, p["dst"], p["src"], p["idx"], reading=case.mode)
    if case.op == "tload":
        return naive.tload(p["dst"], p["src"], memories=PADDED.get(case.family, ()))
    if case.op == "tstore":
        return naive.tstore(p["dst"], p["src"], atomic=words.get("atomic", "none"))
    return naive.tmov(p["dst"], p["src"])


def run(case: Case) -> Result:
    """Both sides of a case in a fresh target; raises AssertionError where they differ."""
    with pto.target(case.target):
        return run_in(case, build(case))


def run_in(case: Case, world: World) -> Result:
    """Both sides of a case whose operands are there already."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", pto.HazardWarning)
        try:
            outcome = expect(case, world)
        except naive.OutOfRange as refusal:
            refused(case, world, refusal)
            outcome, event = None, None
        except naive.OutsideSpan:
            try:
                call(case, world)
            except pto.OutOfBoundsError:
                pass
            else:
                raise AssertionError("an address outside its operand's span was not refused") from None
            outcome, event = None, None
        else:
            event = call(case, world)
    compare(world, outcome)
    hazards = [w.message.finding for w in caught if isinstance(w.message, pto.HazardWarning)]
    return Result(outcome, hazards, event)


def refused(case: Case, world: World, refusal: naive.OutOfRange) -> None:
    """The call raises and names the first bad lane, its index and the capacity."""
    try:
        call(case, world)
    except pto.OutOfBoundsError as error:
        (finding,) = error.findings
    else:
        raise AssertionError(f"not refused: {refusal}")
    named = re.search(r"(\w+)\[([\d, ]+)\] = (-?\d+) .*capacity of (\d+)", finding.message)
    assert named, finding.message
    lane = tuple(int(k) for k in named[2].split(","))
    assert (named[1], lane, int(named[3]), int(named[4])) == ("idx", refusal.lane, refusal.value, refusal.capacity)
    assert (finding.level, finding.operand, finding.kind) == ("error", "idx", FAULTS[case.op])


def compare(world: World, outcome: naive.Outcome | None) -> None:
    """Every byte of every memory, but for those that nothing gives a value."""
    for name, model in world.model.items():
        expected, found = np.frombuffer(bytes(model), np.uint8), world.real[name]
        differs = expected != found
        for memory, byte in outcome.unspecified if outcome else ():
            if memory is model:
                differs[byte] = False
        if differs.any():
            first = int(np.argmax(differs))
            near = slice(first, first + 16)
            raise AssertionError(
                f"memory {name!r}: {int(differs.sum())} of {differs.size} bytes differ, first at byte {first}: "
                f"expected {expected[near].tobytes().hex(' ')}, found {found[near].tobytes().hex(' ')}"
            )
