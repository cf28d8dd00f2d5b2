# pyright: strict
"""The words of NumPy, JAX, torch and ONNX for policies: one table for `mode`, one for `reduce`."""

from __future__ import annotations

from dataclasses import dataclass

from ptokit.brief import brief
from ptokit.finding import suggestion
from ptokit.isa.common import REMAPS
from ptokit.isa.move import Combine, Remap
from ptokit.isa.mscatter import COMBINES
from ptokit.isa.policy import GatherOOB, PtoEnum, ScatterAtomicOp, ScatterOOB
from ptokit.ops.call import ArrayCall


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
