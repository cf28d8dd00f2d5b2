"""Tiles that matrix units keep in registers: products are summed in them, and stored from them into arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ptokit.engine.llvm.address import are_known
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.compute import units
from ptokit.engine.llvm.program.forward import Variants
from ptokit.engine.llvm.program.variant import Variant
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Compute, Fill
from ptokit.program.calls import named_operands
from ptokit.program.ir import Instr, Program, TileUse, View, walk


@dataclass(frozen=True)
class HeldTile:
    """The region of a tile that is used, and how a group of lanes keeps its part of it."""

    shape: tuple[int, int]
    layout: Layout
    given: DType
    """The type that is multiplied."""
    parts: tuple[int, int]


def held_tiles(program: Program, placed: Collection[str], variants: Variants, chip: Chip) -> dict[str, HeldTile]:
    """All such tiles, on a chip that has matrix units."""
    found = {name: _held(program, name, variants, chip) for name in program.tiles if chip.units and name not in placed}
    return {name: held for name, held in found.items() if held is not None}


def _held(program: Program, name: str, variants: Variants, chip: Chip) -> HeldTile | None:
    """How a tile is kept; None if its uses do not agree on that."""
    uses = [s for s in walk(program.body) if isinstance(s, Instr) and any(use.tile == name for use in s.tiles)]
    regions = [region for instr in uses if (region := _region(instr, name, variants(instr), chip))]
    types = {given for *_, given in regions if given is not None}
    is_whole = all(use.window is None for instr in uses for use in instr.tiles if use.tile == name)
    agree = len(regions) == len(uses) and len(types) == 1 and len({region[:2] for region in regions}) == 1
    if not (is_whole and agree):
        return None
    (shape, layout, _), (given,) = regions[0], types
    parts = units.held_shape(chip, *shape)
    return HeldTile(shape, layout, given, parts) if parts else None


Region = tuple[tuple[int, int], Layout, DType | None]


def _region(instr: Instr, name: str, variants: Sequence[Variant], chip: Chip) -> Region | None:
    """The region that an instruction uses, and what it multiplies; None if the tile has to lie in memory."""
    if len(variants) != 1 or len(variants[0].steps) != 1 or not are_known(variants[0].steps[0].shape):
        return None
    step, operands = variants[0].steps[0], named_operands(instr)
    mine = {key for key, given in operands.items() if isinstance(given, TileUse) and given.tile == name}
    if isinstance(step, Compute):
        return _of_product(step, variants[0], mine, chip)
    if isinstance(step.src, Fill) or step.index is not None or step.combine is not Combine.STORE:
        return None
    is_stored = step.src.operand in mine and isinstance(operands[step.dst.operand], View)
    return (step.shape, step.src.layout, None) if is_stored else None


def _of_product(work: Compute, variant: Variant, mine: Collection[str], chip: Chip) -> Region | None:
    """A product, to which only what the tile holds is added."""
    if work.op != "matmul" or work.dst.operand not in mine:
        return None
    (a, b, *more), given = work.inputs, variant.types[work.inputs[0].operand]
    same = all(each.operand in mine and (each.layout, each.shape) == (work.dst.layout, work.shape) for each in more)
    if not same or {a.operand, b.operand} & set(mine) or not units.takes(chip, given, (a.layout.cols, b.layout.rows)):
        return None
    return work.shape, work.dst.layout, given
