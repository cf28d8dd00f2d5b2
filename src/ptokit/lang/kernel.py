"""Kernels: a Python function as a program, traced once per signature and launched over a grid."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from types import FunctionType
from typing import Any, NoReturn, cast, overload

from ptokit.brief import brief
from ptokit.engine.kept import recall, remember
from ptokit.finding import NAME, VerifyError, Where
from ptokit.lang.context import Mode, target
from ptokit.lang.faults import public, suggested
from ptokit.lang.launch import LAUNCH_OPTIONS, FindingCollector, Traced, TracedFamily, TracedMember
from ptokit.lang.launcher import Definition, Launchable
from ptokit.lang.patch import rewritten, with_own_globals, with_text
from ptokit.lang.reading import check_source, refuse_at, untraced
from ptokit.lang.reads import Reads
from ptokit.lang.source import constants_of, surroundings
from ptokit.lang.stand_ins import TracedTensor, TracedTile
from ptokit.lang.tensor import Arguments, GlobalTensor, Signature, array_argument, constant, first_extent, is_integer
from ptokit.lang.traced_integers import TracedInteger
from ptokit.lang.tracer import Tracer
from ptokit.machine.report import Patch
from ptokit.markup import Displayed, box, clipped, code, table
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Var
from ptokit.program.instr_calls import indexed_views, without_defaults
from ptokit.program.ir import Argument, Integer, Program
from ptokit.program.repair import Edit, Unpatchable
from ptokit.program.symbolic import Lengths
from ptokit.program.verify import General, at_lengths

MODES = ("auto", "manual")
MOST_SIGNATURES = 256
MOST_TRIES = 8
"""Attempts at a program for many lengths, for one family of signatures."""
FIXED_TABLES = 2
"""The first of these programs know the lengths of the tables that are indexed, because such code is faster."""


@dataclass
class Family:
    """Signatures that differ only in lengths of arrays, and the programs that are valid for more than one of them."""

    reads: Reads
    lengths: Mapping[Var, int]
    """The first ones."""
    first: Program
    """The program for these."""
    programs: list[TracedFamily] = field(default_factory=list[TracedFamily])
    tries: int = 0

    def member(self, lengths: Mapping[Var, int]) -> TracedMember | None:
        """One of them for some lengths."""
        return next(filter(None, (each.at(lengths) for each in self.programs)), None)


class FunctionDefinition(Definition):
    """The function of a kernel."""

    kernel: Kernel

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        source, text, function = rewritten(self.kernel.function, program, edits)
        return Patch({source.file: source.text}, {source.file: text}, self._as(function))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> Kernel:
        return self._as(with_text(self.kernel.function, texts, written=written))

    def snapshot(self) -> Kernel:
        """The kernel with the globals of now; itself if its source is not known."""
        with suppress(Unpatchable):
            return self._as(with_own_globals(self.kernel.function))
        return self.kernel

    def _as(self, function: FunctionType) -> Kernel:
        return self.kernel if function is self.kernel.function else Kernel(function, self.kernel.mode)

    def variants(self, patch: Patch) -> Iterator[tuple[str, Launchable, Launchable]]:
        """Kernels of its module that the same function made with other values."""
        function = self.kernel.function
        for name, value in function.__globals__.items():
            is_other = isinstance(value, Kernel) and value is not self.kernel
            if is_other and value.function.__code__ is function.__code__:
                yield name, value, value.definition.with_texts(patch.after)

    def run(self, arguments: Arguments, mode: Mode, grid: int, collector: FindingCollector) -> None:
        options, function = mode.options, untraced(self.kernel.function)
        values = {**arguments.tensors, **arguments.integers, **arguments.constants}
        for block in range(grid):
            with target(mode.profile.name, header=options.header, strict=options.strict, dyn_ub=options.dyn_ub) as here:
                here.block = (block, grid)
                function(**{name: values[name] for name in self.kernel.parameters})
            for finding in here.findings:  # already reported
                collector.add(finding)


class Kernel(Launchable, Displayed):
    """A function of tiles, run by every block of a grid: `kernel[grid](arrays..., constant=..., target="a5")`."""

    defined_by = FunctionDefinition

    @public
    def __init__(self, function: FunctionType, mode: str) -> None:
        if not isinstance(function, FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"@pto.kernel takes a function, got {brief(function)}")
        if mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, got {brief(mode)}")
        self.function = function
        self.mode = mode
        self.signature = inspect.signature(function)
        self.parameters = self.signature.parameters
        self.constants = constants_of(function)
        self._check_parameters()
        self._names = tuple(self.parameters)
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        self._positional = tuple(name for name, p in self.parameters.items() if p.kind is not keyword_only)
        empty = inspect.Parameter.empty
        self._defaults = {name: p.default for name, p in self.parameters.items() if p.default is not empty}
        self._traced: dict[Signature, Traced] = {}
        self._launched: dict[Signature, Traced | TracedMember] = {}
        self._families: dict[Signature, Family] = {}
        self._reads: Reads | None = None
        super().__init__(function.__name__, function.__module__)
        update_wrapper(cast("Callable[..., Any]", self), function)

    def _repr_html_(self) -> str:
        """The kernel in a notebook: its parameters and its source."""
        defaults = {name: clipped(repr(value), NAME) for name, value in self._defaults.items()}
        kinds = {name: "constant" if name in self.constants else "argument" for name in self.parameters}
        rows = [(name, kind, defaults.get(name, "")) for name, kind in kinds.items()]
        title, listed = f"Kernel {clipped(self.name, NAME)}", table(rows, ("parameter", "kind", "default"))
        with suppress(OSError, TypeError, SyntaxError):
            return box(title, listed, code(inspect.getsource(self.function)))
        return box(title, listed)

    def _check_parameters(self) -> None:
        if inspect.isgeneratorfunction(self.function) or inspect.iscoroutinefunction(self.function):
            refuse_at(self.function, "KN-05", "a kernel is a plain function, without yield and async", "drop them")
        for name, parameter in self.parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                message = f"every parameter of a kernel has a name; `{name}` is variadic or positional-only"
                refuse_at(self.function, "KN-17", message, "list the parameters, without *args, **options and /")
            if name in (*LAUNCH_OPTIONS, BLOCK_IDX, BLOCK_NUM):
                kind = "an option of every launch" if name in LAUNCH_OPTIONS else "the block's own number"
                message = f"`{name}` is {kind} and cannot be a parameter"
                refuse_at(self.function, "KN-17", message, "choose another name")

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        positional = dict(zip(self._positional, args, strict=False)) if args else {}
        given = {**self._defaults, **positional, **keywords}
        repeated = not positional.keys().isdisjoint(keywords)
        if given.keys() != self.parameters.keys() or len(positional) < len(args) or repeated:
            self._misbound(args, keywords)
        tensors: dict[str, GlobalTensor] = {}
        integers: dict[str, int] = {}
        constants: dict[str, object] = {}
        for name in self._names:
            value = given[name]
            if name in self.constants:
                constants[name] = constant(name, value)
            elif isinstance(value, GlobalTensor):
                tensors[name] = value
            elif is_integer(value):
                integers[name] = operator.index(cast("int", value))
            else:
                tensors[name] = array_argument(name, value)
        return Arguments(tensors, integers, constants)

    def _misbound(self, args: Sequence[object], keywords: Mapping[str, object]) -> NoReturn:
        try:
            given = self.signature.bind_partial(*args, **keywords).arguments
        except TypeError as problem:
            names = [*self.parameters, *LAUNCH_OPTIONS]
            raise TypeError(f"{self.name}: {suggested(str(problem), names)}") from None
        missing = [repr(name) for name in self.missing(given)]
        more = f"{', '.join(missing[:-1])} and {missing[-1]}" if len(missing) > 1 else "".join(missing)
        what = "required arguments" if len(missing) > 1 else "a required argument"
        raise TypeError(f"{self.name}: missing {what}: {more}")

    def missing(self, given: Mapping[str, object]) -> list[str]:
        return [name for name in self._names if name not in given and name not in self._defaults]

    def _current_reads(self) -> Reads:
        """The values that programs depend on; if they have changed, all programs are dropped."""
        reads = self._reads
        if reads is None or not reads.are_current():
            self._reads = reads = Reads(self.function)
            for known in (self._traced, self._launched, self._families, self.cached):
                known.clear()
        return reads

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program for a signature, traced on first use."""
        reads, key = self._current_reads(), (mode.profile.name, arguments.signature)
        traced = recall(self._traced, key)
        if traced is None or traced.reads is not reads:
            made = Traced(self._trace(arguments, mode, reads, Lengths({})), reads)
            traced = remember(self._traced, key, made, MOST_SIGNATURES)
        return traced

    def launched(self, arguments: Arguments, mode: Mode) -> Traced | TracedMember:
        """The program for a signature: from the second length of an array on, one for many lengths if possible."""
        reads, key = self._current_reads(), (mode.profile.name, arguments.signature)
        found = recall(self._launched, key)
        if found is None or found.reads is not reads:
            found = remember(self._launched, key, self._found(arguments, mode, reads), MOST_SIGNATURES)
        return found

    def general(self, arguments: Arguments, mode: Mode) -> tuple[Program, Sequence[Expr]]:
        given = Lengths(arguments.lengths)
        program = self._trace(arguments, mode, self._current_reads(), given)
        return program, given.conditions.expressions

    def _found(self, arguments: Arguments, mode: Mode, reads: Reads) -> Traced | TracedMember:
        lengths, key = arguments.lengths, (mode.profile.name, arguments.family)
        family = recall(self._families, key)
        if family is None or family.reads is not reads:
            traced = self.trace(arguments, mode)
            remember(self._families, key, Family(reads, lengths, traced.program), MOST_SIGNATURES)
            return traced
        member = family.member(lengths)
        if member is None and family.tries < MOST_TRIES and not reads.names("type"):  # a length is not quite an int
            family.tries += 1
            general = self._generalized(arguments, mode, family)
            if general is not None:
                family.programs.append(TracedFamily(general, reads))
                member = family.member(lengths)
        return self.trace(arguments, mode) if member is None else member

    def _generalized(self, arguments: Arguments, mode: Mode, family: Family) -> General | None:
        """The program for many lengths, these among them; None if tracing with expressions for the lengths fails, or
        does not give the program that was traced with the first lengths."""
        given = Lengths(arguments.lengths)
        try:
            program = self._trace(arguments, mode, family.reads, given)
        except Exception:  # which tracing with numbers raises, too, or for which it is needed
            return None
        if len(family.programs) < FIXED_TABLES:
            for view in indexed_views(program):
                given.pin(program.tensors[view.argument].shape[0])
        general = General(at_lengths(program, given.pinned), given.conditions.expressions)
        is_same = not general.holds(family.lengths) or at_lengths(program, family.lengths) == family.first
        return general if is_same and len(given.pinned) < len(given.values) else None

    def _trace(self, arguments: Arguments, mode: Mode, reads: Reads, lengths: Lengths) -> Program:
        code = self.function.__code__
        check_source(code, surroundings(self.function))
        where = Where(code.co_filename, code.co_firstlineno)
        declared = self._declare(arguments, lengths)
        with target(mode.profile.name) as here:
            here.tracer = tracer = Tracer(self.mode, code, self._names, TracedTile, lengths)
            stand_ins: dict[str, Any] = {name: TracedInteger(Var(name)) for name in arguments.integers}
            for name, tensor in arguments.tensors.items():
                argument = declared[name]
                starts = (0,) * len(argument.shape)
                own = None if tensor.is_plain else tensor.shape
                stand_ins[name] = TracedTensor(tracer, argument, own, starts, argument.shape)
            self.function(**{name: stand_ins.get(name, arguments.constants.get(name)) for name in self.parameters})
        listed = tuple(declared.get(name) or Integer(name) for name in self.parameters if name not in self.constants)
        program = Program(
            self.name,
            listed,
            tracer.finish(),
            tuple(arguments.constants.items()),
            tuple(tracer.names.items()),
            self.mode,
            where=where,
        )
        try:
            reads.check()
        except VerifyError:
            self._reads = None  # it refers to what was refused
            raise
        return without_defaults(program, lengths.resolve)

    def _declare(self, arguments: Arguments, lengths: Lengths) -> dict[str, Argument]:
        shared = arguments.shared()
        found: dict[str, Argument] = {}
        for name, tensor in arguments.tensors.items():
            spec = tensor.spec
            kept = slice(5 - len(tensor.shape), 5) if tensor.is_plain else slice(0, 5)
            extent = first_extent(name)
            shape = (extent, *spec.shape[kept][1:]) if extent in lengths.values else spec.shape[kept]
            found[name] = Argument(
                name,
                spec.dtype,
                shape,
                spec.stride[kept],
                spec.layout_kind,
                spec.dynamic,
                shared.get(name, ""),
            )
        return found


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...
@overload
def kernel(*, mode: str = "auto") -> Callable[[Callable[..., None]], Kernel]: ...
@public
def kernel(function: Any = None, /, *, mode: str = "auto") -> Any:
    """Make a kernel of a function.

    In auto mode addresses and flags are inserted; with `mode="manual"` the kernel states them itself.
    """
    return Kernel(function, mode) if function is not None else partial(Kernel, mode=mode)
