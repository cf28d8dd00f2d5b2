"""TSORT32: every 32 columns of a tile sorted, as pairs of a value and a number."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.isa.vocabulary import *

SORTED = 32
"""Columns that are sorted together."""
PAIR = 8
"""Bytes of a value and its number."""
LONGEST_COPY = 8160
"""Bytes of a row that the headers copy whole into their workspace, to pad its last block."""

SORT_TYPES = everywhere(F2)
NUMBER_TYPES = everywhere(types("u32"))


def width(call: Call) -> int:
    """The columns of the pairs."""
    return call.src.valid_cols * (PAIR // call.src.dtype.size)


def padded_row(call: Call) -> TileSpec | None:
    """Where the last block of a row is padded, if it is not whole."""
    cols = call.src.valid_cols
    if cols % SORTED == 0:
        return None
    is_whole = cols * call.src.dtype.size <= LONGEST_COPY
    return row_of(call.src.dtype, -(-cols // SORTED) * SORTED if is_whole else SORTED)


def lower(call: Call) -> tuple[Compute, ...]:
    """Values and their numbers, in pairs."""
    inputs = (whole(call, "src"), whole(call, "idx"))
    return (Compute("sort32", (call.src.valid_rows, width(call)), Access("dst", call.dst.layout), inputs),)


def whole_blocks(call: Call) -> ByteRows:
    """The pairs of a row's last block are written whole, with those of its padding (a2a3/TSort32.hpp:137, a5 :159)."""
    size, cols = call.dst.dtype.size, -(-call.src.valid_cols // SORTED) * SORTED
    return ByteRows(call.src.valid_rows, cols * PAIR, call.dst.stride * size)


def has_whole_blocks(call: Call) -> bool:
    """Rows without a block that has to be padded: the headers do not use the workspace (a5/TSort32.hpp:221)."""
    return call.src.valid_cols % SORTED == 0


PARAMS = (
    Param("dst", "write", "destination: a plain Vec tile of pairs of 8 bytes: the value, zeroes up to 4 bytes, idx"),
    Param("src", "read", "a plain Vec tile of the destination's type"),
    Param("idx", "read", "a plain Vec tile of numbers, one for each element of src"),
)
BLOCKS = Effect("dst", "write", "V", whole_blocks)
ALONE = RouteKernel(pipes(PARAMS, "V"), cost={"V": INDEXED}, uses_workspace=False)
TSORT32 = build(
    OpRow("tsort32", "Sort every 32 columns of a tile in descending order, with their numbers.",
        "dst = pairs (src[i, j], idx[i, j])    32 at a time: the larger value first, of equal ones the smaller number",
        in_place=()),
    PARAMS,
    (
        *vec_tiles("CP-SRT-01", ("dst", "src", "idx"), nonempty="src", plains=("dst", "src", "idx")),
        sized("CP-SRT-01", "idx", lambda c: f"of src's {c.src.valid_rows} valid rows, and at least its valid columns",
              lambda c: c.idx.valid_rows == c.src.valid_rows and c.idx.valid_cols >= c.src.valid_cols,
              found=valid_of("idx"), fix="give idx the valid region of src"),
        sized("CP-SRT-01", "dst", "of src's valid rows, with 8 bytes of valid columns for each of src's",
              lambda c: c.dst.valid_rows == c.src.valid_rows and c.dst.valid_cols >= width(c), found=valid_of("dst"),
              fix="a pair takes 8 bytes: two columns of float32, four of float16"),
        typed("CP-SRT-02", "src", SORT_TYPES),
        alike("CP-SRT-02", "dst", "src"),
        typed("CP-SRT-02", "idx", NUMBER_TYPES, "make idx of uint32"),
        Rule("CP-HDR-01", "src", "the shipping simulator writes blocks of float16 over each other",
             lambda c: c.src.dtype.size == 4 or c.src.valid_cols <= SORTED, on=note("cpu")),
    ),
    lower,
    cost={"V": INDEXED},
    workspace=Workspace(2, padded_row, used=BOTH_USE_WORKSPACE),
    special=(
        SpecialRoute("whole", Table(dict.fromkeys(NPU, has_whole_blocks)), ALONE),
        SpecialRoute("", Table(dict.fromkeys(NPU)), RouteKernel((*pipes(PARAMS, "V"), BLOCKS), cost={"V": INDEXED})),
    ),
    op_text=OpText(reordered=True),
)  # fmt: skip
