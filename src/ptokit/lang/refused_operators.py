"""Python's operators on tiles, arrays and events: refused, for Python sees the object and not its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ptokit.lang.context import current
from ptokit.lang.faults import public, refuse

COMPARED = "compare elements with pto.tcmp or pto.tcmps, a number with pto.load_scalar, and objects with `is`"
UNSEEN = "use instructions"
CALLS = {
    "add": ("+", "pto.tadd or pto.tadds"), "sub": ("-", "pto.tsub or pto.tsubs"), "mul": ("*", "pto.tmul or pto.tmuls"),
    "truediv": ("/", "pto.tdiv or pto.tdivs"), "floordiv": ("//", "pto.tdiv or pto.tdivs"),
    "mod": ("%", "pto.trem or pto.trems"), "pow": ("**", "pto.tmul"), "matmul": ("@", "pto.tmatmul"),
    "and": ("&", "pto.tand or pto.tands"), "or": ("|", "pto.tor or pto.tors"), "xor": ("^", "pto.txor or pto.txors"),
    "lshift": ("<<", "pto.tshl or pto.tshls"), "rshift": (">>", "pto.tshr or pto.tshrs"),
}  # fmt: skip
"""Operators of two values, and the instructions that take tiles."""
UNARY = {"neg": ("-", "pto.tneg"), "abs": ("abs", "pto.tabs"), "invert": ("~", "pto.tnot")}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Valueless:
    """An object whose elements Python cannot see: it has an identity, and no truth value, order or arithmetic."""

    __slots__ = ()
    __array_ufunc__ = None
    """Makes NumPy's arrays leave operators to this class."""
    __hash__ = object.__hash__

    @public
    def __bool__(self) -> NoReturn:
        """`if`, `while`, `assert`, `and`, `or` and `not` ask for it."""
        fix = f"test a number in `with pto.when(...)`; {COMPARED}"
        raise _refusal(self, "has no truth value: `if`, `while`, `assert`, `and`, `or` and `not` cannot test it", fix)

    @public
    def __array_function__(self, function: Callable[..., object], *_: object) -> NoReturn:
        """Functions of NumPy ask for it; some take an error of `__array__` for an answer."""
        raise _refusal(self, f"is no array, and np.{function.__name__} cannot see its elements", UNSEEN)


@public
def no_array(self: object, *_: object, **_options: object) -> NoReturn:
    """The `__array__` of tiles and tensors."""
    raise _refusal(self, "is no array, and NumPy cannot see its elements", UNSEEN)


def _refusal(value: object, problem: str, fix: str) -> Exception:
    """Inside a kernel a finding; elsewhere the error that Python raises for operands that do not fit."""
    context, message = current(), f"{_named(value)} {problem}"
    if context.tracer is not None or context.block is not None:
        return refuse("KN-07", message, fix)
    return TypeError(f"{message}: {fix}, or what tile.read() and tensor.array give")


def _named(value: object) -> str:
    name = getattr(getattr(value, "argument", value), "name", "") if hasattr(type(value), "tracer") else ""
    return f"{type(value).__name__} {name}".rstrip()


def _operator(symbol: str, fix: str) -> Callable[..., NoReturn]:
    @public
    def method(self: object, *_: object) -> NoReturn:
        raise _refusal(self, f"has no operator `{symbol}`", fix)

    return method


def _define(name: str, method: Any) -> None:
    setattr(Valueless, f"__{name}__", method)


for _name, _symbol in COMPARISONS.items():
    _define(_name, _operator(_symbol, COMPARED))
for _name, (_symbol, _calls) in CALLS.items():
    for _side in ("", "r", "i"):
        _define(f"{_side}{_name}", _operator(_symbol, f"use {_calls}"))
for _name, (_symbol, _calls) in UNARY.items():
    _define(_name, _operator(_symbol, f"use {_calls}"))
