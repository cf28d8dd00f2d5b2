"""Functions of the device compiler for cores with vector registers: the table of `intrinsics.py` for their headers."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.witness import extents as x
from ptokit.witness import vectors as v
from ptokit.witness.extents import Extent
from ptokit.witness.intrinsics import REGISTERS, TABLE, Intrinsic

COMPARISONS = [f"vcmp{s}_{mode}" for s in ("", "s") for mode in ("eq", "ne", "lt", "le", "gt", "ge")]
WIDTHS = (1, 2, 4)
"""Bytes of a lane of a mask."""
ON_REGISTERS = """
    vabs vadd vadds vand vaxpy vbr vcadd vcgadd vcgmax vcgmin vci vcmax vcmin vcpadd vcvt vdintlv vdiv vdup vexp vexpdif
    vintlv vln vlrelu vmadd vmax vmaxs vmin vmins vmod vmov vmul vmula vmull vmuls vneg vnot vor vpack vprelu vrelu vsel
    vselr vshl vshls vshr vshrs vsqrt vsub vtrc vxor vrec vrsqrt chistv2 dhistv2 mem_bar vstas vstar"""
"""Functions whose operands are vector registers: they move no data of a memory, and are not recorded."""
LOOPS = [f"set_loop{n}_stride_{way}" for n in (1, 2) for way in ("outtoub", "ubtoout", "outtol1")]
KEPT = """
    copy_ubuf_to_gm copy_gm_to_ubuf create_cbuf_matrix create_cbuf_matrix_bf16 set_l1_2d copy_gm_to_cbuf copy_cbuf_to_gm
    copy_ubuf_to_cbuf vbitsort vmrgsort4 set_va_reg_sb set_mask_norm set_mask_count set_vector_mask set_flag wait_flag
    pipe_barrier wait_flag_dev ffts_cross_core_sync st_atomic bias_address"""
"""Functions that are the same on cores without vector registers."""
SILENT = """
    set_intra_block wait_intra_block set_cross_core set_l3d_rpt_b set_padding_b set_pad_val_outtoub set_pad_val_outtol1
    set_loop4_para get_buf rls_buf dmb"""
"""More functions that set registers or wait, and move no data."""


def _rows(pipe: str, extent: Extent, names: str, masks: int = 0) -> Iterator[tuple[Intrinsic, int]]:
    for name in names.split():
        yield Intrinsic(name, pipe, extent), masks


def _of_masks() -> Iterator[tuple[Intrinsic, int]]:
    for width in WIDTHS:
        bits = 8 * width
        yield from _rows("V", v.pattern(width), f"pset_b{bits} pge_b{bits}", RESULT)
        yield from _rows("V", v.counted(width), f"plt_b{bits}", RESULT)
        yield from _rows("V", v.interleaved(width), f"pintlv_b{bits}", 2)
        yield from _rows("V", v.interleaved(width, back=True), f"pdintlv_b{bits}", 2)
    for name, made in (
        ("pand", v.both),
        ("por", v.either),
        ("pxor", v.differing),
        ("pnot", v.inverted),
        ("psel", v.chosen),
    ):
        yield from _rows("V", v.mask(made), name, 1)
    yield from _rows("V", v.mask(v.compared), f"{' '.join(COMPARISONS)} vaddc vaddcs vsubc vsubcs", 1)
    yield from _rows("V", v.moved_bits(v.packed), "ppack", 1)
    yield from _rows("V", v.moved_bits(v.unpacked), "punpack", 1)


RESULT = -1
"""A mask that a function returns; other numbers: how many of its first arguments it writes."""
ROWS = (
    *_of_masks(),
    *_rows("V", v.load, "vlds"),
    *_rows("V", v.load_unaligned, "vldus"),
    *_rows("V", v.prepare_unaligned, "vldas"),
    *_rows("V", v.store, "vsts"),
    *_rows("V", v.store_unaligned, "vstus"),
    *_rows("V", v.store_blocks, "vsstb"),
    *_rows("V", v.squeeze, "vsqz"),
    *_rows("V", v.store_squeezed, "vstur"),
    *_rows("V", v.clear_address, "sprclr"),
    *_rows("V", v.store_address, "sprsts"),
    *_rows("V", v.load_mask, "plds", 1),
    *_rows("V", v.store_mask, "psts"),
    *_rows("V", v.gathered, "vgather2 vgather2_bc vgatherb"),
    *_rows("V", v.scattered, "vscatter"),
    *_rows("V", x.bursts(2), "copy_ubuf_to_ubuf"),
    *_rows("MTE2", v.strided_load("outtoub"), "copy_gm_to_ubuf_align_v2"),
    *_rows("MTE2", v.strided_load("outtol1"), "copy_gm_to_cbuf_align_v2"),
    *_rows("MTE3", v.strided_store, "copy_ubuf_to_gm_align_v2"),
    *_rows("MTE2", v.to_fractals(by_columns=False), "copy_gm_to_cbuf_multi_nd2nz"),
    *_rows("MTE2", v.to_fractals(by_columns=True), "copy_gm_to_cbuf_multi_dn2nz"),
    *_rows("MTE1", x.bursts(3), "copy_cbuf_to_ubuf"),
    *_rows("MTE1", v.fractal_load, "load_cbuf_to_ca load_cbuf_to_cb load_cbuf_to_ca_s4 load_cbuf_to_cb_s4"),
    *_rows("MTE1", v.scale_load, "load_cbuf_to_ca_mx load_cbuf_to_cb_mx"),
    *_rows("MTE1", v.image_load, "img2colv2_cbuf_to_ca img2colv2_cbuf_to_cb"),
    *_rows("MTE1", v.bias_load, "copy_cbuf_to_bt"),
    *_rows("FIX", x.bursts(2, unit=64), "copy_cbuf_to_fbuf"),
    *_rows("FIX", v.packed_results, "copy_matrix_cc_to_gm"),
    *_rows("FIX", v.results(13), "copy_matrix_cc_to_ub"),
    *_rows("FIX", v.results(12), "copy_matrix_cc_to_cbuf"),
    *_rows("M", v.product, "mad"),
    *_rows("M", v.scaled_product, "mad_mx"),
    *(pair for name in LOOPS for pair in _rows("S", v.word(f"{name[8]}_{name.rpartition('_')[2]}"), name)),
    *(
        pair
        for way in ("outtoub", "ubtoout", "outtol1")
        for pair in _rows("S", v.word(f"size_{way}"), f"set_loop_size_{way}")
    ),
    *_rows("S", v.word("nz"), "set_mte2_nz_para"),
    *_rows("S", v.word("matrices"), "set_loop3_para"),
    *_rows("S", x.nothing, SILENT),
    *_rows("S", x.nothing, REGISTERS),
    *((TABLE[name], 0) for name in KEPT.split()),
)
REGISTER_TABLE = {row.name: row for row, _ in ROWS}
CONSTANTS = """
    MODE_ZEROING MODE_MERGING MODE_STORED MODE_NO_STORED PART_EVEN PART_ODD PART_P0 PART_P1 PART_P2 PART_P3 RS_ENABLE
    RS_DISABLE INC_ORDER DEC_ORDER POS_LOWEST POS_HIGHEST VST_VLD VST_VST VLD_VST VV_ALL Bin_N0 Bin_N1 Bin_N2 Bin_N3"""
"""More words of arguments. Each word has a type of its own."""


WITH_LISTS = frozenset(("set_va_reg_sb", "vmrgsort4"))
"""Functions that take arrays of addresses; `builtins.hpp` has them."""


def stubs() -> str:
    """Templates for the functions, and the constants that headers name."""
    stored = v.STORED.split()
    kinds = ", ".join(f"DIST_{name} = {v.WORDS.index(name)}" for name in v.LOADED)
    rows = [f"enum class DistVST : int {{ {', '.join(stored)} }};", f"enum class Dist : int {{ {kinds} }};"]
    for number, name in enumerate((*v.WORDS, *CONSTANTS.split())):
        kind = "DistVST" if name in stored else "Dist" if name in v.LOADED else "int"
        rows.append(f"inline constexpr std::integral_constant<{kind}, {kind}({number})> {name}{{}};")
    for width in WIDTHS:
        rows.append(f"inline constexpr std::uint32_t ELE_CNT_B{8 * width} = {x.REPEAT // width};")
    for row, masks in ROWS:
        if row.name not in WITH_LISTS and not row.name.startswith("plt_"):
            head = f"template <typename... A> inline auto {row.name}(A{'&&' * (row.pipe == 'V')}... a)"
            rows.append(f'{head} {{ return ptokit::noted<{masks}>("{row.name}", a...); }}')
    for name in ON_REGISTERS.split():
        rows.append(f"template <typename... A> inline ptokit::Zero {name}(A&&...) {{ return {{}}; }}")
    return "\n".join(rows) + "\n"
