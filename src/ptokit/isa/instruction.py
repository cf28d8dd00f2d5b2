"""The parts of an instruction: operands, modifiers, rules, lowering, kernels, spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeGuard

from ptokit.brief import brief
from ptokit.finding import Finding, Fix, Level, VerifyError
from ptokit.isa.dtype import DType
from ptokit.isa.kernel import NO_KERNEL, RouteKernel, kernel_of
from ptokit.isa.move import Combine, Compute, Index, Move
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.spelling import PLAIN_TEXT, TMP, Attribute, OpText, Workspace
from ptokit.isa.table import REVISIONS, Table, lookup, revision_of
from ptokit.isa.unknown import Undecided, certain
from ptokit.spec import FAMILIES, OURS, WITH_PIPES, is_one_of

Names = tuple[str, ...]
Modifiers = tuple[PtoEnum | None, ...]
"""The modifiers of a call in the order of its instruction; None for the default."""


class Call:
    """One use of an instruction: operands by name, modifiers, and a target.

    Operands and modifiers are attributes, as in the documents: `call.dst.valid_rows`, `call.coalesce`.
    """

    vector = 0
    """The vector core of the block whose UB it sees."""

    def __init__(
        self,
        instruction: Instruction,
        operands: Mapping[str, OperandSpec | None],
        modifiers: Modifiers,
        target: str,
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        """`repeats` names operands that alias an earlier one, `clashes` pairs of slices that overlap."""
        self.instruction = instruction
        self.repeats, self.clashes = repeats, clashes
        self.operands = {**operands, TMP: operands.get(TMP)} if instruction.workspace else operands
        self.target = target
        self.values: dict[str, Any] = {**self.operands}
        for modifier, value in zip(instruction.modifiers, modifiers, strict=True):
            self.values[modifier.name] = value
        for modifier in instruction.modifiers:
            if self.values[modifier.name] is None:
                self.values[modifier.name] = modifier.default_for(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def lookup(self, table: Mapping[str, Any] | Table[Any], default: Any = None) -> Any:
        """The row of a table for this target, else for its family."""
        return lookup(table, self.target, default)

    @property
    def has_pipes(self) -> bool:
        """Whether its target has cores with pipes."""
        return is_one_of(self.target, WITH_PIPES)

    @cached_property
    def lowered(self) -> tuple[Move | Compute, ...]:
        """What it moves and computes."""
        return self.instruction.lower(self)

    @cached_property
    def indexed(self) -> tuple[Move, Index] | None:
        """The move that reads an index, if there is one."""
        moves = (move for move in self.lowered if isinstance(move, Move))
        return next(((move, move.index) for move in moves if move.index is not None), None)

    @property
    def is_atomic(self) -> bool:
        """Whether it combines elements with those at its destination."""
        return any(step.combine is not Combine.STORE for step in self.lowered)

    @property
    def uses_workspace(self) -> bool:
        """Whether a workspace is given and the target's kernel writes it; other targets ignore it."""
        workspace = self.instruction.workspace
        if workspace is None or self.operands.get(TMP) is None:
            return False
        return bool(self.lookup(workspace.used)) and self.route_kernel.uses_workspace

    @property
    def destination(self) -> Any:
        """The first operand, which is written."""
        return self.values[self.instruction.operands[0].name]

    def of_role(self, role: str) -> OperandSpec | None:
        """The operand with a role; None if the call does not have it."""
        return self.operands.get(self.instruction.roles.get(role, ""))

    @property
    def is_in_place(self) -> bool:
        """Whether the destination may be one of the sources on this target."""
        found = self.lookup(self.instruction.destination.in_place)
        return bool(found(self) if callable(found) else found)

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
        """The path of this call on its target (`mgather.row`)."""
        return self.instruction.route(self)

    @cached_property
    def has_route(self) -> bool:
        """Whether it keeps the rules that a route depends on."""
        rules = (rule for rule in self.instruction.rules if rule.blocks == "route")
        return not any(rule.level_on(self.target) == "error" and rule.is_broken(self) for rule in rules)

    @cached_property
    def route_kernel(self) -> RouteKernel:
        """How the target executes its route; an empty kernel if it cannot."""
        return kernel_of(self.instruction, self.target, self.route) if self.has_route else NO_KERNEL

    @property
    def launched(self) -> tuple[int, int]:
        """The rows and columns that the threads of its kernel cover: a tile's valid extents, or a table."""
        spec = self.values[self.route_kernel.launched or self.instruction.operands[0].name]
        return spec.extents if isinstance(spec, TensorSpec) else spec.valid

    @cached_property
    def has_slices(self) -> bool:
        """Whether an operand is a part of a tile."""
        return any(isinstance(spec, TileSpec) and spec.is_slice for spec in self.operands.values())

    @cached_property
    def in_headers(self) -> Call:
        """The call as the C++ headers see it: a slice is a tile of the full width, valid in part."""
        if not self.has_slices:
            return self
        made = {name: spec.unsliced if isinstance(spec, TileSpec) else spec for name, spec in self.operands.items()}
        return Call(self.instruction, made, self.modifiers, self.target, self.repeats)

    def copy(self, *, static: bool = False) -> Call:
        """The same call without cached values; if `static`, extents that are -1 in the types are unknown."""
        made: dict[str, OperandSpec | None] = {
            name: spec and (spec.with_dynamic_unknown() if static else spec.changed())
            for name, spec in self.operands.items()
        }
        return Call(self.instruction, made, self.modifiers, self.target, self.repeats, self.clashes)


class RecordedValues(dict[str, Any]):
    """The operands and modifiers of a call; it notes which of them are read."""

    def __init__(self, values: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(values)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)


Test = Callable[[Call], bool]
CallText = str | Callable[[Call], str]
"""A text, or a function that makes it for a call."""

NPU, EVERYWHERE = WITH_PIPES, (*FAMILIES, *OURS)


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
    """A condition with a description for pages. Cases combine with `&` and `~`."""

    text: str
    test: Test

    def __call__(self, call: Call) -> bool:
        return self.test(call)

    def __and__(self, other: Case) -> Case:
        return Case(f"{self.text}, {other.text}", lambda call: self.test(call) and other.test(call))

    def __invert__(self) -> Case:
        return Case(f"not {self.text}", lambda call: not self.test(call))


def case(text: str) -> Callable[[Test], Case]:
    """Describe a condition."""
    return lambda test: Case(text, test)


ALWAYS = Case("", lambda _: True)


@dataclass(frozen=True)
class ByCase:
    """The number of a hazard that depends on the call; None if it is no hazard."""

    case: Case
    then: HazardKind
    otherwise: HazardKind

    def of(self, rule: Rule, call: Call) -> str | None:
        """The number for a violation of `rule` by `call`."""
        return number_of(self.then if certain(lambda: self.case(call)) else self.otherwise, rule, call)

    @property
    def text(self) -> str:
        """Both numbers, for pages."""
        return f"{hazard_text(self.then) or 'none'} ({self.case.text}), else {hazard_text(self.otherwise) or 'none'}"

    @property
    def numbers(self) -> tuple[HazardKind, ...]:
        """Both."""
        return self.then, self.otherwise


@dataclass(frozen=True)
class ByExtent:
    """The number of a hazard that is another one if the violated extents are -1 in the type (CO-DYN-03)."""

    static: str | None = None
    dynamic: str = "H-27"

    def of(self, rule: Rule, call: Call) -> str | None:
        """The number for a violation of `rule` by `call`."""
        return self.dynamic if rule.is_dynamic(call) else self.static

    @property
    def text(self) -> str:
        """Both numbers, for pages."""
        return ", ".join(filter(None, (self.static, f"{self.dynamic} (run-time extents)")))

    @property
    def numbers(self) -> tuple[HazardKind, ...]:
        """Both."""
        return self.static, self.dynamic


HazardKind = str | ByCase | ByExtent | None
"""The number of a hazard, or what it depends on; None for a violation that is no hazard."""


def number_of(hazard: HazardKind, rule: Rule, call: Call) -> str | None:
    """The hazard that a violation of `rule` by `call` is."""
    return hazard.of(rule, call) if isinstance(hazard, ByCase | ByExtent) else hazard


def _numbers(hazard: HazardKind) -> tuple[str, ...]:
    if isinstance(hazard, ByCase | ByExtent):
        return tuple(number for each in hazard.numbers for number in _numbers(each))
    return (hazard,) if hazard else ()


def hazard_text(hazard: HazardKind) -> str:
    """A hazard's number, or the numbers with what they depend on."""
    return hazard.text if isinstance(hazard, ByCase | ByExtent) else hazard or ""


Blocks = Literal["nothing", "execution", "later rules", "route"]
"""What a violation blocks; each includes those before it.

`execution`: the call cannot be executed. `header=True` does not drop the rule, and the machine skips the call. `later
rules`: they assume this one, and are not checked. `route`: there is no route, and the machine raises.
"""


@dataclass(frozen=True)
class Rule:
    """A condition, the clause that states it, and what to report if it does not hold."""

    id: str
    operand: str
    expect: CallText
    holds: Test
    on: Mapping[str, Level] = field(default_factory=lambda: error(*FAMILIES))
    when: Case = ALWAYS
    found: CallText | None = None
    """What was found; the operand's description by default."""
    kind: HazardKind = None
    fix: CallText = ""
    blocks: Blocks = "nothing"
    only_alignment: bool = False
    """A violation only misaligns data: the machine executes the call and reports it."""
    asserted: tuple[str, ...] | None = None
    """Families whose headers assert it; by default, those of the clause."""
    elsewhere: tuple[str, ...] = ()
    """Other clauses and decisions: the first that applies to a target replaces `id` there."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every hazard that a finding of it may be."""
        return _numbers(self.kind)

    def clause(self, target: str) -> str:
        return applying(self.id, self.elsewhere, target)

    def level_on(self, target: str) -> Level | None:
        """The level of a violation on a target; None if the target does not have the rule."""
        revision = revision_of(target)
        default = "error" if self.id in revision.added else None
        return None if self.id in revision.dropped else lookup(self.on, target, default)

    def is_broken(self, call: Call) -> bool:
        """Whether the rule applies and does not hold, for all values of unknown numbers."""
        try:
            return self._fails(call)
        except Undecided:
            return certain(lambda: self._fails(call.copy()))

    def _fails(self, call: Call) -> bool:
        return self.when(call) and not self.holds(call)

    def is_dynamic(self, call: Call) -> bool:
        """Whether a violation shows only in extents that are -1 in the type, which no header asserts (CO-DYN-03)."""
        return not self.is_broken(call.copy(static=True))

    def is_asserted(self, call: Call) -> bool:
        """Whether the real headers of the call's target would refuse too."""
        if self.blocks != "nothing":
            return True
        from ptokit import spec

        families = spec.header(self.id) if self.asserted is None else self.asserted
        return is_one_of(call.target, families) and not self.is_dynamic(call)

    def check(
        self, call: Call, *, header: bool = False, lenient: bool = False, at_level: Level | None = None
    ) -> Finding | None:
        """The finding if the rule applies and does not hold, `at_level` or at its own level on the target; `lenient`
        drops alignment as well."""
        level = self.level_on(call.target)
        if level is None or not self.is_broken(call):
            return None
        level = at_level or level
        is_droppable = (lenient and self.only_alignment) or (header and not self.is_asserted(call))
        dropped = level == "error" and is_droppable
        expected, found = _text(self.expect, call), _text(self.found or describe(self.operand), call)
        subject = f"{call.instruction.name} on {call.target}: {self.operand}"
        message = f"{subject}: {expected}" if level == "note" else f"{subject} must be {expected}; found {found}"
        return Finding(
            level="hazard" if dropped else level,
            rule=self.clause(call.target),
            message=message + (" (the target's headers do not assert this)" if dropped else ""),
            kind=number_of(self.kind, self, call),
            operand=self.operand,
            expected=expected,
            found=found,
            fix=_text(self.fix, call),
            target=call.target,
            blocks=self.blocks == "route",
            compared=self._compared(call),
        )

    def _compared(self, call: Call) -> tuple[str, ...]:
        """The other operands that it reads."""
        copy, read = call.copy(), set[str]()
        copy.values = RecordedValues(copy.values, read)
        with suppress(Undecided):
            self.holds(copy)
        return tuple(name for name in call.operands if name in read and name != self.operand)


def applying(rule: str, elsewhere: tuple[str, ...], target: str) -> str:
    """`rule`, or if that does not apply to the target, the first of the others that does."""
    if not elsewhere:
        return rule  # the clause table is loaded only if needed
    from ptokit import spec

    return spec.first((rule, *elsewhere), target)


def _text(text: CallText, call: Call) -> str:
    try:
        return text(call) if callable(text) else text
    except Undecided:
        return ""


def describe(operand: str) -> Callable[[Call], str]:
    """The description of an operand."""
    return lambda call: str(call.values[operand]) if call.values.get(operand) is not None else "nothing"


Kind = Literal["tile", "memory", "tile or memory", "number", "position"]
"""What an operand is; a `position` is an integer that states where to read, as row and col of textract."""


@dataclass(frozen=True)
class Param:
    """An operand of an instruction."""

    name: str
    access: str
    """`read`, `write` or `update` (read and written)."""
    about: str
    optional: bool = False
    contiguous: Literal["", "always", "column"] = ""
    """Whether it is read as contiguous elements: always, or if it has one valid column."""
    kind: Kind = "tile"
    role: Literal["data", "index", "scratch"] = "data"
    """What it is for: data, the indices of other operands, or a workspace in global memory."""
    is_block: bool = False
    """Of memory: whether its extents follow from the tile, so that text may write it as `%view[%row, %col]`."""
    typed_as: str = ""
    """Of a number: the operand whose element type it has; the first one if empty."""
    dtype: DType | None = None
    """Of a number: its own element type, if it has that of no operand."""
    has_scales: bool = False
    """Whether it may be a tile of scales (float8_e8m0)."""
    in_part: bool = False
    """Of a tile that is updated: the rest keeps its content, and nothing is read."""


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
    positional: bool = False
    """Whether Python takes it by position as well."""
    sources: tuple[str, ...] = ()
    """If the order of the sources states it: their names in Python; those of the operands if empty."""
    by_target: Table[PtoEnum] | None = None
    """Targets with another default, if there can be any."""

    def default_for(self, call: Call) -> PtoEnum | None:
        """What a call without the argument means; None if nothing determines it."""
        other: PtoEnum | None = None if self.by_target is None else call.lookup(self.by_target)
        return other or (self.default(call) if self.default is not None else None)

    def is_default_of_revisions(self, member: PtoEnum | None) -> bool:
        """Whether no revision has another default."""
        table = self.by_target
        return table is None or all(each.tables.get(table, member) is member for each in REVISIONS.values())

    @property
    def choices(self) -> str:
        """The words of its members."""
        return " | ".join(member.text for member in self.enum)

    @property
    def default_name(self) -> str:
        default = self._usual_default
        return self.default_text or (default.text if default else "none")

    @property
    def _usual_default(self) -> PtoEnum | None:
        return None if self.default_text or self.default is None else self.default(None)  # type: ignore[arg-type]

    @property
    def constant_default(self) -> PtoEnum | None:
        """The default of the argument in Python; None if a call without the argument determines it, or its target."""
        return None if self.by_target is not None else self._usual_default

    @property
    def fixed_default(self) -> PtoEnum | None:
        """The default, if it does not depend on the rest of a call."""
        if self.default_text:
            return next((member for member in self.enum if member.text == self.default_text), None)
        return self._usual_default

    @property
    def example(self) -> str:
        """The attribute in text, with a value that is not the default."""
        if self.text is None or not self.text.key:
            return ""
        default = self.fixed_default
        member = self.text.example or next(member for member in self.enum if member is not default)
        return self.text.literal(member)


def always(member: PtoEnum) -> Callable[[Call], PtoEnum]:
    """A default that does not depend on the call."""
    return lambda _: member


@dataclass(frozen=True)
class OrderHazard:
    """The hazard of two unordered accesses: one of this instruction, one of another."""

    kind: str
    memory: str
    pipe: str
    """The pipe of the other access."""
    order: Literal["", "first", "second"] = ""
    """Whether this instruction is the first or the second; either if empty."""
    operand: str = ""
    """The operand of this instruction; any if empty."""
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
    defined: Test = lambda _: False
    """Whether the call defines the result."""
    fixes: Callable[[Call], tuple[Fix, ...]] = lambda _: ()
    """Fixes besides other indices."""


@dataclass(frozen=True)
class Fault:
    """How a bad index value is reported: the clause, the hazard, and what fixes it."""

    rule: str
    kind: str | None
    fix: str = ""
    elsewhere: tuple[str, ...] = ()
    """Other clauses and decisions: the first that applies to a target replaces `rule` there."""

    def clause(self, target: str) -> str:
        return applying(self.rule, self.elsewhere, target)


@dataclass(frozen=True)
class FlatIndex:
    """How C++ converts an index of rows to the flat offsets that the headers expect."""

    when: Case
    clears: Table[bool]
    """Where the headers clear the destination first."""
    steps: Mapping[str, tuple[str, Modifiers]]
    """The instructions of the conversion and their modifiers, by what they compute."""


@dataclass(frozen=True)
class Cpp:
    """How C++ calls an instruction, and what the vendor's headers refuse or compute differently."""

    call: CallText = ""
    """The call, by names of operands and modifiers; the first spelling if empty. `tmp` is the workspace."""
    template: Callable[[Call], tuple[tuple[PtoEnum | str, PtoEnum | None], ...]] = lambda _: ()
    """Template arguments, each with its default. Trailing arguments that are equal to their defaults are left out.
    `{dst}` in a text is the C++ object of that operand."""
    headers: tuple[Rule, ...] = ()
    """What the headers assert, or compute differently, beyond the rules of the instruction: an error where C++ is asked
    for. Their levels are those of a check: a hazard if the headers do not compile it, a note if they compute other
    values, where ptokit follows the instruction's meaning (CP-HDR-01). They see `Call.in_headers`."""
    slices: tuple[Rule, ...] = ()
    """The same for operands that are slices."""
    written: tuple[Rule, ...] = ()
    """What goes wrong in C++ as its author writes it, and not in what ptokit emits."""
    dynamic: tuple[Rule, ...] = ()
    """The same, where it does not if the destination's valid extents are known at run time only: emitted C++ has such
    tiles."""
    is_transfer: bool = False
    """Whether it moves a block of GM of exactly a tile's valid region."""
    clears: Table[bool] = field(default_factory=lambda: Table({}))
    """Targets whose headers clear the whole destination tile first, unless it has a pad value."""
    finite: Case | None = None
    """When the headers compare by a difference, so that an infinite number is not equal to itself."""
    flat: FlatIndex | None = None
    """How an index of rows is converted to flat offsets."""
    row_index: Case | None = None
    """When a column of indices is a row of the same bytes."""
    objects: tuple[tuple[str, str], ...] = ()
    """Objects that a call takes besides its operands, which are declared before it: type and name."""
    unmodelled: Table[frozenset[str]] = field(default_factory=lambda: Table({}))
    """By target: the element types of calls that the headers take and ptokit does not model."""
    unmodelled_any: Table[frozenset[str]] = field(default_factory=lambda: Table({}))
    """By target: element types with any of which it is such a call."""
    without_pipe: Table[str] = field(default_factory=lambda: Table({}))
    """By target: the memory of a source from which a call runs on a pipe that the cores of the model do not have."""
    uses_hidden: bool = False
    """Whether the headers use their own workspace in UB (`Headers.hidden`)."""
    ignored: tuple[str, ...] = ()
    """Last arguments of C++ that change no result."""
    in_place: str = ""
    """An operand that a call may leave out: it is the destination then."""


@dataclass(frozen=True)
class Destination:
    """What an instruction writes."""

    type: Callable[[Call], TileSpec | None] = lambda _: None
    """Its type, if the sources determine it: `call` has no destination."""
    in_place: Table[bool | Callable[[Any], bool]] = field(default_factory=lambda: Table({}))
    """Where it may be one of the sources; perhaps of some calls only."""
    checks_aliases: bool = False
    """Whether a rule checks operands that alias another one, although it may be a source."""
    is_staged: bool = False
    """Whether the result is complete before it is written; it may lie over any source."""
    writes_padding: bool = False
    """Whether its padding may be written."""


@dataclass(frozen=True)
class FaultReports:
    """What is reported when an instruction runs."""

    faults: Mapping[str, Fault] = field(default_factory=dict[str, Fault])
    """How to report bad indices (`outside`, `below` zero, `negative` but remapped, `padding`), `shared` memory and a
    `zero` integer divisor."""
    repeats: Repeats | None = None
    """What is reported for repeated destinations, if its indices address destinations."""
    conflicts: tuple[OrderHazard, ...] = ()
    """The hazards of accesses that nothing orders."""


@dataclass(frozen=True)
class Pages:
    """What pages say of an instruction besides its definition."""

    documents: tuple[str, ...] = ()
    """The prefixes of the ids of its clauses."""
    types: Table[Any] | None = None
    """By target: its element types, for the table of targets."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Per family: a description of its kernel, where targets differ."""


@dataclass(frozen=True)
class Instruction:
    """The definition of one instruction."""

    name: str
    summary: str
    meaning: tuple[str, ...]
    """The formulas, one per line."""
    operands: tuple[Param, ...]
    modifiers: tuple[Modifier, ...]
    rules: tuple[Rule, ...]
    lower: Callable[[Call], tuple[Move | Compute, ...]]
    route: Callable[[Call], str]
    kernels: Mapping[str, Mapping[str, RouteKernel]] = field(default_factory=dict[str, Mapping[str, RouteKernel]])
    """Per family and route."""
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By language (`C++`, `PTO-AS`, `Level 1`, `Level 2`): how it is written."""
    text: OpText = PLAIN_TEXT
    """What text has besides operands and modifiers."""
    cpp: Cpp = field(default_factory=Cpp)
    """How C++ calls it."""
    destination: Destination = field(default_factory=Destination)
    """What it writes."""
    reports: FaultReports = field(default_factory=FaultReports)
    """What is reported when it runs."""
    pages: Pages = field(default_factory=Pages)
    """What pages say besides this definition."""
    operation: str = ""
    """The operation of its `Compute`, if it has one."""
    workspace: Workspace | None = None
    """Its temporary memory, the argument `tmp=` of a call."""
    is_statement: bool = False
    """Whether programs have a statement of its own for it."""
    opaque_form: str = ""
    """If it is known by its effects only: the operands and effects of this form of it (`isa/opaque.py`)."""

    @cached_property
    def roles(self) -> dict[str, str]:
        """The names of its index and of its scratch, if it has them."""
        return {param.role: param.name for param in self.operands if param.role != "data"}

    @cached_property
    def op(self) -> str:
        """Its name in text."""
        return self.text.name or self.name

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
        """Whether an operand is a whole table in memory, not a block of the tile's extents."""
        return any("memory" in param.kind and not param.is_block for param in self.operands)

    def type_source(self, param: Param) -> str:
        """The operand whose element type a number has."""
        return param.typed_as or self.operands[0].name

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The names of its destinations: the first operand, and other tiles that it writes."""
        first, *others = self.operands
        return first.name, *(each.name for each in others if each.access == "write" and each.role == "data")

    def sources(self, order: PtoEnum | None = None) -> tuple[str, ...]:
        """The names of its sources in the order of the text; `order` is the value of the modifier `order`."""
        names = tuple(param.name for param in self.operands if param.name not in self.results)
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
            found = brief(value)
            problems.append(Finding("error", rule, message, kind, modifier.name, modifier.enum.choices(), found))
    if problems:
        raise VerifyError(problems)
    return tuple(parsed)


def is_tile(spec: object, *locs: TileType) -> bool:
    """Whether an operand is a tile, at one of these locations if any are given."""
    return isinstance(spec, TileSpec) and (not locs or spec.loc in locs)


def is_tensor(spec: object) -> TypeGuard[TensorSpec]:
    """Whether an operand is a tensor in global memory."""
    return isinstance(spec, TensorSpec)
