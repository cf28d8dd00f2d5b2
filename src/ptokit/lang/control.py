"""Kernel constructs besides instructions: the block index, loops, branches, scalars from memory, flags."""

from __future__ import annotations

import builtins
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from ptokit.brief import brief, listed
from ptokit.finding import Finding, OutOfBoundsError
from ptokit.lang.context import current
from ptokit.lang.faults import place, public, refuse, user_frame, user_place
from ptokit.lang.reading import check_caller
from ptokit.lang.source import marked
from ptokit.lang.stand_ins import TracedTensor
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.traced_integers import TracedInteger, expression, symbolic
from ptokit.program.cores import owners, stated_core
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, truth
from ptokit.program.ir import Barrier, Branch, CrossFlag, Flag
from ptokit.target.profile import CROSS_IDS, EVENT_IDS, PIPES

MOST_BUFFERS = 8


if TYPE_CHECKING:
    const: TypeAlias = Any
else:

    @marked("const")
    class const:
        """Annotates a kernel's parameter as a constant: known while tracing, and part of the signature."""


@public
def block_idx() -> Any:
    """The number of the block that runs, from 0."""
    return _block(0)


@public
def block_num() -> Any:
    """How many blocks the grid has."""
    return _block(1)


def _block(which: int) -> Any:
    context = current()
    if context.tracer is not None:
        return TracedInteger((BLOCK_IDX, BLOCK_NUM)[which])
    if context.block is None:
        raise refuse("KN-01", "there is no block outside a kernel", "call this inside a function under @pto.kernel")
    return context.block[which]


@marked("range")
@public
def range(*bounds: Any, buffers: int = 1) -> Iterator[Any]:
    """`for i in pto.range(start, stop, step):` as a loop of the program; the bounds may be expressions.

    With `buffers=2` every tile made in the body has two copies, which the iterations use alternately, so that
    one iteration can load while the previous one still computes.
    """
    if not 1 <= len(bounds) <= 3:
        raise refuse(
            "KN-06", f"pto.range takes one to three numbers, got {len(bounds)}", "pto.range(start, stop, step)"
        )
    start, stop = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) == 3 else 1
    copies = _constant(buffers, "buffers", 1, MOST_BUFFERS)
    first, last = (symbolic(bound, "pto.range") for bound in (start, stop))
    stride = expression(step, "pto.range")
    if stride == 0:
        raise refuse("KN-06", "the step of pto.range is 0", "count up or down")
    tracer = current().tracer
    if tracer is None:
        return iter(builtins.range(first, last, stride))  # type: ignore[arg-type]
    frame = user_frame()
    check_caller(frame, tracer.code)
    name = tracer.author_names.of((frame,) if frame else ()) or "i"
    return tracer.loop(first, last, stride, copies, name, place(frame, tracer.code))


def _constant(value: object, what: str, least: int, most: int) -> int:
    if isinstance(value, TracedInteger):
        raise refuse("KN-02", f"{what} must be a constant; found {value}", "make it a constant: `n: pto.const`")
    number = expression(value, what)
    assert isinstance(number, int)
    if not least <= number <= most:
        raise refuse("KN-06", f"{what} must be {least} to {most}; found {number}", "choose another number")
    return number


class _Body(ABC):
    """A body that is traced once and runs conditionally."""

    depth = 0
    """The number of enclosing bodies."""

    @public
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close(current().tracer)
        else:
            current().tracer.abandon(self.depth)

    @abstractmethod
    def close(self, tracer: Any) -> None:
        """Record the branch."""


@marked("when")
class when(_Body):
    """`with pto.when(condition):` runs its body if the condition holds (is not 0)."""

    @public
    def __init__(self, condition: Any) -> None:
        self.condition = int(condition) if isinstance(condition, bool) else expression(condition, "pto.when")

    @property
    def holds(self) -> bool:
        """The condition with real values: under debug=True the body becomes a plain `if`."""
        return bool(self.condition)

    @public
    def __enter__(self) -> None:
        tracer = _tracer("pto.when")
        self.where = user_place(tracer.code)
        check_caller(user_frame(), tracer.code)
        self.depth = tracer.enter()

    def close(self, tracer: Any) -> None:
        number = tracer.scopes[-1].number
        branch = Branch(truth(self.condition), tracer.leave(), where=self.where)
        tracer.emit(branch)
        tracer.closed_branch, tracer.closed_body = branch, number


@marked("otherwise")
class otherwise(_Body):
    """`with pto.otherwise():` directly after a `pto.when` body runs if that one does not."""

    @public
    def __enter__(self) -> None:
        tracer = _tracer("pto.otherwise")
        self.branch = tracer.closed_branch
        if self.branch is None:
            raise refuse("KN-06", "pto.otherwise must follow a pto.when body directly", "move it there")
        self.depth = tracer.enter(excludes=tracer.closed_body)

    def close(self, tracer: Any) -> None:
        body = tracer.leave()
        tracer.scopes[-1].statements.pop()  # the branch that `when` has recorded
        tracer.emit(Branch(self.branch.condition, self.branch.then, body, where=self.branch.where))


def _tracer(what: str) -> Any:
    context = current()
    if context.tracer is None and context.block is None:
        raise refuse("KN-01", f"{what} works inside a kernel", "use a plain `if` outside kernels")
    if context.tracer is None:
        message = f"debug=True cannot rewrite this {what}: it has another name, or a function without ptokit calls it"
        raise refuse("KN-06", message, "write `with pto.when(condition):` into the kernel or a function that it calls")
    return context.tracer


@public
def load_scalar(tensor: GlobalTensor, *index: Any) -> Any:
    """One whole number from memory, read by the scalar pipe: `pto.load_scalar(lengths, b)`."""
    if not isinstance(tensor, GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refuse(
            "KN-14", f"pto.load_scalar reads an argument, got {type(tensor).__name__}", "pass the array as one"
        )
    if not tensor.dtype.is_integer or tensor.dtype.numpy.kind == "b":
        raise refuse("KN-14", f"pto.load_scalar reads whole numbers, not {tensor.dtype}", "use a tile for other values")
    if not tensor.is_plain:
        raise refuse("KN-14", "pto.load_scalar reads a plain array", "pass the array without shape=, stride= and NZ")
    if len(index) != len(tensor.shape):
        message = f"pto.load_scalar takes one index for each of the {len(tensor.shape)} dims, got {len(index)}"
        raise refuse("KN-14", message, "pto.load_scalar(tensor, i) or pto.load_scalar(tensor, i, j)")
    tracer = current().tracer
    if tracer is not None:
        if not isinstance(tensor, TracedTensor) or tensor.tracer is not tracer:
            raise refuse("KN-08", "this array is no argument of the kernel", "pass it as one")
        return tracer.load(tensor.block, index)
    position = tuple(operator.index(part) for part in index)
    if not all(0 <= i < n for i, n in zip(position, tensor.shape, strict=True)):
        message = f"the index {list(position)} does not lie within {list(tensor.shape)}"
        raise OutOfBoundsError([Finding("error", "KN-10", message, fix="count from 0", where=user_place())])
    return tensor.number(position)


@public
def set_flag(src: str, dst: str, event: Any = 0) -> None:
    """Pipe `src` sets an event when all that was issued to it before has ended; `dst` can wait for it.

    Pipes that both cores have may be written with a core, `"AIC.MTE2", "AIC.S"`: without one, each core does it.
    """
    _flag("set", src, dst, event)


@public
def wait_flag(src: str, dst: str, event: Any = 0) -> None:
    """Pipe `dst` starts nothing that is issued after this before `src` has set the event."""
    _flag("wait", src, dst, event)


def _flag(action: str, src: str, dst: str, event: Any) -> None:
    pipes, core = (_pipe(_unit(src)), _pipe(_unit(dst))), _one_core(src, dst)
    if pipes[0] == pipes[1]:
        message = f"instructions on one pipe run in order; {pipes[0]} need not wait for itself"
        raise refuse("KN-13", message, "drop the flag")
    number = expression(event, "an event id")
    if isinstance(number, int) and not 0 <= number < EVENT_IDS:
        raise refuse("KN-13", f"event ids are 0 to {EVENT_IDS - 1}; found {number}", "choose another id")
    _manual(f"{action}_flag", Flag(action, *pipes, number, core=stated_core(core, *pipes)))


@public
def sync_set(pipe: str, id: Any = 0) -> None:
    """A pipe sets a flag for the other core when all that was issued to it before has ended.

    The flag counts: each `sync_wait` of the other core takes one set. A pipe that both cores have is written with its
    core: `"AIC.MTE2"`.
    """
    _sync("set", pipe, id)


@public
def sync_wait(pipe: str, id: Any = 0) -> None:
    """A pipe starts nothing that is issued after this before the other core has set the flag.

    On A2/A3 the whole core waits, whatever its pipe.
    """
    _sync("wait", pipe, id)


def _sync(action: str, pipe: object, event: object) -> None:
    core, unit = _pipe_of_core(pipe)
    number = expression(event, "a flag id")
    if isinstance(number, int) and not 0 <= number < CROSS_IDS:
        raise refuse("KN-13", f"flags between cores have ids 0 to {CROSS_IDS - 1}; found {number}", "choose another id")
    _manual(f"sync_{action}", CrossFlag(action, core, unit, number, where=user_place()))


def _pipe_of_core(name: object) -> tuple[str, str]:
    """The core and the pipe of `FIX`, `AIC.FIX` or `AIC.PIPE_FIX`."""
    core, dot, unit = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    bare = _pipe(unit if dot else name)
    first, *others = owners(bare)
    if not dot and others:
        both = " or ".join(f'"{each}.{bare}"' for each in (first, *others))
        raise refuse("KN-13", f"both cores have {bare}", f"name the core: {both}")
    if dot and core not in (first, *others):
        raise refuse("KN-13", f"there is no pipe {bare} of {core or 'no core'}", f'write "{first}.{bare}"')
    return core or first, bare


@public
def barrier(pipe: str = "ALL") -> None:
    """All that was issued before, to one pipe or to `ALL`, ends before anything that is issued after begins.

    It holds for each core by itself, or for the one that is named (`"AIC.ALL"`): no core waits for the other.
    """
    unit, core = _unit(pipe), _one_core(pipe)
    name = "ALL" if str(unit).removeprefix("PIPE_") == "ALL" else _pipe(unit)
    _manual("barrier", Barrier(name, core=stated_core(core, name)))


def _unit(name: object) -> object:
    """A pipe without its core."""
    return name.rpartition(".")[2] if isinstance(name, str) else name


def _one_core(*names: object) -> str:
    """The core that pipes are written with; empty if none is."""
    cores = {core for name in names if isinstance(name, str) and (core := name.rpartition(".")[0])}
    known = owners()
    if len(cores) > 1 or not cores <= {*known}:
        raise refuse("KN-13", f"{listed(names)}: no core", f"the cores are {' and '.join(known)}")
    return next(iter(cores), "")


def _pipe(name: object) -> str:
    bare = name.removeprefix("PIPE_") if isinstance(name, str) else None
    if bare not in PIPES:
        raise refuse("KN-13", f"{brief(name)} is no pipe", f"the pipes are {', '.join(PIPES)}")
    return bare


def _manual(what: str, statement: Flag | CrossFlag | Barrier) -> None:
    """Record a flag or a barrier; an untraced run needs none."""
    tracer = current().tracer
    if tracer is None:
        return
    if tracer.mode != "manual":
        raise refuse("KN-13", f"pto.{what} belongs to manual mode", 'drop it, or use @pto.kernel(mode="manual")')
    tracer.emit(replace(statement, where=user_place(tracer.code)))
