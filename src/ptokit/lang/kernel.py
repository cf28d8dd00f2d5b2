"""Kernels: a Python function as a program, traced once per signature and launched over a grid."""

from __future__ import annotations

import inspect
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, update_wrapper
from types import FunctionType
from typing import Any, NoReturn, cast, overload

import numpy as np

from ptokit.engine.interpreter import Executable, written_arguments
from ptokit.finding import Finding, VerifyError, Where
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.policy import PtoEnum
from ptokit.lang.arrays import is_foreign
from ptokit.lang.context import Mode, current, target
from ptokit.lang.expr import Value
from ptokit.lang.source import check_source, constants_of, refuse_at, surroundings, untraced
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.trace import TracedTensor, Tracer
from ptokit.lang.where import refuse, warn_at
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Var
from ptokit.program.ir import Argument, Integer, Program
from ptokit.program.verify import verify

LAUNCH_OPTIONS = ("target", "engine", "threads", "strict", "header", "dyn_ub", "launch", "options", "debug", "grid")
"""Keywords of launches and checks; no parameter of a kernel has one of these names."""
LAUNCHES = ("standard", "function_pointer")
ENGINES = ("auto", "reference")
MODES = ("auto", "manual")
MOST_SIGNATURES = 256

Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Run:
    """What a launch did."""

    findings: tuple[Finding, ...]
    """Hazards and notes, each once."""
    engine: str
    seconds: float
    target: str
    grid: int


@dataclass(frozen=True)
class Ready:
    """A program that was verified for a target and a grid."""

    errors: tuple[Finding, ...]
    remarks: tuple[Finding, ...]
    executable: Executable


class Traced:
    """A program for one signature, with what was worked out for it."""

    def __init__(self, program: Program, outside: dict[str, object]) -> None:
        """`outside` are the values that the program took from around the kernel."""
        self.program = program
        self.outside = outside
        self.writes = written_arguments(program)
        self._executables: dict[Mode, Executable] = {}
        self._ready: dict[tuple[Mode, int], Ready] = {}

    def ready(self, mode: Mode, grid: int) -> Ready:
        """What is certain before it runs on a target, over a grid, and what runs it."""
        ready = self._ready.get((mode, grid))
        if ready is None:
            if len(self._ready) >= MOST_SIGNATURES:
                self._ready.clear()
            ready = self._ready[mode, grid] = self._verify(mode, grid)
        return ready

    def _verify(self, mode: Mode, grid: int) -> Ready:
        findings = verify(self.program, mode.profile, mode.options, grid)
        errors = tuple(finding for finding in findings if finding.level == "error")
        remarks = tuple(finding for finding in findings if finding.level != "error")
        if mode not in self._executables:
            self._executables[mode] = Executable(self.program, mode.profile, mode.options)
        return Ready(errors, remarks, self._executables[mode])


@dataclass(frozen=True)
class Arguments:
    """What a launch passes in, by kind and name."""

    tensors: dict[str, GlobalTensor]
    integers: dict[str, int]
    constants: dict[str, object]

    @property
    def signature(self) -> Signature:
        """All that a program depends on."""
        tensors = [(tensor.spec, tensor.shape) for tensor in self.tensors.values()]
        constants = map(repr, self.constants.values())  # 1, 1.0 and True are equal, 0.0 and -0.0 too
        return (*self.tensors, *tensors, *constants, *self.shared().items())

    def shared(self) -> dict[str, str]:
        """Arguments that share memory with an earlier one, and the first that does, directly or by way of others."""
        owner: dict[str, str] = {}
        for name, tensor in self.tensors.items():
            met = {owner[other] for other in owner if tensor.storage.overlaps(self.tensors[other].storage)}
            first = next((other for other in owner if other in met), name)
            owner[name] = first
            if len(met) > 1:
                owner = {other: first if own in met else own for other, own in owner.items()}
        return {name: own for name, own in owner.items() if name != own}


class Collector:
    """Takes findings to the user, each once a launch: hazards as warnings, all of them into the run."""

    def __init__(self, kernel: Kernel) -> None:
        self.found: list[Finding] = []
        self._module, self._registry = kernel.function.__module__ or "<unknown>", kernel.warned
        self._seen: set[tuple[Any, ...]] = set()

    def __call__(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        for finding in findings:
            if self.is_new(finding) and finding.level == "hazard":
                warn_at(finding, self._module, self._registry)
        return tuple(findings)

    def is_new(self, finding: Finding) -> bool:
        """Keep a finding that is no error and was not made at its place before."""
        key = (finding.level, finding.rule, finding.kind, finding.operand, finding.where)
        if key in self._seen or finding.level == "error":
            return False
        self._seen.add(key)
        self.found.append(finding)
        return True


class Kernel:
    """A function of tiles, run by every block of a grid: `kernel[grid](arrays..., constant=..., target="a5")`."""

    def __init__(self, function: FunctionType, mode: str) -> None:
        if not isinstance(function, FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"@pto.kernel takes a function, got {function!r}")
        if mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, got {mode!r}")
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
        self.warned: dict[Any, Any] = {}
        """The hazards that were shown, as Python's warnings remember them."""
        update_wrapper(cast("Callable[..., Any]", self), function)

    def _check_parameters(self) -> None:
        if inspect.isgeneratorfunction(self.function) or inspect.iscoroutinefunction(self.function):
            refuse_at(self.function, "KN-05", "a kernel is a plain function, without yield and async", "drop them")
        for name, parameter in self.parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                said = f"a kernel's parameters have names of their own; `{name}` stands for several or has none"
                refuse_at(self.function, "KN-17", said, "write every parameter out, without *args, **options and /")
            if name in (*LAUNCH_OPTIONS, BLOCK_IDX, BLOCK_NUM):
                kind = "an option of every launch" if name in LAUNCH_OPTIONS else "the block's own number"
                said = f"`{name}` is {kind} and cannot be a parameter"
                refuse_at(self.function, "KN-17", said, "choose another name")

    def __getitem__(self, grid: object) -> Launcher:
        """The kernel over a grid of so many blocks."""
        return Launcher(self, grid_of(grid))

    def __call__(self, /, *args: object, **options: object) -> None:
        """A kernel needs a grid."""
        name = self.function.__name__
        raise refuse("KN-17", f"{name} is launched over a grid", f"write {name}[blocks](...)")

    def __repr__(self) -> str:
        return f"<kernel {self.function.__name__}>"

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort what a launch was given."""
        positional = dict(zip(self._positional, args, strict=False))
        given = {**self._defaults, **positional, **keywords}
        if len(given) != len(self._names) or len(positional) < len(args) or not positional.keys().isdisjoint(keywords):
            self._misbound(args, keywords)
        tensors: dict[str, GlobalTensor] = {}
        integers: dict[str, int] = {}
        constants: dict[str, object] = {}
        for name in self._names:
            value = given[name]
            if name in self.constants:
                constants[name] = _constant(name, value)
            elif isinstance(value, GlobalTensor):
                tensors[name] = value
            elif is_integer(value):
                integers[name] = operator.index(cast("int", value))
            else:
                tensors[name] = _tensor(name, value)
        return Arguments(tensors, integers, constants)

    def _misbound(self, args: Sequence[object], keywords: Mapping[str, object]) -> NoReturn:
        try:
            self.signature.bind(*args, **keywords)
        except TypeError as problem:
            raise TypeError(f"{self.function.__name__}: {problem}") from None
        raise TypeError(f"{self.function.__name__}: these arguments do not fit {self.signature}")

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program for a signature, traced when it is first asked for."""
        key = (mode.profile.name, arguments.signature)
        traced = self._traced.get(key)
        if traced is None or not self._is_current(traced):
            if len(self._traced) >= MOST_SIGNATURES:
                self._traced.clear()
            traced = self._traced[key] = self._trace(arguments, mode)
        return traced

    def _trace(self, arguments: Arguments, mode: Mode) -> Traced:
        code = self.function.__code__
        check_source(code, surroundings(self.function))
        where = Where(code.co_filename, code.co_firstlineno)
        declared = self._declare(arguments)
        with target(mode.profile.name) as here:
            here.tracer = tracer = Tracer(self.mode, code, self._names)
            stand_ins: dict[str, Any] = {name: Value(Var(name)) for name in arguments.integers}
            for name, tensor in arguments.tensors.items():
                argument = declared[name]
                starts = (0,) * len(argument.shape)
                own = None if tensor.is_plain else tensor.shape
                stand_ins[name] = TracedTensor(tracer, argument, own, starts, argument.shape)
            self.function(**{name: stand_ins.get(name, arguments.constants.get(name)) for name in self.parameters})
        listed = tuple(declared.get(name) or Integer(name) for name in self.parameters if name not in self.constants)
        program = Program(
            self.function.__name__,
            listed,
            tracer.finish(),
            tuple(arguments.constants.items()),
            tuple(tracer.names.items()),
            self.mode,
            where=where,
        )
        return Traced(program, self._outside())

    def _outside(self) -> dict[str, object]:
        """Plain values that the function takes from its module and its closure; a program keeps them."""
        code, names = self.function.__code__, surroundings(self.function)
        used = {name: names.get(name) for name in (*code.co_names, *code.co_freevars)}
        return {name: value for name, value in used.items() if value is not None and isinstance(value, PLAIN)}

    def _is_current(self, traced: Traced) -> bool:
        """Whether those values are still the same."""
        return not traced.outside or traced.outside == self._outside()

    def _declare(self, arguments: Arguments) -> dict[str, Argument]:
        shared = arguments.shared()
        found: dict[str, Argument] = {}
        for name, tensor in arguments.tensors.items():
            spec = tensor.spec
            kept = slice(5 - len(tensor.shape), 5) if tensor.is_plain else slice(0, 5)
            found[name] = Argument(
                name,
                spec.dtype,
                spec.shape[kept],
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
def kernel(function: Any = None, /, *, mode: str = "auto") -> Any:
    """Make a kernel of a function.

    In auto mode addresses and flags are worked out; with `mode="manual"` they are yours and nothing is inserted.
    """
    return Kernel(function, mode) if function is not None else partial(Kernel, mode=mode)


def grid_of(grid: object) -> int:
    """The number of blocks, from what a launch was given."""
    blocks = cast("tuple[object, ...]", grid if isinstance(grid, tuple) else (grid,))
    if len(blocks) != 1 or not is_integer(blocks[0]) or operator.index(cast("int", blocks[0])) < 0:
        found = blocks[0] if len(blocks) == 1 else blocks
        said = f"a grid is one-dimensional, a whole number from 0 up; found {found!r}"
        raise refuse("KN-18", said, "kernel[blocks](...)")
    return operator.index(cast("int", blocks[0]))


def is_integer(value: object) -> bool:
    """Whether a value is a plain whole number, and no truth value or array."""
    if type(value) is int:
        return True
    return not getattr(value, "shape", ()) and hasattr(value, "__index__") and not isinstance(value, bool)


PLAIN = (int, float, str, bool, DType, PtoEnum, type(None))


def _constant(name: str, value: object) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple):
        return tuple(_constant(name, part) for part in cast("tuple[object, ...]", value))
    if isinstance(value, np.generic) and isinstance(cast("Any", value).item(), PLAIN):
        return cast("Any", value).item()
    if isinstance(value, np.dtype):
        return dtype(cast("object", value))
    said = f"the constant `{name}` must be a number, a string, an element type or a tuple of these"
    fix = "pass arrays as arguments without pto.const"
    raise refuse("KN-17", f"{said}; found {type(cast('object', value)).__name__}", fix)


def _tensor(name: str, value: object) -> GlobalTensor:
    if isinstance(value, np.ndarray):
        return _shared(name, cast("object", value))
    if isinstance(value, bool | float | str | list | type(None)):
        said = f"`{name}` takes an array or a whole number; found {value!r}"
        raise refuse("KN-17", said, f"pass an array, or make it a constant: `{name}: pto.const`", name)
    if not (hasattr(value, "__array_interface__") or is_foreign(value)):
        raise refuse("KN-17", f"`{name}` takes an array; found {type(value).__name__}", "pass a NumPy array", name)
    return _shared(name, value)


def _shared(name: str, array: object) -> GlobalTensor:
    try:
        return GlobalTensor(array)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"`{name}`: {problem}") from None


@lru_cache(maxsize=256)
def _mode(name: str, header: bool, strict: bool, dyn_ub: int | None) -> Mode:
    return target(name, header=header, strict=strict, dyn_ub=dyn_ub).mode


def mode_of(
    name: str | None = None, header: bool | None = None, strict: bool | None = None, dyn_ub: int | None = None
) -> Mode:
    """The target and how strictly to judge: as asked, else as the current target has it."""
    here = current().mode
    chosen = here.options
    if dyn_ub is not None and not is_integer(dyn_ub):
        raise ValueError(f"dyn_ub takes a number of bytes, got {dyn_ub!r}")
    return _mode(
        here.profile.name if name is None else name,
        chosen.header if header is None else bool(header),
        chosen.strict if strict is None else bool(strict),
        chosen.dyn_ub if dyn_ub is None else dyn_ub,
    )


def check_options(
    engine: object = "auto", threads: object = None, launch: object = "standard", options: object = None
) -> None:
    """Refuse options of a launch that mean nothing."""
    if engine not in ENGINES:
        raise ValueError(f"engine is one of {', '.join(ENGINES)}; got {engine!r}")
    if threads is not None and not (is_integer(threads) and operator.index(cast("int", threads)) > 0):
        raise ValueError(f"threads takes a number from 1 up, got {threads!r}")
    if launch not in LAUNCHES:
        raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; got {launch!r}")
    if options is not None:
        raise ValueError("options= is for engines that have any; this one has none")


def refuse_inside(what: str) -> None:
    """Refuse what makes no sense inside a kernel."""
    here = current()
    if here.tracer is not None or here.block is not None:
        raise refuse("KN-17", f"{what} cannot stand inside a kernel", "launch one kernel after the other")


class Launcher:
    """A kernel with its grid, ready to be called."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Kernel, grid: int) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(
        self,
        /,
        *args: object,
        target: str | None = None,
        engine: str = "auto",
        threads: int | None = None,
        strict: bool | None = None,
        header: bool | None = None,
        dyn_ub: int | None = None,
        launch: str = "standard",
        options: object = None,
        debug: bool = False,
        **keywords: Any,
    ) -> Run:
        """Verify and run: the kernel's own arguments by position or name, and how to launch it.

        `target`, `strict`, `header` and `dyn_ub` are those of the current target unless given. `debug=True` runs the
        function untraced, with real values.
        """
        refuse_inside("a launch")
        check_options(engine, threads, launch, options)
        mode = mode_of(target, header, strict, dyn_ub)
        arguments = self.kernel.bind(args, keywords)
        return self._debug(arguments, mode) if debug else self._run(arguments, mode)

    def _run(self, arguments: Arguments, mode: Mode) -> Run:
        kernel, tensors = self.kernel, arguments.tensors
        traced = kernel.trace(arguments, mode)
        ready = traced.ready(mode, self.grid)
        if ready.errors:
            raise VerifyError(ready.errors)
        for name in traced.writes:
            if not tensors[name].storage.writable:
                raise ValueError(f"{kernel.function.__name__}: {name} is read-only; pass a writable array")
        collector = Collector(kernel)
        if ready.remarks:
            collector(ready.remarks)
        storages = {name: tensor.storage for name, tensor in tensors.items()}
        integers = {Var(name): value for name, value in arguments.integers.items()}
        began = time.perf_counter()
        ready.executable.launch(storages, integers, self.grid, collector)
        return Run(tuple(collector.found), "reference", time.perf_counter() - began, mode.profile.name, self.grid)

    def _debug(self, arguments: Arguments, mode: Mode) -> Run:
        kernel, options = self.kernel, mode.options
        check_source(kernel.function.__code__, surroundings(kernel.function))
        function = untraced(kernel.function)
        values = {**arguments.tensors, **arguments.integers, **arguments.constants}
        collector = Collector(kernel)
        began = time.perf_counter()
        for block in range(self.grid):
            with target(mode.profile.name, header=options.header, strict=options.strict, dyn_ub=options.dyn_ub) as here:
                here.block = (block, self.grid)
                function(**{name: values[name] for name in kernel.parameters})
            for finding in here.findings:  # which were told when they were made
                collector.is_new(finding)
        return Run(tuple(collector.found), "reference", time.perf_counter() - began, mode.profile.name, self.grid)
