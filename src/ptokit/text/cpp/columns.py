"""What the headers of August 2026 refuse of reductions of columns and of expansions, beyond the instructions' rules."""

from __future__ import annotations

from collections.abc import Iterable

from ptokit.isa.columns import spread_operand
from ptokit.isa.instruction import Rule, error

SHORT_TYPES = frozenset({"float16", "float32", "int16", "int32", "uint16", "uint32"})
BEST_TYPES = frozenset({"float16", "bfloat16", "float32", "int8", "uint8"})


def _types(operand: str, allowed: Iterable[str]) -> Rule:
    types = sorted(allowed)
    return Rule("CP-HDR-01", operand, f"{', '.join(types)} for the simulator's header",
                lambda c: c.values[operand].dtype.name in types, on=error("cpu"),
                found=lambda c: str(c.values[operand].dtype), fix="convert with tcvt first")  # fmt: skip


SAME_COLS = Rule(
    "CP-HDR-01", "dst", lambda c: f"of {c.src.cols} columns, as src: the simulator's header compares Cols",
    lambda c: c.dst.cols == c.src.cols, on=error("cpu"), found=lambda c: f"{c.dst.cols} columns",
    fix="give both tiles the same Cols",
)  # fmt: skip
ONE_ROUNDING = Rule(
    "CP-HDR-01", "src", "float32: the simulator's header refuses integers and rounds other sums at every row",
    lambda c: c.src.dtype.name == "float32", on=error("cpu"), found=lambda c: str(c.src.dtype),
    fix="tcvt to float32, sum, and tcvt back",
)  # fmt: skip
SPREAD_LAST = Rule(
    "CP-HDR-01", "src1", "the row of one number a column: the simulator's header spreads src1 whatever its shape",
    lambda c: spread_operand(c) == "src1", on=error("cpu"), fix="give the row as src1",
)  # fmt: skip

ROW_EXPANSIONS = ("trowexpandadd", "trowexpandmax", "trowexpandmin")
COLUMN_EXPANSIONS = ("tcolexpandadd", "tcolexpandsub", "tcolexpanddiv", "tcolexpandmax", "tcolexpandmin")
SHORT = _types("dst", SHORT_TYPES)

RULES: dict[str, tuple[Rule, ...]] = {
    "tcolsum": (ONE_ROUNDING, SAME_COLS),
    "tcolmax": (_types("src", BEST_TYPES), SAME_COLS),
    **dict.fromkeys(ROW_EXPANSIONS, (SHORT,)),
    **dict.fromkeys(COLUMN_EXPANSIONS, (SHORT, SPREAD_LAST)),
    "tcolexpandmul": (_types("dst", (*SHORT_TYPES, "uint8")), SPREAD_LAST),
}
"""By instruction."""
