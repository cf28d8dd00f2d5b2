"""TGATHER with a mask pattern: every second or fourth column of a tile."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.elementwise import DST
from ptokit.isa.headers import CLAUSE
from ptokit.isa.reduce import TGATHER_TYPES
from ptokit.isa.vocabulary import *


def selected(call: Call, cols: int) -> int:
    """How many of the columns a pattern keeps."""
    return -(-(cols - call.pattern.first) // call.pattern.step)


def kept(call: Call) -> int:
    """How many elements a pattern keeps of the valid region."""
    return call.src.valid_rows * selected(call, call.src.valid_cols)


def is_dense(call: Call) -> bool:
    """Whether the rows of the destination follow without a gap."""
    return call.dst.layout.strides == (call.dst.cols, 1)


def lower_mask(call: Call) -> tuple[Move | Compute, ...]:
    """Columns at a fixed distance, row after row without a gap; bits are kept."""
    layout, count = call.src.layout, selected(call, call.src.valid_cols)
    columns = tuple(replace(term, stride=call.pattern.step * term.stride) for term in layout.cols)
    source = replace(layout, cols=columns, start=layout.offset(0, call.pattern.first))
    shape = call.src.valid_rows, count
    return (Move(shape, Access("dst", Layout.plain(count, 1)), Access("src", source)),)


def is_placed(call: Call) -> bool:
    """Whether A5 finds the rows of 8-byte types where they are: by the columns of the destination, and of the first 64
    that are kept (a5/TGather.hpp:283, 289)."""
    count = selected(call, call.src.valid_cols)
    is_apart = call.src.valid_rows > 1 and call.dst.cols // call.pattern.step != count
    return call.dst.dtype.size < 8 or (count <= 64 and not is_apart)


PLACED = Rule(
    CLAUSE, "dst", "of src's valid columns, at most 64 of them kept, for 8-byte types: shipping headers divide them",
    is_placed, on=note("a5"), found=valid_of("dst"), fix="give dst as many columns as src has valid ones",
)  # fmt: skip
PATTERN = Modifier(
    "pattern", MaskPattern, always(MaskPattern.P1111), "the elements that are kept of every four",
    text=Attribute("maskPattern", "mask_pattern", upper=True, inside=True, always=True),
)  # fmt: skip
TGATHER_MASK = build(
    OpRow("tgather_mask", "Gather every second or fourth column of a tile.",
        "element i * n + j of dst = src[i, first + step * j]    n of a row; P1010: every second, from column 1 on",
        in_place=(), cpp=Cpp(
            call="TGATHER(dst, src)",
            headers=(PLACED,),
            template=lambda c: (("decltype({dst})", None), ("decltype({src})", None),
                                (f"MaskPattern::{c.pattern.name}", None)))),
    (DST, Param("src", "read", "a plain Vec tile of elements of the destination's size")),
    (
        *vec_tiles("CP-GTM-01", ("dst", "src"), plains=("dst", "src")),
        sized("CP-GTM-01", "src", "of a column that the pattern keeps",
              lambda c: c.src.valid_cols > c.pattern.first, found=valid_of("src"), fix="choose another pattern"),
        sized("CP-GTM-01", "dst", lambda c: f"of {c.dst.cols} valid columns, as it has: rows follow without a gap",
              lambda c: c.src.valid_rows == 1 or c.dst.valid_cols == c.dst.cols,
              found=valid_of("dst"), fix="give dst as many columns as are valid"),
        needed("CP-GTM-01", "dst", "of rows that follow each other without a gap",
               lambda c: c.src.valid_rows == 1 or is_dense(c), found=lambda c: f"rows {c.dst.stride} columns apart",
               fix="take a tile, or whole rows of one"),
        needed("CP-GTM-01", "dst", "of an element for each that the pattern keeps",
               lambda c: c.dst.cols * (c.dst.rows if is_dense(c) or c.src.valid_rows > 1 else 1) >= kept(c),
               found=lambda c: f"{show_extents((c.dst.rows, c.dst.cols))}, not {kept(c)} elements",
               fix="give dst an element for each that the pattern keeps"),
        typed("CP-GTM-02", "dst", TGATHER_TYPES),
        typed("CP-GTM-02", "src", TGATHER_TYPES),
        needed("CP-GTM-02", "src", lambda c: f"of elements of {c.dst.dtype.size} bytes, as dst",
               lambda c: c.src.dtype.size == c.dst.dtype.size, found=type_of("src"),
               fix="give dst a type of the same size"),
    ),
    lower_mask,
    modifiers=(PATTERN,),
    cost={"V": INDEXED},
    cpp="TGATHER<DstTile, SrcTile, MaskPattern>(dst, src)",
    text=Text(("src",), variant_of="tgather", listed=True),
    op_text=OpText(listed=True),
    destination=Destination(writes_padding=True),
)  # fmt: skip
