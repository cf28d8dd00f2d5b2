"""TDEQUANT: integers back to floats, by a scale and an offset for each row."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.isa.elementwise import DST
from ptokit.isa.vocabulary import *

FLOAT = everywhere(types("f32"))
QUANTISED = everywhere(types("i8 i16"))
FACTORS = ("scale", "offset")


def lower(call: Call) -> tuple[Move | Compute, ...]:
    """Convert, subtract the offset, multiply by the scale."""
    dst, shape = Access("dst", call.dst.layout), call.dst.valid
    made = whole(call, "dst")
    scale, offset = (Input(name, call.values[name].layout, (call.dst.valid_rows, 1)) for name in FACTORS)
    options = (("mode", RoundMode.Rint), ("saturation", Saturation.On))
    return (
        Compute("cvt", shape, dst, (whole(call, "src"),), options),
        Compute("sub", shape, dst, (made, offset)),
        Compute("mul", shape, dst, (made, scale)),
    )


PARAMS = (
    DST,
    Param("src", "read", "a plain Vec tile of integers, of the destination's valid region"),
    *(Param(name, "read", f"a Vec tile of one column: the {name} of each row") for name in FACTORS),
)
TDEQUANT = build(
    OpRow("tdequant", "Convert integers to floats by a scale and an offset for each row.",
        "dst[i, j] = (src[i, j] - offset[i]) * scale[i]    in float32: the difference is rounded, then the product",
        in_place=()),
    PARAMS,
    (
        *vec_tiles("CP-DEQ-01", ("dst", "src", *FACTORS), plains=()),
        *(plain("CP-DEQ-01", name) for name in ("dst", "src")),
        shaped("CP-DEQ-01", "src"),
        *(sized("CP-DEQ-01", name, lambda c: f"of {c.dst.valid_rows} valid rows, as dst, and one valid column",
                lambda c, name=name: c.values[name].valid == (c.dst.valid_rows, 1), found=valid_of(name), fix=AS_COLUMN)
          for name in FACTORS),
        typed("CP-DEQ-02", "dst", FLOAT, "make dst of float32"),
        typed("CP-DEQ-02", "src", QUANTISED, "make src of int8 or int16"),
        *(typed("CP-DEQ-02", name, FLOAT, f"make {name} of float32") for name in FACTORS),
    ),
    lower,
    special=(on_a2a3(RouteKernel(pipes(PARAMS, "V"), handshake=WITH_SCALAR_ROWS)),),  # TDequant.hpp:75
)  # fmt: skip
