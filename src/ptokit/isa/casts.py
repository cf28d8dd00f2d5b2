"""Conversions on the way between memories: what leaves an accumulator, and what enters the bias table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptokit.isa.instruction import EVERYWHERE, Call, Case, Rule, error
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Compute, Input, Move
from ptokit.isa.policy import RoundMode, Saturation, TileType
from ptokit.isa.table import Table

Casts = frozenset[tuple[str, str]]
"""Pairs of element types, by name: source and destination."""

NARROWED: Casts = frozenset({("float32", "float16"), ("float32", "bfloat16")})
"""What FIX makes of float32 (TV-01, TT-01): to the nearest, ties to even; a number beyond the range is infinite."""
ROUNDED = (("mode", RoundMode.Rint), ("saturation", Saturation.Off))


def cast_type(rule: str, operand: str, other: str, allowed: Callable[[Call], Casts]) -> Rule:
    """Two operands have one element type, or the path between them converts it; `operand` is named in findings."""
    return Rule(
        rule, operand, lambda c: f"of {other}'s element type, {c.values[other].dtype}{_listed(allowed(c))}",
        lambda c: c.src.dtype is c.dst.dtype or is_cast(c, allowed), on=error(*EVERYWHERE), blocks="execution",
        found=lambda c: str(c.values[operand].dtype), fix="give both one type, or convert with tcvt",
    )  # fmt: skip


def _listed(casts: Casts) -> str:
    return "".join(f", or {dst} of {src}" for src, dst in sorted(casts))


def is_cast(call: Call, allowed: Callable[[Call], Casts]) -> bool:
    """Whether the path of a call converts its source's type to its destination's."""
    return (call.src.dtype.name, call.dst.dtype.name) in allowed(call)


def by_path(table: Table[Mapping[tuple[TileType, TileType], Casts]]) -> Callable[[Call], Casts]:
    """The conversions of a path between two memories."""
    return lambda call: call.here(table, {}).get((call.src.loc, call.dst.loc), frozenset())


def copied(call: Call, shape: tuple[int, int], dst: Layout, src: Layout) -> Move | Compute:
    """Every element of a region, converted if the types differ."""
    if call.src.dtype is call.dst.dtype:
        return Move(shape, Access("dst", dst), Access("src", src))
    return Compute("cvt", shape, Access("dst", dst), (Input("src", src, shape),), ROUNDED)


CONVERTS = Case("a conversion", lambda c: c.src.dtype is not c.dst.dtype)
