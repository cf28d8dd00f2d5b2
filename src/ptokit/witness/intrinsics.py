"""Functions of the device compiler that the public headers call: their pipes, and what their arguments are.

A row has the function that says which bytes a call reads and writes (`extents.py`). What is not in the table is no
function for the compiler, whose error names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptokit.witness import extents as x
from ptokit.witness.extents import Extent
from ptokit.witness.vectors import image_load


@dataclass(frozen=True)
class Intrinsic:
    """A function of the device compiler."""

    name: str
    pipe: str
    extent: Extent


def _rows(pipe: str, extent: Extent, names: str) -> Iterator[Intrinsic]:
    for name in names.split():
        yield Intrinsic(name, pipe, extent)


CONVERSIONS = """
    bf162f32 bf162s32{a,c,f,r,z} deq f162f32 f162s16{a,c,f,r,z} f162s32{a,c,f,r,z} f162s8{,a,c,f,r,z}
    f162u8{,a,c,f,r,z} f322bf16{a,c,f,r,z} f322f16{,a,c,f,o,r,z} f322f32{a,c,f,r,z} f322s16{a,c,f,r,z}
    f322s32{a,c,f,r,z} f322s64{a,c,f,r,z} s162f16{,a,c,f,r,z} s162f32 s322f32{,a,c,f,r,z} s322s16 s322s64
    s642f32{a,c,f,r,z} s642s32 s82f16 u82f16"""
"""Names of conversions: source, `2`, destination, and the rounding modes there are."""


def _conversions() -> Iterator[str]:
    for word in CONVERSIONS.split():
        stem, _, modes = word.partition("{")
        yield from (f"vconv_{stem}{mode}" for mode in (modes.rstrip("}").split(",") if modes else ("",)))


ELEMENTWISE = "vadd vsub vmul vdiv vmax vmin vand vor vsubrelu vaddrelu"
CONVERTING = " ".join(f"v{op}reluconv_{kind}" for op in ("add", "sub") for kind in ("f162s8", "f322f16", "s162s8"))
REGISTERS = """
    set_fmatrix set_fmatrix_b set_l3d_rpt set_padding set_quant_pre set_fpc set_deqscale
    set_atomic_add set_atomic_none set_atomic_f32 set_atomic_f16 set_atomic_bf16 set_atomic_s32 set_atomic_s16
    set_atomic_s8 set_st_atomic_cfg set_ffts_base_addr set_mov_pad_val
    set_channel_para set_task_cookie get_vms4_sr get_rsvd_cnt preload dsb dcci"""
"""Functions that set or read registers, and move no data."""

TABLE: dict[str, Intrinsic] = {
    row.name: row
    for row in (
        *_rows("V", x.lanes(2), ELEMENTWISE),
        *_rows("V", x.lanes(2), CONVERTING),
        *_rows("V", x.lanes(2, also_reads=True), "vmla vmadd vmaddrelu"),
        *_rows("V", x.four_bits(0), " ".join(f"vconv_f162s4{mode}" for mode in ("", *"acfrz"))),
        *_rows("V", x.four_bits(1), "vconv_s42f16"),
        *_rows("V", x.lanes(1), "vexp vln vabs vrec vsqrt vrsqrt vrelu vnot " + " ".join(_conversions())),
        *_rows("V", x.lanes(1, scalar=True), "vadds vmuls vmaxs vmins vlrelu vshl vshr"),
        *_rows("V", x.lanes(1, scalar=True, also_reads=True), "vaxpy"),
        *_rows("V", x.lanes(0, scalar=True, strides=2), "vector_dup"),
        *_rows("V", x.copied_lanes, "vcopy"),
        *_rows("V", x.select, "vsel"),
        *_rows("V", x.compare(2), " ".join(f"vcmpv_{mode}" for mode in ("eq", "ne", "lt", "le", "gt", "ge"))),
        *_rows("V", x.compare(1), " ".join(f"vcmpvs_{mode}" for mode in ("eq", "ne", "lt", "le", "gt", "ge"))),
        *_rows("V", x.compare_mask, " ".join(f"vcmp_{mode}" for mode in ("eq", "ne", "lt", "le", "gt", "ge"))),
        *_rows("V", x.mask_register, "set_cmpmask"),
        *_rows("V", x.whole_reduction, "vcadd"),
        *_rows("V", x.position_reduction, "vcmax vcmin"),
        *_rows("V", x.block_reduction, "vcgadd vcgmax vcgmin"),
        *_rows("V", x.pair_reduction, "vcpadd"),
        *_rows("V", x.broadcast_blocks, "vbrcb"),
        *_rows("V", x.compress, "vreducev2"),
        *_rows("V", x.gather, "vgather"),
        *_rows("V", x.gather_blocks, "vgatherb"),
        *_rows("V", x.sort_blocks, "vbitsort"),
        *_rows("V", x.merge_sorted, "vmrgsort4"),
        *_rows("V", x.transpose, "scatter_vnchwconv_b8 scatter_vnchwconv_b16 scatter_vnchwconv_b32"),
        *_rows("V", x.bursts(3), "copy_ubuf_to_ubuf"),
        *_rows("MTE2", x.loaded_bursts, " ".join(f"copy_gm_to_ubuf_align_b{bits}" for bits in (8, 16, 32))),
        *_rows("MTE3", x.stored_bursts, " ".join(f"copy_ubuf_to_gm_align_b{bits}" for bits in (8, 16, 32))),
        *_rows("MTE2", x.bursts(3), "copy_gm_to_cbuf copy_gm_to_ubuf"),
        *_rows("MTE2", x.nd2nz, " ".join(f"copy_gm_to_cbuf_multi_nd2nz_{bits}" for bits in ("b8", "b16", "b32s"))),
        *_rows("MTE2", x.fill, "create_cbuf_matrix create_cbuf_matrix_bf16 set_l1_2d"),
        *_rows("MTE3", x.bursts(3), "copy_cbuf_to_gm copy_ubuf_to_cbuf copy_ubuf_to_gm"),
        *_rows("MTE1", x.fractals, "load_cbuf_to_ca load_cbuf_to_cb"),
        *_rows("MTE1", x.transposed_fractals, "load_cbuf_to_ca_transpose load_cbuf_to_cb_transpose"),
        *_rows("MTE1", image_load, "img2colv2_cbuf_to_ca img2colv2_cbuf_to_cb"),
        *_rows("MTE1", x.bursts(3, unit=64), "copy_cbuf_to_bt"),
        *_rows("FIX", x.bursts(2, unit=128), "copy_cbuf_to_fbuf"),
        *_rows("FIX", x.accumulator, "copy_matrix_cc_to_gm copy_matrix_cc_to_ub"),
        *_rows("FIX", x.accumulator_to_l1, "copy_matrix_cc_to_cbuf"),
        *_rows("M", x.product, "mad"),
        *_rows("M", x.bias_address, "bias_address"),
        *_rows("S", x.nothing, REGISTERS),
        *_rows("S", x.address_register, "set_va_reg_sb"),
        *_rows("S", x.register("counts", False), "set_mask_norm"),
        *_rows("S", x.register("counts", True), "set_mask_count"),
        *_rows("S", x.register("mask"), "set_vector_mask"),
        *_rows("S", x.register("matrices"), "set_nd_para"),
        *_rows("S", x.nothing, "set_flag wait_flag pipe_barrier wait_flag_dev ffts_cross_core_sync"),
        *_rows("S", x.store_atomic, "st_atomic"),
    )
}
