"""Tiles: two-dimensional blocks in on-chip memory, and the slices of them that `tile[a:b, c:d]` selects."""

from __future__ import annotations

import inspect
import operator
from dataclasses import replace
from typing import Any, NoReturn, Self, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.storage import Storage
from ptokit.finding import VerifyError
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import CUBE_FORMS, LAYOUTS, Dyn, OperandSpec, TileSpec, show_extents
from ptokit.isa.policy import BLayout, Pad, SLayout, TileType, choose
from ptokit.lang.arrays import exact_cast
from ptokit.lang.context import current
from ptokit.lang.faults import public, refuse, user_place
from ptokit.lang.refused_operators import Valueless, no_array
from ptokit.lang.traced_integers import TracedInteger, expression, pinned
from ptokit.program.bounds import AXES, layout_problem
from ptokit.program.expr import Expr, subtract
from ptokit.program.instr_calls import offset_in
from ptokit.program.ir import Window
from ptokit.program.verify_call import verify_address

Extents = tuple[Expr, Expr]


def cut(name: str, key: object, spec: TileSpec, valid: Extents) -> tuple[Window, Extents]:
    """The slice of a tile that a subscript names, and its valid extents."""
    parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
    if len(parts) > 2:
        _refuse(name, f"{len(parts)} subscripts for a tile", "a tile has rows and columns: tile[a:b, c:d]")
    ranges = [
        _range(name, axis, parts[axis] if axis < len(parts) else slice(None), spec, valid[axis]) for axis in (0, 1)
    ]
    (row, rows, valid_rows), (col, cols, valid_cols) = ranges
    window = Window((row, col), (rows, cols))
    if message := layout_problem(spec, window):
        _refuse(name, message, "slice there, or copy what you need: pto.textract", "SL-03")
    return window, (valid_rows, valid_cols)


def _refuse(name: str, message: str, fix: str, rule: str = "SL-01") -> NoReturn:
    raise refuse(rule, f"{message}; found in a slice of {name}", fix, name)


def _range(name: str, axis: int, part: object, spec: TileSpec, valid: Expr) -> tuple[Expr, int, Expr]:
    """The start, the allocated and the valid extent in one dim."""
    if not isinstance(part, slice):
        _refuse(name, f"a tile is sliced as tile[a:b, c:d], and {brief(part)} is no slice", "a row is tile[i : i + 1]")
    first, last, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step is not None and not (isinstance(step, int) and step == 1):
        _refuse(name, f"slices of tiles have no step; found {brief(step)}", "leave the step out")
    allocated = (spec.rows, spec.cols)[axis]
    if first is None and last is None:
        return 0, allocated, valid
    start = 0 if first is None else expression(first, "the start of a slice")
    stop = valid if last is None else expression(last, "the end of a slice")
    length = subtract(*pinned(stop, start))
    limit = valid if isinstance(valid, int) else allocated
    known = [number for number in (start, stop) if isinstance(number, int)]
    is_empty = isinstance(length, int) and length <= 0
    if is_empty or any(not 0 <= number <= limit for number in known) or (isinstance(length, int) and length > limit):
        fault = "is empty" if is_empty else f"does not lie within 0:{limit}, the valid {AXES[axis]}"
        message = f"the slice {start}:{stop} {fault}"
        _refuse(name, message, "write both ends; they count from 0 and lie within the valid region")
    if isinstance(length, int):
        return start, length, length
    if not isinstance(start, int):
        message = f"of {start}:{stop}, neither the start nor the length is a constant"
        _refuse(name, message, "tile[i : i + 8] has a constant length; set .valid of the slice for fewer")
    return start, allocated - start, length


# --- tiles


Array = np.ndarray[Any, np.dtype[Any]]

MAX_BYTES = 1 << 30


class Tile(Valueless):
    """A tile of `rows` x `cols` elements, of which the upper-left `valid` part holds data.

    A new tile is poison: every byte 0xFF. With `addr=` it shows what the target's memory holds there.
    """

    __slots__ = ("spec", "storage")

    def __new__(cls, *_args: object, **_options: object) -> Self:
        """A tile of memory, or a tile of the program while a kernel is traced."""
        tracer = current().tracer
        return object.__new__(cls if tracer is None else tracer.tile)

    @public
    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self,
        loc: str | TileType,
        dtype: object,
        rows: int,
        cols: int,
        *,
        valid: tuple[int, int] | None = None,
        blayout: str | BLayout | None = None,
        slayout: str | SLayout | None = None,
        fractal: int | None = None,
        pad: str | Pad = "null",
        addr: int | None = None,
    ) -> None:
        self.spec = describe(loc, dtype, rows, cols, valid, blayout, slayout, fractal, pad, addr)
        self.storage = _storage(self.spec)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Allocated (padded) rows and columns."""
        return self.spec.rows, self.spec.cols

    @property
    def valid(self) -> tuple[int, int]:
        """Rows and columns of the valid region."""
        return self.spec.valid

    @valid.setter
    @public
    def valid(self, extents: tuple[int, int]) -> None:
        """Change the extents that were given as `dyn` (CO-DYN-01); the others are part of the type (CO-API-01).

        In a kernel every tile whose extents change is made with dynamic ones.
        """
        rows, cols, _ = _valid(extents, *self.shape)
        fixed = zip((rows, cols), self.spec.valid, self.spec.dynamic, strict=True)
        in_kernel = current().block is not None
        if not in_kernel and any(new != old and not dynamic for new, old, dynamic in fixed):
            raise refuse("CO-API-01", f"{self.spec} has fixed valid extents", "make the tile with valid=(dyn(n), ...)")
        self.spec = replace(self.spec, valid_rows=rows, valid_cols=cols)

    @property
    def addr(self) -> int | None:
        """The byte address, if one was given."""
        return self.spec.addr

    @property
    def buffer(self) -> Array:
        """The raw storage in physical order, one-dimensional, as a writable view."""
        return self.storage.bits.view(self.spec.dtype.numpy)

    def read(self) -> Array:
        """A copy of the valid region in logical order."""
        return self.storage.bits[self._offsets()].view(self.spec.dtype.numpy)

    @public
    def write(self, values: object) -> Self:
        """Fill the valid region with an array of its shape or with one number; returns the tile.

        Values are cast only when the tile's type can represent every one of them: 0.1 as a Python float has no
        float32, so write `np.float32(0.1)` or `array.astype("float32")`.
        """
        exact = exact_cast(values, self.spec.dtype, f"a {self.spec} tile")
        vector = exact.ndim == 1 and 1 in self.valid and exact.size == max(self.valid)
        if exact.ndim and exact.shape != self.valid and not vector:
            raise ValueError(f"the valid region is {show_extents(self.valid)}; got an array of shape {exact.shape}")
        self.storage.bits[self._offsets()] = exact.reshape(self.valid) if vector else exact
        return self

    def __getitem__(self, key: object) -> Tile:
        """A slice, `tile[a:b]` or `tile[a:b, c:d]`: a tile that shares this one's memory."""
        window, valid = cut("this tile", key, self.spec, self.spec.valid)
        start = cast("int", offset_in(self.spec, window))
        part = object.__new__(Tile)
        rows, cols = cast("tuple[int, int]", valid)
        part.spec = replace(self.spec.cut(*window.size, start), valid_rows=rows, valid_cols=cols)
        part.storage = self.storage.part(start, part.spec.elements)
        return part

    __array__ = no_array
    __iter__ = None  # subscripts are slices, so there is nothing to iterate over

    def bind(self, addr: int) -> None:
        """Move to an address of the current target's memory (`pto.tassign`)."""
        if self.spec.is_slice:
            raise refuse("SL-01", "a slice has no address of its own; found tassign", "assign that of the whole tile")
        spec = replace(self.spec, addr=addr, space=current().number)
        self.storage = _storage(spec)
        self.spec = spec

    def __deepcopy__(self, memo: object) -> Tile:
        """A tile of its own with the same content; one with an address shows the same memory."""
        twin = object.__new__(Tile)
        twin.spec, twin.storage = self.spec, self.storage
        if self.spec.addr is None:
            twin.spec = replace(self.spec, skew=None) if self.spec.is_slice else self.spec
            twin.storage = Storage(self.storage.bits.copy(), self.spec.dtype)
        return twin

    def _offsets(self) -> Array:
        rows, cols = self.valid
        return self.spec.layout.offset(np.arange(rows)[:, None], np.arange(cols)[None, :])

    def __repr__(self) -> str:
        placed = f" at {self.addr:#x}" if self.addr is not None else ""
        return f"<Tile {self.spec}{placed}>"

    def _repr_html_(self) -> str:
        """The tile in a notebook."""
        from ptokit.lang.display import tile_html

        return tile_html(self.spec, getattr(self, "storage", None))


_CONSTRUCTOR = inspect.signature(Tile.__init__)
setattr(Tile, "__signature__", _CONSTRUCTOR.replace(parameters=[*_CONSTRUCTOR.parameters.values()][1:]))  # noqa: B010


def extent(value: object, name: str, rule: str = "CO-SHAPE-03") -> int:
    """A non-negative whole number, or a refusal under `rule`."""
    if isinstance(value, TracedInteger):
        raise refuse("KN-02", f"{name} must be a constant; found {value}", "make it a constant: `n: pto.const`")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {brief(value)}") from None
    if (isinstance(value, bool) and current().block is None) or number < 0:
        raise refuse(rule, f"{name} must be a number from 0 up; found {brief(value)}")
    return number


def describe(
    loc: str | TileType,
    element: object,
    rows: object,
    cols: object,
    valid: object,
    blayout: object,
    slayout: object,
    fractal: object,
    pad: object,
    addr: object,
) -> TileSpec:
    """The description of a tile, from the arguments of its constructor."""
    location, kind = choose(TileType, loc, "loc"), dtype(element)
    height, width = _padded(rows, cols, kind)
    valid_rows, valid_cols, dynamic = _valid(valid, height, width)
    (outer, inner), size = _default_layout(location)
    return TileSpec(
        kind,
        location,
        height,
        width,
        valid_rows,
        valid_cols,
        outer if blayout is None else choose(BLayout, blayout, "blayout"),
        inner if slayout is None else choose(SLayout, slayout, "slayout"),
        size if fractal is None else _fractal(fractal),
        _pad(pad, kind),
        None if addr is None else extent(addr, "addr", "CO-API-05"),
        0 if addr is None else current().number,
        dynamic,
    )


def _padded(rows: object, cols: object, kind: DType) -> tuple[int, int]:
    if isinstance(rows, Dyn) or isinstance(cols, Dyn):
        raise refuse("CO-SHAPE-03", "a tile's Rows and Cols are fixed; found dyn", "give valid=(dyn(n), ...) instead")
    height, width = extent(rows, "rows"), extent(cols, "cols")
    if not (height and width):
        raise refuse("CO-SHAPE-03", f"a tile has at least one row and one column; found {height}x{width}")
    if height * width * kind.size > MAX_BYTES:
        raise refuse("CO-SHAPE-03", f"a tile of {height}x{width} {kind} is larger than any memory ({MAX_BYTES} bytes)")
    return height, width


def _default_layout(loc: TileType) -> tuple[tuple[BLayout, SLayout], int]:
    form, size = CUBE_FORMS.get(loc, ("nd", 512))
    return LAYOUTS[current().profile.left_form if loc is TileType.Left else form], size


def _fractal(size: object) -> int:
    if size not in (512, 1024, 32):
        raise ValueError(f"fractal must be 512, 1024 or 32 bytes, got {brief(size)}")
    return cast("int", size)


def _pad(pad: object, kind: DType) -> Pad:
    chosen = choose(Pad, pad, "pad")
    if chosen in (Pad.Max, Pad.Min) and not (kind.is_integer or kind.is_float):
        raise ValueError(f"{kind} has no {chosen.text} value to pad with")
    return chosen


def _valid(valid: object, rows: int, cols: int) -> tuple[int, int, tuple[bool, bool]]:
    if valid is None:
        return rows, cols, (False, False)
    if not isinstance(valid, tuple | list) or len(cast("list[object]", valid)) != 2:
        raise TypeError(f"valid takes (rows, cols), got {brief(cast('object', valid))}")
    valid_rows, valid_cols = cast("list[object]", valid)
    r, c = extent(valid_rows, "valid rows"), extent(valid_cols, "valid cols")
    if r > rows or c > cols:
        message = f"valid {show_extents((r, c))} must lie within {show_extents((rows, cols))}"
        raise refuse("CO-SHAPE-02", message, "shrink valid= or enlarge the tile")
    return r, c, (isinstance(valid_rows, Dyn), isinstance(valid_cols, Dyn))


def check_address(spec: OperandSpec) -> None:
    """Refuse an address that the operand cannot have."""
    findings = verify_address(spec, current().name)
    if findings:
        where = user_place()
        raise VerifyError(finding.at(where) for finding in findings)


def _storage(spec: TileSpec) -> Storage:
    if spec.addr is None:
        return Storage(np.full(spec.nbytes, 0xFF, np.uint8).view(spec.dtype.bits), spec.dtype)
    check_address(spec)
    return Storage(current().memory(spec.loc).at(spec.addr, spec.nbytes).view(spec.dtype.bits), spec.dtype)
