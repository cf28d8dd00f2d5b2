"""TMRGSORT: sorted lists of pairs merged into one, from four blocks of a tile or from two to four tiles."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Iterator

from ptokit.isa.tsort32 import PAIR, SORT_TYPES
from ptokit.isa.vocabulary import *

LISTS = 4
"""Blocks that are merged at once."""
BLOCK_COLS = 64
"""The length of a block is a multiple of this."""
MOST_MERGES = 255
"""Merges of one call."""
MORE_LISTS = Wording("tmrgsort2 to tmrgsort4", "tmrgsort of 2 to 4 lists", "TMRGSORT of 2 to 4 lists")
PAIRS = "a plain Vec tile of one row: pairs of 8 bytes, of a value and a number (tsort32)"
DST = Param("dst", "write", f"destination: {PAIRS}")


def pair_cols(tile: TileSpec) -> int:
    """The columns of a pair."""
    return PAIR // tile.dtype.size


def one_row(names: Names) -> Iterator[Rule]:
    """Tiles of one row."""
    for name in names:
        yield needed("CP-MRG-01", name, "a tile of one row", lambda c, name=name: c.values[name].rows == 1,
                     fix="make the tile 1 x N")  # fmt: skip


def whole_pairs(names: Names) -> Iterator[Rule]:
    """Tiles whose valid columns are pairs."""
    for name in names:
        yield sized("CP-MRG-01", name, "of whole pairs of 8 bytes in its valid columns",
                    lambda c, name=name: c.values[name].valid_cols % pair_cols(c.values[name]) == 0,
                    found=valid_of(name),
                    fix="a pair takes 8 bytes: two columns of float32, four of float16")  # fmt: skip


def pair_types(sources: Names) -> tuple[Rule, ...]:
    """All tiles have one type."""
    return typed("CP-MRG-02", "dst", SORT_TYPES), *(alike("CP-MRG-02", name) for name in sources)


# --- Blocks of one tile --------------------------------------------------------------------------------------


def lower_blocks(call: Call) -> tuple[Move | Compute, ...]:
    """Every four blocks, one after another."""
    length, group = call.length.value, LISTS * call.length.value

    def merge(start: int) -> Compute:
        starts = range(start, start + group, length)
        inputs = tuple(Input("src", call.src.layout.cut(0, each), (1, length)) for each in starts)
        return Compute("merge", (1, group), Access("dst", call.dst.layout.cut(0, start)), inputs, ENDLESS)

    return tuple(map(merge, range(0, call.src.valid_cols, group)))


ENDLESS = (("end", MergeEnd.Merged),)
TMRGSORT = build(
    OpRow("tmrgsort", "Merge every four sorted blocks of a tile into one.",
        "dst = the pairs of every 4 blocks of length columns, the larger value first, of equal ones the earlier one",
        in_place=(), cpp=Cpp(call="TMRGSORT(dst, src, length)")),
    (DST, Param("src", "read", f"{PAIRS}; each block is sorted in descending order"),
     Param("length", "read", "a number: the columns of a block, a multiple of 64", kind="position")),
    (
        *vec_tiles("CP-MRG-01", ("dst", "src"), nonempty="src", plains=("dst", "src")),
        *one_row(("dst", "src")),
        *whole_pairs(("dst",)),
        anywhere("CP-MRG-01", "length", f"a multiple of {BLOCK_COLS}, above 0",
                 lambda c: c.length.value > 0 and c.length.value % BLOCK_COLS == 0, blocks="later rules",
                 found=lambda c: str(c.length.value), fix="sort blocks of 64 columns or more first"),
        sized("CP-MRG-01", "src", "of 1 to 255 times four blocks of valid columns",
              lambda c: c.src.valid_cols % (LISTS * c.length.value) == 0
              and c.src.valid_cols <= MOST_MERGES * LISTS * c.length.value, found=valid_of("src"),
              fix=Fix("merge the rest with ", MORE_LISTS)),
        sized("CP-MRG-01", "dst", lambda c: f"of at least {c.src.valid_cols} valid columns, as src",
              lambda c: c.dst.valid_cols >= c.src.valid_cols, found=valid_of("dst"), fix="give dst the columns of src"),
        *pair_types(("src",)),
    ),
    lower_blocks,
    cost={"V": INDEXED},
    op_text=OpText(inside=("exhausted",), reordered=True),
)  # fmt: skip

# --- Tiles ---------------------------------------------------------------------------------------------------

EXHAUSTED = Attribute("exhausted", words=((MergeEnd.Merged, False), (MergeEnd.Exhausted, True)), inside=True,
                      always=True)  # fmt: skip
END = Modifier("end", MergeEnd, always(MergeEnd.Merged), "when the merge ends", text=EXHAUSTED)

ENDS_EARLY = Case("it ends early", lambda c: c.end is MergeEnd.Exhausted)
COUNTS_READ = Handshake(body=("V",), between=(("V", "S"),))
"""The scalar pipe waits for the merge and reads how far it came (TMrgSort.hpp:37, a5/TMrgSort.hpp:55)."""


def lists(count: int) -> Instruction:
    """A merge of `count` tiles."""
    sources = tuple(f"src{k}" for k in range(count))
    merged = tuple(Param(each, "read", f"{PAIRS}, sorted in descending order") for each in sources)
    name = f"tmrgsort{count}"

    arguments = f"dst, executed, tmp, {', '.join(sources)}"
    return build(
        OpRow(name, f"Merge {count} sorted lists.",
            "dst = the pairs of all lists, the larger value first, of equal ones the earlier one; as many as fit",
            cpp=Cpp(call=f"TMRGSORT({arguments})", objects=(("MrgSortExecutedNumList", "executed"),),
                    template=lambda c: (*((f"decltype({{{each}}})", None) for each in ("dst", "tmp", *sources)),
                                        (str(int(c.end is MergeEnd.Exhausted)), None)))),
        (DST, *merged),
        (
            *vec_tiles("CP-MRG-01", ("dst", *sources), plains=("dst", *sources)),
            *one_row(("dst", *sources)),
            *whole_pairs(("dst", *sources)),
            sized("CP-MRG-01", "dst", "of at most the valid columns of all lists",
                  lambda c: c.dst.valid_cols <= sum(c.values[each].valid_cols for each in sources),
                  found=valid_of("dst"), fix="shrink dst's valid region: there are no more pairs"),
            *pair_types(sources),
        ),
        apply("merge", *sources, end="end"),
        modifiers=(END,),
        cost={"V": INDEXED},
        cpp=f"TMRGSORT<..., exhausted>({arguments})",
        text=Text((*sources, "tmp"), variant_of="tmrgsort"),
        workspace=Workspace(  # lists are merged into it, and copied from there (a5/TMrgSort.hpp:121, 125)
            count, lambda c: row_of(c.dst.dtype, sum(c.values[each].cols for each in sources)),
            used=BOTH_USE_WORKSPACE,
            touched=lambda c: (c.end is MergeEnd.Merged) * sum(c.values[each].valid_cols for each in sources)
            * c.dst.dtype.size,
        ),
        op_text=TMRGSORT.text,
        destination=Destination(is_staged=True),
        special=(SpecialRoute("exhausted", Table(dict.fromkeys(NPU, ENDS_EARLY)), RouteKernel(
            pipes((DST, *merged), "V"), handshake=COUNTS_READ, cost={"V": INDEXED})),),
    )  # fmt: skip


MERGES = (TMRGSORT, *(lists(count) for count in range(2, LISTS + 1)))
