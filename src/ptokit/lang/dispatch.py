"""The eager call: verified and lowered once for its signature, then run each time, with its findings reported.

Inside a kernel that is being traced, the call is recorded instead. `tassign` is the one instruction with an argument
that is no operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.kept import remember
from ptokit.engine.number import float_bits
from ptokit.engine.prepared import Prepared
from ptokit.engine.storage import Storage
from ptokit.finding import WARNINGS, Finding, OutOfBoundsError, VerifyError
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.instruction import Instruction, Modifiers, parse_modifiers
from ptokit.isa.operand import ScalarSpec, meet
from ptokit.isa.spelling import TMP
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.unknown import unknown
from ptokit.lang.arrays import exact_cast, within, writing
from ptokit.lang.context import CURRENT, Mode, current
from ptokit.lang.faults import place, public, refuse, user_frame, warn
from ptokit.lang.refused_operators import Valueless
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile, check_address, extent
from ptokit.lang.traced_integers import TracedInteger
from ptokit.program.instr_calls import Sharing


class Scalar:
    """One number as an operand: a description, and one element of memory."""

    __slots__ = ("spec", "storage")

    def __init__(self, bits: np.ndarray[Any, np.dtype[Any]], spec: ScalarSpec) -> None:
        self.spec = spec
        self.storage = Storage(bits, spec.dtype)


class TracedScalar(Scalar):
    """A number that is computed when the kernel runs."""

    __slots__ = ("value",)

    def __init__(self, spec: ScalarSpec, value: TracedInteger) -> None:
        self.spec = spec
        self.value = value


def scalar(value: object, dtype: DType, what: str) -> Scalar:
    """A number in an element type: rounded once for floats, exact for integers."""
    if isinstance(value, TracedInteger):
        return TracedScalar(ScalarSpec(dtype), value)
    if isinstance(value, Valueless) or np.ndim(value) != 0:  # type: ignore[arg-type]
        raise TypeError(f"{what} takes one number, got {brief(value)}")
    try:
        bits = _rounded(value, dtype, what) if dtype.is_float else exact_cast(value, dtype, what)
    except ValueError as problem:
        if current().tracer is None:
            raise
        raise refuse("KN-11", str(problem), "use a wider element type or a smaller number") from None
    return Scalar(bits.reshape(1), ScalarSpec(dtype))


def _rounded(value: object, dtype: DType, what: str) -> np.ndarray[Any, np.dtype[Any]]:
    given = np.asarray(value)
    if given.dtype.hasobject or given.dtype.kind in "SUMmc":
        raise TypeError(f"{what} takes a real number, got {brief(value)}")
    return float_bits(given, dtype, what)


def corner(value: object, what: str) -> Scalar:
    """A number that selects addresses, and so is part of the call's signature."""
    if isinstance(value, TracedInteger):
        return TracedScalar(ScalarSpec(INT32, unknown()), value)
    number = extent(value, what, "CP-EXT-01")
    return Scalar(np.zeros(1, INT32.bits), ScalarSpec(INT32, number))


# --- calls


Operand = Tile | GlobalTensor | Scalar


@dataclass(slots=True, eq=False)  # not frozen: every call makes one, and frozen ones take a microsecond
class Event(Valueless):
    """What a call returns: the instruction that ran, the kernel it took, and its findings, notes included.

    Inside a kernel it is the completion of the instruction: a later call takes it as `wait=`.
    """

    instruction: str
    route: str
    findings: tuple[Finding, ...]
    number: int | None = None


Wait = Event | Sequence[Event] | None
"""What a call waits for before it starts. An eager call has nothing to wait for: earlier calls have ended."""

"""Characters of a value that a message shows."""

PREPARED: dict[Any, Prepared] = {}
"""Calls by signature. Emptied when it grows too large."""
_MOST_PREPARED = 1024


def _prepare(
    key: Any, instruction: Instruction, mode: Mode, operands: Sequence[Operand], modifiers: Sequence[object], *call: Any
) -> Prepared:
    specs, parsed = [operand.spec for operand in operands], _parsed(instruction, modifiers)
    prepared = Prepared(instruction, mode.profile, mode.options, specs, parsed, *call)
    return remember(PREPARED, key, prepared, _MOST_PREPARED)


def _parsed(instruction: Instruction, modifiers: Sequence[object]) -> Modifiers:
    """Modifiers as members of their enums; refused at the user's line."""
    try:
        return parse_modifiers(instruction, modifiers)
    except VerifyError as problem:
        raise VerifyError(_report(problem.findings)) from None


def _sharing(names: Sequence[str], operands: Sequence[Operand]) -> Sharing:
    """Which operands alias an earlier one, and which slices of one tile overlap."""
    same: set[tuple[str, str]] = set()
    clashes: set[tuple[str, str]] = set()
    for (name, one), (other, later) in combinations(zip(names, operands, strict=False), 2):
        relation = "same" if one is later else _relation(one, later)
        if relation:
            (same if relation == "same" else clashes).add((name, other))
    return Sharing(frozenset(same), frozenset(clashes)) if same or clashes else NO_SHARING


NO_SHARING = Sharing()


def _relation(one: Operand, other: Operand) -> str:
    """How a slice and another tile share memory: `same`, `overlap`, or not at all."""
    if not (isinstance(one, Tile) and isinstance(other, Tile) and (one.spec.is_slice or other.spec.is_slice)):
        return ""
    a, b = one.storage, other.storage
    if not a.overlaps(b) or not meet(one.spec, a.address, other.spec, b.address):
        return ""
    is_same = a.address == b.address and one.spec.valid == other.spec.valid and one.spec.layout == other.spec.layout
    return "same" if is_same else "overlap"


def execute(
    instruction: Instruction,
    operands: tuple[Operand, ...],
    modifiers: tuple[object, ...],
    wait: Wait = None,
    tmp: Tile | None = None,
) -> Event:
    """Verify and run one instruction on the current target, or record it in the kernel that is being traced."""
    context = CURRENT.get()
    if context.tracer is not None:
        return context.tracer.record(instruction, operands, _parsed(instruction, modifiers), wait, tmp)
    if wait is not None:
        awaited(instruction.name, wait)
    mode = context.mode
    try:
        key = (mode, instruction.name, modifiers, *[operand.spec.token for operand in operands])
        prepared = PREPARED.get(key) if tmp is None else None
    except (AttributeError, TypeError):
        raise misuse(instruction, operands, modifiers) from None
    if tmp is not None:
        prepared = _with_workspace(key, instruction, mode, operands, modifiers, tmp)
    elif prepared is None:
        prepared = _prepare(key, instruction, mode, operands, modifiers)
    if tmp is None and prepared.alias_sensitive and (shared := _sharing(prepared.names, operands)) is not NO_SHARING:
        again = (*key, shared)
        prepared = PREPARED.get(again) or _prepare(again, instruction, mode, operands, modifiers, *shared.calls)
    storages = [operand.storage for operand in operands]
    if not prepared.stored:
        found = _run(prepared, storages)
    else:
        notified = writing([cast("GlobalTensor", operands[slot]).source for slot in prepared.stored])
        found = within(None, notified, _run, prepared, storages)
    return Event(instruction.name, prepared.route, found)


def _run(prepared: Prepared, storages: list[Storage]) -> tuple[Finding, ...]:
    """Run a call; its findings are reported as they are made, before anything is written."""
    found: tuple[Finding, ...] = ()
    call = prepared.run(storages)
    if prepared.plan is None:  # the call would raise this, too; it has not started
        raise VerifyError(_report(prepared.refused))
    try:
        for findings in call:
            found += _report(findings)
    except (VerifyError, OutOfBoundsError) as problem:
        raise type(problem)(_report(problem.findings)) from None
    return found


def _with_workspace(
    key: Any,
    instruction: Instruction,
    mode: Mode,
    operands: tuple[Operand, ...],
    modifiers: tuple[object, ...],
    tmp: Tile,
) -> Prepared:
    """The call with a workspace, which may be an operand as well."""
    if not isinstance(tmp, Tile):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise no_operand(instruction, TMP, tmp)
    names = (*(param.name for param in instruction.operands[: len(operands)]), TMP)
    shared = _sharing(names, (*operands, tmp))
    whole = (*key, TMP, tmp.spec.token, shared)
    return PREPARED.get(whole) or _prepare(whole, instruction, mode, operands, modifiers, *shared.calls, tmp.spec)


def awaited(name: str, wait: object) -> list[Event]:
    """The events that `wait=` names, or a refusal."""
    given: Sequence[object] = () if wait is None else (wait,)
    events = cast("Sequence[object]", wait) if isinstance(wait, tuple | list) else given
    if not all(isinstance(event, Event) for event in events):
        got = brief(cast("object", wait))
        message = f"{name}: wait= takes what earlier calls returned, an event or a list of events; got {got}"
        raise refuse("KN-13", message, "event = pto.tload(...); pto.tadd(..., wait=event)", "wait")
    return cast("list[Event]", list(events))


def misuse(instruction: Instruction, operands: Sequence[object], modifiers: Sequence[object]) -> TypeError:
    """The error for arguments that are not tiles, tensors or modifiers."""
    for param, operand in zip(instruction.operands, operands, strict=False):
        if not isinstance(operand, Tile | GlobalTensor | Scalar):
            return no_operand(instruction, param.name, operand)
    names = [modifier.name for modifier in instruction.modifiers]
    return TypeError(
        f"{instruction.name}: {', '.join(names)} take a name or an enum member, got {brief(list(modifiers))}"
    )


def no_operand(instruction: Instruction, name: str, given: object) -> TypeError:
    """The error for an argument that cannot be an operand."""
    advice = (
        "; wrap the array: pto.GlobalTensor(array)"
        if hasattr(given, "__array__") and not isinstance(given, Valueless)
        else ""
    )
    kind = type(given).__name__
    return TypeError(f"{instruction.name}: {name} must be a pto.Tile or a pto.GlobalTensor, got {kind}{advice}")


def _report(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Record findings with the user's line, and warn of the hazards among them."""
    frame = user_frame()
    where = place(frame)
    placed = tuple(finding.at(where) for finding in findings)
    CURRENT.get().findings.extend(placed)
    for finding in placed:
        if finding.level in WARNINGS:
            warn(finding, frame)
    return placed


@public
def tassign(tile: Tile, addr: int) -> Event:
    """Bind a tile to a byte address of the current target's memory. It then shows what the memory holds there.

    In a kernel of manual mode the address may be an expression.
    """
    if current().tracer is not None and isinstance(tile, Tile):  # pyright: ignore[reportUnnecessaryIsInstance]
        tile.bind(addr)
        return Event(TASSIGN.name, "", ())
    where = extent(addr, "addr", "CO-API-05")
    if isinstance(tile, GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_address(tile.spec)
    elif isinstance(tile, Tile):  # pyright: ignore[reportUnnecessaryIsInstance]
        tile.bind(where)
    return execute(TASSIGN, (tile,), ())
