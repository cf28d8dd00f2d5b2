"""`pto.tassign`: the one instruction with an argument that is no operand."""

from __future__ import annotations

from ptokit.isa.tassign import TASSIGN
from ptokit.lang.context import current
from ptokit.lang.dispatch import Event, execute
from ptokit.lang.faults import public
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile, check_address, extent


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
