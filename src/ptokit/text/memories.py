"""Pointers and views of a text as array arguments of a program.

An array argument has a shape; a pointer has none until a view gives it one. The first view that starts at a pointer,
with extents that are known at the launch, becomes the argument; further views are arguments that share its memory. A
pointer without such a view is an array of as many elements as the launch passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptokit.finding import Where
from ptokit.isa.dtype import DType
from ptokit.isa.policy import GlobalLayout
from ptokit.program.expr import Expr, Op, Var, apply, variables
from ptokit.program.ir import Argument, View


@dataclass(frozen=True)
class ElementPointer:
    """A pointer: an offset in elements into the memory of an argument."""

    memory: str
    offset: Expr = 0
    steps: tuple[Expr, ...] = ()
    """The terms of the offset, in the order in which they were added: the first six, as no array has as many dims."""

    def plus(self, offset: Expr) -> ElementPointer:
        """The pointer advanced by some elements."""
        return ElementPointer(self.memory, apply("add", self.offset, offset), (*self.steps, offset)[:6])


def size_of(memory: str) -> Var:
    """The variable for the number of elements that the launch passes."""
    return Var(f"{memory}:size")  # no name in a text has a colon


def open_extent(array: str, dim: int) -> str:
    """The name of the number for an extent that an array's type leaves open."""
    return f"{array}.d{dim}"


def is_unshaped(argument: Argument) -> bool:
    """Whether an argument is a pointer without a view that gives it a shape."""
    return argument.shape == (size_of(argument.name),)


class Memories:
    """The arrays of a program: those that the launch passes, and views of them."""

    def __init__(self) -> None:
        self._dtypes: dict[str, DType] = {}
        self._where: dict[str, Where | None] = {}
        self._views: dict[str, dict[str, Argument]] = {}
        self._dynamic: dict[str, set[int]] = {}

    def add(self, name: str, dtype: DType, where: Where | None) -> ElementPointer:
        """A pointer that the launch passes."""
        self._dtypes[name], self._where[name], self._views[name] = dtype, where, {}
        return ElementPointer(name)

    def dtype(self, place: ElementPointer) -> DType:
        """The element type of a pointer."""
        return self._dtypes[place.memory]

    def view(
        self,
        place: ElementPointer,
        shape: tuple[Expr, ...],
        stride: tuple[Expr, ...],
        layout: GlobalLayout,
        name: str,
        steady: frozenset[Var],
        dynamic: tuple[bool, ...] = (False,) * 10,
    ) -> Argument:
        """The argument for a view. `steady` are the variables that are constant during a launch."""
        memory, known = place.memory, self._views[place.memory]
        for argument in known.values():
            found = (argument.shape, argument.stride, argument.layout, argument.offset, argument.dynamic)
            if found == (shape, stride, layout, place.offset, dynamic):
                return argument
        used = frozenset[Var]().union(*map(variables, (*shape, *stride)))
        is_whole = memory not in known and place.offset == 0 and used <= steady
        argument = Argument(
            memory if is_whole else name, self._dtypes[memory], shape, stride, layout, dynamic,
            "", "" if is_whole else memory, place.offset, where=self._where[memory],
        )  # fmt: skip
        known[argument.name] = argument
        return argument

    def mark(self, argument: str, dim: int) -> None:
        """Record that a type leaves an extent open although it is known."""
        self._dynamic.setdefault(argument, set()).add(dim)

    def arguments(self, memory: str) -> tuple[Argument, ...]:
        """The arguments of a pointer; the argument that owns the memory comes first."""
        known = self._views[memory]
        unshaped = Argument(memory, self._dtypes[memory], (size_of(memory),), (1,), where=self._where[memory])
        owner = known.get(memory, unshaped)
        return tuple(map(self._marked, (owner, *(view for name, view in known.items() if name != memory))))

    def _marked(self, argument: Argument) -> Argument:
        marks = self._dynamic.get(argument.name, ())
        if not marks:
            return argument
        lead = 5 - len(argument.shape)
        dynamic = tuple(flag or position - lead in marks for position, flag in enumerate(argument.dynamic))
        return replace(argument, dynamic=dynamic)

    def element(self, place: ElementPointer) -> View:
        """One element, as a view of the argument that owns the memory if the offset has a term for each dim.

        Otherwise it is a view of all elements as one dim.
        """
        argument = self.arguments(place.memory)[0]
        starts = [_divided(part, stride) for part, stride in zip(place.steps, argument.stride, strict=False)]
        if len(place.steps) != len(argument.stride) or None in starts:
            return self._flat(place)
        return View(argument.name, tuple(starts), (1,) * len(starts))  # type: ignore[arg-type]

    def _flat(self, place: ElementPointer) -> View:
        name, memory = f"{place.memory}.elements", place.memory
        every = Argument(
            name, self._dtypes[memory], (size_of(memory),), (1,), view_of=memory, where=self._where[memory]
        )
        self._views[memory][name] = every
        return View(name, (place.offset,), (1,))


def _divided(offset: Expr, stride: Expr) -> Expr | None:
    """The offset divided by a stride, if it is written as a multiple of it."""
    if stride == 1:
        return offset
    if isinstance(offset, int) and isinstance(stride, int) and stride > 0 and offset % stride == 0:
        return offset // stride
    return offset.args[0] if isinstance(offset, Op) and offset.name == "mul" and offset.args[1] == stride else None


def all_of(argument: Argument) -> View:
    """The whole of an argument."""
    return View(argument.name, (0,) * len(argument.shape), argument.shape)


def offset_terms(argument: Argument, view: View) -> tuple[Expr, ...]:
    """The offset of a view's first element, a term for each dim."""
    return tuple(apply("mul", start, stride) for start, stride in zip(view.starts, argument.stride, strict=True))
