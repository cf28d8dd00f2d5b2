"""What the clean kernels of `kernels/` compute, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _ping_pong(x: Array) -> Array:
    return x * 2


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _rows(x: Array, scales: Array) -> Array:
    return (x.reshape(4, 16, 64) * scales[:, None]).reshape(x.shape)


def _product(a: Array, b: Array) -> Array:
    return a.astype("float32") @ b.astype("float32")


def _lookup_loop(table: Array, ids: Array, rounds: int) -> Array:
    return np.where((ids < len(table))[:, None], table[np.minimum(ids, len(table) - 1)], 0)


def _put(table: Array, x: Array, ids: Array) -> Array:
    result = table.copy()
    result[ids] = x
    return result


def _add_rows(table: Array, x: Array, ids: Array) -> Array:
    result = table.copy()
    np.add.at(result, ids, x)
    return result


def _unpermute(x: Array, ids: Array) -> Array:
    result = np.zeros_like(x)
    result.flat[ids.ravel()] = x.ravel()
    return result


def _segments(x: Array, starts: Array) -> Array:
    scale = np.repeat(np.arange(1, len(starts)), np.diff(starts)).astype(x.dtype)
    return x * scale[:, None]


def _sum_until(x: Array, tiles: int) -> Array:
    total = np.zeros((8, 32), x.dtype)
    for part in x.reshape(tiles, 8, 32):
        total = total + part
        if total[0].sum() >= 100:
            break
    return total


def _pages(pages: Array, table: Array, count: int) -> Array:
    return pages.reshape(-1, 8, 32)[table[:count]].reshape(-1, 32)


def _shares(x: Array, tiles: int) -> Array:
    parts = x.reshape(tiles, 8, 32).copy()
    for block in range(4):
        mine = slice(tiles * block // 4, tiles * (block + 1) // 4)
        parts[mine] = parts[mine] + 1 if block % 2 == 0 else parts[mine] * 2
    return parts.reshape(x.shape)


def _first_is_seven(x: Array) -> Array:
    result = x.copy()
    result[0, 0] = 7
    return result


def _nested(x: Array, rows: int, cols: int) -> Array:
    corners = np.arange(rows)[:, None] // 8 * 8 + np.arange(cols) // 16 * 16
    return x + corners.astype(x.dtype)


REFERENCES: dict[str, Callable[..., Array]] = {
    "add_flags": lambda x, y: x + y,
    "add_events": lambda x, y: x + y,
    "add_events_int32": lambda x, y: x + y,
    "reload_barriers": lambda x, work: x + 1,
    "bits": lambda x, y: ((x + y) << 2 >> 1) - x,
    "masks_of_int16": lambda x, y: (x & y) | y,
    "convert": lambda x: x.astype("float16"),
    "fill": lambda: np.full((16, 64), 2.5, "float32"),
    "ping_pong": _ping_pong,
    "ragged_rows": lambda x, rows: x + 3,
    "ragged_columns": lambda x: 1 / x,
    "row_sum": lambda x: x.sum(axis=1),
    "softmax": _softmax,
    "row_sum_cleared_padding": lambda x: x.sum(axis=1),
    "column_sums": lambda x, rows: x.sum(axis=0, keepdims=True),
    "scale_rows": _rows,
    "scale_rows_wait_first": _rows,
    "column_maximum": lambda x: x.max(axis=0, keepdims=True),
    "add_bias": lambda x, bias: x + bias,
    "greater_of": lambda x, y: np.maximum(x, y),
    "transpose": lambda x: x.T,
    "transposed_double": lambda x: 2 * x.T,
    "lookup": lambda table, ids: table[np.minimum(ids, len(table) - 1)],
    "lookup_no_store_flag": lambda table, ids: table[ids],
    "lookup_unchecked": lambda table, ids: table[ids],
    "lookup_loop": _lookup_loop,
    "pick_elements": lambda table, ids: table[ids % len(table)],
    "put_rows": _put,
    "put_rows_of_blocks": _put,
    "add_rows": _add_rows,
    "permute": lambda x, ids: x.ravel()[ids],
    "unpermute": _unpermute,
    "matmul": _product,
    "matmul_ragged": _product,
    "matmul_slices": _product,
    "matmul_blocks": lambda a, b, tiles: _product(a, b),
    "product_to_vector": lambda work, a, b: _product(a, b) + 1,
    "scaled_product": lambda work, a, b: 2 * _product(a, b),
    "ring": lambda a, b, trips: _product(a, b) + 1,
    "halves": lambda x: x + 1,
    "product_to_both": lambda flags, work, a, b: _product(a, b) + 1,
    "both_to_product": lambda flags, work, a, b: _product(2 * a, b),
    "ffts_product_to_vector": lambda ffts, work, a, b: _product(a, b) + 1,
    "own_barrier": lambda x: x + 1,
    "own_flag": _first_is_seven,
    "pushed": lambda a, b, trips: _product(a, b) + 1,
    "tokens": lambda x, trips: x + 1,
    "repeat_by_count": lambda x, counts: x + counts[0],
    "segments": _segments,
    "sum_until": _sum_until,
    "page_table": _pages,
    "set_values": lambda first: (first + np.arange(8) ** 2).astype("int32"),
    "share_of_blocks": _shares,
    "blocks_added": lambda out, x: out + x.reshape(4, 8, 32).sum(axis=0),
    "flag_in_one_branch": lambda x, twice: x + x,
    "through_helpers": lambda x, tiles: x + x,
    "nested": _nested,
}
"""The result by launch, from its other arguments."""

RESULTS = {"put_rows": "table", "put_rows_of_blocks": "table", "add_rows": "table"}
"""The argument with the result, where it is not `out`. A reference takes its old content if it asks for it."""
