"""The kernels that move the rows of a trace on the machine: in each block one tile of indices, and of rows or elements.

They are written as a user would write them: whole tiles, auto mode, no flags.
"""

from __future__ import annotations

from typing import Any

from ptokit.lang.control import block_idx, const
from ptokit.lang.expr import min as least
from ptokit.lang.instructions import mgather, mscatter, tload, tstore
from ptokit.lang.kernel import kernel
from ptokit.lang.tile import Tile


@kernel
def gather_rows(table: Any, ids: Any, data: Any, rows: const, cols: const, oob: const) -> None:
    """data[i] = table[ids[i]]"""
    first = block_idx() * rows
    n = least(rows, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, 1, rows, valid=(1, n))
    found = Tile("vec", table.dtype, rows, cols, valid=(n, table.shape[1]))
    tload(chosen, ids[first : first + n])
    mgather(found, table, chosen, oob=oob)
    tstore(data[first : first + n], found)


@kernel
def scatter_rows(table: Any, ids: Any, data: Any, rows: const, cols: const, oob: const, atomic: const) -> None:
    """table[ids[i]] = data[i], or combined with it"""
    first = block_idx() * rows
    n = least(rows, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, 1, rows, valid=(1, n))
    given = Tile("vec", table.dtype, rows, cols, valid=(n, table.shape[1]))
    tload(chosen, ids[first : first + n])
    tload(given, data[first : first + n])
    mscatter(table, given, chosen, coalesce="row", oob=oob, atomic=atomic)


@kernel
def gather_elements(table: Any, ids: Any, data: Any, rows: const, cols: const, oob: const) -> None:
    """data[i] = table[ids[i]], element by element"""
    first = block_idx() * cols
    n = least(cols, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, rows, cols, valid=(rows, n))
    found = Tile("vec", table.dtype, rows, cols, valid=(rows, n))
    tload(chosen, ids[first : first + n])
    mgather(found, table, chosen, coalesce="elem", oob=oob)
    tstore(data[first : first + n], found)


@kernel
def scatter_elements(table: Any, ids: Any, data: Any, rows: const, cols: const, oob: const, atomic: const) -> None:
    """table[ids[i]] = data[i], element by element"""
    first = block_idx() * cols
    n = least(cols, ids.shape[0] - first)
    chosen = Tile("vec", ids.dtype, rows, cols, valid=(rows, n))
    given = Tile("vec", table.dtype, rows, cols, valid=(rows, n))
    tload(chosen, ids[first : first + n])
    tload(given, data[first : first + n])
    mscatter(table, given, chosen, coalesce="elem", oob=oob, atomic=atomic)


KERNELS = {
    ("row", False): gather_rows,
    ("row", True): scatter_rows,
    ("elem", False): gather_elements,
    ("elem", True): scatter_elements,
}
"""By what an index selects, and whether the table is written."""
INDEXED = ("mgather", "mscatter")
"""The instructions whose traffic counts."""
