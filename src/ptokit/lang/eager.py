"""Eager calls on data movement: each one is verified, then executed at once on the current target."""

from __future__ import annotations

from ptokit.isa.mgather import MGATHER
from ptokit.isa.mscatter import MSCATTER
from ptokit.isa.policy import (
    Coalesce,
    GatherExec,
    GatherOOB,
    ScatterAtomicOp,
    ScatterConflict,
    ScatterIndex,
    ScatterOOB,
    StoreAtomic,
)
from ptokit.isa.tassign import TASSIGN
from ptokit.isa.tload import TLOAD
from ptokit.isa.tmov import TMOV
from ptokit.isa.tscatter import TSCATTER
from ptokit.isa.tstore import TSTORE
from ptokit.lang.context import current
from ptokit.lang.dispatch import Event, Wait, execute
from ptokit.lang.faults import public
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile, check_address, extent


@public
def mgather(
    dst: Tile,
    table: GlobalTensor,
    idx: Tile | GlobalTensor,
    *,
    coalesce: str | Coalesce | None = None,
    oob: str | GatherOOB = GatherOOB.Undefined,
    scratch: GlobalTensor | None = None,
    executor: str | GatherExec | None = None,
    wait: Wait = None,
) -> Event:
    """Gather rows (`coalesce="row"`, the default) or elements of `table` into `dst`.

    `oob` says what an index outside the table does: `undefined` (a promise, checked), `clamp`, `wrap` or `zero`.
    A Mat destination takes the index from global memory; in elem mode it also takes `scratch` (which makes elem
    the default) and, on A5, `executor="simt"`.
    """
    operands = (dst, table, idx) if scratch is None else (dst, table, idx, scratch)
    return execute(MGATHER, operands, (coalesce, oob, executor), wait)


@public
def mscatter(
    table: GlobalTensor,
    src: Tile,
    idx: Tile,
    *,
    coalesce: str | Coalesce | None = None,
    atomic: str | ScatterAtomicOp = ScatterAtomicOp.NONE,
    oob: str | ScatterOOB = ScatterOOB.Undefined,
    conflict: str | ScatterConflict = ScatterConflict.Default,
    wait: Wait = None,
) -> Event:
    """Scatter rows or elements of `src` into `table`; without `coalesce` the index shape decides which.

    `atomic` combines with the cell (`add`, `max`, `min`) instead of replacing it; `oob` is `undefined`, `skip`,
    `clamp` or `wrap`. Repeated cells get the last writer in row-major order.
    """
    return execute(MSCATTER, (table, src, idx), (coalesce, atomic, oob, conflict), wait)


@public
def tscatter(
    dst: Tile, src: Tile, idx: Tile, *, index: str | ScatterIndex = ScatterIndex.Row, wait: Wait = None
) -> Event:
    """Scatter elements of `src` into `dst`: `dst[idx[i, j], j] = src[i, j]`.

    `index="flat"` reads the index as an element number of the padded destination, as the shipping headers do.
    """
    return execute(TSCATTER, (dst, src, idx), (index,), wait)


@public
def tload(dst: Tile, src: GlobalTensor, *, wait: Wait = None) -> Event:
    """Load the destination's valid region from a block of global memory."""
    return execute(TLOAD, (dst, src), (), wait)


@public
def tstore(dst: GlobalTensor, src: Tile, *, atomic: str | StoreAtomic = StoreAtomic.NONE, wait: Wait = None) -> Event:
    """Store the source's valid region into a block of global memory, or add it there."""
    return execute(TSTORE, (dst, src), (atomic,), wait)


@public
def tmov(dst: Tile, src: Tile, *, wait: Wait = None) -> Event:
    """Move a tile into another one, changing location and layout to those of `dst`."""
    return execute(TMOV, (dst, src), (), wait)


@public
def tassign(tile: Tile, addr: int) -> Event:
    """Bind a tile to a byte address of the current target's memory. It then shows what the memory holds there.

    In a kernel of manual mode the address may be an expression.
    """
    if current().tracer is not None and isinstance(tile, Tile):  # pyright: ignore[reportUnnecessaryIsInstance]
        tile.bind(addr)
        return Event(TASSIGN.name, "", ())
    where = extent(addr, "addr", "CO-API-05")
    if isinstance(tile, GlobalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_address(tile.spec)
    elif isinstance(tile, Tile):  # pyright: ignore[reportUnnecessaryIsInstance]
        tile.bind(where)
    return execute(TASSIGN, (tile,), ())
