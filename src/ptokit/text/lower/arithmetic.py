"""Operations of the dialect `arith`, as expressions."""

from __future__ import annotations

from ptokit.isa.dtype import dtype
from ptokit.program.expr import Expr, Op, Var, apply
from ptokit.program.ir import Constant
from ptokit.text.lower.lowering import Lowering, Meaning, Rounded
from ptokit.text.numbers import INDEX_BITS, UNSIGNED, bounded, combined, compared, predicate_word, selected, wrapped
from ptokit.text.tree import Opaque, Operation, Type

CASTS = ("index_cast", "index_castui", "extsi", "extui", "trunci", "sitofp", "uitofp")
UNSIGNED_CASTS = ("index_castui", "extui", "uitofp")
FLOATS = ("f16", "bf16", "f32", "f64")


def read_arithmetic(low: Lowering, operation: Operation) -> None:
    """Read an operation on numbers."""
    (result, *_) = operation.results
    if operation.name == "arith.constant" and isinstance(result.type, Opaque):  # as counts of an instruction
        low.values[result] = 0
        low.handles.add(result)
        return
    meaning = computed(low, operation)
    if meaning is None:
        low.unknown(operation)
    low.define(operation, meaning)


def computed(low: Lowering, operation: Operation) -> Meaning | None:
    """The result of an operation on numbers; None if it has no lowering."""
    name = operation.name.removeprefix("arith.")
    if name == "constant":
        return _literal(operation.attributes.get("value"))
    if name in CASTS:
        return _cast(low, name, operation)
    if not all(isinstance(low.meaning(value), int | Var | Op) for value in operation.ins):
        return None
    numbers = [low.number(value) for value in operation.ins]
    if name == "select":
        return selected(numbers[0], numbers[1], numbers[2])
    return _combined(low, name, operation, *numbers) if len(numbers) == 2 else None


def _combined(low: Lowering, name: str, operation: Operation, a: Expr, b: Expr) -> Expr | None:
    word = predicate_word(operation.attributes.get("predicate", ""))
    if name in UNSIGNED or word.startswith("u"):
        width = _width(operation.ins[0].type)
        a, b = (wrapped(number, width, signed=False, limits=low.limits) for number in (a, b))
    if name == "cmpi":
        return compared(word, low.limits, a, b)
    found = combined(name, low.limits, a, b)
    return found if found is None or name not in UNSIGNED else _in_type(low, found, operation.results[0].type)


def _cast(low: Lowering, name: str, operation: Operation) -> Meaning | None:
    (value,) = operation.ins
    number, source, target = low.meaning(value), value.type, operation.results[0].type
    if not isinstance(number, int | Var | Op):
        return None
    if name in UNSIGNED_CASTS:
        number = wrapped(number, _width(source), signed=False, limits=low.limits)
    elif source == "i1":
        number = apply("sub", 0, number)  # the one bit is the sign
    if name in ("sitofp", "uitofp"):
        return Rounded(number, dtype(str(target))) if target in FLOATS else None
    return _in_type(low, number, target) if name == "trunci" else number


def _in_type(low: Lowering, number: Expr, type_: Type) -> Expr:
    """A number wrapped to a type: signed, but one bit is 0 or 1."""
    return wrapped(number, _width(type_), signed=type_ != "i1", limits=low.limits)


def _literal(value: object) -> Meaning | None:
    if isinstance(value, Constant):
        return value
    return bounded(int(value)) if isinstance(value, int) else None


def _width(type_: Type) -> int:
    digits = str(type_).lstrip("siu")
    return int(digits) if digits.isdigit() else INDEX_BITS
