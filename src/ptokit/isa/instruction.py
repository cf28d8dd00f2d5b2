"""What an instruction is: operands, modifiers, rules, moves, effects, spellings. One file defines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from ptokit.finding import Finding, Level, VerifyError
from ptokit.isa.kernel import Kernel, kernel_of
from ptokit.isa.move import Compute, Move
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.spelling import GENERAL, TMP, Attribute, Form, Workspace
from ptokit.isa.table import Table, lookup, revision_of
from ptokit.isa.unknown import Deferred, certain

Modifiers = tuple[PtoEnum | None, ...]
"""The modifiers of a call in the order of its instruction; None where the default applies."""


class Call:
    """One use of an instruction: operands by name, modifiers, and a target.

    Rules and lowerings read it as they read the documents: `call.dst.valid_rows`, `call.coalesce`.
    """

    def __init__(
        self,
        instruction: Instruction,
        operands: Mapping[str, OperandSpec | None],
        modifiers: Modifiers,
        target: str,
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        """`repeats` names operands that are an earlier operand once more, `clashes` pairs of slices that overlap."""
        self.instruction = instruction
        self.repeats, self.clashes = repeats, clashes
        self.operands = {**operands, TMP: operands.get(TMP)} if instruction.workspace else operands
        self.target = target
        self.family = target.partition("@")[0]
        self.values: dict[str, Any] = {**self.operands}
        for modifier, value in zip(instruction.modifiers, modifiers, strict=True):
            self.values[modifier.name] = value
        for modifier in instruction.modifiers:
            if self.values[modifier.name] is None and modifier.default is not None:
                self.values[modifier.name] = modifier.default(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def here(self, table: Mapping[str, Any] | Table[Any], default: Any = None) -> Any:
        """What a table says of this target: its own row, else that of its family."""
        return lookup(table, self.target, default)

    @property
    def is_in_place(self) -> bool:
        """Whether the destination may be one of the sources on this target."""
        return bool(self.here(self.instruction.in_place))

    @property
    def workspace(self) -> TileSpec | None:
        """The workspace that it needs on its target, if any."""
        workspace = self.instruction.workspace
        return workspace.needed(self) if workspace else None

    @property
    def modifiers(self) -> Modifiers:
        """The modifiers, with defaults."""
        return tuple(self.values[modifier.name] for modifier in self.instruction.modifiers)

    @cached_property
    def route(self) -> str:
        """The documented kernel that this call takes on its target."""
        return self.instruction.route(self)

    @cached_property
    def kernel(self) -> Kernel:
        """How the target carries out that route."""
        return kernel_of(self.instruction, self.target, self.route)

    def copy(self, *, static: bool = False) -> Call:
        """The same call without anything computed from it; `static` ones know only what the operands' types say."""
        made: dict[str, OperandSpec | None] = {
            name: spec and (spec.with_dynamic_unknown() if static else replace(spec))
            for name, spec in self.operands.items()
        }
        return Call(self.instruction, made, self.modifiers, self.target, self.repeats, self.clashes)


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

    def level_on(self, target: str) -> Level | None:
        """The level on a target where the rule applies to a call; None where the target does not have the rule."""
        return None if self.id in revision_of(target).dropped else lookup(self.on, target)

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
        level = self.level_on(call.target)
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
"""What an operand is; a `position` is a whole number that states where to read, as row and col of textract."""


@dataclass(frozen=True)
class Param:
    """An operand of an instruction: its name, what happens to it, and what it is for."""

    name: str
    access: str
    """`read`, `write` or `update` (read and written)."""
    about: str
    optional: bool = False
    contiguous: Literal["", "always", "column"] = ""
    """Whether it is read as one run of elements: always, or if it has one valid column."""
    kind: Kind = "tile"
    is_block: bool = False
    """Of memory: whether its extents follow from the tile, so that text may write it as `%view[%row, %col]`."""


@dataclass(frozen=True)
class Modifier:
    """A choice that is a template argument in C++ and a keyword in Python."""

    name: str
    enum: type[PtoEnum]
    default: Callable[[Call], PtoEnum | None] | None
    about: str
    default_text: str = ""
    text: Attribute | None = None
    """How text writes it."""

    @property
    def usual(self) -> PtoEnum | None:
        """The default, if it does not depend on the rest of a call."""
        if self.default_text:
            return next((member for member in self.enum if member.text == self.default_text), None)
        return self.default(None) if self.default else None  # type: ignore[arg-type]


def always(member: PtoEnum) -> Callable[[Call], PtoEnum]:
    """A default that does not depend on the call."""
    return lambda _: member


@dataclass(frozen=True)
class Conflict:
    """The hazard of an access of the instruction and one of another instruction that nothing orders."""

    kind: str
    memory: str
    pipe: str
    """The pipe of the other access."""
    order: Literal["", "first", "second"] = ""
    """Which of the two this instruction is; either, if empty."""
    operand: str = ""
    """The instruction's operand; any, if empty."""
    access: str = ""
    other: str = ""
    """The access of the other instruction; any, if empty."""


@dataclass(frozen=True)
class Repeats:
    """What is reported if two lanes of a call write one destination."""

    levels: Mapping[str, Level]
    """By target; nothing is reported on others."""
    same: str
    """The hazard if both lanes have the same index."""
    folded: str
    """The hazard if a policy maps different indices to one destination."""
    targets: str
    """What each target does."""
    defined: Test = lambda call: False
    """Whether the call defines the result."""
    fixes: Callable[[Call], tuple[str, ...]] = lambda call: ()
    """What fixes it besides other indices."""


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
class Cpp:
    """How C++ calls an instruction, and what the vendor's headers refuse or compute differently."""

    call: Text = ""
    """The call, by names of operands and modifiers; the first spelling if empty. `tmp` is the workspace."""
    template: Callable[[Call], tuple[tuple[PtoEnum | str, PtoEnum | None], ...]] = lambda call: ()
    """Template arguments, each with its default. Trailing arguments that are equal to their defaults are left out.
    `{dst}` in a text is the C++ object of that operand."""
    headers: tuple[Rule, ...] = ()
    """What the headers assert, or compute differently, beyond the rules of the instruction. They see a slice as a tile
    of the full width that is valid in part."""
    slices: tuple[Rule, ...] = ()
    """What must hold where an operand is a slice."""
    block: str = ""
    """For a transfer of a block of GM that is exactly a tile's valid region: the clause that says so."""
    clears: Table[bool] = field(default_factory=lambda: Table({}))
    """Targets whose headers clear the whole destination tile first, unless it has a pad value."""
    finite: Case | None = None
    """Where the headers compare by a difference, so that an infinite number is equal to nothing."""
    flat: Case | None = None
    """Where an index that names rows is converted to flat offsets, which is what the headers take."""
    uses_hidden: bool = False
    """Whether the headers use the UB that they keep for themselves (`Headers.hidden`)."""


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
    kernels: Mapping[str, Mapping[str, Kernel]] = field(default_factory=dict)
    """Per family and route: how a target carries it out."""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """How to report odd indices (`outside`, `below` zero, `negative` but remapped, `padding`) and `shared` memory,
    and a `zero` integer divisor."""
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per text form: how the instruction is written."""
    cpp: Cpp = field(default_factory=Cpp)
    """How C++ calls it."""
    in_place: Table[bool] = field(default_factory=lambda: Table({}))
    """Where the destination may be one of the sources."""
    minds_repeats: bool = False
    """Whether a rule looks at operands that are given twice, although the destination may be a source."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per family: what its kernel does, in words, where targets differ."""
    operation: str = ""
    """The operation of its `Compute`, if it has one."""
    repeats: Repeats | None = None
    """What is reported of repeated destinations, if its indices name destinations."""
    conflicts: tuple[Conflict, ...] = ()
    """The hazards of accesses that nothing orders."""
    writes_padding: bool = False
    """Whether it may write padding of its destination."""
    text_name: str = ""
    """Its name in text, if that is another one."""
    form: Form = GENERAL
    """What is particular about its MLIR form."""
    workspace: Workspace | None = None
    """The tile that it computes in, which a call may give as `tmp=`."""
    result: Callable[[Call], TileSpec | None] = lambda call: None
    """The type of its destination, if the sources determine it: `call` has no destination."""
    documents: tuple[str, ...] = ()
    """The parts of the clause table that are about it, by the beginning of a clause id."""
    types: Table[Any] | None = None
    """By target: the element types it takes, for the table of targets."""

    @cached_property
    def op(self) -> str:
        """Its name in text."""
        return self.text_name or self.name

    @cached_property
    def attributes(self) -> tuple[tuple[Modifier, Attribute], ...]:
        """The modifiers that text writes as attributes, in their order."""
        found = ((modifier, modifier.text) for modifier in self.modifiers)
        return tuple((modifier, text) for modifier, text in found if text is not None and text.key)

    @cached_property
    def order(self) -> Modifier | None:
        """The modifier that the order of the sources states."""
        return next((m for m in self.modifiers if m.text is not None and m.text.reverses is not None), None)

    @cached_property
    def takes_table(self) -> bool:
        """Whether it takes a whole table in memory, and not a block of the tile's extents."""
        return any("memory" in param.kind and not param.is_block for param in self.operands)

    def sources(self, order: PtoEnum | None = None) -> tuple[str, ...]:
        """The names of what it reads in the order of the text; `order` is the value of the modifier `order`."""
        names = tuple(param.name for param in self.operands[1:])
        stated = self.order
        is_reversed = stated is not None and stated.text is not None and order is stated.text.reverses
        return names[::-1] if is_reversed else names


def parse_modifiers(instruction: Instruction, given: Sequence[object]) -> Modifiers:
    """Modifiers as enum members. Numbers and members of other enums are refused (A-30)."""
    parsed: list[PtoEnum | None] = []
    problems: list[Finding] = []
    for modifier, value in zip(instruction.modifiers, given, strict=True):
        try:
            parsed.append(None if value is None else modifier.enum.parse(value))
        except (TypeError, ValueError) as problem:
            rule, kind = ("CO-SEM-01", None) if isinstance(value, str) else ("A-30", "H-39")
            message = f"{instruction.name}: {modifier.name}: {problem}"
            problems.append(Finding("error", rule, message, kind, modifier.name, modifier.enum.choices(), repr(value)))
    if problems:
        raise VerifyError(problems)
    return tuple(parsed)


def is_tile(spec_: object, *locs: TileType) -> bool:
    """Whether an operand is a tile, at one of these locations if any are given."""
    return isinstance(spec_, TileSpec) and (not locs or spec_.loc in locs)


def is_tensor(spec_: object) -> bool:
    """Whether an operand is a tensor in global memory."""
    return isinstance(spec_, TensorSpec)
