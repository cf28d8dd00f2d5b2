"""TQUANT: floats to 8-bit integers, by a scale for each row, and perhaps an offset."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptokit.isa.elementwise import DST
from ptokit.isa.tdequant import FLOAT
from ptokit.isa.vocabulary import *

SIGNED, UNSIGNED = (everywhere(types(name)) for name in ("i8", "u8"))


def rounded(call: Call) -> TileSpec | None:
    """The integers in 32 bits, where the target converts in several steps; text leaves it out."""
    return same_as("src")(call) if call.lookup(USES_WORKSPACE) else None


def halves(call: Call) -> ByteRows:
    """The source's elements as float16, their rows padded to a block."""
    src = call.src
    return ByteRows(src.valid_rows, 2 * src.valid_cols, 2 * -(-src.stride // 16) * 16)


def quantisation(row: OpRow, kind: PtoEnum, table: Table[Types], *factors: str) -> Instruction:
    """A product, perhaps a sum, and a conversion."""
    rules = (
        *vec_tiles("CP-QNT-01", ("dst", "src", *factors), plains=()),
        *(plain("CP-QNT-01", name) for name in ("dst", "src")),
        shaped("CP-QNT-01", "src"),
        *(sized("CP-QNT-01", name, lambda c: f"of {c.dst.valid_rows} valid rows, as dst, and one valid column",
                lambda c, name=name: c.values[name].valid == (c.dst.valid_rows, 1), found=valid_of(name), fix=AS_COLUMN)
          for name in factors),
        typed("CP-QNT-02", "dst", table, f"make dst of {', '.join(map(str, table['host']))}"),
        typed("CP-QNT-02", "src", FLOAT, "make src of float32"),
        *(typed("CP-QNT-02", name, FLOAT, f"make {name} of float32") for name in factors),
    )  # fmt: skip
    given = ", ".join(("dst", "src", "scale", "tmp", *(f"&{name}" for name in factors[1:])))
    params = (
        DST,
        Param("src", "read", "a plain Vec tile of float32, of the destination's valid region"),
        *(Param(name, "read", f"a Vec tile of one column: the {name} of each row") for name in factors),
    )
    lost = (Effect("src", "write", "V", in_ub("src")), Effect("src", "write", "V", halves))
    """A2/A3 scales the source in its place, and keeps float16 numbers there (TQuant.hpp:42, 59)."""
    spelt = Attribute("quant_type", "quant_type", upper=True, always=True, example=kind)
    return build(
        replace(row, in_place=(), cpp=Cpp(
            call=f"TQUANT({given})", template=lambda _: ((f"QuantType::{kind.name}", None),))),
        params,
        rules,
        apply("quant", "src", *factors),
        modifiers=(Modifier("quant", type(kind), always(kind), "the kind of quantisation", text=spelt),),
        cost={"V": SLOW},
        cpp=f"TQUANT<QuantType::{kind.name}>({given})",
        text=Text(("src", *factors), variant_of="" if row.name == "tquant" else "tquant"),
        workspace=Workspace(1 + len(factors), rounded),
        special=(on_a2a3(RouteKernel((*pipes(params, "V"), *lost), cost={"V": SLOW})),),
    )  # fmt: skip


TQUANT = quantisation(
    OpRow("tquant", "Convert floats to int8 by a factor for each row.",
        "dst[i, j] = src[i, j] * scale[i]    rounded in float32, then to the nearest integer, ties to even; clamped"),
    Symmetric.INT8_SYM, SIGNED, "scale",
)  # fmt: skip
TQUANT_ASYM = quantisation(
    OpRow("tquant_asym", "Convert floats to uint8 by a factor and an offset for each row.",
        "dst[i, j] = src[i, j] * scale[i] + offset[i]    product and sum rounded in float32, then as tquant"),
    Asymmetric.INT8_ASYM, UNSIGNED, "scale", "offset",
)  # fmt: skip
QUANTISATIONS = (TQUANT, TQUANT_ASYM)

# --- Shared exponents ----------------------------------------------------------------------------------------

GROUP = 32
"""Elements of a row that share an exponent."""


def by_groups(algorithm: str) -> Callable[[Call], tuple[Compute, ...]]:
    """A recorded conversion to float8_e4m3: an exponent for each group, and elements divided by its power of two
    (a5/TQuant.hpp:576, 704, 1513). What else it writes has no meaning."""

    def lower(call: Call) -> tuple[Compute, ...]:
        src, exp = call.src, call.exp
        groups = src.valid_cols // GROUP
        powers = Access("exp", Layout.plain(groups if exp.rows == 1 else exp.cols, 1))
        made = (
            Compute(f"powers_{algorithm}", (src.valid_rows, groups), powers, (whole(call, "src"),)),
            Compute(f"scaled_{algorithm}", src.valid, Access("dst", call.dst.layout), (whole(call, "src"),)),
        )
        rest = ((name, call.values[name]) for name in ("max", "scaling"))
        return (
            *made,
            *(Compute(UNSPECIFIED, (each.rows, each.cols), Access(name, each.layout), ()) for name, each in rest),
        )

    return lower
