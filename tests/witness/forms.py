"""Calls of overloads that are no list of operands of one shape: rows of tiles and calls, as text of C++.

A row is a kernel. Its tiles lie one behind another in their memories, tensors in one array. The name of a tile with a
capital is its type: templates state it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ALIASES = """
#ifdef __DAV_CUBE__
constexpr bool IS_CUBE = true;
#else
constexpr bool IS_CUBE = false;
#endif
template <typename T, int R, int C, int VR = R, int VC = C, PadValue P = PadValue::Null>
using Vec = Tile<TileType::Vec, T, R, C, BLayout::RowMajor, VR, VC, SLayout::NoneBox, 512, P>;
template <typename T, int R, int C, int VR = R, int VC = C>
using VecNz = Tile<TileType::Vec, T, R, C, BLayout::ColMajor, VR, VC, SLayout::RowMajor, 512>;
template <typename T, int R, int C, int VR = R, int VC = C>
using VecCol = Tile<TileType::Vec, T, R, C, BLayout::ColMajor, VR, VC>;
template <typename T, int R, int C, int VR = R, int VC = C>
using Mat = Tile<TileType::Mat, T, R, C, BLayout::ColMajor, VR, VC, SLayout::RowMajor, 512>;
template <typename T, int C>
using Bias = Tile<TileType::Bias, T, 1, C, BLayout::RowMajor, 1, C>;
template <typename T, int C>
using Factors = Tile<TileType::Scaling, T, 1, C, BLayout::RowMajor, 1, C>;
template <typename T, int R, int C>
using Gm = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<R * C, R * C, R * C, C, 1>>;
"""
APART = 0x4000
"""Bytes between tiles of a memory, and between tensors."""
OF_CUBE = {"TileLeft", "TileRight", "TileAcc", "Mat", "Bias", "Factors", "TileLeftScale", "TileRightScale"}
"""Types of tiles that cube cores have."""


@dataclass(frozen=True)
class Form:
    """Calls over the same tiles."""

    name: str
    """The instruction, and more if there are several rows."""
    tiles: str
    """`name Type<...>; ...`."""
    calls: tuple[str, ...]
    targets: tuple[str, ...] = ("a2a3", "a5")

    @property
    def instruction(self) -> str:
        """The first instruction that it calls."""
        return self.name.partition("_")[0]

    @property
    def declared(self) -> Iterator[tuple[str, str]]:
        """Names and types of tiles and tensors."""
        return ((name, kind) for name, _, kind in (each.strip().partition(" ") for each in self.tiles.split(";")))

    @property
    def core(self) -> str:
        """The core that it is compiled for; empty for both."""
        if any(" pipe(" in call for call in self.calls):
            return ""
        memories = {kind.partition("<")[0] for _, kind in self.declared}
        return "vector" if memories.isdisjoint(OF_CUBE) else "cube"

    def kernel(self) -> str:
        """The kernel."""
        text, used = "", Counter[str]()
        for name, kind in self.declared:
            alias, _, given = kind.partition("<")
            memory = "Vec" if alias.startswith("Vec") else alias
            start = used[memory] * APART
            used[memory] += 1
            text += f"  using {name.capitalize()} = {kind};\n  {name.capitalize()} {name}"
            element = given.partition(",")[0]
            text += (
                f"((__gm__ {element}*)(gm + {start:#x}));\n"
                if alias == "Gm"
                else f";\n  TASSIGN({name}, {start:#x});\n"
            )
        calls = "".join(f"  {call};\n" for call in self.calls)
        return f"\n__global__ AICORE void {self.name}(__gm__ uint8_t* gm) {{\n{text}{calls}}}\n"


def _rows(*rows: tuple[str, ...], targets: tuple[str, ...] = ("a2a3", "a5")) -> Iterator[Form]:
    return (Form(name, tiles, tuple(calls), targets) for name, tiles, *calls in rows)


FORMS = (
    *_rows(
        ("mgather", "dst Vec<float, 8, 64>; table Gm<float, 32, 64>; idx Vec<int32_t, 1, 8>",
            "MGATHER(dst, table, idx)", "MGATHER<Coalesce::Row>(dst, table, idx)"),
        ("mgather_l1", "dst Mat<half, 16, 32>; table Gm<half, 64, 64>; idx Gm<int32_t, 16, 32>; rest Gm<half, 16, 32>",
            "MGATHER<Coalesce::Elem>(dst, table, idx, rest)"),
        ("mscatter", "src Vec<float, 8, 64>; table Gm<float, 32, 64>; idx Vec<int32_t, 1, 8>",
            "MSCATTER(table, src, idx)", "MSCATTER<Coalesce::Row>(table, src, idx)",
            "MSCATTER<Coalesce::Row, ScatterAtomicOp::Add>(table, src, idx)",
            "MSCATTER<Coalesce::Row, ScatterAtomicOp::Add, ScatterOOB::Skip>(table, src, idx)"),
        ("tand_any", "dst Vec<int16_t, 16, 64>; src0 Vec<int16_t, 16, 128, 16, 64>; src1 Vec<int16_t, 16, 64>",
            "TAND(dst, src0, src1)", "TOR(dst, src0, src1)"),
        ("tci_tmp", "dst Vec<int32_t, 1, 48>; tmp Vec<float, 1, 256>; wide Vec<int32_t, 1, 320, 1, 301>",
            "TCI<Dst, Tmp, int32_t, 0>(dst, 3, tmp)", "TCI<Dst, Tmp, int32_t, 1>(dst, 3, tmp)",
            "TCI<Wide, Tmp, int32_t, 0>(wide, 3, tmp)"),
        ("tci_tmp2", "dst Vec<int16_t, 1, 96>; tmp Vec<float, 1, 256>; wide Vec<int16_t, 1, 640, 1, 601>",
            "TCI<Dst, Tmp, int16_t, 0>(dst, 3, tmp)", "TCI<Dst, Tmp, int16_t, 1>(dst, 3, tmp)",
            "TCI<Wide, Tmp, int16_t, 0>(wide, 3, tmp)"),
        ("tcmps_tile", "dst Vec<uint8_t, 16, 32>; src0 Vec<float, 16, 64>; src1 Vec<float, 1, 8>",
            "TCMPS(dst, src0, src1, CmpMode::GT)", "TCMPS(dst, src0, src1, CmpMode::NE)"),
        ("tcolargmin_two",
            "dst Vec<float, 1, 64>; pos Vec<int32_t, 1, 64>; src Vec<float, 16, 64>; tmp Vec<float, 3, 64>",
            "TCOLARGMIN(dst, pos, src, tmp)", "TCOLARGMAX(dst, pos, src, tmp)"),
        ("trowargmin_two",
            "dst VecCol<float, 16, 1>; pos VecCol<int32_t, 16, 1>; src Vec<float, 16, 64>; tmp Vec<float, 16, 64>",
            "TROWARGMIN(dst, pos, src, tmp)", "TROWARGMAX(dst, pos, src, tmp)"),
        ("trowargmax_two",
            "dst Vec<float, 16, 8, 16, 1>; pos Vec<int32_t, 16, 8, 16, 1>; src Vec<float, 16, 96, 16, 90>; "
            "tmp Vec<float, 16, 64>",
            "TROWARGMIN(dst, pos, src, tmp)", "TROWARGMAX(dst, pos, src, tmp)"),
        ("tcolsum_binary", "dst Vec<float, 1, 64>; src Vec<float, 16, 64>; tmp Vec<float, 8, 64>",
            "TCOLSUM(dst, src, tmp, true)", "TCOLSUM(dst, src, tmp, false)"),
        ("tcolsum_odd", "dst Vec<half, 1, 64, 1, 61>; src Vec<half, 15, 64, 15, 61>; tmp Vec<half, 8, 64>",
            "TCOLSUM(dst, src, tmp, true)", "TCOLSUM(dst, src, tmp, false)"),
        ("tcvt_tmp", "dst Vec<int16_t, 16, 64>; src Vec<float, 16, 64>; tmp Vec<int32_t, 16, 64>",
            "TCVT(dst, src, tmp, RoundMode::CAST_TRUNC)",
            "TCVT(dst, src, tmp, RoundMode::CAST_TRUNC, SaturationMode::OFF)"),
        ("tdivs_tile", "dst Vec<float, 16, 64>; src Vec<float, 16, 64>", "TDIVS(dst, 3.0f, src)"),
        ("tdivs_odd", "dst Vec<half, 16, 64, 16, 61>; src Vec<half, 16, 64, 16, 61>", "TDIVS(dst, (half)3, src)"),
        ("tdivs_int", "dst Vec<int32_t, 2, 8>; src Vec<int32_t, 2, 8>",
            "for (int k = 0; k < 16; ++k) src.SetValue(k, 1)", "TDIVS(dst, 3, src)"),
        ("textract_two", "one VecNz<half, 16, 32>; two VecNz<half, 16, 32>; src Vec<half, 32, 64>",
            "TEXTRACT(one, two, src, 0, 0, 16, 32)"),
        ("tfillpad_mode", "dst Vec<float, 16, 64, 16, 64, PadValue::Zero>; src Vec<float, 16, 64, 16, 50>",
            "TASSIGN(src, 0)", "TFILLPAD_INPLACE(dst, src)"),
        ("tfillpad_wide", "dst Vec<float, 20, 96, 20, 96, PadValue::Zero>; src Vec<float, 16, 64, 16, 50>",
            "TFILLPAD_EXPAND(dst, src)"),
        ("tfillpad_l1", "dst Mat<half, 32, 64, 20, 40>", "TFILLPAD(dst, dst)",
            "TFILLPAD<Dst, PadValue::Zero>(dst, dst)"),
        ("tgemv",
            "acc TileAcc<float, 16, 32, 1, 32>; left TileLeft<half, 1, 256, 1, 64>; right TileRight<half, 64, 32>; "
            "bias Bias<float, 32>",
            "TGEMV(acc, left, right)", "TGEMV<AccPhase::Partial>(acc, left, right)",
            "TGEMV_ACC(acc, acc, left, right)", "TGEMV_ACC<AccPhase::Final>(acc, acc, left, right)",
            "TGEMV_BIAS(acc, left, right, bias)", "TGEMV_BIAS<AccPhase::Final>(acc, left, right, bias)"),
        ("tmatmul_phase", "acc TileAcc<float, 32, 32>; left TileLeft<half, 32, 64>; right TileRight<half, 64, 32>; "
            "bias Bias<float, 32>",
            "TMATMUL<AccPhase::Partial>(acc, left, right)", "TMATMUL_ACC<AccPhase::Final>(acc, acc, left, right)",
            "TMATMUL_ACC(acc, left, right)", "TMATMUL_ACC<AccPhase::Partial>(acc, left, right)",
            "TMATMUL_BIAS<AccPhase::Final>(acc, left, right, bias)"),
        ("textract_relu", "dst Mat<half, 16, 16>; src TileAcc<float, 32, 32>",
            "TEXTRACT<Dst, Src, ReluPreMode::NormalRelu>(dst, src, 16, 16)",
            "TEXTRACT<Dst, Src, ReluPreMode::NoRelu>(dst, src, 0, 16)"),
        ("textract_quant", "dst Mat<int8_t, 16, 32>; src TileAcc<float, 32, 64>; fp Factors<uint64_t, 64>",
            "TEXTRACT<Dst, Src>(dst, src, (uint64_t)1, 16, 32)",
            "TEXTRACT<Dst, Src, ReluPreMode::NormalRelu>(dst, src, (uint64_t)1, 0, 32)",
            "TEXTRACT_FP<Dst, Src, Fp>(dst, src, fp, 16, 32)",
            "TEXTRACT_FP<Dst, Src, Fp, ReluPreMode::NormalRelu>(dst, src, fp, 16, 0)"),
        ("tinsert_relu", "dst Mat<half, 32, 32>; src TileAcc<float, 16, 16>",
            "TINSERT<Dst, Src, ReluPreMode::NormalRelu>(dst, src, 16, 16)",
            "TINSERT<Dst, Src, ReluPreMode::NoRelu>(dst, src, 0, 16)"),
        ("tinsert_quant", "dst Mat<int8_t, 32, 64>; src TileAcc<float, 16, 32>; fp Factors<uint64_t, 32>",
            "TINSERT<Dst, Src>(dst, src, (uint64_t)1, 16, 32)",
            "TINSERT<Dst, Src, ReluPreMode::NormalRelu>(dst, src, (uint64_t)1, 0, 32)",
            "TINSERT_FP<Dst, Src, Fp>(dst, src, fp, 16, 32)",
            "TINSERT_FP<Dst, Src, Fp, ReluPreMode::NormalRelu>(dst, src, fp, 16, 0)"),
        ("tmov_relu", "dst Mat<half, 32, 32>; src TileAcc<float, 32, 32>",
            "TMOV<Dst, Src, ReluPreMode::NormalRelu>(dst, src)", "TMOV<Dst, Src, ReluPreMode::NoRelu>(dst, src)"),
        ("tmov_quant", "dst Mat<int8_t, 32, 32>; src TileAcc<float, 32, 32>; fp Factors<uint64_t, 32>",
            "TMOV<Dst, Src>(dst, src, (uint64_t)1)", "TMOV<Dst, Src, ReluPreMode::NormalRelu>(dst, src, (uint64_t)1)",
            "TMOV_FP<Dst, Src, Fp>(dst, src, fp)", "TMOV(dst, src, fp)"),
        ("tmrgsort_three",
            "dst Vec<float, 1, 384>; tmp Vec<float, 1, 384>; one Vec<float, 1, 128>; two Vec<float, 1, 128>; "
            "three Vec<float, 1, 128>", "MrgSortExecutedNumList done",
            "TMRGSORT<Dst, Tmp, One, Two, Three, false>(dst, done, tmp, one, two, three)",
            "TMRGSORT<Dst, Tmp, One, Two, Three, true>(dst, done, tmp, one, two, three)"),
        ("tsort32_plain", "dst Vec<float, 16, 128>; src Vec<float, 16, 64>; idx Vec<uint32_t, 16, 64>",
            "TSORT32(dst, src, idx)"),
        ("tstore_acc", "out Gm<half, 32, 32>; src TileAcc<float, 32, 32>",
            "TSTORE<STPhase::Partial>(out, src)", "TSTORE<STPhase::Final, Src, Out, AtomicType::AtomicAdd>(out, src)",
            "TSTORE<Src, Out, AtomicType::AtomicNone, ReluPreMode::NormalRelu>(out, src)",
            "TSTORE<STPhase::Final, Src, Out, AtomicType::AtomicNone, ReluPreMode::NormalRelu>(out, src)"),
        ("tstore_quant", "out Gm<int8_t, 32, 32>; src TileAcc<float, 32, 32>",
            "TSTORE<Src, Out>(out, src, (uint64_t)1)",
            "TSTORE<Src, Out, AtomicType::AtomicNone, ReluPreMode::NormalRelu>(out, src, (uint64_t)1)",
            "TSTORE<STPhase::Final, Src, Out>(out, src, (uint64_t)1)"),
    ),
    *_rows(
        ("tgather_cmp", "tmp Vec<uint8_t, 16, 32>; dst Vec<int32_t, 16, 64>; src Vec<float, 16, 64>; "
            "value VecCol<int32_t, 16, 1>; counts VecCol<int32_t, 16, 1>",
            "TGATHER<Dst, Src, Value, Counts, Tmp, CmpMode::GT>(dst, src, value, counts, tmp, 0)",
            "TGATHER<Dst, Src, Value, Counts, Tmp, CmpMode::EQ>(dst, src, value, counts, tmp, 3)"),
        ("tpush_acc", "src TileAcc<float, 32, 32>; dst Vec<float, 16, 32>",
            "using Pipe = TMPipe<0, FIFOType::GM_FIFO, 2, 1, Src, Dst, false, 0>", "Pipe pipe((__gm__ float*)gm)",
            "if constexpr (IS_CUBE) TPUSH(src, pipe)", "if constexpr (!IS_CUBE) TPOP(dst, pipe)"),
        ("tpush_vec", "src Vec<half, 32, 32>; dst Mat<half, 32, 32>",
            "using Pipe = TMPipe<0, FIFOType::GM_FIFO, 2, 1, Src, Dst, false, 0>", "Pipe pipe((__gm__ half*)gm)",
            "if constexpr (!IS_CUBE) TPUSH(src, pipe)", "if constexpr (IS_CUBE) TPOP(dst, pipe)"),
        ("tpop_number", "src TileAcc<float, 32, 32>; dst Vec<float, 16, 32>",
            "using Pipe = TPipe<0, Direction::DIR_C2V, 4096, 2>", "Pipe pipe((__gm__ void*)gm, 0x0, 0x8000)",
            "if constexpr (IS_CUBE) TPUSH<Pipe, Src, TileSplitAxis::TILE_UP_DOWN>(pipe, src)",
            "if constexpr (!IS_CUBE) TPOP<Pipe, Dst, TileSplitAxis::TILE_UP_DOWN>(pipe, dst, "
            "(int32_t)get_subblockid())"),
        targets=("a2a3",),
    ),
    *_rows(
        ("tgather_cmp", "dst Vec<int32_t, 16, 64>; src Vec<float, 16, 64>; value VecCol<uint32_t, 16, 1>; "
            "counts VecCol<int32_t, 16, 1>; tmp Vec<uint8_t, 16, 32>",
            "TGATHER<Dst, Src, Value, Counts, Tmp, CmpMode::GT>(dst, src, value, counts, tmp, 0)",
            "TGATHER<Dst, Src, Value, Counts, Tmp, CmpMode::EQ>(dst, src, value, counts, tmp, 3)"),
        ("tpush_acc", "src TileAcc<float, 32, 32>; dst Vec<float, 16, 32>",
            "using Pipe = TMPipe<0, FIFOType::GM_FIFO, 2, 1, Src, Dst, false, 2>",
            "Pipe pipe((__gm__ float*)gm, 0x8000)",
            "if constexpr (IS_CUBE) TPUSH(src, pipe)", "if constexpr (!IS_CUBE) TPOP(dst, pipe)"),
        ("tpush_vec", "src Vec<half, 32, 32>; dst Mat<half, 32, 32>",
            "using Pipe = TMPipe<0, FIFOType::GM_FIFO, 2, 1, Src, Dst, false, 2>",
            "Pipe pipe((__gm__ half*)gm, 0x8000)",
            "if constexpr (!IS_CUBE) TPUSH(src, pipe)", "if constexpr (IS_CUBE) TPOP(dst, pipe)"),
        ("tgemv_mx", "acc TileAcc<float, 16, 32, 1, 32>; left TileLeft<float8_e4m3_t, 1, 512, 1, 64>; "
            "left_scale TileLeftScale<float8_e8m0_t, 1, 16, 1, 2>; right TileRight<float8_e4m3_t, 64, 32>; "
            "right_scale TileRightScale<float8_e8m0_t, 2, 32>; bias Bias<float, 32>",
            "TGEMV_MX(acc, left, left_scale, right, right_scale)",
            "TGEMV_MX<AccPhase::Partial>(acc, left, left_scale, right, right_scale)",
            "TGEMV_MX(acc, acc, left, left_scale, right, right_scale)",
            "TGEMV_MX<AccPhase::Final>(acc, acc, left, left_scale, right, right_scale)",
            "TGEMV_MX(acc, left, left_scale, right, right_scale, bias)",
            "TGEMV_MX<AccPhase::Final>(acc, left, left_scale, right, right_scale, bias)"),
        ("tmatmul_mx", "acc TileAcc<float, 32, 32>; left TileLeft<float8_e4m3_t, 32, 64>; "
            "left_scale TileLeftScale<float8_e8m0_t, 32, 2>; right TileRight<float8_e4m3_t, 64, 32>; "
            "right_scale TileRightScale<float8_e8m0_t, 2, 32>; bias Bias<float, 32>",
            "TMATMUL_MX<AccPhase::Partial>(acc, left, left_scale, right, right_scale)",
            "TMATMUL_MX(acc, acc, left, left_scale, right, right_scale)",
            "TMATMUL_MX<AccPhase::Final>(acc, acc, left, left_scale, right, right_scale)",
            "TMATMUL_MX<AccPhase::Final>(acc, left, left_scale, right, right_scale, bias)"),
        ("tmov_ub", "dst Vec<half, 32, 32>; half_of_it Vec<float, 16, 32>; src TileAcc<float, 32, 32>",
            "TMOV<STPhase::Partial>(dst, src)",
            "TMOV<STPhase::Final, Dst, Src, ReluPreMode::NormalRelu>(dst, src)",
            "TMOV<Dst, Src, AccToVecMode::SingleModeVec1>(dst, src)",
            "TMOV<Half_of_it, Src, AccToVecMode::DualModeSplitM, ReluPreMode::NormalRelu>(half_of_it, src)",
            "TMOV<STPhase::Final, Dst, Src, AccToVecMode::SingleModeVec0>(dst, src)"),
        ("tmov_ub_quant", "dst Vec<int8_t, 32, 32>; src TileAcc<float, 32, 32>; fp Factors<uint64_t, 32>",
            "TMOV<STPhase::Final, Dst, Src>(dst, src, (uint64_t)1)",
            "TMOV<Dst, Src, AccToVecMode::SingleModeVec1>(dst, src, (uint64_t)1)",
            "TMOV<STPhase::Final, Dst, Src, AccToVecMode::SingleModeVec1>(dst, src, (uint64_t)1)",
            "TMOV_FP<STPhase::Final, Dst, Src, Fp>(dst, src, fp)",
            "TMOV<Dst, Src, Fp, AccToVecMode::SingleModeVec1>(dst, src, fp)",
            "TMOV<STPhase::Final, Dst, Src, Fp, AccToVecMode::SingleModeVec0>(dst, src, fp)"),
        ("textract_ub", "dst Vec<half, 16, 16>; src TileAcc<float, 32, 32>",
            "TEXTRACT<Dst, Src, AccToVecMode::SingleModeVec0>(dst, src, 16, 16)",
            "TEXTRACT<Dst, Src, AccToVecMode::SingleModeVec1, ReluPreMode::NormalRelu>(dst, src, 0, 16)"),
        ("textract_ub_quant", "dst Vec<int8_t, 16, 32>; src TileAcc<float, 32, 64>; fp Factors<uint64_t, 64>",
            "TEXTRACT<Dst, Src, AccToVecMode::SingleModeVec1>(dst, src, (uint64_t)1, 16, 32)",
            "TEXTRACT<Dst, Src, Fp, AccToVecMode::SingleModeVec0>(dst, src, fp, 16, 32)"),
        ("tinsert_ub", "dst Vec<half, 32, 32>; src TileAcc<float, 16, 16>",
            "TINSERT<Dst, Src, AccToVecMode::SingleModeVec0>(dst, src, 16, 16)",
            "TINSERT<Dst, Src, AccToVecMode::SingleModeVec1, ReluPreMode::NormalRelu>(dst, src, 0, 16)"),
        ("tinsert_ub_quant", "dst Vec<int8_t, 32, 64>; src TileAcc<float, 16, 32>; fp Factors<uint64_t, 32>",
            "TINSERT<Dst, Src, AccToVecMode::SingleModeVec1>(dst, src, (uint64_t)1, 16, 32)",
            "TINSERT<Dst, Src, Fp, AccToVecMode::SingleModeVec0>(dst, src, fp, 16, 32)"),
        ("tquant_int8", "dst Vec<int8_t, 16, 64>; unsigned_ Vec<uint8_t, 16, 64>; src Vec<float, 16, 64>; "
            "scale VecCol<float, 16, 1>; offset VecCol<float, 16, 1>; tmp Vec<float, 16, 64>",
            "TQUANT<QuantType::INT8_SYM>(dst, src, scale)", "TQUANT<QuantType::INT8_SYM>(dst, src, scale, tmp)",
            "TQUANT<QuantType::INT8_ASYM>(unsigned_, src, scale, &offset)",
            "TQUANT<QuantType::INT8_ASYM>(unsigned_, src, scale, tmp, &offset)"),
        ("tpop_gm", "src TileAcc<float, 32, 32>; dst Vec<float, 16, 32>",
            "using Pipe = TPipe<0, Direction::DIR_C2V_GM, 4096, 2>", "Pipe pipe((__gm__ void*)gm, 0x0, 0x8000)",
            "if constexpr (IS_CUBE) TPUSH<Pipe, Src, TileSplitAxis::TILE_UP_DOWN>(pipe, src)",
            "if constexpr (IS_CUBE) TPUSH<Pipe, Src, TileSplitAxis::TILE_UP_DOWN>(pipe, src)",
            "if constexpr (!IS_CUBE) TPOP<Pipe, Dst, TileSplitAxis::TILE_UP_DOWN>(pipe, dst)",
            "if constexpr (!IS_CUBE) TPOP<Pipe, Dst, TileSplitAxis::TILE_UP_DOWN>(pipe, dst, "
            "(int32_t)get_subblockid())"),
        ("trowexpandadd_tmp",
            "dst Vec<float, 16, 64, 16, 61>; src0 Vec<float, 16, 64, 16, 61>; src1 VecCol<float, 16, 1>; "
            "tmp Vec<float, 16, 64>",
            *(f"TROWEXPAND{op}(dst, src0, src1, tmp)" for op in ("ADD", "DIV", "EXPDIF", "MAX", "MIN", "MUL", "SUB"))),
        ("trsqrt_tmp", "dst Vec<float, 16, 64>; src Vec<float, 16, 64>; tmp Vec<float, 1, 64>",
            "TRSQRT(dst, src, tmp)"),
        targets=("a5",),
    ),
)  # fmt: skip


def source(forms: Sequence[Form]) -> str:
    """A C++ source with these kernels."""
    return "#include <pto/pto-inst.hpp>\nusing namespace pto;\n" + ALIASES + "".join(form.kernel() for form in forms)
