"""The operands of a kernel while it is traced: tiles without content, arguments without values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, cast

from ptokit.brief import brief
from ptokit.finding import suggestion
from ptokit.isa.dtype import DType
from ptokit.isa.operand import Dyn, TileSpec, show_extents
from ptokit.isa.unknown import is_unknown
from ptokit.lang.context import current
from ptokit.lang.faults import public, refuse, suggested
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile, cut, describe
from ptokit.lang.traced_integers import TracedInteger, expression, pinned, symbolic
from ptokit.lang.tracer import StandIn, Tracer
from ptokit.program.expr import Expr, Op, apply, difference, extents_in, is_fixed, subtract
from ptokit.program.instr_calls import known as known_number
from ptokit.program.instr_calls import tensor_spec, tile_spec
from ptokit.program.ir import Argument, TileUse, View, Window


def wrap(expr: Expr, home: tuple[int, ...] = ()) -> Any:
    """An expression as the kernel sees it: an int if it is known."""
    if isinstance(expr, int):
        return expr
    return current().tracer.lengths.resolve(expr) if is_fixed(expr) else TracedInteger(expr, home)


class TracedTile(StandIn, Tile):
    """A tile of a program: a description and a name, no content."""

    __slots__ = ("_earlier", "_extents", "_home", "_set_at", "_set_in", "_used_in", "name", "tracer", "window")

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self, loc: Any, dtype: object, rows: Any, cols: Any, *, valid: Any = None, addr: Any = None, **options: Any
    ) -> None:
        self.tracer: Tracer = current().tracer
        if addr is not None and self.tracer.mode != "manual":
            raise refuse("KN-13", "addr= belongs to manual mode", 'drop it, or use @pto.kernel(mode="manual")')
        self.spec, extents = _describe(loc, dtype, rows, cols, valid, options)
        self._extents: tuple[Expr, Expr] = extents
        addresses = () if addr is None else (expression(addr, "addr"),)
        self.name = self.tracer.declare(self.spec, addresses)
        self._home = self._set_at = self.tracer.path
        self._earlier: tuple[tuple[tuple[Expr, Expr], tuple[int, ...]], ...] = ()
        """Extents that were set before, and where, as long as these bodies are open."""
        self._used_in: set[int] = set()
        """Loops whose body has used the tile with extents that were set before the loop."""
        self._set_in: set[int] = set()
        """Loops whose body has set the extents before every use, to what they were."""
        self.window: Window | None = None

    def __getitem__(self, key: object) -> TracedTile:
        """A slice, `tile[a:b]` or `tile[a:b, c:d]`; the starts may be expressions, and so may the lengths."""
        window, extents = cut(self.name, key, self.spec, self.use().valid)
        part = object.__new__(TracedTile)
        part.tracer, part.name, part._extents = self.tracer, self.name, extents
        part._home = part._set_at = self.tracer.path
        part._earlier = ()
        part._used_in, part._set_in = set(), set()
        part.window = window if self.window is None else _inner(self.window, window)
        part.spec = tile_spec(self.spec, TileUse(self.name, extents, window))
        return part

    @property
    def valid(self) -> tuple[Any, Any]:
        """Rows and columns of the valid region: numbers, or expressions of the kernel."""
        rows, cols = self.use().valid
        return wrap(rows, self._set_at), wrap(cols, self._set_at)

    @valid.setter
    def valid(self, extents: tuple[Any, Any]) -> None:
        changed = _extents(extents, self.spec)
        if changed != self._extents and any(isinstance(each, Op) for each in self._extents):
            pinned(*changed, *self._extents)  # for some extents, they may be the same
        if changed == self._extents and not self.tracer.has_ended(self._set_at):
            self._set_in |= self.tracer.loops_since(self.tracer.path[:-1]) - self._used_in
            return
        if self.tracer.loops_since(self._home) & self._used_in:
            message = f"{self.name}.valid changes after the tile was used in the same loop with the earlier extents"
            raise refuse("KN-12", message, "set tile.valid at the beginning of the loop's body")
        known = (*self._earlier, (self._extents, self._set_at))
        self._earlier = tuple((each, at) for each, at in known if not self.tracer.has_ended(at))
        self._extents, self._set_at = changed, self.tracer.path

    def _here(self) -> tuple[tuple[Expr, Expr], tuple[int, ...]]:
        """The extents at this point of the trace, and where they were set: in the `otherwise` of a `when` that sets
        them, those from before."""
        for extents, at in reversed(self._earlier):
            loops = None if self.tracer.has_ended(at) else self.tracer.loops_before_other_arm(self._set_at, len(at))
            if loops is not None and self._set_in.issuperset(loops):
                return extents, at
        return self._extents, self._set_at

    def use(self) -> TileUse:
        if self.tracer.has_ended(self._home):
            message = f"{self.name} was made inside a pto.range or pto.when body that has ended"
            raise refuse("KN-04", message, "make the tile before the body")
        extents, set_at = self._here()
        if self.tracer.has_ended(set_at):
            message = f"{self.name}.valid was set inside a pto.range or pto.when body that has ended"
            raise refuse("KN-12", message, "set tile.valid again after the body")
        path = self.tracer.path
        settled = max((k for k, body in enumerate(path, 1) if body in self._set_in), default=0)
        self._used_in |= self.tracer.loops_since(path[: max(settled, len(set_at))])
        return TileUse(self.name, extents, self.window)

    def bind(self, addr: object) -> None:
        if self.window is not None:
            message = f"a slice of {self.name} has no address of its own; found tassign"
            raise refuse("SL-01", message, "assign that of the whole tile")
        self.tracer.assign(self.name, addr)

    def _no_content(self, *_: object) -> NoReturn:
        message = f"{self.name} has no content while the kernel is traced"
        raise refuse("KN-07", message, "use tload, texpands or tci to fill it; debug=True runs with real values")

    read = write = __deepcopy__ = _no_content  # type: ignore[assignment]
    buffer = property(_no_content)  # type: ignore[assignment]

    @property
    def addr(self) -> None:
        """A tile of a program gets its address after tracing."""
        return

    def __getattr__(self, name: str) -> NoReturn:
        if name == "storage":
            message = f"{self.name} is a tile of a kernel that was traced"
            raise refuse("KN-08", message, "make a tile here: pto.Tile(...)")
        hint = suggestion(name, (known for known in dir(Tile) if not known.startswith("_")))
        raise AttributeError(f"a tile has no attribute {brief(name)}{hint}")

    def __repr__(self) -> str:
        return f"<tile {self.name}: {self.spec}>"


def _inner(outer: Window, inner: Window) -> Window:
    """A slice of a slice, as a slice of the tile."""
    row, col = (apply("add", a, b) for a, b in zip(outer.start, inner.start, strict=True))
    return Window((row, col), inner.size)


TracedTile.__name__, TracedTile.__init__.__qualname__ = "Tile", "Tile.__init__"  # names in Python's messages
setattr(TracedTile, "__init__", public(TracedTile.__init__))  # noqa: B010


def _describe(
    loc: Any, dtype: object, rows: Any, cols: Any, valid: Any, options: dict[str, Any]
) -> tuple[TileSpec, tuple[Expr, Expr]]:
    """A tile's description, and its valid extents as expressions."""
    known: dict[str, Any] = {"blayout": None, "slayout": None, "fractal": None, "pad": "null"}
    if unknown := set(options) - set(known):
        message = f"Tile() got an unexpected keyword argument {brief(sorted(unknown)[0])}"
        raise TypeError(suggested(message, ["valid", "addr", *known]))
    spec = describe(loc, dtype, rows, cols, valid=None, addr=None, **{**known, **options})
    if valid is None:
        return spec, (spec.rows, spec.cols)
    extents = _extents(valid, spec)
    rows, cols = map(known_number, extents)
    dynamic = is_unknown(rows) or isinstance(valid[0], Dyn), is_unknown(cols) or isinstance(valid[1], Dyn)
    return replace(spec, valid_rows=rows, valid_cols=cols, dynamic=dynamic), extents


def _extents(valid: Any, spec: TileSpec) -> tuple[Expr, Expr]:
    if not isinstance(valid, tuple | list) or len(cast("list[object]", valid)) != 2:
        raise TypeError(f"valid takes (rows, cols), got {brief(cast('object', valid))}")
    rows, cols = (expression(extent, "valid") for extent in cast("list[object]", valid))
    for extent, most in ((rows, spec.rows), (cols, spec.cols)):
        if isinstance(extent, int) and not 0 <= extent <= most:
            shown = show_extents((spec.rows, spec.cols))
            raise refuse("CO-SHAPE-02", f"valid ({rows}, {cols}) must lie within {shown}", "shrink valid=", "valid")
    return rows, cols


class TracedTensor(StandIn, GlobalTensor):
    """An argument of a program, or a block of one."""

    __slots__ = ("argument", "home", "own", "sizes", "starts", "tracer")

    def __init__(
        self,
        tracer: Tracer,
        argument: Argument,
        own: tuple[int, ...] | None,
        starts: tuple[Expr, ...],
        sizes: tuple[Expr, ...],
    ) -> None:
        """`own` is the array's own shape if the tensor has another one; the kernel sees it, and cannot slice it."""
        self.tracer = tracer
        self.home = tracer.path
        self.argument = argument
        self.own = own
        self.starts, self.sizes = starts, sizes
        self.spec = tensor_spec(argument, self.use(), tracer.lengths.resolve)

    @property
    def dtype(self) -> DType:
        return self.argument.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The array's own shape, or the block's: numbers, or expressions of the kernel."""
        return tuple(wrap(size, self.home) for size in self.sizes) if self.own is None else self.own

    @property
    def is_plain(self) -> bool:
        """Whether this is a whole array or a block of one."""
        return self.own is None

    def use(self) -> View:
        if self.tracer.has_ended(self.home):
            message = f"this block of {self.argument.name} is of a pto.range or pto.when body that has ended"
            raise refuse("KN-04", message, "slice it before the body, or use it inside")
        return View(self.argument.name, self.starts, self.sizes)

    def block(self, starts: tuple[Expr, ...], sizes: tuple[Expr, ...]) -> View:
        moved = tuple(apply("add", a, b) for a, b in zip(self.starts, starts, strict=True))
        return View(self.argument.name, moved, sizes)

    def __getitem__(self, key: object) -> TracedTensor:
        """A block: `t[a:b]` takes rows (or elements), `t[a:b, c:d]` a block; the ends may be expressions."""
        if not self.is_plain:
            message = f"{self.argument.name} has shape=, stride= or layout=; a kernel can slice only plain arrays"
            raise refuse("KN-10", message, "pass the block as a separate argument")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        if len(parts) > len(self.sizes):
            message = f"{len(parts)} slices for {self.argument.name}, which has {len(self.sizes)} dims"
            raise refuse("KN-10", message, "one slice for each dim, or fewer")
        ranges = [_range(self.argument.name, part, size) for part, size in zip(parts, self.sizes, strict=False)]
        starts = tuple(start for start, _ in ranges) + (0,) * (len(self.sizes) - len(parts))
        sizes = tuple(size for _, size in ranges) + self.sizes[len(parts) :]
        view = self.block(starts, sizes)
        return TracedTensor(self.tracer, self.argument, self.own, view.starts, sizes)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        name = self.argument.name
        raise refuse("KN-07", f"{name} has no values while the kernel is traced", f"use pto.tstore({name}[...], tile)")

    def __iter__(self) -> NoReturn:
        raise refuse("KN-10", f"{self.argument.name} has no values while the kernel is traced", "use pto.load_scalar")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        message = f"{self.argument.name} has no values while the kernel is traced, and no `{name}`"
        raise refuse("KN-07", message, "use its shape, its dtype and slices of it; debug=True runs with real values")

    def __repr__(self) -> str:
        return f"<argument {self.argument.name}: {self.spec}>"


TracedTensor.__name__ = "GlobalTensor"


def _range(name: str, part: object, size: Expr) -> tuple[Expr, Expr]:
    """The start and the size of a slice."""
    if not isinstance(part, slice):
        fix = f"a row is {name}[i : i + 1]; pto.load_scalar reads one number"
        raise refuse("KN-10", f"{name} is sliced as {name}[start:stop], got {brief(part)}", fix)
    first, last, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step is not None and not (isinstance(step, int) and step == 1):
        message = f"{name} is sliced as {name}[start:stop], got a step of {brief(step)}"
        raise refuse("KN-10", message, "slice every row, or pass a strided array")
    start = 0 if first is None else symbolic(first, "the start of a slice")
    stop = size if last is None else symbolic(last, "the end of a slice")
    moving = [term for term in difference(stop, start) if not is_fixed(term)]
    if len(moving) > 1 and any(map(extents_in, moving)):
        pinned(start, stop)  # for some extents, terms may cancel
    extent = subtract(stop, start)
    known = [wrap(number) for number in (start, stop, size) if is_fixed(number)]
    if len(known) == 3 and not 0 <= known[0] <= known[1] <= known[2]:
        message = f"the slice {start}:{stop} of {name} does not lie within 0:{size}"
        raise refuse("KN-10", message, "write both ends; they count from 0 and lie within the array", name)
    return start, extent
