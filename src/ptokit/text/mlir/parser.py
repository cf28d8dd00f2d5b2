"""Names, regions and blocks of a text, which the forms of ops take off it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ptokit.finding import near
from ptokit.text.brackets import unclosed, unclosed_message
from ptokit.text.cursor import Cursor, OperandUse
from ptokit.text.errors import MOST_ERRORS, MOST_SHOWN, Problem, redefined
from ptokit.text.mlir.attributes import optional_location
from ptokit.text.mlir.ir import ANY, UNKNOWN, Block, MlirRegion, SsaValue, Type
from ptokit.text.mlir.types import unknown_hint


class StopReading(Exception):
    """Too many errors."""


Argument = tuple[OperandUse, Type, str]
"""An argument of a block: its name, its type and its location."""
WIDEST = 4096
"""Characters of a line in which its start is looked for."""

STARTS_OP = re.compile(
    r'%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=|"[^"\n]*"\s*\(|[A-Za-z_][\w$]*(?:\.[\w$]+)+(?!\s*=)|(?:return|call|module)\b',
    re.ASCII,
)
"""The start of an op, where another one may end."""
RESUMES = re.compile(rf"[}}^]|{STARTS_OP.pattern}", re.ASCII)
"""Where reading may go on."""
RESULTS = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=", re.ASCII)
"""The results of the next op, which are not operands of an op without any."""
_VALUES = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*", re.ASCII)
_PART = re.compile(r"\w+\s*%", re.ASCII)
"""A keyword before an operand."""


class Parser(Cursor):
    """A cursor that knows values by their names, notes problems, and takes regions and blocks off a text."""

    bound = 0
    """How many results the op has that is read."""
    _no_results = range(0)
    """A list of values that are no results: it is looked through once, however many lines it has."""

    def __init__(self, text: str, arch: str) -> None:
        self.problems: list[Problem] = []
        self.scope: dict[str, tuple[SsaValue, ...]] = {}
        """Values by name. Names are only ever added, and taken back at the end of a region."""
        self.forward: dict[str, dict[int, SsaValue]] = {}
        """Values that are used and not defined yet, by name and number. An attempt to read may change them."""
        self._defined: set[str] = set()
        """Every name of the function."""
        self._in_function = False
        self._labels: dict[str, Block] = {}
        self._label_uses: dict[str, int] = {}
        self._is_guessing = self._is_cut = False
        """Whether a body was entered behind a head that could not be read; whether the text ends in a body."""
        self._suspect: int | None = None
        """The brace of a body that was probably not closed: the closing brace is indented less than its line."""
        self._surplus: int | None = None
        """A closing brace that is probably one too many: it is indented more than the line of its opening one."""
        super().__init__(text, arch)

    # --- Names -----------------------------------------------------------------------------------------------

    def _note(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) >= MOST_ERRORS or self.spent > self.most:
            raise StopReading

    @contextmanager
    def isolated(self, name: str = "func.func") -> Generator[None]:
        """A body that sees no values from outside."""
        outer = self.scope, self.forward, self._defined, self._in_function
        self.scope, self.forward, self._defined = {}, {}, set()
        self._in_function = name == "func.func"
        try:
            yield
            self._check_names()
        finally:
            self.scope, self.forward, self._defined, self._in_function = outer

    def lookup(self, use: OperandUse) -> SsaValue | None:
        """The value that a name stands for, if it is defined above."""
        values = self.scope.get(use.name)
        return values[use.index] if values is not None and use.index < len(values) else None

    def resolve(self, use: OperandUse, type_: Type) -> SsaValue:
        """The value that a name stands for, in a type. A value whose type nothing has said so far gets it here."""
        values = self.scope.get(use.name)
        if values is None:
            value = self.forward.setdefault(use.name, {}).setdefault(use.index, SsaValue(type_, offset=use.offset))
        elif use.index >= len(values):
            self.fail(f"`%{use.name}` has {len(values)} results; found `#{use.index}`", use.offset)
        else:
            value = values[use.index]
        self._agree(value, type_, use.name, use.offset)
        return value

    def _agree(self, value: SsaValue, type_: Type, name: str, at: int) -> None:
        """Refuse a type that is not that of a value."""
        if value.type == type_ or type_ in (UNKNOWN, ANY) or value.type == ANY:
            return
        if value.type == UNKNOWN:
            value.type = type_
            return
        self.fail(f"`%{name}` is of type {value.type}, but used with {type_}", at, unknown_hint(type_))

    def define(self, name: str, values: list[SsaValue], at: int) -> list[SsaValue]:
        """Let a name stand for values. One that was used before its definition is the value itself."""
        if name in self.scope:
            first = self.scope[name][0].offset if self.scope[name] else 0
            self.fail(redefined(f"%{name}", self.text.count("\n", 0, first) + 1), at)
        for index, used in self.forward.pop(name, {}).items():
            if index >= len(values):
                self.fail(f"`%{name}` has {len(values)} results; found `#{index}`", used.offset)
            first = used.offset
            self._agree(used, values[index].type, name, first)
            used.op = values[index].op
            values[index] = used
        for number, value in enumerate(values):
            value.name, value.offset = name if len(values) == 1 else f"{name}#{number}", at
        self.scope[name] = tuple(values)
        self._defined.add(name)
        return values

    def _check_names(self) -> None:
        """Note every name that is used and never defined."""
        for name, uses in self.forward.items():
            at = min(value.offset for value in uses.values())
            is_shown = len(self.problems) < MOST_SHOWN
            close = near(f"%{name}", [f"%{other}" for other in self._defined]) if is_shown else ""
            hint = f"did you mean `{close}`?" if close else ""
            self._note(Problem(f"use of undeclared SSA value name `%{name}`", at, hint))
        self.forward = {}

    def _poison_name(self, name: str, at: int) -> None:
        if name not in self.scope:
            self.forward.pop(name, None)
            self.scope[name] = (SsaValue(ANY, name, offset=at),) * 16
            self._defined.add(name)

    # --- Regions and blocks ----------------------------------------------------------------------------------

    @abstractmethod
    def read_block(self, block: Block) -> None:
        """Take the operations of a block."""

    @abstractmethod
    def check_end(self, region: MlirRegion, owner: str, implied: str, found: int) -> None:
        """Note a block without a terminator that must have one. `found` problems were known before the region."""

    def starts_results(self) -> bool:
        """Whether the names of results come next, and not operands."""
        return self.kind == "value" and RESULTS.match(self.text, self.start) is not None

    def starts_op(self) -> bool:
        """Whether an op may start here."""
        if self.start in self._no_results:
            return False
        is_start = STARTS_OP.match(self.text, self.start) is not None
        if not is_start and (values := _VALUES.match(self.text, self.start)) is not None:
            self._no_results = range(*values.span())
        return is_start

    def starts_statement(self) -> bool:
        """Whether another statement starts here, or the body ends."""
        if self.kind == "end":
            return True
        return self.is_on_new_line() and (self.word == "}" or self.starts_op())

    def is_part(self) -> bool:
        """Whether a keyword comes next that stands before an operand."""
        return _PART.match(self.text, self.start) is not None

    def region(self, arguments: Sequence[Argument] | None = None, owner: str = "", *, implied: str = "") -> MlirRegion:
        """Take a region. The body of an `owner` ends with a terminator, or with one that is implied."""
        opening, found = self.start, len(self.problems)
        self.expect("{", expects="token")
        region, known = MlirRegion(offset=opening), len(self.scope)
        labels, uses, self._labels, self._label_uses = self._labels, self._label_uses, {}, {}
        if arguments and self.kind == "label":
            self.fail("the first block of a function has no label")
        if arguments or (self.word != "}" and self.kind != "label"):
            self._block(region, Block([self._argument(*argument) for argument in arguments or ()]))
        while self.kind == "label":
            self._labelled(region)
        self._end_region(region)
        self._check_labels()
        self._labels, self._label_uses = labels, uses
        while len(self.scope) > known:
            self.scope.popitem()
        self.check_end(region, owner, implied, found)
        return region

    def _end_region(self, region: MlirRegion) -> None:
        """The closing brace."""
        brace = self.start
        if self.word != "}":
            if not self._is_cut and not self._is_guessing:
                at = region.offset if self._suspect is None else self._suspect
                self._note(Problem("`{` is not closed: the text ends in its body", at))
            self._is_cut = True
        else:
            indent = self._indent_of(region.offset, brace)
            self._suspect = region.offset if self._suspect is None and indent < 0 else self._suspect
            self._surplus = brace if self._surplus is None and indent > 0 else self._surplus
            self.advance()
        region.end = brace

    def _indent_of(self, opening: int, brace: int) -> int:
        """By how much a closing brace is indented more than the line of its opening one; 0 if it starts no line."""
        line = self.text.rfind("\n", max(0, brace - WIDEST), brace) + 1
        if line == 0 or self.text[line:brace].strip():
            return 0
        head = self.text.rfind("\n", max(0, opening - WIDEST), opening) + 1
        if head == 0 and opening > WIDEST:
            return 0
        return brace - line - (len(self.text[head:opening]) - len(self.text[head:opening].lstrip()))

    def _block(self, region: MlirRegion, block: Block) -> None:
        region.blocks.append(block)
        self.read_block(block)

    def _labelled(self, region: MlirRegion) -> None:
        """A block behind its label."""
        at, label = self.start, self.advance()[1:]
        block = self._labels.get(label)
        if block is not None and label not in self._label_uses:
            self._note(Problem(f"redefinition of block `^{label}`", at))
            block = None
        self._label_uses.pop(label, None)
        block = self._labels[label] = block or Block()
        block.label, block.offset = label, at
        try:
            if self.word == "(":
                block.arguments = self.listed("(", self._block_argument)
            self.expect(":")
        except Problem as problem:
            self._refuse(problem, at)
            self.jump(self._line_end(max(at, self.behind)))
        self._block(region, block)

    def _block_argument(self) -> SsaValue:
        use = self.operand("a name, as in `%x`")
        self.expect(":", " behind the name of an argument")
        type_ = self.type()
        return self._argument(use, type_, optional_location(self))

    def _argument(self, use: OperandUse, type_: Type, location: str) -> SsaValue:
        return self.define(use.name, [SsaValue(type_, location=location)], use.offset)[0]

    def successor(self) -> Block:
        """Take a block that an op goes to."""
        if self.kind != "label":
            self.expected("a block, as in `^next`")
        at, label = self.start, self.advance()[1:]
        if label not in self._labels:
            self._labels[label] = Block(label=label)
            self._label_uses[label] = at
        return self._labels[label]

    def _check_labels(self) -> None:
        for label, at in self._label_uses.items():
            self._note(Problem(f"reference to an undefined block `^{label}`", at))

    def _refuse(self, problem: Problem, start: int) -> None:
        """Note why a statement could not be read: a bracket that it leaves open, if this explains it."""
        if problem.expects and not problem.hint:
            at = unclosed(self.text, start, problem.offset, RESUMES)
            if at is not None:
                problem = Problem(unclosed_message(self.text, at), at, usage=problem.usage)
        self._note(problem)

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return end if end >= 0 else len(self.text)
