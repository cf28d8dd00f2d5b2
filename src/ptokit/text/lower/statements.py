"""Views, tiles, flags and scalar loads: operations that are neither instructions nor control flow."""

from __future__ import annotations

from typing import cast

import numpy as np

from ptokit.isa.dtype import DType
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import GlobalLayout
from ptokit.program.bounds import layout_problem
from ptokit.program.cores import owners, stated_core
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Op, Var, apply
from ptokit.program.ir import Assign, Barrier, CrossFlag, Flag, LoadScalar, View, Window
from ptokit.target.profile import CROSS_IDS, CUBE_CORE, PIPES
from ptokit.text.lower.lowering import Handler, Lowering, TileName
from ptokit.text.memories import ElementPointer, all_of
from ptokit.text.numbers import bounded
from ptokit.text.spelling import ASSIGN
from ptokit.text.tree import Operation, Tensor, Value, items_of


def _pointer(low: Lowering, op: Operation) -> ElementPointer:
    pointer = low.meaning(op.part("ptr")[0])
    if not isinstance(pointer, ElementPointer):
        low.refuse(f"%{op.part('ptr')[0].name} is not a pointer")
    return pointer


def _make_view(low: Lowering, op: Operation) -> None:
    place = _pointer(low, op)
    shape, stride = (tuple(low.number(value) for value in op.part(part)) for part in ("shape", "strides"))
    if not 1 <= len(shape) <= 5 or len(shape) != len(stride):
        low.refuse(f"a view has one to five extents and as many strides; found {len(shape)} and {len(stride)}")
    word = str(op.attributes.get("layout", "nd"))
    if word not in LAYOUTS:
        low.refuse(f"the layout {word} has no lowering", f"known: {', '.join(LAYOUTS)}")
    strides = items_of(op.attributes.get("ptokit.dynamic_strides", ()))
    if strides is None or not all(k in range(5) for k in strides):
        low.refuse("ptokit.dynamic_strides is a list of numbers from 0 to 4")
    dynamic = tuple(position - 5 in strides for position in range(10))
    (result,) = op.results
    _check_type(low, result, shape, low.memories.dtype(place))
    argument = low.memories.view(
        place, shape, stride, LAYOUTS[word], low.unique(result.name), frozenset(low.steady), dynamic
    )  # fmt: skip
    low.values[result] = all_of(argument)


MOST_BYTES = 64 << 20
"""The largest tile."""
LAYOUTS = {layout.text: layout for layout in GlobalLayout}


def _part(low: Lowering, op: Operation) -> None:
    """A block of a view, or of a block."""
    view = low.meaning(op.part("view")[0])
    if not isinstance(view, View):
        low.refuse(f"%{op.part('view')[0].name} is not a view")
    offsets, sizes = (tuple(low.number(value) for value in op.part(part)) for part in ("offsets", "sizes"))
    if len(offsets) != len(view.starts) or len(sizes) != len(view.starts):
        low.refuse(f"a block of {len(view.starts)} dims has as many offsets and sizes")
    starts = tuple(bounded(apply("add", start, offset)) for start, offset in zip(view.starts, offsets, strict=True))
    type_ = op.results[0].type
    _check_type(low, op.results[0], sizes, None)
    if isinstance(type_, Tensor):
        for dim, (extent, size) in enumerate(zip(type_.dims, sizes, strict=False)):
            if extent is None and isinstance(size, int):
                low.memories.mark(view.argument, dim)
    low.define(op, View(view.argument, starts, sizes))


def _check_type(low: Lowering, result: Value, extents: tuple[Expr, ...], element: DType | None) -> None:
    """Refuse a view whose type contradicts its operands."""
    type_ = result.type
    if not isinstance(type_, Tensor):
        return
    if len(type_.dims) != len(extents):
        low.refuse(f"%{result.name} has {len(extents)} dims, and its type {len(type_.dims)}")
    for dim, extent in zip(type_.dims, extents, strict=True):
        if dim is not None and isinstance(extent, int) and dim != extent:
            low.refuse(f"%{result.name}: its type says {dim}, and its operands {extent}")
    if element is not None and type_.dtype is not element:
        low.refuse(f"%{result.name}: its type says {type_.dtype.mlir}, and the pointer {element.mlir}")


def _dim(low: Lowering, op: Operation) -> None:
    view, dim = low.meaning(op.part("view")[0]), low.number(op.part("dim")[0])
    if not isinstance(view, View) or not isinstance(dim, int) or not 0 <= dim < len(view.sizes):
        low.refuse("get_tensor_view_dim takes a view and the number of one of its dims")
    low.define(op, view.sizes[dim])


def _add_pointer(low: Lowering, op: Operation) -> None:
    advanced = _pointer(low, op).plus(low.number(op.part("offset")[0]))
    bounded(advanced.offset)
    low.define(op, advanced)


def _alloc(low: Lowering, op: Operation) -> None:
    (result,) = op.results
    spec = result.type
    if not isinstance(spec, TileSpec):
        low.refuse_type(f"the type of %{result.name} is not a tile type that can be lowered", spec)
    extents: list[Expr] = list(spec.valid)
    if spec.nbytes > MOST_BYTES:
        low.refuse(f"a tile of more than {MOST_BYTES >> 20} MB")
    for axis, part in enumerate(("valid_row", "valid_col")):
        if values := op.part(part):
            extents[axis] = low.number(values[0])
            if not spec.dynamic[axis] and extents[axis] != spec.valid[axis]:
                low.refuse(f"{part} is for an extent that the type leaves open (`?`)")
    addresses = [low.number(value) for value in op.part("addr")]
    tile = low.values[result] = low.declare(result, spec, (extents[0], extents[1]), *addresses)
    if op.attributes.get("ptokit.workspace"):
        low.added_workspaces.add(tile.name)


def _set_valid(low: Lowering, op: Operation) -> None:
    tile = low.tile(op.part("tile")[0])
    low.scopes[-1].valid[tile] = low.number(op.part("row")[0]), low.number(op.part("col")[0])


def _subset(low: Lowering, op: Operation) -> None:
    """A slice of a tile, or of a slice."""
    (value,), (result,) = op.part("tile"), op.results
    starts, sizes = tuple(map(low.number, op.part("offsets"))), items_of(op.attributes.get("sizes")) or ()
    if len(starts) != 2 or len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        low.refuse("subset takes two offsets and two sizes from 1 up, as in `%t[%i, %j] sizes [16, 16]`")
    name = low.tile_name(value).name
    window = Window((starts[0], starts[1]), cast("tuple[int, int]", sizes))
    if problem := layout_problem(low.tiles[name], window):
        low.refuse(problem)
    low.cut(result, value, window)


def _assign(low: Lowering, op: Operation) -> None:
    value = op.part("tile")[0]
    if low.tile_name(value).window is not None:
        low.refuse(f"%{value.name} is a slice of a tile, which has no address of its own")
    tile = low.tile(value)
    address = low.number(op.part("addr")[0]) if op.part("addr") else op.attributes.get("addr")
    if not isinstance(address, int | Var | Op):
        low.refuse(f"{op.name} takes an address")
    low.placed.pop(tile, None)
    low.emit(Assign(tile, address, where=low.where))
    for result in op.results:
        low.values[result] = TileName(tile)


def _load_scalar(low: Lowering, op: Operation) -> None:
    place, index, (result,) = _pointer(low, op), low.number(op.part("index")[0]), op.results
    element = low.memories.dtype(place)
    if not element.is_integer or element.name == "bool":
        low.refuse(f"a scalar load of {element.mlir} has no lowering; whole numbers have one")
    var = Var(low.unique(result.name))
    source = place.plus(index)
    low.loads[var] = source
    limits = np.iinfo(element.numpy)
    low.limits.bounds[var] = int(limits.min), int(limits.max)
    low.emit(LoadScalar(var, View(place.memory, (bounded(source.offset),), (1,)), where=low.where))
    low.values[result] = var


def _flag(low: Lowering, op: Operation) -> None:
    """A flag, by its pipes or by the work that they do."""
    action, _, tail = op.name.partition("_")
    if tail == "event":
        src, dst = (_pipe_of_kind(low, op.attributes.get(end)) for end in ("src_op", "dst_op"))
    else:
        src, dst = (_pipe(low, op.attributes.get(end)) for end in ("src_pipe", "dst_pipe"))
    ids = op.part("event_id")
    event = low.number(ids[0]) if ids else _event(low, op.attributes.get("event_id"))
    action = "wait" if action == "wait" else "set"
    low.emit(Flag(action, src, dst, event, core=stated_core(low.core, src, dst), where=low.where))


def _barrier(low: Lowering, op: Operation) -> None:
    named = op.name == "barrier"
    pipe = _pipe(low, op.attributes.get("pipe"), "ALL") if named else _pipe_of_kind(low, op.attributes.get("op_type"))
    low.emit(Barrier(pipe, core=stated_core(low.core, pipe), where=low.where))


def _sync(low: Lowering, op: Operation) -> None:
    """A flag between the cores. The section around it names the core of a pipe that both have."""
    if op.attributes.get("ffts_mode", HAND_OVER) != HAND_OVER:
        low.refuse("a synchronisation of all cores has no lowering", f"a hand-over has ffts_mode = {HAND_OVER}")
    pipe = _pipe(low, op.attributes.get("pipe"))
    cores = [core for core in owners(pipe) if low.core in ("", core)]
    if not cores:
        low.refuse(f"{low.core} has no pipe {pipe}", "a section has the work of one core")
    if len(cores) > 1:
        low.refuse(f"both cores have the pipe {pipe}", "put it into pto.section.cube or pto.section.vector")
    ids = op.part("event_id")
    event = low.number(ids[0]) if ids else op.attributes.get("event_id")
    most = CROSS_IDS * (low.vector_cores if cores[0] == CUBE_CORE.name else 1)
    if isinstance(event, int) and not 0 <= event < most:
        why = "of the second vector core, which the program does not ask for" if low.vector_cores < 2 else ""
        low.refuse(f"flags between cores have ids 0 to {most - 1}; found {event}", why)
    if not isinstance(event, int | Var | Op):
        low.refuse(f"{op.name} takes an id")
    low.emit(CrossFlag(op.name.removeprefix("sync."), cores[0], pipe, event, where=low.where))


def _set_ffts(low: Lowering, op: Operation) -> None:
    """The memory of the flags between the cores of A2/A3. Programs have no argument for it."""
    low.flag_memory.update(op.part("ffts"))


HAND_OVER = 2
"""The mode of a flag between the cube core and its vector core."""


def _pipe(low: Lowering, word: object, *more: str) -> str:
    pipe = str(word).removeprefix("PIPE_")
    if pipe not in (*PIPES, *more):
        low.refuse(f"the pipe {word} has no lowering", f"known: {', '.join((*PIPES, *more))}")
    return pipe


KINDS = {
    "TLOAD": "MTE2", "TSTORE_VEC": "MTE3", "TSTORE_ACC": "FIX", "TMOV_M2L": "MTE1", "TMOV_M2B": "MTE1",
    "TMATMUL": "M", "TVEC": "V",
}  # fmt: skip
"""The pipe of each kind of work in events."""


def _pipe_of_kind(low: Lowering, word: object) -> str:
    if word not in KINDS:
        low.refuse(f"the work {word} has no lowering", f"known: {', '.join(KINDS)}")
    return KINDS[str(word)]


def _event(low: Lowering, word: object) -> int:
    number = str(word).removeprefix("EVENT_ID")
    if not number.isdigit():
        low.refuse(f"unknown event `{word}`")
    return int(number)


def _block_index(low: Lowering, op: Operation) -> None:
    low.values[op.results[0]] = BLOCK_IDX if op.name == "get_block_idx" else BLOCK_NUM


STATEMENTS: dict[str, Handler] = {
    "make_tensor_view": _make_view,
    "partition_view": _part,
    "get_tensor_view_dim": _dim,
    "addptr": _add_pointer,
    **dict.fromkeys(("alloc_tile", "declare_tile"), _alloc),
    "set_validshape": _set_valid,
    ASSIGN.op: _assign,
    "subset": _subset,
    **dict.fromkeys(("load_scalar", "load"), _load_scalar),
    **dict.fromkeys(("set_flag", "wait_flag", "set_flag_dyn", "wait_flag_dyn", "record_event", "wait_event"), _flag),
    **dict.fromkeys(("sync.set", "sync.wait"), _sync),
    "set_ffts": _set_ffts,
    **dict.fromkeys(("barrier", "barrier_sync"), _barrier),
    **dict.fromkeys(("get_block_idx", "get_block_num"), _block_index),
}
"""The handler of each operation."""
