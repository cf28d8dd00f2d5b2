"""TGATHERB: blocks of 32 bytes from places of a tile, by their distance from its start in bytes."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.isa.elementwise import DST
from ptokit.isa.vocabulary import *

IN_BLOCK = 32
TGATHERB_TYPES = everywhere(UP_TO_32)
BYTES_APART = everywhere(types("u32"), cpu=types("i32 u32"), host=types("i32 u32"))


def blocks_of(call: Call) -> int:
    """How many blocks a row of the destination has."""
    return call.dst.valid_cols * call.dst.dtype.size // IN_BLOCK


def lower(call: Call) -> tuple[Move, ...]:
    """Block k of a row comes from byte `offset[i, k]` of the source; a row of the move is a block."""
    across, width, size = blocks_of(call), IN_BLOCK // call.dst.dtype.size, call.dst.dtype.size
    index = Index(
        Access("offset", _blocks(across, call.offset.stride, 1)), Side.SRC, IndexUnit.ROW,
        call.src.nbytes - IN_BLOCK + 1, Remap.REFUSE,
    )  # fmt: skip
    dst, src = _blocks(across, call.dst.stride, width, (Term(1),)), Layout((Term(1, size),), (Term(1),))
    return (Move((call.dst.valid_rows * across, width), Access("dst", dst), Access("src", src), index),)


def _blocks(across: int, down: int, step: int, cols: tuple[Term, ...] = ()) -> Layout:
    """Blocks by their number, `across` of them in a row."""
    return Layout((Term(down, across), Term(step, 1, across)), cols)


TGATHERB = build(
    OpRow("tgatherb", "Gather blocks of 32 bytes.",
        "block k of row i of dst = the 32 bytes of src from offset[i, k] on    an offset counts bytes", in_place=(),
        faults={
            "outside": Fault("CP-GTB-03", "H-12", "keep all 32 bytes inside the source tile"),
            "shared": Fault("CP-GTB-03", None, "gather into another tile: hardware does not promise this order"),
        }),
    (DST, Param("src", "read", "a plain Vec tile of elements of the destination's size", contiguous="always"),
     Param("offset", "read", "a plain Vec tile of uint32: for each block its distance in bytes", role="index")),
    (
        *vec_tiles("CP-GTB-01", ("dst", "src", "offset"), plains=("dst", "src", "offset")),
        needed("CP-GTB-01", "dst", "valid over whole blocks of 32 bytes",
               lambda c: c.dst.valid_cols * c.dst.dtype.size % IN_BLOCK == 0, found=valid_of("dst"),
               fix=Fix("give ", VALID, " of whole blocks")),
        sized("CP-GTB-01", "offset", "of a valid offset for each block of dst",
              lambda c: c.offset.valid_rows >= c.dst.valid_rows and c.offset.valid_cols >= blocks_of(c),
              found=valid_of("offset"), fix="give every block an offset"),
        typed("CP-GTB-02", "dst", TGATHERB_TYPES),
        needed("CP-GTB-02", "src", lambda c: f"of elements of {c.dst.dtype.size} bytes, as dst",
               lambda c: c.src.dtype.size == c.dst.dtype.size, found=type_of("src"),
               fix="give dst a type of the same size"),
        typed("CP-GTB-02", "offset", BYTES_APART, "hold the offsets as uint32"),
    ),
    lower,
    cost={"V": INDEXED},
    op_text=OpText(one_type=True),
)  # fmt: skip
