"""Every instruction has an oracle, agrees with it, and disagrees when its operation is another one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ptokit.engine.compute import OPS
from ptokit.isa import catalog
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.common import OpRow, apply, build, tiles_alike
from ptokit.isa.elementwise import ADD_TYPES, DST, SRC
from ptokit.isa.instruction import Instruction
from ptokit.isa.move import Combine, Compute, IndexUnit, Move, Remap
from ptokit.isa.policy import PtoEnum
from tests.compute.oracles import ORACLES, check
from tests.conformance.harness import forget

Step = Move | Compute
COMMUTATIVE = {"addreluconv", "add", "mul", "max", "min", "and", "or", "xor", "addc", "subc"}
"""Operations of exact numbers whose inputs may be reversed: of three, the first and the last are added."""
BINARY = ["add", "sub", "mul", "div", "rem", "fmod", "pow", "max", "min", "prelu", "and", "or", "xor", "shl", "shr"]
UNARY = ["abs", "neg", "exp", "log", "sqrt", "recip", "rsqrt", "relu", "not", "copy"]
REDUCTIONS = ["sum", "prod", "max", "min", "argmax", "argmin"]
OTHERS = {
    **dict.fromkeys(BINARY, BINARY),
    **dict.fromkeys(UNARY, UNARY),
    **{f"{axis}{op}": [f"{axis}{each}" for each in REDUCTIONS] for axis in ("row", "col") for op in REDUCTIONS},
}
"""By operation: those that take as many inputs."""
NOT_LOWERED = {"tassign": "it gives a tile an address, and moves nothing"}


def without_oracle() -> list[str]:
    return sorted(INSTRUCTIONS.keys() - ORACLES.keys())


def test_every_instruction_has_an_oracle() -> None:
    assert not without_oracle(), "write an oracle into tests/compute/oracles.py"
    assert ORACLES.keys() <= INSTRUCTIONS.keys()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_it_agrees_with_its_oracle(name: str) -> None:
    check(name)


# --- An instruction that nobody has


def a_subtraction_that_adds() -> Instruction:
    params = (DST, replace(SRC, name="src0"), replace(SRC, name="src1"))
    row = OpRow("tsubtract", "Subtract.", "dst = src0 - src1", ADD_TYPES, "add")
    return build(row, params, tiles_alike("CP-BIN", ("src0", "src1"), ADD_TYPES), apply("add", "src0", "src1"))


def test_an_instruction_without_an_oracle_is_noticed() -> None:
    catalog.add(a_subtraction_that_adds())
    try:
        assert without_oracle() == ["tsubtract"]
        with pytest.raises(AssertionError, match=r"tests/compute/oracles\.py"):
            test_every_instruction_has_an_oracle()
    finally:
        catalog.remove("tsubtract")
    assert not without_oracle()


# --- Instructions that are wrong


@contextmanager
def lowering(name: str, change: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> Iterator[None]:
    """Within, an instruction lowers to other steps."""
    definition = INSTRUCTIONS[name]
    lower = definition.lower
    object.__setattr__(definition, "lower", lambda call: change(lower(call)))
    forget()
    try:
        yield
    finally:
        object.__setattr__(definition, "lower", lower)
        forget()


def _other_options(step: Compute) -> Iterator[tuple[str, Compute]]:
    """Each option with another value."""
    for k, (option, value) in enumerate(step.options):
        if isinstance(value, PtoEnum):
            members = [*type(value)]
            value = members[(members.index(value) + 1) % len(members)]
        else:
            value = int(value) + 1
        yield f"another {option}", replace(step, options=(*step.options[:k], (option, value), *step.options[k + 1 :]))


def changes_of(step: Step) -> Iterator[tuple[str, Step]]:
    """A step that is wrong in one way."""
    moved = replace(step.dst, layout=step.dst.layout.cut(0, 1))
    yield "its destination one column on", replace(step, dst=moved)
    if isinstance(step, Move):
        if hasattr(step.src, "layout"):
            yield "its source one column on", replace(step, src=replace(step.src, layout=step.src.layout.cut(0, 1)))  # type: ignore[union-attr]
        other = Combine.ADD if step.combine is not Combine.ADD else Combine.MAX
        yield "another combination", replace(step, combine=other)
        if step.index is not None:
            units = {IndexUnit.ROW: IndexUnit.ELEMENT, IndexUnit.ELEMENT: IndexUnit.ROW}
            yield "another unit", replace(step, index=replace(step.index, unit=units[step.index.unit]))
            for remap in Remap:
                if remap is not step.index.remap:
                    yield f"{remap.name.lower()}", replace(step, index=replace(step.index, remap=remap))
        return
    for op in OTHERS.get(step.op, ()):
        if op != step.op:
            yield op, replace(step, op=op)
    yield from _other_options(step)
    if len(step.inputs) > 1 and step.op not in COMMUTATIVE:
        yield "its inputs reversed", replace(step, inputs=step.inputs[::-1])
    if len(step.inputs) > 1:
        yield "without its last input", replace(step, inputs=step.inputs[:-1])
    for k, given in enumerate(step.inputs):
        if given.layout.rows or given.layout.cols:
            cut = replace(given, layout=given.layout.cut(0, 1))
            yield f"input {k} one column on", replace(step, inputs=(*step.inputs[:k], cut, *step.inputs[k + 1 :]))


def labels(name: str) -> list[str]:
    """The changes of the first and of the last step, by the calls of its oracle."""
    found = dict[str, None]()

    def look(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        for place in {0, len(steps) - 1}:
            found.update(
                dict.fromkeys(f"{place - len(steps) if place else 0}: {label}" for label, _ in changes_of(steps[place]))
            )
        return steps

    with lowering(name, look):
        check(name)
    return [*found]


def applied(label: str) -> Callable[[tuple[Step, ...]], tuple[Step, ...]]:
    """One change of one step, where a call has it."""
    place, _, wanted = label.partition(": ")

    def change(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        k = int(place) % len(steps)
        step = next((step for name, step in changes_of(steps[k]) if name == wanted), steps[k])
        return (*steps[:k], step, *steps[k + 1 :])

    return change


EQUIVALENT = {
    ("tdequant", "0: another mode"): "integers of 8 bits are floats, exactly",
    ("tdequant", "0: another saturation"): "integers of 8 bits are floats, exactly",
    ("tquant", "0: its inputs reversed"): "the factors of a product have no order",
}
"""Changes that no result shows, and why."""


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if name not in NOT_LOWERED])
def test_a_wrong_operation_is_noticed(name: str) -> None:
    unnoticed = list[str]()
    tried = labels(name)
    assert tried, name
    for label in tried:
        with lowering(name, applied(label)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(name)
            except Exception:  # refused, or another result: either way a test fails
                continue
        unnoticed.append(label)
    assert {*unnoticed} == {label for mutated, label in EQUIVALENT if mutated == name}


def test_operations_are_all_among_those_that_are_tried() -> None:
    """An operation that only one instruction has is changed by its options, its inputs and its places."""
    used = {instruction.operation for instruction in INSTRUCTIONS.values()} - {""}
    assert used <= OPS.keys() and set(OTHERS) <= OPS.keys()
