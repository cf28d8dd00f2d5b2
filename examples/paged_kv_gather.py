"""Paged KV cache: the pages of every sequence, found through its block table, become contiguous keys.

A page is one row of the table, so one index moves all keys of a page: on A2/A3 that is one transfer, where a gather of
single keys would need one for each key. The unit of work is a chunk of pages of one sequence, not a sequence: lengths
are ragged, and one long sequence should not keep one block busy while the others have nothing to do. Lengths are read
by the scalar pipe (`pto.load_scalar`) and determine how many whole pages a chunk has, and which chunk has the page that
is only partly filled. That page is gathered whole, then its valid region shrinks to the keys that exist, so other
contents of the page never reach the output.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

UNUSED = -1
"""Entries of a block table after the last page of a sequence; they are never read as an index."""


@pto.kernel
def paged_kv_gather(
    cache, block_table, lengths, out, page_keys: pto.const = 16, pages: pto.const = 8, oob: pto.const = "undefined"
):
    """`out[s]` = the first `lengths[s]` keys of sequence `s`, page after page; the rest of `out` is not written."""
    sequences, most_pages, width = out.shape
    key = width // page_keys
    chunks = pto.cdiv(most_pages, pages)
    items = sequences * chunks
    block, blocks = pto.block_idx(), pto.block_num()
    for item in pto.range(items * block // blocks, items * (block + 1) // blocks, buffers=2):
        sequence, chunk = item // chunks, item % chunks
        length = pto.load_scalar(lengths, sequence)
        full, rest = length // page_keys, length % page_keys
        first = chunk * pages
        n = pto.min(pages, full - first)
        with pto.when(n > 0):
            page_ids = pto.Tile("vec", block_table.dtype, 1, pages, valid=(1, n))
            keys = pto.Tile("vec", cache.dtype, pages, width, valid=(n, width))
            pto.tload(page_ids, block_table[sequence : sequence + 1, first : first + n])
            pto.mgather(keys, cache, page_ids, oob=oob)
            pto.tstore(out[sequence : sequence + 1, first : first + n], keys)
        with pto.when((rest > 0) & (full // pages == chunk)):
            last_id = pto.Tile("vec", block_table.dtype, 1, 8, valid=(1, 1))
            last_keys = pto.Tile("vec", cache.dtype, 1, width)
            pto.tload(last_id, block_table[sequence : sequence + 1, full : full + 1])
            pto.mgather(last_keys, cache, last_id, oob=oob)
            last_keys.valid = (1, rest * key)
            pto.tstore(out[sequence : sequence + 1, full : full + 1, : rest * key], last_keys)


def reference(cache: Array, block_table: Array, lengths: Array, out: Array, page_keys: int = 16) -> Array:
    """The same in NumPy, key by key."""
    filled = out.reshape(len(lengths), -1, out.shape[2] // page_keys).copy()
    keys = cache.reshape(len(cache) * page_keys, -1)
    for sequence, length in enumerate(lengths):
        at = np.arange(length)
        filled[sequence, :length] = keys[block_table[sequence, at // page_keys] * page_keys + at % page_keys]
    return filled.reshape(out.shape)


def make_case(
    rng: np.random.Generator,
    *,
    lengths: tuple[int, ...] = (700, 33, 0, 256, 1, 95),
    page_keys: int = 16,
    key: int = 64,
    dtype: str = "float32",
) -> Case:
    """Sequences whose pages lie anywhere in the cache; a page is a row of `page_keys` keys."""
    used = [-(-length // page_keys) for length in lengths]
    most = max((1, *used))
    owners = rng.permutation(sum(used) + 8).astype("int32")  # some pages are unused
    block_table = np.full((len(lengths), most), UNUSED, "int32")
    for sequence, count in enumerate(used):
        block_table[sequence, :count], owners = owners[:count], owners[count:]
    return {
        "cache": rng.standard_normal((sum(used) + 8, page_keys * key), dtype="float32").astype(dtype),
        "block_table": block_table,
        "lengths": np.array(lengths, "int32"),
        "out": np.zeros((len(lengths), most, page_keys * key), dtype),
    }


def main() -> None:
    """Collect the keys of six sequences in float32 and in float16."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16"):
        case = make_case(rng, dtype=dtype)
        run_everywhere(paged_kv_gather, case, reference(**case), grid=16)


if __name__ == "__main__":
    main()
