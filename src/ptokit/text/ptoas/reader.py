"""PTO-AS read into a tree, statement by statement, with its comments."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from ptokit.progress import task
from ptokit.text.brackets import unclosed, unclosed_message
from ptokit.text.errors import MOST_ERRORS, TextError, guess, joined, redefined
from ptokit.text.ptoas.builder import Builder
from ptokit.text.ptoas.scope import OpenBody
from ptokit.text.ptoas.shapes import BLOCKS, SHORT, TERMINATORS
from ptokit.text.ptoas.statement import MAX_STATEMENTS, STATEMENT, Draft, Grammar
from ptokit.text.tree import UNREAD, Body, Function, Operation, Unit, Value

DIRECTIVES = {".arch": "_architecture", ".kernel": "_kernel", ".arg": "_arg", ".const": "_const"}
"""The methods that read them."""
LONGEST_LINE = 4000
"""Characters of a line that could not be read, in which names are looked for."""
GUESSED = -1
"""The place of the brace of a body whose head could not be read."""
_ELSE = re.compile(r"\s*+else\b")
_OPENS = re.compile(r"(?:%[^=\n]*=[ \t]*)?(?:scf\.)?(?:for|if)\b", re.ASCII)
_VALUE = re.compile(r"%[\w$.-]+", re.ASCII)


class PtoasReader(Grammar):
    """Reads a text. `notes` holds the comments that belong to no operation."""

    def __init__(self, text: str | bytes, file: str) -> None:
        super().__init__(text, file)
        self.notes: dict[object, list[str]] = {}
        self._functions: dict[str, Function] = {}
        self._arch = ""
        self._count = 0
        self._errors: list[TextError] = []
        self._not_read: set[str] = set()
        """Names that statements mention which could not be read."""
        self._start_function(_stem(file), 0, {})

    def _start_function(self, name: str, start: int, attributes: dict[str, Any], *, named: bool = False) -> None:
        self._function = Function(name, Body(), attributes, self.source.where(start))
        self._scope = Builder(self, self._function.body)
        self._scope.headed = self._named = named
        self._begun = False
        """Whether a statement of the kernel was read."""
        self._opened = False
        """Whether the statement has opened a body, which may begin on the same line."""
        self._last: Operation | Value | Body | Function | None = None
        """The owner of a comment at the end of the line."""

    def _finish_function(self) -> None:
        function = self._function
        if function is self._functions.get(function.name):
            return
        self._scope.finish()
        if self._named or function.body.operations or function.arguments:
            self._functions.setdefault(function.name, function)

    def _try_to_finish(self) -> None:
        try:
            if len(self._scope.frames) > 1 and self._scope.frames[-1].start != GUESSED:
                at = self._scope.frames[-1].start
                self.fail(unclosed_message(self.text, at), at)
            self._finish_function()
        except TextError as problem:
            self._add_error(problem)

    def unit(self) -> Unit:
        """What can be read of the text, and every error of the rest."""
        with task(f"read {self.source.file}", len(self.text), "characters") as done:
            while self.kind != "end":
                start, depth, body = self.start, len(self._scope.frames), self._scope.frames[-1].body
                count, done.done = len(body.operations), start
                try:
                    self._step()
                except TextError as problem:
                    del body.operations[count:]
                    self._recover(problem.with_traceback(None), start, depth)  # its frames would have it, and stay
        self._keep_remark()
        self._note(self._function.body, self.comments())
        self._try_to_finish()
        if not self._functions:
            self.notes["end"] = self.notes.pop(self._function.body, [])
        del self._scope  # it refers to the reader
        return Unit(tuple(self._functions.values()), self.source, self._arch, tuple(self._errors))

    def _step(self) -> None:
        """A statement, or the end of a line."""
        if self.kind == "line":
            self._keep_remark()
            self.advance()
            return
        self._count_one()
        if self.accept(";"):
            return
        if len(self._scope.frames) == 1:
            self._scope.position = len(self._function.body.operations)
        comments = self.comments()
        if self.kind == "directive":
            self._directive(comments)
        elif self.accept("}"):
            self._close(comments)
        else:
            self._operation(self._label(comments))
        if self.kind not in ("line", "end") and self.word not in (";", "}") and not self._opened:
            self.expected("the end of the statement")

    def _add_error(self, problem: TextError) -> None:
        """Note an error, unless it comes of a statement that could not be read."""
        names = set(_VALUE.findall(problem.message))
        if not names & self._not_read:
            self._errors.append(problem)
        if len(self._errors) >= MOST_ERRORS or self._count > MAX_STATEMENTS:
            raise joined(self._errors)

    def _recover(self, problem: TextError, start: int, depth: int) -> None:
        """Note an error and continue after the statement, in the body that it opens if it opens one."""
        frames = self._scope.frames
        self._add_error(self._explained(problem, start))
        last = "" if self.start > start and self.starts_statement() else self.skip_statement()
        line = self.text[start : self.start][:LONGEST_LINE]
        if line.startswith(".kernel"):
            self._try_to_finish()
            self._start_function(f"kernel_{len(self._errors)}", start, {}, named=True)
            return
        del frames[depth:]
        self._not_read |= {name for name in _VALUE.findall(line) if self._scope.lookup(name[1:]) is None}
        if last == "{" or _OPENS.match(line) is not None:
            operation = Operation(UNREAD, bodies=(Body(), Body()))
            frames[-1].body.operations.append(operation)
            frames.append(OpenBody(operation.bodies[0], {}, operation, GUESSED))
        self._opened = False
        self._last = None

    def _explained(self, problem: TextError, start: int) -> TextError:
        """The error, or a bracket that the statement leaves open, if this explains it."""
        source, at = self.source, None
        if problem.expects:
            at = unclosed(self.text, start, source.offset(problem.where), STATEMENT)
        return problem if at is None else source.error(unclosed_message(self.text, at), source.where(at))

    def _note(self, key: object, comments: tuple[str, ...]) -> None:
        if comments:
            self.notes.setdefault(key, []).extend(comments)

    def _count_one(self) -> None:
        self._count += 1
        if self._count > MAX_STATEMENTS:
            self.fail(f"more than {MAX_STATEMENTS} statements")

    # --- Statements -----------------------------------------------------------------------------------------------

    def _keep_remark(self) -> None:
        """Attach the comment at the end of a line to the last item on it."""
        remark = self.remark()
        if remark and isinstance(self._last, Operation):
            self._last.remark = remark
        elif remark:
            self._note((self._last or self._function, "remark"), (remark,))
        self._last = None

    def _label(self, comments: tuple[str, ...]) -> tuple[str, ...]:
        """Labels have no meaning; they become comments."""
        lines = list(comments)
        while self.kind == "bare" and self.text.startswith(":", self.end):
            self._count_one()
            lines.append(f"// {self.advance()}:")
            self.advance()
            self.skip_lines()
            lines += self.comments()
        return tuple(lines)

    def _operation(self, comments: tuple[str, ...]) -> None:
        self._begun, self._opened = True, False
        if self.kind == "end":
            self._note(self._function.body, comments)
            return
        draft = self.statement()
        before = self._scope.frames[-1].body.operations[-1:]
        if before and before[0].name in TERMINATORS:
            self.fail(f"`{SHORT[before[0].name]}` must be the last operation in its body", draft.start)
        operation = self._scope.build(draft)
        inner = tuple(line for line in self.comments() if line)
        operation.where = self.source.where(draft.results[0].start if draft.results else draft.start)
        operation.end = self.behind
        operation.comments = (*comments, *inner)
        operation.places = draft.places
        self._last = operation
        if operation.name in BLOCKS:
            self._scope.frames[-1].start = self.start
            self.expect("{")
            self._opened = True

    # --- Directives -----------------------------------------------------------------------------------------------

    def _directive(self, comments: tuple[str, ...]) -> None:
        start, name = self.start, self.word
        if name not in DIRECTIVES:
            known = f"expected one of: {' '.join(DIRECTIVES)}{guess(name, DIRECTIVES)}"
            self.fail(f"unknown directive `{name}`, {known}", start)
        if len(self._scope.frames) > 1 and name != ".const":
            self.fail(f"`{name}` stands at the head of a kernel", start)
        self.advance()
        self._opened = False
        self._last = None
        getattr(self, DIRECTIVES[name])(start, comments)

    def _kernel(self, start: int, comments: tuple[str, ...]) -> None:
        name = self.name("the name of the kernel")
        attributes = self.attributes(Draft()).attributes if self.word == "{" else {}
        if self._named or self._begun or self._scope.headed:
            self._finish_function()
        if (known := self._functions.get(name)) is not None and known.where is not None:
            self.fail(redefined(name, known.where.line), start)
        self._start_function(name, start, attributes, named=True)
        self._note(self._function, comments)
        self._last = self._function

    def _architecture(self, _start: int, comments: tuple[str, ...]) -> None:
        self._arch = self.name("the name of an architecture")
        self._note("arch", comments)

    def _arg(self, start: int, comments: tuple[str, ...]) -> None:
        if self._begun:
            self.fail("`.arg` lines stand before the statements of a kernel", start)
        item = self.plain_value()
        self._last = value = self._scope.define(item, self._scope.known_type(item.text, self.annotation()))
        self._scope.arguments.append(value)
        self._scope.headed = True
        self._note(value, comments)

    def _const(self, start: int, comments: tuple[str, ...]) -> None:
        item = self.plain_value()
        self.expect("=", " and a number")
        number = self.item()
        if number.kind not in ("number", "bare"):
            self.fail("expected a number, such as `.const %c = 16 : index`", number.start)
        self._last = operation = self._scope.constant(number, self.annotation(), item)
        operation.where, operation.comments = self.source.where(start), comments

    # --- The end of bodies ----------------------------------------------------------------------------------------

    def _close(self, comments: tuple[str, ...]) -> None:
        """The end of a body; `else` may follow, or attributes of its operation."""
        if len(self._scope.frames) == 1:
            self.fail("there is no body that `}` could close", self.start - 1)
        frame = self._scope.frames.pop()
        operation = frame.operation
        assert operation is not None
        self._note(frame.body, comments)
        if operation.name.startswith("scf."):
            _end_with_yield(frame.body)
        self._opened = False
        self._last = frame.body
        if self.kind == "line" and _ELSE.match(self.text, self.end):
            self.advance()
        if self.accept("else"):
            if operation.name not in ("scf.if", UNREAD) or frame.body is operation.bodies[1]:
                self.fail("`else` follows the body of an `if`")
            brace = self.start
            self.expect("{")
            self._scope.frames.append(OpenBody(operation.bodies[1], {}, operation, brace))
            self._opened = True
        elif self.word == "{":
            draft = self.attributes(Draft())
            operation.attributes, operation.places = draft.attributes, draft.places
        operation.end = self.behind


def _stem(file: str) -> str:
    """The name of a kernel without one: that of its file."""
    stem = re.sub(r"\W", "_", PurePath(file).stem, flags=re.ASCII)
    return stem if stem.strip("_") and not file.startswith("<") and file != "-" else "kernel"


def _end_with_yield(body: Body) -> None:
    """Add the terminator of a body, if it has none."""
    if not body.operations or body.operations[-1].name != "scf.yield":
        body.operations.append(Operation("scf.yield"))
