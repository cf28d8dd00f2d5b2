"""The kernels that move the rows of a trace on the machine: in each block one tile of indices, and of rows or elements.

They are written as a user would write them: whole tiles, auto mode, no flags.
"""

from __future__ import annotations

from typing import Any

from ptokit.lang.control import block_idx, const
from ptokit.lang.instructions import mgather, mscatter, tload, tstore
from ptokit.lang.kernel import kernel
from ptokit.lang.tile import Tile
from ptokit.lang.traced_integers import min as least


@kernel
def gather(table: Any, ids: Any, data: Any, unit: const, rows: const, cols: const, oob: const) -> None:
    """data[i] = table[ids[i]], row by row or element by element"""
    lanes = rows if unit == "row" else cols
    first = block_idx() * lanes
    n = least(lanes, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, 1, lanes, valid=(1, n))
    found = Tile("vec", table.dtype, rows, cols, valid=(n, table.shape[1]) if unit == "row" else (rows, n))
    tload(chosen, ids[first : first + n])
    mgather(found, table, chosen, coalesce=unit, oob=oob)
    tstore(data[first : first + n], found)


@kernel
def scatter(table: Any, ids: Any, data: Any, unit: const, rows: const, cols: const, oob: const, atomic: const) -> None:
    """table[ids[i]] = data[i], or combined with it, row by row or element by element"""
    lanes = rows if unit == "row" else cols
    first = block_idx() * lanes
    n = least(lanes, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, 1, lanes, valid=(1, n))
    given = Tile("vec", table.dtype, rows, cols, valid=(n, table.shape[1]) if unit == "row" else (rows, n))
    tload(chosen, ids[first : first + n])
    tload(given, data[first : first + n])
    mscatter(table, given, chosen, coalesce=unit, oob=oob, atomic=atomic)


INDEXED = ("mgather", "mscatter")
"""The instructions whose traffic counts."""
