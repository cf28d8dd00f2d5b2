"""THISTOGRAM: how many elements of each row have a byte of at most each value."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.elementwise import NOT_A2A3
from ptokit.isa.vocabulary import *

BINS = 256
COUNTED = everywhere(types("u16 u32"), a2a3=types(""))
COUNTS, FILTERS = everywhere(types("u32")), everywhere(types("u8"))


def highest(call: Call) -> HistByte:
    """The highest byte of the source's elements."""
    return HistByte.BYTE_3 if is_tile(call.src) and call.src.dtype.size == 4 else HistByte.BYTE_1


def above(call: Call) -> int:
    """How many bytes are above the counted one: each is compared with a filter."""
    return highest(call).value - call.byte.value


def filters(call: Call) -> tuple[int, int]:
    """The rows and columns of filters that are read: of uint16 one for each row, of uint32 one for each byte."""
    return (call.src.valid_rows, 1) if call.src.dtype.size == 2 else (above(call), 1)


def lower(call: Call) -> tuple[Compute, ...]:
    """Bins in ascending order, each with all elements up to it."""
    inputs = [whole(call, "src")]
    if above(call):
        inputs.append(Input("idx", call.idx.layout, filters(call)))
    shape = call.src.valid_rows, BINS
    return (Compute("histogram", shape, Access("dst", call.dst.layout), tuple(inputs), (("byte", call.byte),)),)


PARAMS = (
    Param("dst", "write", "destination: a plain Vec tile of uint32 with 256 columns"),
    Param("src", "read", "a plain Vec tile of uint16 or uint32"),
    Param("idx", "read", "a Vec tile of uint8: the bytes above the counted one that an element must have; of uint16 a "
                         "column with one for each row, of uint32 a row for each of these bytes, the highest first"),
)  # fmt: skip


def counts_all(call: Call) -> bool:
    """Whether no filter is read: the highest byte is counted."""
    return above(call) == 0


WITHOUT_FILTERS = RouteKernel(pipes(PARAMS[:2], "V"), cost={"V": SLOW})
THISTOGRAM = build(
    OpRow("thistogram", "Count the values of a byte.",
        "dst[i, v] = how many of src[i, :] have a byte of at most v, and the bytes above it that idx names",
        op="histogram", in_place=(), cpp=Cpp(
            "THISTOGRAM(dst, src, idx)", lambda c: ((f"HistByte::{c.byte.name}", None),))),
    PARAMS,
    (
        *(replace(rule, on=error(*NOT_A2A3)) for rule in vec_tiles("CP-HIS-01", ("dst", "src", "idx"), plains=())),
        *(replace(plain("CP-HIS-01", name), on=error("cpu", "a5")) for name in ("dst", "src")),
        sized("CP-HIS-01", "dst", lambda c: f"of {c.src.valid_rows} valid rows and {BINS} valid columns",
              lambda c: c.dst.valid_rows >= c.src.valid_rows and c.dst.valid_cols >= BINS, found=valid_of("dst"),
              on=error(*NOT_A2A3), fix="give dst a column for each value"),
        Rule("CP-HIS-01", "dst", f"of {BINS} columns: rows follow each other at this distance",
             lambda c: c.dst.cols == BINS or c.src.valid_rows == 1, on=error("a5"),
             found=lambda c: f"{c.dst.cols} columns", fix="give dst 256 columns"),
        sized("CP-HIS-01", "idx", "of a valid filter for each row, or for each byte above the counted one",
              lambda c: c.idx.valid_rows >= filters(c)[0] and c.idx.valid_cols >= 1,
              when=Case("a byte below the highest", lambda c: above(c) > 0), on=error(*NOT_A2A3), found=valid_of("idx"),
              fix="give a filter for each byte above the counted one"),
        Rule("CP-HIS-01", "idx", "ColMajor without boxes, of one column",
             lambda c: c.idx.format == "dn" and c.idx.cols == 1, on=error("a5"),
             when=Case("uint16", lambda c: c.src.dtype.size == 2), fix="make idx a column"),
        typed("CP-HIS-02", "src", COUNTED, "count on another target, or make src of uint16 or uint32"),
        needed("CP-HIS-02", "byte", "byte_0 or byte_1 of uint16", lambda c: above(c) >= 0, on=error(*NOT_A2A3),
               found=lambda c: c.byte.text, fix="choose a byte that the elements have"),
        replace(typed("CP-HIS-02", "dst", COUNTS, "make dst of uint32"), on=error(*NOT_A2A3)),
        replace(typed("CP-HIS-02", "idx", FILTERS, "make idx of uint8"), on=error(*NOT_A2A3)),
    ),
    lower,
    modifiers=(Modifier("byte", HistByte, highest, "the byte that is counted", "the highest", Attribute("byte"),
                        positional=True),),
    cost={"V": SLOW},
    cpp="THISTOGRAM<HistByte>(dst, src, idx)",
    special=(SpecialRoute("highest", Table(dict.fromkeys(NPU, counts_all)), WITHOUT_FILTERS),),
)  # fmt: skip
