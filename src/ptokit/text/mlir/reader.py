"""Text to operations. What cannot be read is noted, and reading goes on at the next statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext

from ptokit.finding import near
from ptokit.progress import Task
from ptokit.text.cursor import SPACE, hint_at
from ptokit.text.errors import Problem, Source, TextError
from ptokit.text.mlir.attributes import WORDS, keyword, optional_attribute, optional_location, read_attribute
from ptokit.text.mlir.builtin import FORMS, KNOWN, OP_NAMES, TERMINATORS, settle_builtin
from ptokit.text.mlir.comments import attach, find_remarks
from ptokit.text.mlir.dialect import form_of, rows, settle_pto, usage
from ptokit.text.mlir.ir import ANY, SHORT, UNIT, UNKNOWN, Block, MlirAttribute, MlirOp, MlirRegion, SsaValue, Type
from ptokit.text.mlir.parser import RESULTS, RESUMES, Parser, StopReading
from ptokit.text.mlir.types import Signature, function_type, optional_type, read_type
from ptokit.text.mlir.verbatim import VERBATIM
from ptokit.text.tree import UNREAD

MAX_SKIPPED = 1 << 20
"""Most characters of a statement that is skipped because it could not be read."""

RESULT = 64
"""Characters that a result stands for, however many share a name."""

_ALIAS = re.compile(r"^[#!][A-Za-z_$][A-Za-z0-9_$]*[ \t]*=", re.MULTILINE)
_RESOURCES = re.compile(r'\{-#(?:[^"#]|"(?:[^"\\\n]|\\.)*"|#(?!-\}))*#-\}')  # Python 3.11.2 fails with `*+` here
_BRACE = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[{}]')
_NAME = re.compile(r"%([\w$.-]+)", re.ASCII)
_DEFINED = re.compile(r"%([\w$.-]+)(?::\d+)?\s*=(?!=)", re.ASCII)


class Reader(Parser):
    """Reads one text."""

    type = read_type  # type: ignore[assignment]
    optional_type = optional_type  # type: ignore[assignment]
    attribute = read_attribute  # type: ignore[assignment]
    optional_attribute = optional_attribute  # type: ignore[assignment]

    def __init__(self, text: str, arch: str) -> None:
        self.original = text
        plain, self._remarks = find_remarks(text)
        self.resources: list[str] = []
        self._statement = 0
        """Where the statement starts that is read."""
        self.task = Task()
        """Shows how far the text is read."""
        super().__init__(plain, arch)
        self._alias_ends: dict[int, int] = {}

    # --- Types and attributes --------------------------------------------------------------------------------

    def entry_value(self, name: str) -> MlirAttribute:
        if not self.accept("="):
            if self.word not in (",", "}") and not self.is_on_new_line():
                self.expected(f"`=`, `,` or `}}` after the attribute `{name}`")
            return UNIT
        word = self.word
        value = self.optional_attribute()
        if value is None:
            self.expected(f"the value of `{name}`", _spelling(name, word))
        return value

    # --- The whole text --------------------------------------------------------------------------------------

    def read(self) -> tuple[MlirOp, list[str]]:
        """The module of the text, and the comments at its end. A `Stop` says that errors are many."""
        self._read_aliases()
        block = Block()
        while self.kind != "end":
            if self.start in self._alias_ends:
                self.jump(self._alias_ends[self.start])
            elif self.word == "{-#":
                self._read_resources()
            elif self.kind == "label" or self.word == "}":
                self._refuse_at_top()
            else:
                self.read_block(block)
        self._check_names()
        end = [] if self.problems else attach(self.text, self._remarks, block.ops)
        if len(block.ops) == 1 and block.ops[0].name == "builtin.module" and block.ops[0].form is not None:
            return block.ops[0], end
        return MlirOp("builtin.module", FORMS["builtin.module"], regions=[MlirRegion([block])]), end

    def _refuse_at_top(self) -> None:
        """Refuse what is no operation. One `}` too many makes the rest of the text unreadable: it is the only error."""
        if self.word != "}":
            self._note(Problem("expected an operation", self.start))
            self.advance()
            return
        at = self.start if self._surplus is None else self._surplus
        self.problems = [problem for problem in self.problems if problem.offset < at]
        self._note(Problem("unexpected `}`: there is one too many", at))
        self.jump(len(self.text))

    def _read_aliases(self) -> None:
        """Aliases first: those of locations are defined at the end of a file."""
        for found in _ALIAS.finditer(self.text):
            try:
                self.jump(found.start())
                mark, name = self.word[0], self.advance()
                self.expect("=")
                self.aliases[name] = self.type() if mark == "!" else self.attribute()
                self._alias_ends[found.start()] = self.behind
            except Problem as problem:
                self._alias_ends[found.start()] = self._line_end(max(problem.offset, found.start()))
                self._refuse(problem, found.start())
        self.end = 0
        self.advance()

    def _read_resources(self) -> None:
        """Resources are kept as they are written."""
        match = _RESOURCES.match(self.text, self.start)
        if match is None:
            self._note(Problem("expected `#-}` at the end of the resources", self.start))
            self.jump(len(self.text))
            return
        self.jump(match.end())
        lines = (line.rstrip() for line in match[0].splitlines())
        self.resources.append("\n".join(line for line in lines if line))

    # --- Operations ------------------------------------------------------------------------------------------

    def read_block(self, block: Block) -> None:
        """The operations of a block."""
        while self.kind not in ("end", "label") and self.word not in ("}", "{-#"):
            start = self.task.done = self.start
            if start in self._alias_ends:
                return
            try:
                block.ops.append(self.operation())
            except Problem as problem:
                if not (self._is_cut and self.kind == "end"):
                    self._refuse(problem, start)
                self._recover(start, block)

    def operation(self) -> MlirOp:
        """One operation, with its location and its comments."""
        start, found = self.start, len(self.problems)
        self._statement = start
        names = self._result_names()
        self.bound, self.places = sum(count for _, count, _ in names), {}
        kept = self.bound, self.places
        op = self._generic() if self.kind == "string" else self._custom()
        self.bound, self.places = kept
        op.offset, op.places = start, self.places
        self._bind(op, names)
        if op.regions and len(self.problems) == found:
            self._check_terminators(op)
        op.location = optional_location(self)
        op.end = self.behind
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        """`%a, %b:2 =`: names, how many results each stands for, and where it stands."""
        names: list[tuple[str, int, int]] = []
        while self.kind == "value":
            at, name, count = self.start, self.advance()[1:], 1
            if self.accept(":"):
                count = self.integer()
                self.spend(RESULT * count)
            names.append((name, count, at))
            if not self.accept(","):
                break
        if names:
            self.expect("=", " behind the names of the results")
        return names

    def _bind(self, op: MlirOp, names: list[tuple[str, int, int]]) -> None:
        """Give the results of an op their names."""
        for value in op.results:
            value.op = op
        if not names:
            return
        if self.bound != len(op.results):
            message = f"the op gives {len(op.results)} results, but {self.bound} get a name"
            raise self._in_op(Problem(message, op.offset, expects="form"), op.name)
        done = 0
        for name, count, at in names:
            op.results[done : done + count] = self.define(name, op.results[done : done + count], at)
            done += count

    def _custom(self) -> MlirOp:
        """An op in its own form, or an unknown op."""
        if self.kind != "bare":
            is_inside = self.scope or self._in_function
            self.fail("expected an operation or `}`" if is_inside else "expected an operation", expects="token")
        at, name = self.start, self.word
        full = SHORT.get(name, name)
        if name.startswith("pto."):
            form = form_of(name[4:])
        elif full in FORMS and (name not in ("return", "call") or self._in_function):
            form = FORMS[full]
        else:
            self._demand_spelling(name, at)
            form = VERBATIM
        self.advance()
        try:
            return form.read(self, full)
        except Problem as problem:
            raise self._in_op(problem, full) from None
        except ValueError as error:
            raise Problem(str(error), self._statement) from None

    def _in_op(self, problem: Problem, name: str) -> Problem:
        """A problem, with a hint at how the op is written or which one may be meant."""
        short = name.removeprefix("pto.")
        if short == name or problem.hint:
            return problem
        if short not in rows():
            close = near(name, [f"pto.{known}" for known in rows()])
            problem.message += f" (`{name}` is not a known op)"
            problem.hint = f"did you mean `{close}`?" if close else ""
        elif problem.expects == "form" and not _hint_at(self.text, problem):
            problem.usage = usage(short)
        return problem

    def _demand_spelling(self, name: str, at: int) -> None:
        """An unknown op is kept as written, unless its name looks misspelt."""
        if name in ("return", "call"):
            self.fail(f"`{name}` stands outside of a function", at)
        known, dot, rest = name.partition(".")
        close = near(known, ("pto", *KNOWN)) if dot else ""
        is_slip = close not in ("", known) and f"{close}.{rest}" in _op_names()
        if not dot or is_slip or (known in KNOWN and rest not in KNOWN[known].split()):
            close = near(name, _op_names())
            self.fail(f"unknown op `{name}`", at, f"did you mean `{close}`?" if close else "")

    def _generic(self) -> MlirOp:
        """`"name"(%a)[^b] <{...}> ({...}) {...} : (T) -> U`."""
        name = self.string()
        uses = self.listed("(", self.operand)
        successors = self.listed("[", self.successor) if self.word == "[" else []
        properties = {}
        if self.word == "<":
            self.advance()
            properties = self.dictionary()
            self.expect(">")
        regions: list[MlirRegion] = []
        if self.word == "(":
            with self.isolated(name) if name in ("builtin.module", "func.func") else nullcontext():
                regions = self.listed("(", self.region)
        attributes = self.dictionary()
        self.expect(":", " and the types of operands and results")
        at, signature = self.start, function_type(self).data
        if len(signature.inputs) != len(uses):
            self.fail(f"the op has {len(uses)} operands and {len(signature.inputs)} types", at)
        operands = [self.resolve(use, type_) for use, type_ in zip(uses, signature.inputs, strict=True)]
        results = [SsaValue(type_) for type_ in signature.outputs]
        parts = {"operands": operands} if operands else {}
        op = MlirOp(name, None, parts, results, attributes, properties, regions, successors)
        op.offset = self._statement
        try:
            (settle_pto if op.is_pto else settle_builtin)(op)
        except ValueError as error:
            self.fail(str(error), op.offset)
        return op

    def check_end(self, region: MlirRegion, owner: str, implied: str, found: int) -> None:
        """Every block that must end with a terminator does; one that is implied is added."""
        if implied:
            region.blocks = region.blocks or [Block()]
            last = region.blocks[-1].ops
            if not last or last[-1].name != implied:
                last.append(MlirOp(implied, FORMS[implied], offset=region.end))
        elif self._is_read(found) and not self._is_cut and (owner or len(region.blocks) > 1):
            blocks = region.blocks if region.blocks else [Block()]
            for block, following in zip(blocks, [*blocks[1:], None], strict=True):
                is_ended = any(op.name in TERMINATORS for op in block.ops) or any(map(_may_end, block.ops[-1:]))
                if not is_ended:
                    self._note(Problem(f"{_ending(owner, block, following)}", region.end))
                    return

    def _is_read(self, found: int) -> bool:
        """Whether all statements since some problem were read; a comment that starts with `#` is none."""
        return all(self.text.startswith("#", problem.offset) for problem in self.problems[found:])

    def _check_terminators(self, parent: MlirOp) -> None:
        """Terminators end their blocks, in ops that they belong to, with operands of the types of the results."""
        for block in (block for region in parent.regions for block in region.blocks):
            for op in block.ops:
                if op.name not in TERMINATORS:
                    continue
                if op.name == "func.return" and parent.name not in ("func.func", UNREAD):
                    self._note(Problem("`func.return` expects parent op `func.func`", op.offset))
                elif op is not block.ops[-1]:
                    self._note(Problem(f"`{op.name}` must be the last operation in the parent block", op.offset))
                elif op.name in ("func.return", "scf.yield") and (wanted := _returned(parent)) is not None:
                    found = [value.type for value in op.operands]
                    if not (len(found) == len(wanted) and all(map(_is_like, found, wanted))):
                        kinds = [", ".join(kind.text for kind in types) or "none" for types in (found, wanted)]
                        message = f"`{op.name}` has operands of types: {kinds[0]}; the results of `{parent.name}`"
                        self._note(Problem(f"{message} have: {kinds[1]}", op.offset))

    # --- Errors ----------------------------------------------------------------------------------------------

    def _recover(self, start: int, block: Block) -> None:
        """Go on behind a statement that could not be read: at the next one, or in the body that it opens."""
        known, braces = self._poison(start), _BRACE.findall(self.text, start, self.start)
        is_inside = braces.count("{") > braces.count("}")
        at, scanned = start if is_inside else max(self.start, start), start
        opened: list[int] = []
        if self.start > start and not is_inside and self.starts_statement():
            self._is_cut = self._is_cut or self.kind == "end"
            return
        while at - start < MAX_SKIPPED:
            end = self._line_end(at)
            for match in _BRACE.finditer(self.text, scanned, end):
                if match[0] == "{":
                    opened.append(match.start())
                elif match[0] == "}":
                    if not opened:
                        self.jump(match.start())
                        return
                    opened.pop()
            scanned = end
            if opened and not self.text[opened[-1] + 1 : end].strip():
                at = scanned = self._recover_body(start, opened.pop(), block, known)
                if self.kind == "end":
                    return
                continue
            following = _behind_blanks(self.text, end)
            if not opened and RESUMES.match(self.text, following):
                self.jump(end)
                return
            if end >= len(self.text):
                self._is_cut = True
                self.jump(end)
                return
            at = end + 1
        raise StopReading

    def _recover_body(self, start: int, brace: int, outer: Block, known: int) -> int:
        """Read the body of a statement whose head could not be read. Gives where it ends; `known` names stay."""
        self._is_guessing, outside = True, self._in_function
        self._in_function = self._in_function or "func" in self.text[start : start + 40]
        for match in _NAME.finditer(self.text, start, brace):
            self._poison_name(match[1], start)
        self.jump(brace + 1)
        labels, uses, self._labels, self._label_uses = self._labels, self._label_uses, {}, {}
        region = MlirRegion([Block()])
        outer.ops.append(MlirOp(UNREAD, regions=[region], offset=start))
        self.read_block(region.blocks[0])
        while self.kind == "label":
            self._labelled(region)
        self._labels, self._label_uses, self._in_function = labels, uses, outside
        while len(self.scope) > known:
            self.scope.popitem()
        if self.word == "}":
            self.advance()
        return self.behind

    def _poison(self, start: int) -> int:
        """Define what a statement defines that could not be read. Gives the number of names, its results included."""
        results, line = RESULTS.match(self.text, start), self.text[start : self._line_end(start)]
        for match in _NAME.finditer(results[0] if results else ""):
            self._poison_name(match[1], start)
        known = len(self.scope)
        for match in _DEFINED.finditer(line[:1000]):
            self._poison_name(match[1], start)
        return known

    def errors(self, file: str) -> tuple[TextError, ...]:
        """All problems of the text."""
        unique = {(problem.offset, problem.message): problem for problem in self.problems}
        source = Source(self.original, file)
        return tuple(
            source.error(
                p.message, source.where(min(p.offset, len(self.text))), p.hint or _hint_at(self.text, p) or p.usage
            )
            for p in unique.values()
        )


_SPACE = re.compile(SPACE)


def _behind_blanks(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _hint_at(text: str, problem: Problem) -> str:
    return hint_at(text, problem.offset) if problem.expects else ""


def _may_end(op: MlirOp) -> bool:
    """Whether an op may be a terminator: a known terminator, or an unknown op."""
    if op.name in TERMINATORS:
        return True
    known, _, rest = op.name.partition(".")
    return op.name not in FORMS and known not in KNOWN and not (known == "pto" and rest in rows())


def _returned(parent: MlirOp) -> Sequence[Type] | None:
    """The types of the values that a terminator returns to the op around it; None if they are not known."""
    if parent.name == "func.func":
        kind = parent.properties.get("function_type")
        return kind.value.outputs if kind is not None and isinstance(kind.value, Signature) else None
    return [value.type for value in parent.results] if parent.name in ("scf.for", "scf.if") else None


def _is_like(type_: Type, other: Type) -> bool:
    return type_ == other or not {type_, other}.isdisjoint((UNKNOWN, ANY))


def _ending(owner: str, block: Block, following: Block | None) -> str:
    is_block = following is not None and block.label
    what = f"the block `^{block.label}`" if is_block else f"the body of {owner or 'the op'}"
    wanted = {"scf.while": "`scf.condition` or `scf.yield`", "scf.for": "`scf.yield`", "scf.if": "`scf.yield`"}
    return f"{what} ends without a terminator, such as {wanted.get(owner, '`return`')}"


def _spelling(name: str, word: str) -> str:
    """How a bare keyword should have been written."""
    fitting = [kind for kind, words in WORDS.items() if word in words]
    named = [kind for kind in fitting if kind.replace("_", "").startswith(name.replace("_", "").lower()[:5])]
    if not named and len(fitting) != 1:
        return ""
    return f"did you mean `{name} = {keyword((named or fitting)[0], word).text}`?"


def _op_names() -> tuple[str, ...]:
    return (*OP_NAMES, "module", "return", "call", "ins", "outs", *(f"pto.{name}" for name in rows()))
