"""Loops, branches, sections and calls."""

from __future__ import annotations

from ptokit.isa.opaque import NONE
from ptokit.program.expr import GUARDS, Expr, Op, Var, apply, difference, parts, total, truth, variables
from ptokit.program.ir import Branch, Instr, Loop
from ptokit.text.lower.arithmetic import computed
from ptokit.text.lower.lowering import YIELDING, Handler, Lowering, Meaning, OpenScope, TileName
from ptokit.text.numbers import bounded, selected
from ptokit.text.spelling import SECTIONS, kind_core
from ptokit.text.tree import Body, Operation, Value, walk

MOST_CALLS = 16
"""Nested calls."""
MOST_BUFFERS = 8
"""Copies of a tile."""


def _inline(low: Lowering, op: Operation) -> None:
    """A section: its operations belong to the body around it."""
    outer, low.core = low.core, SECTIONS[op.name.removeprefix("section.")]
    for body in op.bodies:
        low.block(body)
    low.core = outer


def _call(low: Lowering, op: Operation) -> None:
    """A call, inlined."""
    name = str(op.attributes.get("callee"))
    function = low.functions.get(name)
    if function is None or not (function.body.operations or function.arguments):
        low.missing(f"there is no function @{name} with a body")
    if len(function.arguments) != len(op.ins):
        low.refuse(f"@{name} takes {len(function.arguments)} arguments, found {len(op.ins)}")
    if len(low.tile_names) > MOST_CALLS:
        low.refuse(f"more than {MOST_CALLS} nested calls; a function that calls itself has no lowering")
    for argument, value in zip(function.arguments, op.ins, strict=True):
        if argument.type != value.type:
            low.refuse(f"@{name}: %{value.name} is of another type than the parameter %{argument.name}")
    low.values.update(zip(function.arguments, [low.meaning(value) for value in op.ins], strict=True))
    outer, low.core = low.core, kind_core(function.attributes) or low.core
    with low.inlining(function):
        returned = [low.meaning(value) for value in low.block(function.body)]
    low.core = outer
    if len(returned) != len(op.results):
        low.missing(f"@{name} returns {len(returned)} values, and {len(op.results)} are taken")
    low.values.update(zip(op.results, returned, strict=True))


def _branch(low: Lowering, op: Operation) -> None:
    condition, where, known = truth(low.number(op.ins[0])), low.where, set(low.loads)
    arms: list[OpenScope] = []
    yielded: list[list[Meaning]] = []
    for body in op.bodies:
        with low.scope() as arm:
            yielded.append([low.meaning(value) for value in low.block(body)])
        arms.append(arm)
    low.leave(*arms, is_certain=len([body for body in op.bodies if body.operations]) > 1)
    low.where = where
    if not op.results or any(arm.statements for arm in arms):
        low.emit(Branch(condition, *(tuple(arm.statements) for arm in arms), where=where))
    if any(len(given) != len(op.results) for given in yielded):
        low.missing(f"the branch has {len(op.results)} results, and its arms yield another number of values")
    for result, *choices in zip(op.results, *yielded, strict=True):
        low.values[result] = _chosen(low, condition, choices, low.loads.keys() - known)


def _chosen(low: Lowering, condition: Expr, choices: list[Meaning], loaded: set[Var]) -> Meaning:
    """A result of a branch: a number by its condition, or the value that both arms yield."""
    numbers = [choice for choice in choices if isinstance(choice, int | Var | Op)]
    if len(numbers) == 2 and numbers[0] != numbers[1] and any(_needs_its_arm(n, loaded) for n in numbers):
        low.refuse("a branch that yields a number which only one arm can compute has no lowering")
    if len(numbers) == 2:
        return selected(condition, numbers[0], numbers[1])
    if len(choices) == 2 and choices[0] == choices[1]:
        return choices[0]
    low.refuse("a branch that yields one tile or another has no lowering")


def _needs_its_arm(number: Expr, loaded: set[Var]) -> bool:
    """Whether a number has a value only if its arm is taken: it was loaded there, or may divide by zero."""
    risky = (part for part in parts(number) if isinstance(part, Op) and part.name in GUARDS)
    return bool(variables(number) & loaded) or any(not isinstance(part.args[1], int) for part in risky)


def _loop(low: Lowering, op: Operation) -> None:
    (body,) = op.bodies
    value, *carried = body.arguments
    start, stop, step = (low.number(bound) for bound in op.ins[:3])
    if isinstance(step, int) and step <= 0:
        low.refuse(f"the step of a loop is positive; found {step}")
    name = value.name if isinstance(step, int) else f"{value.name}_iteration"
    where, var = low.where, Var(low.unique(name))
    trips = apply("sub", 0, apply("floordiv", apply("sub", start, stop), step))
    number: Expr = apply("floordiv", apply("sub", var, start), step) if isinstance(step, int) else var
    low.values[value] = var if isinstance(step, int) else apply("add", start, apply("mul", var, step))
    bounds = (start, stop, step) if isinstance(step, int) else (0, trips, 1)
    low.limits.loop(var, bounds[0], bounds[1])
    initial = [low.meaning(given) for given in op.ins[3:]]
    steps = _carried(low, body, carried, initial)
    for argument, first, advance in zip(carried, initial, steps, strict=True):
        low.values[argument] = _advanced(first, advance, number)
    buffers = op.attributes.get("ptokit.buffers", 1)
    if type(buffers) is not int or not 1 <= buffers <= MOST_BUFFERS:
        low.refuse(f"ptokit.buffers is a number from 1 to {MOST_BUFFERS}; found {buffers}")
    _forget_changed(low, body)
    with low.scope(buffers) as inner:
        low.block(body)
    low.where = where
    _refuse_hidden_changes(low, inner)
    low.leave(inner)
    low.emit(Loop(var, *bounds, tuple(inner.statements), buffers, where=where))
    for result, first, advance in zip(op.results, initial, steps, strict=True):
        low.values[result] = _advanced(first, advance, apply("max", trips, 0))


def _advanced(first: Meaning, advance: Expr, iterations: Expr) -> Meaning:
    """A carried value after some iterations."""
    if not isinstance(first, int | Var | Op):
        return first
    return bounded(apply("add", first, apply("mul", advance, iterations)))


def _forget_changed(low: Lowering, body: Body) -> None:
    """Tiles whose valid extents the body changes have no known extents at the start of an iteration."""
    valid = low.scopes[-1].valid
    for operation in walk(body):
        for value in operation.part("tile") if operation.name == "set_validshape" else ():
            meaning = low.values.get(value)
            if isinstance(meaning, TileName) and meaning.name in valid:
                valid[meaning.name] = None


def _refuse_hidden_changes(low: Lowering, inner: OpenScope) -> None:
    """Refuse a change of extents in a call or under another name: earlier uses were read with other extents."""
    valid = low.scopes[-1].valid
    for tile, extents in inner.valid.maps[0].items():
        if valid.get(tile) is not None and valid[tile] != extents:
            hint = "set them in the loop's own body, under the tile's own name"
            low.refuse(f"the loop changes the valid extents of %{tile} in a call or under another name", hint)


def _carried(low: Lowering, body: Body, carried: list[Value], initial: list[Meaning]) -> list[Expr]:
    """The increment per iteration of each value that a loop carries; tiles and memory must not change."""
    marks: dict[Value, Expr] = {value: Var(f"%{value.name}") for value in carried}
    inside = frozenset[Var]().union(variables(low.values[body.arguments[0]]), *map(variables, marks.values()))  # type: ignore[arg-type]
    known = _numbers(low, body, dict(marks)) if carried else {}
    last = body.operations[-1] if body.operations else None
    yielded = last.ins if last is not None and last.name in YIELDING else ()
    if len(yielded) != len(carried):
        low.missing(f"the loop carries {len(carried)} values and yields {len(yielded)}")
    steps: list[Expr] = []
    for value, first, result in zip(carried, initial, yielded, strict=True):
        number = known.get(result) if isinstance(first, int | Var | Op) else marks[value] if result is value else None
        terms = difference(number, marks[value]) if number is not None else None
        if terms is None or any(inside & variables(term) for term in terms):
            low.missing(f"%{value.name}, which the loop carries, has no lowering", CARRIED)
        steps.append(total(terms))
    return steps


CARRIED = "a number must grow by the same amount in every iteration; a tile stays the same, so write into it instead"


def _numbers(low: Lowering, body: Body, known: dict[Value, Expr]) -> dict[Value, Expr]:
    """The numbers that a body computes from known numbers, before it is read."""
    kept = low.values
    for operation in body.operations:
        inputs = {value: known.get(value, kept.get(value)) for value in operation.ins}
        if operation.name.startswith("arith.") and all(isinstance(n, int | Var | Op) for n in inputs.values()):
            low.values = inputs  # type: ignore[assignment]
            number = computed(low, operation)
            if isinstance(number, int | Var | Op):
                known[operation.results[0]] = number
    low.values = kept
    return known


def _while(low: Lowering, op: Operation) -> None:
    """A loop with a condition that its body computes. Programs have its first iteration, under the condition."""
    before, body = op.bodies
    where, open_checks = low.where, len(low.checked)
    _hand_on(low, before.arguments, [low.meaning(value) for value in op.ins])
    low.emit(Instr("scf_while", (), opaque_form=NONE, where=where))
    low.block(before)
    if len(low.checked) != open_checks + 1 or not low.checked[-1]:
        low.missing("the loop has no condition")
    condition, *values = low.checked.pop()
    meanings = [low.meaning(value) for value in values]
    _hand_on(low, body.arguments, meanings)
    with low.scope() as inner:
        low.block(body)
    low.leave(inner)
    low.where = where
    low.emit(Branch(truth(low.number(condition)), tuple(inner.statements), where=where))
    _hand_on(low, op.results, meanings)


def _hand_on(low: Lowering, values: tuple[Value, ...], meanings: list[Meaning]) -> None:
    """Give values their meanings."""
    if len(values) != len(meanings):
        low.missing(f"the loop hands on {len(meanings)} values, and {len(values)} are taken")
    low.values.update(zip(values, meanings, strict=True))


def _condition(low: Lowering, op: Operation) -> None:
    """The end of the part of a loop that runs before each iteration."""
    low.checked.append(op.ins)


CONTROL: dict[str, Handler] = {
    **dict.fromkeys(("section.cube", "section.vector"), _inline),
    **dict.fromkeys(("func.call", "call"), _call),
    "scf.if": _branch,
    "scf.for": _loop,
    "scf.while": _while,
    "scf.condition": _condition,
}
"""The handler of each operation."""
