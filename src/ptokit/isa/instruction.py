"""What an instruction is: operands, modifiers, rules, moves, effects, spellings. One file defines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from ptokit.finding import Finding, Level
from ptokit.isa.move import Compute, Move
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.unknown import Deferred, certain


class Call:
    """One use of an instruction: operands and modifiers by name, on a target.

    Rules and lowerings read it as they read the documents: `call.dst.valid_rows`, `call.coalesce`.
    """

    def __init__(
        self,
        instruction: Instruction,
        operands: Mapping[str, OperandSpec | None],
        modifiers: Mapping[str, PtoEnum | None],
        target: str,
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        """`repeats` names operands that are an earlier operand once more, `clashes` pairs of slices that overlap."""
        self.instruction = instruction
        self.repeats, self.clashes = repeats, clashes
        self.operands = operands
        self.target = target
        self.family = target.partition("@")[0]
        self.values: dict[str, Any] = {**operands, **modifiers}
        for modifier in instruction.modifiers:
            if self.values[modifier.name] is None and modifier.default is not None:
                self.values[modifier.name] = modifier.default(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def here(self, table: Mapping[str, Any], default: Any = None) -> Any:
        """What a table keyed by profile says for this target: its own row, else its family's."""
        return table.get(self.target, table.get(self.family, default))

    @cached_property
    def route(self) -> str:
        """The documented kernel that this call takes on its target."""
        return self.instruction.route(self)

    def copy(self, *, static: bool = False) -> Call:
        """The same call without anything computed from it; `static` ones know only what the operands' types say."""
        made: dict[str, OperandSpec | None] = {
            name: spec and (spec.with_dynamic_unknown() if static else replace(spec))
            for name, spec in self.operands.items()
        }
        modifiers = {modifier.name: self.values[modifier.name] for modifier in self.instruction.modifiers}
        return Call(self.instruction, made, modifiers, self.target, self.repeats, self.clashes)


Test = Callable[[Call], bool]
Text = str | Callable[[Call], str]

NPU = ("a2a3", "a5")
DEVICES = ("cpu", *NPU)
EVERYWHERE = (*DEVICES, "host")


def error(*targets: str) -> dict[str, Level]:
    """Levels of a rule that refuses on these targets."""
    return dict.fromkeys(targets, "error")


def hazard(*targets: str) -> dict[str, Level]:
    """Levels of a rule that warns on these targets."""
    return dict.fromkeys(targets, "hazard")


def note(*targets: str) -> dict[str, Level]:
    """Levels of a rule that remarks on these targets."""
    return dict.fromkeys(targets, "note")


@dataclass(frozen=True)
class Case:
    """A condition with words for it, so that pages can say when a rule applies. Cases combine with `&` and `~`."""

    text: str
    test: Test

    def __call__(self, call: Call) -> bool:
        return self.test(call)

    def __and__(self, other: Case) -> Case:
        return Case(f"{self.text}, {other.text}", lambda call: self.test(call) and other.test(call))

    def __invert__(self) -> Case:
        return Case(f"not {self.text}", lambda call: not self.test(call))


def case(text: str) -> Callable[[Test], Case]:
    """Give a condition its words."""
    return lambda test: Case(text, test)


ALWAYS = Case("", lambda _: True)


@dataclass(frozen=True)
class Either:
    """The number of a hazard that depends on the call; None where it is no hazard."""

    case: Case
    then: Hazard
    otherwise: Hazard

    def of(self, rule: Rule, call: Call) -> str | None:
        """The number for a violation of `rule` by `call`."""
        return number_of(self.then if certain(lambda: self.case(call)) else self.otherwise, rule, call)

    @property
    def text(self) -> str:
        """Both numbers, for pages."""
        return f"{hazard_text(self.then) or 'none'} ({self.case.text}), else {hazard_text(self.otherwise) or 'none'}"

    @property
    def numbers(self) -> tuple[Hazard, ...]:
        """Both."""
        return self.then, self.otherwise


@dataclass(frozen=True)
class ByExtent:
    """The number of a hazard that is another one where the violated extents are -1 in the type (CO-DYN-03)."""

    static: str | None
    dynamic: str = "H-27"

    def of(self, rule: Rule, call: Call) -> str | None:
        """The number for a violation of `rule` by `call`."""
        return self.dynamic if rule.is_dynamic(call) else self.static

    @property
    def text(self) -> str:
        """Both numbers, for pages."""
        return ", ".join(filter(None, (self.static, f"{self.dynamic} (run-time extents)")))

    @property
    def numbers(self) -> tuple[Hazard, ...]:
        """Both."""
        return self.static, self.dynamic


Hazard = str | Either | ByExtent | None
"""The number of a hazard, or what it depends on; None for a violation that is no hazard of the table."""


def number_of(hazard: Hazard, rule: Rule, call: Call) -> str | None:
    """The hazard that a violation of `rule` by `call` is."""
    return hazard.of(rule, call) if isinstance(hazard, Either | ByExtent) else hazard


def _numbers(hazard: Hazard) -> tuple[str, ...]:
    if isinstance(hazard, Either | ByExtent):
        return tuple(number for each in hazard.numbers for number in _numbers(each))
    return (hazard,) if hazard else ()


def hazard_text(hazard: Hazard) -> str:
    """A hazard's number, or the numbers with what they depend on."""
    return hazard.text if isinstance(hazard, Either | ByExtent) else hazard or ""


def either(case: Case, then: Hazard, otherwise: Hazard) -> Either:
    """One hazard where the case applies, another elsewhere."""
    return Either(case, then, otherwise)


def by_extent(static: str | None = None) -> ByExtent:
    """H-27 where the violated extents are run-time values, else `static`."""
    return ByExtent(static)


@dataclass(frozen=True)
class Rule:
    """One thing that must hold, the clause that says so, and what to tell the user when it does not."""

    id: str
    operand: str
    expect: Text
    holds: Test
    on: Mapping[str, Level] = field(default_factory=lambda: error(*DEVICES))
    when: Case = ALWAYS
    found: Text | None = None
    """What to show as found; the operand's description unless told."""
    kind: Hazard = None
    fix: Text = ""
    blocks: bool = False
    """A violation blocks execution: the call has no route. `header=True` cannot drop it, and later rules presume it."""
    gate: bool = False
    """Later rules presume this one: they are not run after a violation."""
    firm: bool = False
    """`header=True` cannot drop it: the call has a route, and could not be executed on it."""
    asserted: tuple[str, ...] | None = None
    """Families whose headers assert it, where the clause's own column does not fit."""
    elsewhere: tuple[str, ...] = ()
    """What stands behind it on targets that the clause `id` does not speak of: the first that applies counts."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every hazard that a finding of it may be."""
        return _numbers(self.kind)

    def clause(self, target: str) -> str:
        """The clause or decision that stands behind it on a target."""
        return applying(self.id, self.elsewhere, target)

    def is_broken(self, call: Call) -> bool:
        """Whether the rule applies and does not hold, whatever the numbers are that only the run knows."""
        try:
            return self._fails(call)
        except Deferred:
            return certain(lambda: self._fails(call.copy()))

    def _fails(self, call: Call) -> bool:
        return self.when(call) and not self.holds(call)

    def is_dynamic(self, call: Call) -> bool:
        """Whether a violation shows only in extents that are -1 in the type, which no header asserts (CO-DYN-03)."""
        return not self.is_broken(call.copy(static=True))

    def is_asserted(self, call: Call) -> bool:
        """Whether the real headers of the call's target would refuse too."""
        if self.firm or self.blocks:
            return True
        from ptokit import spec

        families = spec.header(self.id) if self.asserted is None else self.asserted
        return call.family in families and not self.is_dynamic(call)

    def check(self, call: Call, *, header: bool = False) -> Finding | None:
        """The finding when the rule applies and does not hold."""
        level: Level | None = call.here(self.on)
        if level is None or not self.is_broken(call):
            return None
        dropped = header and level == "error" and not self.is_asserted(call)
        expected, found = _say(self.expect, call), _say(self.found or describe(self.operand), call)
        subject = f"{call.instruction.name} on {call.target}: {self.operand}"
        said = f"{subject}: {expected}" if level == "note" else f"{subject} must be {expected}; found {found}"
        return Finding(
            level="hazard" if dropped else level,
            rule=self.clause(call.target),
            message=said + (" (the target's headers do not assert this)" if dropped else ""),
            kind=number_of(self.kind, self, call),
            operand=self.operand,
            expected=expected,
            found=found,
            fix=_say(self.fix, call),
            target=call.target,
            blocks=self.blocks,
        )


def applying(rule: str, elsewhere: tuple[str, ...], target: str) -> str:
    """`rule`, or where that does not apply to the target, the first of the others that does."""
    if not elsewhere:
        return rule  # the table is not loaded without need
    from ptokit import spec

    return spec.first((rule, *elsewhere), target)


def _say(text: Text, call: Call) -> str:
    try:
        return text(call) if callable(text) else text
    except Deferred:
        return ""


def describe(operand: str) -> Callable[[Call], str]:
    """A text that shows an operand as it was given."""
    return lambda call: str(call.values[operand]) if call.values.get(operand) is not None else "nothing"


Kind = Literal["tile", "memory", "tile or memory", "number", "position"]
"""What an operand is; a `position` is a number that decides which elements are read."""


@dataclass(frozen=True)
class Param:
    """An operand of an instruction: its name, what happens to it, and what it is for."""

    name: str
    access: str
    """`read`, `write` or `update` (read and written)."""
    about: str
    optional: bool = False
    kind: Kind = "tile"


@dataclass(frozen=True)
class Modifier:
    """A choice that is a template argument in C++ and a keyword in Python."""

    name: str
    enum: type[PtoEnum]
    default: Callable[[Call], PtoEnum | None] | None
    about: str
    default_text: str = ""


def always(member: PtoEnum) -> Callable[[Call], PtoEnum]:
    """A default that does not depend on the call."""
    return lambda _: member


@dataclass(frozen=True)
class Effect:
    """Which pipe reads or writes an operand."""

    operand: str
    access: str
    pipe: str


@dataclass(frozen=True)
class Fault:
    """How a bad index value is reported: the clause, the hazard, and what fixes it."""

    rule: str
    kind: str | None
    fix: str = ""
    elsewhere: tuple[str, ...] = ()
    """What stands behind it on targets that the clause `rule` does not speak of: the first that applies counts."""

    def clause(self, target: str) -> str:
        """The clause or decision that stands behind it on a target."""
        return applying(self.rule, self.elsewhere, target)


@dataclass(frozen=True)
class Instruction:
    """Everything that is known of one instruction."""

    name: str
    summary: str
    meaning: tuple[str, ...]
    """The formulas, one a line."""
    operands: tuple[Param, ...]
    modifiers: tuple[Modifier, ...]
    rules: tuple[Rule, ...]
    lower: Callable[[Call], tuple[Move | Compute, ...]]
    route: Callable[[Call], str]
    effects: Mapping[str, Mapping[str, tuple[Effect, ...]]] = field(default_factory=dict)
    """Per family and route: which pipe touches which operand."""
    besides: Callable[[Call], tuple[Effect, ...]] = lambda call: ()
    """What some calls touch more than others of their route."""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """How to report odd indices (`outside`, `below` zero, `negative` but remapped, `padding`) and `shared` memory,
    and a `zero` integer divisor."""
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per text form: how the instruction is written."""
    in_place: frozenset[str] = frozenset()
    """Families where the destination may be one of the sources."""
    minds_repeats: bool = False
    """Whether a rule looks at operands that are given twice, although the destination may be a source."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per family: what its kernel does, in words, where targets differ."""


def is_tile(spec_: object, *locs: TileType) -> bool:
    """Whether an operand is a tile, at one of these locations if any are given."""
    return isinstance(spec_, TileSpec) and (not locs or spec_.loc in locs)


def is_tensor(spec_: object) -> bool:
    """Whether an operand is a tensor in global memory."""
    return isinstance(spec_, TensorSpec)
