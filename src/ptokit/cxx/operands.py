"""The operands of recorded calls: tiles, arrays and numbers, as a type and the numbers that may change with it; the
addresses of tiles that have none and that others are views of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ptokit.cxx.alike import Ints
from ptokit.cxx.recording import CONVOLUTION, LaunchArgument, RecordedArray, RecordedCall, RecordedOperand, RecordedTile
from ptokit.isa.dtype import FLOAT8_E8M0, DType, dtype
from ptokit.isa.instruction import Instruction
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, Pad, SLayout, TileType
from ptokit.program.expr import Expr
from ptokit.program.ir import Argument, Constant, Number, Operand, View

DIMS = 5
MOST_SIZE = 1 << 61
"""Sizes and strides beyond this, which only a damaged trace has, count as this."""
STAND_INS: dict[str, str] = dict.fromkeys(("float4_e2m1", "float4_e1m2"), "uint8")
"""Other element types for those that no modelled instruction has: bytes, of two elements each."""
PACKED_MEMORIES = ("mat", "left", "right")
"""Memories whose tiles count elements of four bits. Public kernels count tiles in UB in bytes, too: these are taken as
bytes."""
PACKED = "int4"
"""The type whose tiles count elements of four bits in UB, too (a2a3/TCvt.hpp:596). Rows there are as many bytes apart
as they have elements (TCvt.hpp:1088)."""
Indices = tuple[int, ...]


class Unexpressible(Exception):
    """An operand that a program cannot have, with the reason."""


def element_type(name: str) -> DType:
    """The element type of a name, or one that stands in for it."""
    return dtype(STAND_INS.get(name, name))


def in_bytes(tile: RecordedTile) -> RecordedTile:
    """A tile of elements of four bits as the tile of bytes that it is: half of the rows or columns, whichever lie side
    by side."""
    if tile.dtype != PACKED and (tile.dtype not in STAND_INS or tile.memory not in PACKED_MEMORIES):
        return tile
    inner = tile.slayout if tile.slayout != "none_box" else tile.blayout
    if inner == "row_major":
        has_gaps = tile.memory == "vec" and tile.rows > 1
        return replace(tile, cols=tile.cols if has_gaps else _half(tile.cols), valid_cols=_half(tile.valid_cols))
    return replace(tile, rows=_half(tile.rows), valid_rows=_half(tile.valid_rows))


def array_in_bytes(use: RecordedArray) -> RecordedArray:
    """An array of elements of four bits as one of bytes: half of the dim whose elements lie side by side, and half of
    the other strides."""
    if use.dtype not in STAND_INS or 1 not in use.stride:
        return use
    inner = max((dim for dim in range(DIMS) if use.stride[dim] == 1), key=lambda dim: (use.shape[dim], dim))
    shape = tuple(_half(extent) if dim == inner else extent for dim, extent in enumerate(use.shape))
    stride = tuple(step if dim == inner else _half(step) for dim, step in enumerate(use.stride))
    return replace(use, shape=shape, stride=stride)


def _half(count: int) -> int:
    return -(-count // 2)


class UsedNames:
    """Names that are in use."""

    def __init__(self, names: Iterable[str] = (), first: int = 1) -> None:
        """`first` is the first number behind a word."""
        self._names, self._first = set(names), first
        self._numbers: dict[str, int] = {}
        """The last number behind each word."""

    def new(self, word: str) -> str:
        """A word, with a number behind it if it is used; it is used from now on."""
        name, number = word, self._numbers.get(word, self._first - 1)
        while name in self._names:
            number += 1
            name = f"{word}_{number}"
        self._numbers[word] = number
        self._names.add(name)
        return name


def check_modelled(operand: RecordedOperand, definition: Instruction | None = None) -> None:
    """Refuse a tile or an array that this instruction, or every modelled one, does not take."""
    of_scales = isinstance(operand, RecordedTile | RecordedArray) and operand.dtype == FLOAT8_E8M0.name
    if of_scales and not (definition and any(param.has_scales for param in definition.operands)):
        raise Unexpressible("ptokit does not model this of scales")
    if isinstance(operand, RecordedTile | RecordedArray) and operand.dtype in STAND_INS:
        raise Unexpressible(f"ptokit does not model {operand.dtype}")
    if isinstance(operand, RecordedArray) and operand.layout.lower() not in LAYOUT_NAMES:
        raise Unexpressible(f"ptokit does not model the layout {operand.layout} of a global tensor")
    if isinstance(operand, RecordedTile) and operand.compact == CONVOLUTION:
        raise Unexpressible("ptokit does not model convolution tiles")
    if isinstance(operand, RecordedTile) and operand.pad == "custom":
        raise Unexpressible("ptokit does not model the padding with a number")


LAYOUT_NAMES = {member.text: member for member in GlobalLayout}


# --- numbers


@dataclass(frozen=True)
class ConstantSlot:
    """A number that is the same in every iteration."""

    constant: Constant
    size = 0
    """How many numbers it has."""

    def operand(self, _numbers: Sequence[Expr]) -> Operand:
        return self.constant


@dataclass(frozen=True)
class NumberSlot:
    """A whole number."""

    dtype: DType
    is_position: bool
    size = 1

    def operand(self, numbers: Sequence[Expr]) -> Operand:
        (value,) = numbers
        if isinstance(value, int) and not self.is_position:
            return Constant(self.dtype, value % (1 << 8 * self.dtype.size))
        return Number(self.dtype, value, self.is_position)


# --- tiles


@dataclass(frozen=True)
class TileSlot:
    """A tile: its type. Its numbers are the address, unless it has none, and the valid extents."""

    spec: TileSpec
    object: int | None = None
    """The C++ object, if it has no address."""
    view: int = 0
    """Bytes from the start of that object."""
    is_pointed: bool = False
    """Whether it stands for whatever tiles a pointer reaches."""

    @property
    def size(self) -> int:
        return 3 if self.object is None else 2


def tile_slot(tile: RecordedTile) -> tuple[TileSlot, Indices]:
    """A recorded tile as a type and numbers."""
    tile = in_bytes(tile)
    try:
        loc, kind = TileType.parse(tile.memory), element_type(tile.dtype)
        blayout, slayout = BLayout.parse(tile.blayout), SLayout.parse(tile.slayout)
        pad = Pad.parse(tile.pad) if tile.pad != "custom" else Pad.Null
    except (ValueError, TypeError) as problem:
        raise Unexpressible(str(problem)) from problem
    spec = TileSpec(
        kind, loc, tile.rows, tile.cols, tile.rows, tile.cols, blayout, slayout, tile.fractal, pad, dynamic=tile.dynamic
    )
    valid = tile.valid_rows, tile.valid_cols
    if tile.address is None:
        return TileSlot(spec, tile.object, tile.view or 0), valid
    return TileSlot(spec), (tile.address, *valid)


@dataclass(frozen=True)
class ElementSlot:
    """One element of a tile, or some side by side. Its numbers are the tile's address, unless it has none, the row and
    the column."""

    tile: TileSlot
    count: int = 1

    @property
    def size(self) -> int:
        return self.tile.size


def element_slot(tile: RecordedTile, offset: int, count: int = 1) -> tuple[ElementSlot, Indices]:
    """The elements of a tile from an offset in its storage on. Raises Unexpressible."""
    slot, numbers = tile_slot(tile)
    if slot.spec.format not in ("nd", "dn"):
        raise Unexpressible("ptokit does not model elements of such a tile")
    row, col = divmod(offset, slot.spec.stride)
    address = numbers[:-2]
    return ElementSlot(slot, count), (*address, *((row, col) if slot.spec.format == "nd" else (col, row)))


# --- arrays


@dataclass(frozen=True)
class ArraySlot:
    """A block of an argument. Its numbers are the starts, then the sizes, of each dim."""

    argument: str
    dims: int

    @property
    def size(self) -> int:
        return 2 * self.dims

    def operand(self, numbers: Sequence[Expr]) -> Operand:
        return View(self.argument, tuple(numbers[: self.dims]), tuple(numbers[self.dims :]))


@dataclass(frozen=True)
class _Pattern:
    """How uses of an array step through it: the strides of the dims in which one of them has several elements."""

    argument: int
    dtype: DType
    layout: GlobalLayout
    dynamic: tuple[bool, ...]
    strides: tuple[int | None, ...]

    def joined(self, other: _Pattern) -> _Pattern | None:
        """A pattern of both, if their strides do not differ."""
        if replace(self, strides=()) != replace(other, strides=()):
            return None
        pairs = list(zip(self.strides, other.strides, strict=True))
        if any(a is not None and b is not None and a != b for a, b in pairs):
            return None
        return replace(self, strides=tuple(b if a is None else a for a, b in pairs))


def _pattern(use: RecordedArray) -> _Pattern:
    if use.argument is None:
        raise Unexpressible("the pointer is in none of the arrays of the launch")
    kind = element_type(use.dtype)
    if use.offset % kind.size:
        raise Unexpressible(f"the pointer is not aligned to {kind}")
    layout = LAYOUT_NAMES.get(use.layout.lower(), GlobalLayout.ND)
    strides = tuple(step if extent > 1 else None for extent, step in zip(use.shape, use.stride, strict=True))
    return _Pattern(use.argument, kind, layout, use.dynamic, strides)


@dataclass(frozen=True, eq=False)
class _Placed:
    """Uses of one form in an argument: rising offsets, and the numbers of each."""

    slot: ArraySlot
    offsets: Ints
    numbers: Ints


Uses = dict[RecordedArray, Ints]
"""Offsets of uses, by the use at offset 0."""


class Arrays:
    """The arrays of a launch, as arguments of its program."""

    def __init__(self, arguments: Sequence[LaunchArgument], uses: Iterable[tuple[RecordedArray, Ints]]) -> None:
        """`uses` come with the offsets at which they are."""
        self._names = UsedNames(argument.name for argument in arguments)
        uses = list(uses)
        used = {use.argument for use, _ in uses}
        self._arrays = {
            k: argument
            for k, argument in enumerate(arguments)
            if argument.shape is not None and (k in used or not argument.is_stored)
        }
        self._bases = {k: _base(array) for k, array in self._arrays.items()}
        self._placed: dict[RecordedArray, list[_Placed]] = {}
        self._made: list[Argument] = []
        forms: dict[RecordedArray, list[Ints]] = {}
        for use, offsets in uses:
            forms.setdefault(replace(array_in_bytes(use), offset=0), []).append(offsets)
        groups: dict[_Pattern, Uses] = {}
        for form, parts in forms.items():
            self._join(groups, form, np.unique(np.concatenate(parts)))
        for pattern, members in groups.items():
            self._place(pattern, members)

    def view(self, use: RecordedArray) -> tuple[ArraySlot, Indices]:
        """A recorded array as an argument and numbers."""
        (found,) = self.views(use, np.array([use.offset]))
        return found[0], tuple(found[2][0].tolist())

    def views(self, use: RecordedArray, offsets: Ints) -> list[tuple[ArraySlot, Ints, Ints]]:
        """A recorded array at several offsets: arguments, each with the places of its offsets, and their numbers."""
        use, found = array_in_bytes(use), list[tuple[ArraySlot, Ints, Ints]]()
        for placed in self._placed.get(replace(use, offset=0), ()):
            at = np.minimum(np.searchsorted(placed.offsets, offsets), len(placed.offsets) - 1)
            rows = np.flatnonzero(placed.offsets[at] == offsets)
            if len(rows):
                found.append((placed.slot, rows, placed.numbers[at[rows]]))
        if not found:
            _pattern(use)  # says what is wrong
            raise KeyError(use)
        return found

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments: one for each array of the launch, and views of them."""
        return (*self._bases.values(), *self._made)

    def _join(self, groups: dict[_Pattern, Uses], form: RecordedArray, offsets: Ints) -> None:
        try:
            pattern = _pattern(form)
        except Unexpressible:
            return
        offsets = offsets[offsets % pattern.dtype.size == 0]
        if not len(offsets):
            return
        for known in groups:
            if (both := known.joined(pattern)) is not None:
                groups[both] = {**groups.pop(known), form: offsets}
                return
        groups[pattern] = {form: offsets}

    def _place(self, pattern: _Pattern, uses: Uses) -> None:
        """Find the argument of some uses, and their indices in it."""
        base = self._bases[pattern.argument]
        found = {form: _in_array(base, pattern, form, offsets) for form, offsets in uses.items()}
        if all(indices is not None for indices in found.values()):
            self._note(base, pattern, {form: (uses[form], at) for form, at in found.items() if at is not None})
            return
        elements = prod(self._arrays[pattern.argument].shape or ()) * base.dtype.size // pattern.dtype.size
        shape, stride = _shape_of(pattern, elements)
        placed: dict[RecordedArray, tuple[Ints, Ints]] = {}
        left: Uses = {}
        made = {form: _decomposed(shape, stride, pattern, form, offsets) for form, offsets in uses.items()}
        repeated = {_form(form) for form, (_, fits) in made.items() if 1 in form.shape and not fits.all()}
        for form, (indices, fits) in made.items():
            own = fits & (_form(form) not in repeated)
            if own.any():
                placed[form] = uses[form][own], indices[own]
            if not own.all():
                left[form] = uses[form][~own]
        if placed:
            self._note(self._view_of(pattern, base, shape, stride), pattern, placed)
        for together in _alike(left):
            self._repeated(pattern, base, together)

    def _repeated(self, pattern: _Pattern, base: Argument, uses: Uses) -> None:
        """An argument for uses of one shape that other strides do not reach: they are its items in a dim of their
        own. If all dims are taken, there is one use."""
        form = next(iter(uses))
        places = {use: offsets // pattern.dtype.size for use, offsets in uses.items()}
        every = np.unique(np.concatenate([*places.values()]))
        shape, stride, first = list(form.shape), list(form.stride), int(every[0])
        step = int(np.gcd.reduce(every - first)) or 1
        indices = {use: np.tile(np.array([0] * DIMS + list(use.shape)), (len(at), 1)) for use, at in places.items()}
        if len(every) > 1:
            dim = shape.index(1)
            shape[dim], stride[dim] = int(every[-1] - first) // step + 1, step
            for use, at in places.items():
                indices[use][:, dim] = (at - first) // step
        view = self._view_of(pattern, base, shape, stride, first)
        self._note(view, pattern, {use: (offsets, indices[use]) for use, offsets in uses.items()})

    def _note(self, argument: Argument, pattern: _Pattern, uses: Mapping[RecordedArray, tuple[Ints, Ints]]) -> None:
        """Use an argument for some uses. If its own marks of run-time extents are others, it is a view of it."""
        if not argument.view_of and argument.dynamic != pattern.dynamic:
            if any(placed.slot.argument == argument.name for known in self._placed.values() for placed in known):
                argument = self._view_of(pattern, argument, argument.shape, argument.stride)
            else:
                argument = self._bases[pattern.argument] = replace(argument, dynamic=pattern.dynamic)
        for form, (offsets, numbers) in uses.items():
            slot = ArraySlot(argument.name, len(argument.shape))
            self._placed.setdefault(form, []).append(_Placed(slot, offsets, numbers))

    def _view_of(
        self, pattern: _Pattern, base: Argument, shape: Sequence[Expr], stride: Sequence[Expr], offset: int = 0
    ) -> Argument:
        name = self._names.new(f"{base.name}_{len(self._made) + 1}")
        view = Argument(
            name, pattern.dtype, tuple(shape), tuple(stride), pattern.layout, pattern.dynamic, view_of=base.name,
            offset=offset,
        )  # fmt: skip
        self._made.append(view)
        return view


def _form(use: RecordedArray) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return use.shape, use.stride


def _alike(uses: Uses) -> Iterable[Uses]:
    """Uses of one shape together, those that have a dim of one item; the others alone."""
    groups: dict[object, Uses] = {}
    for form, offsets in uses.items():
        if 1 in form.shape:
            groups.setdefault(_form(form), {})[form] = offsets
        else:
            groups |= {(form, k): {form: offsets[k : k + 1]} for k in range(len(offsets))}
    return groups.values()


def _base(array: LaunchArgument) -> Argument:
    """An array in its own shape."""
    shape = array.shape or ()
    if not shape:
        shape = (1,)
    if len(shape) > DIMS:
        shape = (prod(shape[: 1 - DIMS]), *shape[1 - DIMS :])
    stride = tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
    return Argument(array.name, dtype(array.dtype), shape, stride)


def _in_array(base: Argument, pattern: _Pattern, form: RecordedArray, offsets: Ints) -> Ints | None:
    """The starts and the sizes of uses in the array's own dims, if they are blocks of it."""
    dims = len(base.shape)
    if pattern.dtype is not base.dtype or pattern.layout is not GlobalLayout.ND or offsets[0] < 0:
        return None
    hidden, own = pattern.strides[: DIMS - dims], pattern.strides[DIMS - dims :]
    if any(step is not None for step in hidden) or 0 in form.shape[: DIMS - dims]:
        return None
    if any(step not in (None, mine) for step, mine in zip(own, base.stride, strict=True)):
        return None
    starts, left = np.empty((len(offsets), dims), np.int64), offsets // pattern.dtype.size
    for dim, step in enumerate(base.stride):
        assert isinstance(step, int)
        starts[:, dim], left = np.divmod(left, max(1, step))
    sizes = np.array(form.shape[DIMS - dims :], np.int64)
    most = [extent for extent in base.shape[1:] if isinstance(extent, int)]
    is_inside = (starts[:, 1:] + np.minimum(sizes[1:], MOST_SIZE) <= most).all()
    return np.hstack((starts, np.broadcast_to(sizes, starts.shape))) if is_inside else None


def _shape_of(pattern: _Pattern, elements: int) -> tuple[list[int], list[int]]:
    """The extents and strides of an argument for a pattern: as much of the array as its strides can reach."""
    shape, stride = [1] * DIMS, [step or 0 for step in pattern.strides]
    if pattern.strides[-1] is None and 1 not in pattern.strides:
        stride[-1] = 1
    steps = sorted({step for step in stride if step > 0}, reverse=True)
    for dim, step in enumerate(stride):
        if step > 0:
            larger = steps[steps.index(step) - 1] if step != steps[0] else None
            shape[dim] = larger // step if larger else -(-elements // step)
    for dim in reversed(range(DIMS)):  # dims without steps
        if not stride[dim]:
            stride[dim] = shape[dim + 1] * stride[dim + 1] if dim + 1 < DIMS else 1
    return shape, stride


def _decomposed(
    shape: list[int], stride: list[int], pattern: _Pattern, form: RecordedArray, offsets: Ints
) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The starts and the sizes of uses in an argument of this shape, and whether each is a block of it."""
    left, sizes = offsets // pattern.dtype.size, np.array(form.shape, np.int64)
    starts = np.zeros((len(offsets), DIMS), np.int64)
    live = sorted((dim for dim in range(DIMS) if shape[dim] > 1 or pattern.strides[dim]), key=lambda dim: -stride[dim])
    for dim in live:
        starts[:, dim], left = np.divmod(left, min(stride[dim], MOST_SIZE))
    fits = left == 0
    for dim in range(DIMS):
        if form.shape[dim] > 0 and dim != (live[0] if live else -1):
            fits &= starts[:, dim] + min(form.shape[dim], MOST_SIZE) <= shape[dim]
    return np.hstack((starts, np.broadcast_to(sizes, starts.shape))), fits


ALIGNMENT = 512
"""Of the addresses, in bytes: that of fractals."""
Home = tuple[int, str]
"""The number of a C++ object, and its memory."""


def homes(calls: Collection[RecordedCall]) -> dict[Home, int]:
    """The addresses of the tiles that others are views of."""
    sizes: dict[Home, int] = {_home(tile): 0 for tile in _tiles(calls) if tile.view is not None}
    given: dict[str, int] = {}
    """Where the tiles with addresses of their own end."""
    for tile in _tiles(calls) if sizes else ():
        if tile.address is not None:
            given[tile.memory] = max(given.get(tile.memory, 0), tile.address + _nbytes(tile))
    for tile in _tiles(calls) if sizes else ():
        if (home := _home(tile)) in sizes and tile.address is None:
            sizes[home] = max(sizes[home], (tile.view or 0) + _nbytes(tile))
    ends = {memory: _up(end) for memory, end in given.items()}
    found: dict[Home, int] = {}
    for home, size in sizes.items():
        found[home] = ends.get(home[1], 0)
        ends[home[1]] = found[home] + _up(size)
    return found


def has_view(call: RecordedCall) -> bool:
    """Whether an operand is a view of a tile without an address."""
    return any(tile.view is not None for tile in _tiles([call]))


def at_home(call: RecordedCall, known: Mapping[Home, int]) -> RecordedCall:
    """A call on tiles and views with the addresses of their homes."""
    return replace(call, operands=tuple(_placed(operand, known) for operand in call.operands))


def _placed(operand: object, known: Mapping[Home, int]) -> object:
    if not isinstance(operand, RecordedTile) or operand.address is not None or _home(operand) not in known:
        return operand
    return replace(operand, address=known[_home(operand)] + (operand.view or 0), view=None)


def _tiles(calls: Collection[RecordedCall]) -> Iterator[RecordedTile]:
    return (operand for call in calls for operand in call.operands if isinstance(operand, RecordedTile))


def _home(tile: RecordedTile) -> Home:
    return tile.object, tile.memory


def _nbytes(tile: RecordedTile) -> int:
    try:
        return tile_slot(tile)[0].spec.nbytes
    except Unexpressible:
        return 0


def _up(number: int) -> int:
    return -(-number // ALIGNMENT) * ALIGNMENT
