# pyright: strict
"""The calls by name: their instruction, their clauses, findings at the user's line; words of other libraries for
policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.engine.faults import IndexReport
from ptokit.finding import Finding, Level, OutOfBoundsError, VerifyError, suggestion
from ptokit.isa.common import REMAPS
from ptokit.isa.instruction import Instruction
from ptokit.isa.mgather import GATHER_POLICIES, MGATHER
from ptokit.isa.move import Combine, Remap
from ptokit.isa.mscatter import COMBINES, MSCATTER, SCATTER_POLICIES
from ptokit.isa.policy import E, GatherOOB, PtoEnum, ScatterAtomicOp, ScatterOOB
from ptokit.lang.faults import user_frame, user_place, warn
from ptokit.lang.gpu import is_cupy, is_torch

HOST = "host"
"""The profile under which all calls run."""


@dataclass(frozen=True)
class LibraryWords:
    """Code of a library, for advice."""

    integers: str
    """What makes indices of another type int64."""
    positions: str
    """The positions of a mask."""
    source: str
    """The source of a scatter in the table's type."""
    result: str
    """A new array for a result; `{shape}` is its shape."""


WORDS = {
    "numpy": LibraryWords(
        '.astype("int64")', "np.flatnonzero(mask)", "src.astype(table.dtype)", "np.empty({shape}, table.dtype)"
    ),
    "cupy": LibraryWords(
        '.astype("int64")', "cupy.flatnonzero(mask)", "src.astype(table.dtype)",
        "cupy.empty({shape}, table.dtype)",
    ),
    "torch": LibraryWords(
        ".to(torch.int64)", "mask.flatten().nonzero().flatten()", "src.to(table.dtype)",
        "torch.empty({shape}, dtype=table.dtype, device=table.device)",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ArrayCall:
    """The name, the instruction and the clause ids of a call."""

    name: str
    instruction: Instruction
    index_type: str
    same_type: str
    table_rank: str
    same_shape: str
    policies: str
    """Those for indices outside, for advice."""
    operands: Mapping[str, object] = field(default_factory=dict[str, object])
    """The user's own operands, for advice in the words of their libraries."""

    @cached_property
    def instead(self) -> str:
        """What to do inside a kernel."""
        return f"use pto.{self.instruction.name}, or call it between launches"

    def of(self, **operands: object) -> ArrayCall:
        """The call with the user's own operands."""
        return replace(self, operands=operands)

    def words(self, operand: str) -> LibraryWords:
        """Code of the library of an operand; of the table's, if the operand is no array."""
        found = self.operands.get(operand)
        found = self.operands.get("table") if found is None or isinstance(found, list | tuple | range | int) else found
        return WORDS["torch" if is_torch(found) else "cupy" if is_cupy(found) else "numpy"]

    def refused(self, rule: str, message: str, fix: str, operand: str = "", kind: str | None = None) -> VerifyError:
        """A refusal at the user's line."""
        where = user_place()
        head = f"{self.name}: "
        found = Finding("error", rule, head + message, kind, operand, fix=fix, where=where, target=HOST, heads=(head,))
        return VerifyError([found])

    def policy(self, enum: type[E], name: str, given: object, fix: str = "") -> E:
        """The member of an enum that an argument is or spells; `fix` is the advice if it is none."""
        try:
            return enum.parse(given)
        except (TypeError, ValueError) as problem:
            rule, kind = ("CO-SEM-01", None) if isinstance(given, str) else ("A-30", "H-39")
            raise self.refused(rule, f"{name}: {problem}", fix or enum.choices(), name, kind) from None

    def outside(self, report: IndexReport, shape: tuple[int, ...]) -> OutOfBoundsError:
        """The error for an index out of bounds, with its position in the array of indices."""
        problem = f"is outside the capacity of {report.capacity}"
        found = self._on_index("outside", "error", report, shape, problem)
        if report.value < 0:
            from_end = 'pass mode="negative" to count from the end, ' if report.value >= -report.capacity else ""
            fix = f"{from_end}keep indices from 0 up, or choose {self.policies}"
            found = replace(found, expected=f"an index from 0 up and below {report.capacity}", fix=fix)
        return OutOfBoundsError([found])

    def warn_negative(self, report: IndexReport, shape: tuple[int, ...]) -> None:
        """Warn of a negative int32, which counts as an uint32, as the instruction does."""
        problem = f"is negative and counts as {report.value & 0xFFFFFFFF}"
        warn(self._on_index("negative", "hazard", report, shape, problem), user_frame())

    def _on_index(self, kind: str, level: Level, report: IndexReport, shape: tuple[int, ...], problem: str) -> Finding:
        fault = self.instruction.reports.faults[kind]
        at = ", ".join(str(int(k)) for k in np.unravel_index(report.lane[0], shape))
        more = f" (and {report.count - 1} more)" if report.count > 1 else ""
        heads = f"{self.name}: ", "indices"
        message = f"{''.join(heads)}{f'[{at}]' if shape else ''} = {report.value} {problem}{more}"
        expected, found = f"an index below {report.capacity}", str(report.value)
        rule = fault.clause(HOST)
        return Finding(
            level, rule, message, fault.kind, "indices", expected, found, fault.fix, user_place(), HOST, heads=heads
        )


_READS: tuple[Any, ...] = (MGATHER, "MG-TYPE-05", "MG-TYPE-06", "MG-SHAPE-03", "MG-SHAPE-01", GATHER_POLICIES)
_WRITES: tuple[Any, ...] = (MSCATTER, "MS-TYPE-05", "MS-TYPE-06", "MS-SHAPE-02", "A-22", SCATTER_POLICIES)
GATHER, GATHER_ALONG, GATHER_ND = (ArrayCall(name, *_READS) for name in ("gather", "gather_along", "gather_nd"))
SCATTER, SCATTER_ALONG, SCATTER_ND = (ArrayCall(name, *_WRITES) for name in ("scatter", "scatter_along", "scatter_nd"))


# --- words of other libraries for policies ---------------------------------------------------------------------------


@dataclass(frozen=True)
class OutsidePolicy:
    """What happens to indices outside, and whether they have a sign."""

    remap: Remap
    signed: bool = False
    """Whether a negative int32 stays negative; an `oob` takes it for an uint32."""
    from_end: bool = False
    """Whether an index of -n to -1 counts from the end first."""


MODES = {
    "raise": (GatherOOB.Undefined, ScatterOOB.Undefined),
    "wrap": (GatherOOB.Wrap, ScatterOOB.Wrap),
    "clip": (GatherOOB.Clamp, ScatterOOB.Clamp),
    "fill": (GatherOOB.Zero, ScatterOOB.Skip),
    "drop": (GatherOOB.Zero, ScatterOOB.Skip),
    "negative": (GatherOOB.Undefined, ScatterOOB.Undefined),
}
"""The `oob` of each `mode`, in a gather and in a scatter."""
FROM_END = "negative"
"""The mode in which indices count from the end."""


@dataclass(frozen=True)
class Reduction:
    """How values are combined into a cell; a mean is a sum that is divided in the end."""

    combine: Combine
    is_mean: bool = False

    @property
    def text(self) -> str:
        """The word for it: that of `atomic`, `mul` or `mean`."""
        return "mean" if self.is_mean else NAMES[self.combine]


NAMES = {combine: atomic.text for atomic, combine in COMBINES.items()} | {Combine.MUL: "mul"}


REDUCES = {
    **dict.fromkeys(("none", "set", "replace"), Reduction(Combine.STORE)),
    **dict.fromkeys(("add", "sum"), Reduction(Combine.ADD)),
    **dict.fromkeys(("mul", "multiply", "prod"), Reduction(Combine.MUL)),
    **dict.fromkeys(("max", "amax"), Reduction(Combine.MAX)),
    **dict.fromkeys(("min", "amin"), Reduction(Combine.MIN)),
    "mean": Reduction(Combine.ADD, is_mean=True),
}


def outside_policy(call: ArrayCall, side: type[GatherOOB | ScatterOOB], oob: object, mode: object) -> OutsidePolicy:
    """The policy that `oob` or `mode` selects; refuses both at a time."""
    parsed = call.policy(side, "oob", oob)
    if mode is None:
        return OutsidePolicy(REMAPS[parsed])
    if parsed is not side.Undefined:
        raise _both(call, "oob", oob, "mode", mode)
    if not isinstance(mode, str) or mode not in MODES:
        raise _unknown(call, "mode", mode, tuple(MODES))
    return OutsidePolicy(REMAPS[MODES[mode][side is ScatterOOB]], signed=True, from_end=mode == FROM_END)


def reduction(call: ArrayCall, atomic: object, reduce: object) -> Reduction:
    """The reduction that `atomic` or `reduce` selects; refuses both at a time."""
    parsed = atomic_of(call, atomic)
    if reduce is None:
        return Reduction(COMBINES[parsed])
    if parsed is not ScatterAtomicOp.NONE:
        raise _both(call, "atomic", atomic, "reduce", reduce)
    if not isinstance(reduce, str) or reduce not in REDUCES:
        raise _unknown(call, "reduce", reduce, tuple(REDUCES))
    return REDUCES[reduce]


def atomic_of(call: ArrayCall, given: object) -> ScatterAtomicOp:
    """The atomic that an argument is or spells."""
    fix = f'pass reduce="{given}" instead' if isinstance(given, str) and given in REDUCES else ""
    return call.policy(ScatterAtomicOp, "atomic", given, fix)


def _both(call: ArrayCall, name: str, given: object, other: str, also: object) -> Exception:
    message = f"{name}={_word(given)} and {other}={_word(also)} are two words for one policy"
    return call.refused("CO-SEM-01", message, f"pass {name} or {other}", other)


def _word(given: object) -> str:
    return brief(str(given) if isinstance(given, PtoEnum) else given)


def _unknown(call: ArrayCall, name: str, given: object, known: tuple[str, ...]) -> Exception:
    rule, kind = ("CO-SEM-01", None) if isinstance(given, str) else ("A-30", "H-39")
    hint = suggestion(given, known) if isinstance(given, str) else ""
    choices = "expected one of " + ", ".join(map(repr, known))
    return call.refused(rule, f"{name}: unknown value {brief(given)}; {choices}{hint}", choices, name, kind)
