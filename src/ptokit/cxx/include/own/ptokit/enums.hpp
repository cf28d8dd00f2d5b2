// Written by ptokit.cxx.names; edit its tables.
#pragma once

#include <cstdint>

enum pipe_t : uint8_t { PIPE_S = 0x0, PIPE_V = 0x1, PIPE_M = 0x2, PIPE_MTE1 = 0x3, PIPE_MTE2 = 0x4, PIPE_MTE3 = 0x5, PIPE_ALL = 0x6, PIPE_MTE4 = 0x7, PIPE_MTE5 = 0x8, PIPE_V2 = 0x9, PIPE_FIX = 0xa };
enum event_t : uint8_t { EVENT_ID0 = 0x0, EVENT_ID1 = 0x1, EVENT_ID2 = 0x2, EVENT_ID3 = 0x3, EVENT_ID4 = 0x4, EVENT_ID5 = 0x5, EVENT_ID6 = 0x6, EVENT_ID7 = 0x7 };
enum QuantMode_t : uint8_t { NoQuant = 0x0, F322F16 = 0x1, F322BF16 = 0x2, DEQF16 = 0x3, VDEQF16 = 0x4, QF322B8_PRE = 0x5, VQF322B8_PRE = 0x6, REQ8 = 0x7, VREQ8 = 0x8, DEQS16 = 0x9, VDEQS16 = 0xa, QF162B8_PRE = 0xb, VQF162B8_PRE = 0xc, QF162S4_PRE = 0xd, VQF162S4_PRE = 0xe, REQ4 = 0xf, VREQ4 = 0x10, QF162S16_PRE = 0x11, VQF162S16_PRE = 0x12, SHIFTS322S16 = 0x13, VSHIFTS322S16 = 0x14, QF322S4_PRE = 0x15, VQF322S4_PRE = 0x16, QF322F16_PRE = 0x17, VQF322F16_PRE = 0x18, QF322BF16_PRE = 0x19, VQF322BF16_PRE = 0x1a, QS322BF16_PRE = 0x1b, VQS322BF16_PRE = 0x1c, QF322F32_PRE = 0x1d, VQF322F32_PRE = 0x1e, QF322HIF8_PRE = 0x1f, VQF322HIF8_PRE = 0x20, QF322HIF8_PRE_HYBRID = 0x21, VQF322HIF8_PRE_HYBRID = 0x22, QF322FP8_PRE = 0x23, VQF322FP8_PRE = 0x24 };
enum mem_dsb_t : uint8_t { DSB_ALL = 0x0, DSB_DDR = 0x1, DSB_UB = 0x2, DSB_SEQ = 0x3 };
enum cache_line_t : uint8_t { SINGLE_CACHE_LINE = 0x0, ENTIRE_DATA_CACHE = 0x1 };
enum dcci_dst_t : uint8_t { CACHELINE_ALL = 0x0, CACHELINE_UB = 0x1, CACHELINE_OUT = 0x2, CACHELINE_ATOMIC = 0x3 };
namespace pto { enum class Coalesce : uint8_t { Row = 0x0, Elem = 0x1 }; }
namespace pto { enum class GatherOOB : uint8_t { Undefined = 0x0, Clamp = 0x1, Wrap = 0x2, Zero = 0x3 }; }
namespace pto { enum class GatherExec : uint8_t { Scalar = 0x0, Simt = 0x1 }; }
namespace pto { enum class ScatterAtomicOp : uint8_t { None = 0x0, Add = 0x1, Max = 0x2, Min = 0x3 }; }
namespace pto { enum class ScatterOOB : uint8_t { Undefined = 0x0, Skip = 0x1, Clamp = 0x2, Wrap = 0x3 }; }
namespace pto { enum class CmpMode : uint8_t { EQ = 0x0, NE = 0x1, LT = 0x2, LE = 0x3, GT = 0x4, GE = 0x5 }; }
namespace pto { enum class RoundMode : uint8_t { CAST_NONE = 0x0, CAST_RINT = 0x1, CAST_ROUND = 0x2, CAST_FLOOR = 0x3, CAST_CEIL = 0x4, CAST_TRUNC = 0x5, CAST_ODD = 0x6 }; }
namespace pto { enum class SaturationMode : uint8_t { ON = 0x0, OFF = 0x1 }; }
namespace pto { enum class MaskPattern : uint8_t { P0101 = 0x1, P1010 = 0x2, P0001 = 0x3, P0010 = 0x4, P0100 = 0x5, P1000 = 0x6, P1111 = 0x7 }; }
namespace pto { enum class TileType : int { Vec = 0x0, Mat = 0x1, Left = 0x2, Right = 0x3, Acc = 0x4, Bias = 0x5, Scaling = 0x6, ScaleLeft = 0x7, ScaleRight = 0x8, Ctrl = 0x9 }; }
namespace pto { enum class BLayout : int { RowMajor = 0x0, ColMajor = 0x1 }; }
namespace pto { enum class SLayout : int { NoneBox = 0x0, RowMajor = 0x1, ColMajor = 0x2 }; }
namespace pto { enum class PadValue : uint64_t { Null = 0x0, Zero = 0x1, Max = 0x2, Min = 0x3, CustomBase = 0x100000000 }; }
namespace pto { enum class Layout : int { ND = 0x0, DN = 0x1, NZ = 0x2, SCALE = 0x3, MX_A_ND = 0x4, MX_A_DN = 0x5, MX_A_ZZ = 0x6, MX_B_ND = 0x7, MX_B_DN = 0x8, MX_B_NN = 0x9, HIF4_A_ZZ = 0xa, HIF4_B_NN = 0xb, NC1HWC0 = 0xc, GNC1HWC0 = 0xd, NCHW = 0xe, GNCHW = 0xf, NHWC = 0x10, NDC1HWC0 = 0x11, NCDHW = 0x12, FRACTAL_Z = 0x13, FRACTAL_Z_S16S8 = 0x14, FRACTAL_Z_3D = 0x15, MAX = 0x16 }; }
namespace pto { enum class CompactMode : int { Null = 0x0, Normal = 0x1, RowPlusOne = 0x2, RowAlignedPadding = 0x3 }; }
namespace pto { enum class PrintFormat : uint8_t { Width8_Precision4 = 0x0, Width8_Precision2 = 0x1, Width10_Precision6 = 0x2 }; }
namespace pto { enum class QuantType : int { MXFP8 = 0x0, MXFP4_E2M1 = 0x1, INT8_SYM = 0x2, INT8_ASYM = 0x3 }; }
namespace pto { enum class QuantScaleAlg : int { OCP = 0x0, NV = 0x1 }; }
namespace pto { enum class MxQuantAlg : int { OcpMxFp8E4M3 = 0x0, NvMxFp8E4M3 = 0x1, OcpMxFp4E2M1 = 0x2, NvMxFp4E2M1 = 0x3, Hif4 = 0x4 }; }
namespace pto { enum class VecStoreMode : int { ND = 0x0, NZ = 0x1 }; }
namespace pto { enum class STPhase : uint8_t { Unspecified = 0x0, Partial = 0x2, Final = 0x3 }; }
namespace pto { enum class AccPhase : uint8_t { Unspecified = 0x0, Unknown = 0x0, Partial = 0x2, Final = 0x3 }; }
namespace pto { enum class TCopyMode : uint8_t { SHALLOW_COPY = 0x0, DEEP_COPY = 0x1 }; }
namespace pto { enum class SyncAllMode : uint8_t { Hard = 0x0, Soft = 0x1 }; }
namespace pto { enum class SyncCoreType : uint8_t { AIVOnly = 0x0, AICOnly = 0x1, Mix = 0x2 }; }
namespace pto { enum class AccToVecMode : uint8_t { SingleModeVec0 = 0x0, SingleModeVec1 = 0x1, DualModeSplitM = 0x2, DualModeSplitN = 0x3 }; }
namespace pto { enum class ReluPreMode : uint8_t { NoRelu = 0x0, NormalRelu = 0x1 }; }
namespace pto { enum class AtomicType : uint8_t { AtomicNone = 0x0, AtomicAdd = 0x1, AtomicMax = 0x2, AtomicMin = 0x3 }; }
namespace pto { enum class TFillPadMode : uint8_t { Normal = 0x0, InPlace = 0x1, Expand = 0x2 }; }
namespace pto { enum class SetFmatrixMode : int { FMATRIX_A_AUTO = 0x0, FMATRIX_B_AUTO = 0x1, FMATRIX_A_MANUAL = 0x2, FMATRIX_B_MANUAL = 0x3 }; }
namespace pto { enum class TileLayoutCustom : uint8_t { ND = 0x0, DN = 0x1, NZ = 0x2, ZN = 0x3, ZZ = 0x4, NONE = 0x5 }; }
namespace pto { enum class HistByte : uint8_t { BYTE_0 = 0x0, BYTE_1 = 0x1, BYTE_2 = 0x2, BYTE_3 = 0x3 }; }
namespace pto { enum class PowAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class DivAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class SqrtAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class RsqrtAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class RecipAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class ExpAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class LogAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class FmodAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class FmodSAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class RemAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class RemSAlgorithm : uint8_t { DEFAULT = 0x0, HIGH_PRECISION = 0x1 }; }
namespace pto { enum class ScatterAxis : uint8_t { SCATTER_ROW = 0x0, SCATTER_COL = 0x1 }; }
namespace pto { enum class ScatterConflict : uint8_t { Last = 0x0, Default = 0x1 }; }
namespace pto { enum class GatherAxis : uint8_t { GATHER_ROW = 0x0, GATHER_COL = 0x1 }; }
namespace pto { enum class TInsertMode : uint8_t { NZ = 0x0, NZ_PLUS_1 = 0x1, SPLIT2 = 0x2, SPLIT4 = 0x3 }; }
namespace pto { enum TileSplitAxis : uint8_t { TILE_NO_SPLIT = 0x0, TILE_UP_DOWN = 0x1, TILE_LEFT_RIGHT = 0x2, TILE_UP_DOWN_ODD = 0x3, TILE_LEFT_RIGHT_ODD = 0x4 }; }
namespace pto { enum Direction : uint8_t { UNDEFINED = 0x0, DIR_C2V = 0x1, DIR_V2C = 0x2, DIR_BOTH = 0x3, DIR_V2C_CTRL = 0x4, DIR_C2V_GM = 0x5, DIR_V2C_GM = 0x6, DIR_BOTH_GM = 0x7 }; }
namespace pto { enum class FIFOType : uint8_t { GM_FIFO = 0x0, VEC_FIFO = 0x1, MAT_FIFO = 0x2, CTRL_FIFO = 0x3 }; }
namespace pto { enum class VecCubeRatio : uint8_t { V1C1_VEC0 = 0x0, V1C1_VEC1 = 0x1, V2C1_VECS = 0x2 }; }
namespace pto { enum TSyncCVMode : uint8_t { CUBE_ALL_CORE_SYNC = 0x0, VEC_ALL_CORE_SYNC = 0x0, VEC_SUBCORES_SYNC = 0x1, CV_CORES_SYNC = 0x2 }; }
namespace pto { enum class LayoutMode_t : uint8_t { NZ2NZ = 0x0, NZ2ND = 0x1, NZ2DN = 0x2 }; }
namespace pto { enum ClipReluMode_t : uint8_t { NOCLIP_RELU = 0x0, CLIP_RELU = 0x1 }; }
namespace pto { enum class DequantType : int { SCALAR = 0x0, TENSOR = 0x1 }; }
namespace pto { enum VFImplKind : unsigned { VFIMPL_DEFAULT = 0x0, VFIMPL_1D_NO_POST_UPDATE = 0x1, VFIMPL_2D_NO_POST_UPDATE = 0x2, VFIMPL_1D_POST_UPDATE = 0x3, VFIMPL_2D_POST_UPDATE = 0x4 }; }
namespace pto::comm { enum class NotifyOp : uint8_t { AtomicAdd = 0x0, Set = 0x1 }; }
namespace pto::comm { enum class WaitCmp : uint8_t { EQ = 0x0, NE = 0x1, GT = 0x2, GE = 0x3, LT = 0x4, LE = 0x5 }; }
namespace pto::comm { enum class ReduceOp : uint8_t { Sum = 0x0, Max = 0x1, Min = 0x2 }; }
namespace pto::comm { enum class DmaEngine : uint8_t { SDMA = 0x0, URMA = 0x1, RDMA = 0x2 }; }
namespace pto::comm { enum class CollEngine : uint8_t { AIV = 0x0, CCU = 0x1 }; }
namespace pto::comm { enum class CcuInputSource : uint8_t { HostManaged = 0x0, AivStored = 0x1 }; }

namespace ptokit {
constexpr const char* key_of(::pipe_t) { return "pipe"; }
constexpr const char* word_of(::pipe_t member) {
  switch (member) {
    case ::PIPE_S: return "PIPE_S";
    case ::PIPE_V: return "PIPE_V";
    case ::PIPE_M: return "PIPE_M";
    case ::PIPE_MTE1: return "PIPE_MTE1";
    case ::PIPE_MTE2: return "PIPE_MTE2";
    case ::PIPE_MTE3: return "PIPE_MTE3";
    case ::PIPE_ALL: return "PIPE_ALL";
    case ::PIPE_MTE4: return "PIPE_MTE4";
    case ::PIPE_MTE5: return "PIPE_MTE5";
    case ::PIPE_V2: return "PIPE_V2";
    case ::PIPE_FIX: return "PIPE_FIX";
    default: return nullptr;
  }
}
constexpr const char* key_of(::event_t) { return "event"; }
constexpr const char* word_of(::event_t member) {
  switch (member) {
    case ::EVENT_ID0: return "event_id0";
    case ::EVENT_ID1: return "event_id1";
    case ::EVENT_ID2: return "event_id2";
    case ::EVENT_ID3: return "event_id3";
    case ::EVENT_ID4: return "event_id4";
    case ::EVENT_ID5: return "event_id5";
    case ::EVENT_ID6: return "event_id6";
    case ::EVENT_ID7: return "event_id7";
    default: return nullptr;
  }
}
constexpr const char* key_of(::QuantMode_t) { return "quant"; }
constexpr const char* word_of(::QuantMode_t member) {
  switch (member) {
    case ::NoQuant: return "noquant";
    case ::F322F16: return "f322f16";
    case ::F322BF16: return "f322bf16";
    case ::DEQF16: return "deqf16";
    case ::VDEQF16: return "vdeqf16";
    case ::QF322B8_PRE: return "qf322b8_pre";
    case ::VQF322B8_PRE: return "vqf322b8_pre";
    case ::REQ8: return "req8";
    case ::VREQ8: return "vreq8";
    case ::DEQS16: return "deqs16";
    case ::VDEQS16: return "vdeqs16";
    case ::QF162B8_PRE: return "qf162b8_pre";
    case ::VQF162B8_PRE: return "vqf162b8_pre";
    case ::QF162S4_PRE: return "qf162s4_pre";
    case ::VQF162S4_PRE: return "vqf162s4_pre";
    case ::REQ4: return "req4";
    case ::VREQ4: return "vreq4";
    case ::QF162S16_PRE: return "qf162s16_pre";
    case ::VQF162S16_PRE: return "vqf162s16_pre";
    case ::SHIFTS322S16: return "shifts322s16";
    case ::VSHIFTS322S16: return "vshifts322s16";
    case ::QF322S4_PRE: return "qf322s4_pre";
    case ::VQF322S4_PRE: return "vqf322s4_pre";
    case ::QF322F16_PRE: return "qf322f16_pre";
    case ::VQF322F16_PRE: return "vqf322f16_pre";
    case ::QF322BF16_PRE: return "qf322bf16_pre";
    case ::VQF322BF16_PRE: return "vqf322bf16_pre";
    case ::QS322BF16_PRE: return "qs322bf16_pre";
    case ::VQS322BF16_PRE: return "vqs322bf16_pre";
    case ::QF322F32_PRE: return "qf322f32_pre";
    case ::VQF322F32_PRE: return "vqf322f32_pre";
    case ::QF322HIF8_PRE: return "qf322hif8_pre";
    case ::VQF322HIF8_PRE: return "vqf322hif8_pre";
    case ::QF322HIF8_PRE_HYBRID: return "qf322hif8_pre_hybrid";
    case ::VQF322HIF8_PRE_HYBRID: return "vqf322hif8_pre_hybrid";
    case ::QF322FP8_PRE: return "qf322fp8_pre";
    case ::VQF322FP8_PRE: return "vqf322fp8_pre";
    default: return nullptr;
  }
}
constexpr const char* key_of(::mem_dsb_t) { return "barrier"; }
constexpr const char* word_of(::mem_dsb_t member) {
  switch (member) {
    case ::DSB_ALL: return "dsb_all";
    case ::DSB_DDR: return "dsb_ddr";
    case ::DSB_UB: return "dsb_ub";
    case ::DSB_SEQ: return "dsb_seq";
    default: return nullptr;
  }
}
constexpr const char* key_of(::cache_line_t) { return "line"; }
constexpr const char* word_of(::cache_line_t member) {
  switch (member) {
    case ::SINGLE_CACHE_LINE: return "single_cache_line";
    case ::ENTIRE_DATA_CACHE: return "entire_data_cache";
    default: return nullptr;
  }
}
constexpr const char* key_of(::dcci_dst_t) { return "cache"; }
constexpr const char* word_of(::dcci_dst_t member) {
  switch (member) {
    case ::CACHELINE_ALL: return "cacheline_all";
    case ::CACHELINE_UB: return "cacheline_ub";
    case ::CACHELINE_OUT: return "cacheline_out";
    case ::CACHELINE_ATOMIC: return "cacheline_atomic";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::Coalesce) { return "coalesce"; }
constexpr const char* word_of(::pto::Coalesce member) {
  switch (member) {
    case ::pto::Coalesce::Row: return "row";
    case ::pto::Coalesce::Elem: return "elem";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::GatherOOB) { return "oob"; }
constexpr const char* word_of(::pto::GatherOOB member) {
  switch (member) {
    case ::pto::GatherOOB::Undefined: return "undefined";
    case ::pto::GatherOOB::Clamp: return "clamp";
    case ::pto::GatherOOB::Wrap: return "wrap";
    case ::pto::GatherOOB::Zero: return "zero";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::GatherExec) { return "executor"; }
constexpr const char* word_of(::pto::GatherExec member) {
  switch (member) {
    case ::pto::GatherExec::Scalar: return "scalar";
    case ::pto::GatherExec::Simt: return "simt";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ScatterAtomicOp) { return "atomic"; }
constexpr const char* word_of(::pto::ScatterAtomicOp member) {
  switch (member) {
    case ::pto::ScatterAtomicOp::None: return "none";
    case ::pto::ScatterAtomicOp::Add: return "add";
    case ::pto::ScatterAtomicOp::Max: return "max";
    case ::pto::ScatterAtomicOp::Min: return "min";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ScatterOOB) { return "oob"; }
constexpr const char* word_of(::pto::ScatterOOB member) {
  switch (member) {
    case ::pto::ScatterOOB::Undefined: return "undefined";
    case ::pto::ScatterOOB::Skip: return "skip";
    case ::pto::ScatterOOB::Clamp: return "clamp";
    case ::pto::ScatterOOB::Wrap: return "wrap";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::CmpMode) { return "mode"; }
constexpr const char* word_of(::pto::CmpMode member) {
  switch (member) {
    case ::pto::CmpMode::EQ: return "eq";
    case ::pto::CmpMode::NE: return "ne";
    case ::pto::CmpMode::LT: return "lt";
    case ::pto::CmpMode::LE: return "le";
    case ::pto::CmpMode::GT: return "gt";
    case ::pto::CmpMode::GE: return "ge";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::RoundMode) { return "round"; }
constexpr const char* word_of(::pto::RoundMode member) {
  switch (member) {
    case ::pto::RoundMode::CAST_NONE: return "none";
    case ::pto::RoundMode::CAST_RINT: return "rint";
    case ::pto::RoundMode::CAST_ROUND: return "round";
    case ::pto::RoundMode::CAST_FLOOR: return "floor";
    case ::pto::RoundMode::CAST_CEIL: return "ceil";
    case ::pto::RoundMode::CAST_TRUNC: return "trunc";
    case ::pto::RoundMode::CAST_ODD: return "odd";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SaturationMode) { return "saturation"; }
constexpr const char* word_of(::pto::SaturationMode member) {
  switch (member) {
    case ::pto::SaturationMode::ON: return "on";
    case ::pto::SaturationMode::OFF: return "off";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::MaskPattern) { return "pattern"; }
constexpr const char* word_of(::pto::MaskPattern member) {
  switch (member) {
    case ::pto::MaskPattern::P0101: return "p0101";
    case ::pto::MaskPattern::P1010: return "p1010";
    case ::pto::MaskPattern::P0001: return "p0001";
    case ::pto::MaskPattern::P0010: return "p0010";
    case ::pto::MaskPattern::P0100: return "p0100";
    case ::pto::MaskPattern::P1000: return "p1000";
    case ::pto::MaskPattern::P1111: return "p1111";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TileType) { return "memory"; }
constexpr const char* word_of(::pto::TileType member) {
  switch (member) {
    case ::pto::TileType::Vec: return "vec";
    case ::pto::TileType::Mat: return "mat";
    case ::pto::TileType::Left: return "left";
    case ::pto::TileType::Right: return "right";
    case ::pto::TileType::Acc: return "acc";
    case ::pto::TileType::Bias: return "bias";
    case ::pto::TileType::Scaling: return "scaling";
    case ::pto::TileType::ScaleLeft: return "scale_left";
    case ::pto::TileType::ScaleRight: return "scale_right";
    case ::pto::TileType::Ctrl: return "ctrl";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::BLayout) { return "blayout"; }
constexpr const char* word_of(::pto::BLayout member) {
  switch (member) {
    case ::pto::BLayout::RowMajor: return "row_major";
    case ::pto::BLayout::ColMajor: return "col_major";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SLayout) { return "slayout"; }
constexpr const char* word_of(::pto::SLayout member) {
  switch (member) {
    case ::pto::SLayout::NoneBox: return "none_box";
    case ::pto::SLayout::RowMajor: return "row_major";
    case ::pto::SLayout::ColMajor: return "col_major";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::PadValue) { return "pad"; }
constexpr const char* word_of(::pto::PadValue member) {
  switch (member) {
    case ::pto::PadValue::Null: return "null";
    case ::pto::PadValue::Zero: return "zero";
    case ::pto::PadValue::Max: return "max";
    case ::pto::PadValue::Min: return "min";
    case ::pto::PadValue::CustomBase: return "custom";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::Layout) { return "layout"; }
constexpr const char* word_of(::pto::Layout member) {
  switch (member) {
    case ::pto::Layout::ND: return "nd";
    case ::pto::Layout::DN: return "dn";
    case ::pto::Layout::NZ: return "nz";
    case ::pto::Layout::SCALE: return "scale";
    case ::pto::Layout::MX_A_ND: return "mx_a_nd";
    case ::pto::Layout::MX_A_DN: return "mx_a_dn";
    case ::pto::Layout::MX_A_ZZ: return "mx_a_zz";
    case ::pto::Layout::MX_B_ND: return "mx_b_nd";
    case ::pto::Layout::MX_B_DN: return "mx_b_dn";
    case ::pto::Layout::MX_B_NN: return "mx_b_nn";
    case ::pto::Layout::HIF4_A_ZZ: return "hif4_a_zz";
    case ::pto::Layout::HIF4_B_NN: return "hif4_b_nn";
    case ::pto::Layout::NC1HWC0: return "nc1hwc0";
    case ::pto::Layout::GNC1HWC0: return "gnc1hwc0";
    case ::pto::Layout::NCHW: return "nchw";
    case ::pto::Layout::GNCHW: return "gnchw";
    case ::pto::Layout::NHWC: return "nhwc";
    case ::pto::Layout::NDC1HWC0: return "ndc1hwc0";
    case ::pto::Layout::NCDHW: return "ncdhw";
    case ::pto::Layout::FRACTAL_Z: return "fractal_z";
    case ::pto::Layout::FRACTAL_Z_S16S8: return "fractal_z_s16s8";
    case ::pto::Layout::FRACTAL_Z_3D: return "fractal_z_3d";
    case ::pto::Layout::MAX: return "max";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::CompactMode) { return "compact"; }
constexpr const char* word_of(::pto::CompactMode member) {
  switch (member) {
    case ::pto::CompactMode::Null: return "null";
    case ::pto::CompactMode::Normal: return "normal";
    case ::pto::CompactMode::RowPlusOne: return "row_plus_one";
    case ::pto::CompactMode::RowAlignedPadding: return "row_aligned";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::PrintFormat) { return "format"; }
constexpr const char* word_of(::pto::PrintFormat member) {
  switch (member) {
    case ::pto::PrintFormat::Width8_Precision4: return "width8_precision4";
    case ::pto::PrintFormat::Width8_Precision2: return "width8_precision2";
    case ::pto::PrintFormat::Width10_Precision6: return "width10_precision6";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::QuantType) { return "quant"; }
constexpr const char* word_of(::pto::QuantType member) {
  switch (member) {
    case ::pto::QuantType::MXFP8: return "mxfp8";
    case ::pto::QuantType::MXFP4_E2M1: return "mxfp4_e2m1";
    case ::pto::QuantType::INT8_SYM: return "int8_sym";
    case ::pto::QuantType::INT8_ASYM: return "int8_asym";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::QuantScaleAlg) { return "scale"; }
constexpr const char* word_of(::pto::QuantScaleAlg member) {
  switch (member) {
    case ::pto::QuantScaleAlg::OCP: return "ocp";
    case ::pto::QuantScaleAlg::NV: return "nv";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::MxQuantAlg) { return "quant"; }
constexpr const char* word_of(::pto::MxQuantAlg member) {
  switch (member) {
    case ::pto::MxQuantAlg::OcpMxFp8E4M3: return "ocp_mxfp8";
    case ::pto::MxQuantAlg::NvMxFp8E4M3: return "nv_mxfp8";
    case ::pto::MxQuantAlg::OcpMxFp4E2M1: return "ocp_mxfp4";
    case ::pto::MxQuantAlg::NvMxFp4E2M1: return "nv_mxfp4";
    case ::pto::MxQuantAlg::Hif4: return "hif4";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::VecStoreMode) { return "store"; }
constexpr const char* word_of(::pto::VecStoreMode member) {
  switch (member) {
    case ::pto::VecStoreMode::ND: return "nd";
    case ::pto::VecStoreMode::NZ: return "nz";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::STPhase) { return "phase"; }
constexpr const char* word_of(::pto::STPhase member) {
  switch (member) {
    case ::pto::STPhase::Unspecified: return "unspecified";
    case ::pto::STPhase::Partial: return "partial";
    case ::pto::STPhase::Final: return "final";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::AccPhase) { return "phase"; }
constexpr const char* word_of(::pto::AccPhase member) {
  switch (member) {
    case ::pto::AccPhase::Unspecified: return "unspecified";
    case ::pto::AccPhase::Partial: return "partial";
    case ::pto::AccPhase::Final: return "final";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TCopyMode) { return "copy"; }
constexpr const char* word_of(::pto::TCopyMode member) {
  switch (member) {
    case ::pto::TCopyMode::SHALLOW_COPY: return "shallow";
    case ::pto::TCopyMode::DEEP_COPY: return "deep";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SyncAllMode) { return "sync"; }
constexpr const char* word_of(::pto::SyncAllMode member) {
  switch (member) {
    case ::pto::SyncAllMode::Hard: return "hard";
    case ::pto::SyncAllMode::Soft: return "soft";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SyncCoreType) { return "core"; }
constexpr const char* word_of(::pto::SyncCoreType member) {
  switch (member) {
    case ::pto::SyncCoreType::AIVOnly: return "vector";
    case ::pto::SyncCoreType::AICOnly: return "cube";
    case ::pto::SyncCoreType::Mix: return "mix";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::AccToVecMode) { return "acc_to_vec"; }
constexpr const char* word_of(::pto::AccToVecMode member) {
  switch (member) {
    case ::pto::AccToVecMode::SingleModeVec0: return "vec0";
    case ::pto::AccToVecMode::SingleModeVec1: return "vec1";
    case ::pto::AccToVecMode::DualModeSplitM: return "split_m";
    case ::pto::AccToVecMode::DualModeSplitN: return "split_n";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ReluPreMode) { return "relu"; }
constexpr const char* word_of(::pto::ReluPreMode member) {
  switch (member) {
    case ::pto::ReluPreMode::NoRelu: return "none";
    case ::pto::ReluPreMode::NormalRelu: return "relu";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::AtomicType) { return "atomic"; }
constexpr const char* word_of(::pto::AtomicType member) {
  switch (member) {
    case ::pto::AtomicType::AtomicNone: return "none";
    case ::pto::AtomicType::AtomicAdd: return "add";
    case ::pto::AtomicType::AtomicMax: return "max";
    case ::pto::AtomicType::AtomicMin: return "min";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TFillPadMode) { return "fill"; }
constexpr const char* word_of(::pto::TFillPadMode member) {
  switch (member) {
    case ::pto::TFillPadMode::Normal: return "normal";
    case ::pto::TFillPadMode::InPlace: return "in_place";
    case ::pto::TFillPadMode::Expand: return "expand";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SetFmatrixMode) { return "fmatrix"; }
constexpr const char* word_of(::pto::SetFmatrixMode member) {
  switch (member) {
    case ::pto::SetFmatrixMode::FMATRIX_A_AUTO: return "a_auto";
    case ::pto::SetFmatrixMode::FMATRIX_B_AUTO: return "b_auto";
    case ::pto::SetFmatrixMode::FMATRIX_A_MANUAL: return "a_manual";
    case ::pto::SetFmatrixMode::FMATRIX_B_MANUAL: return "b_manual";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TileLayoutCustom) { return "layout"; }
constexpr const char* word_of(::pto::TileLayoutCustom member) {
  switch (member) {
    case ::pto::TileLayoutCustom::ND: return "nd";
    case ::pto::TileLayoutCustom::DN: return "dn";
    case ::pto::TileLayoutCustom::NZ: return "nz";
    case ::pto::TileLayoutCustom::ZN: return "zn";
    case ::pto::TileLayoutCustom::ZZ: return "zz";
    case ::pto::TileLayoutCustom::NONE: return "none";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::HistByte) { return "byte"; }
constexpr const char* word_of(::pto::HistByte member) {
  switch (member) {
    case ::pto::HistByte::BYTE_0: return "byte_0";
    case ::pto::HistByte::BYTE_1: return "byte_1";
    case ::pto::HistByte::BYTE_2: return "byte_2";
    case ::pto::HistByte::BYTE_3: return "byte_3";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::PowAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::PowAlgorithm member) {
  switch (member) {
    case ::pto::PowAlgorithm::DEFAULT: return "default";
    case ::pto::PowAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::DivAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::DivAlgorithm member) {
  switch (member) {
    case ::pto::DivAlgorithm::DEFAULT: return "default";
    case ::pto::DivAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::SqrtAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::SqrtAlgorithm member) {
  switch (member) {
    case ::pto::SqrtAlgorithm::DEFAULT: return "default";
    case ::pto::SqrtAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::RsqrtAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::RsqrtAlgorithm member) {
  switch (member) {
    case ::pto::RsqrtAlgorithm::DEFAULT: return "default";
    case ::pto::RsqrtAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::RecipAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::RecipAlgorithm member) {
  switch (member) {
    case ::pto::RecipAlgorithm::DEFAULT: return "default";
    case ::pto::RecipAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ExpAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::ExpAlgorithm member) {
  switch (member) {
    case ::pto::ExpAlgorithm::DEFAULT: return "default";
    case ::pto::ExpAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::LogAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::LogAlgorithm member) {
  switch (member) {
    case ::pto::LogAlgorithm::DEFAULT: return "default";
    case ::pto::LogAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::FmodAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::FmodAlgorithm member) {
  switch (member) {
    case ::pto::FmodAlgorithm::DEFAULT: return "default";
    case ::pto::FmodAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::FmodSAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::FmodSAlgorithm member) {
  switch (member) {
    case ::pto::FmodSAlgorithm::DEFAULT: return "default";
    case ::pto::FmodSAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::RemAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::RemAlgorithm member) {
  switch (member) {
    case ::pto::RemAlgorithm::DEFAULT: return "default";
    case ::pto::RemAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::RemSAlgorithm) { return "algorithm"; }
constexpr const char* word_of(::pto::RemSAlgorithm member) {
  switch (member) {
    case ::pto::RemSAlgorithm::DEFAULT: return "default";
    case ::pto::RemSAlgorithm::HIGH_PRECISION: return "high_precision";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ScatterAxis) { return "axis"; }
constexpr const char* word_of(::pto::ScatterAxis member) {
  switch (member) {
    case ::pto::ScatterAxis::SCATTER_ROW: return "row";
    case ::pto::ScatterAxis::SCATTER_COL: return "col";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ScatterConflict) { return "conflict"; }
constexpr const char* word_of(::pto::ScatterConflict member) {
  switch (member) {
    case ::pto::ScatterConflict::Last: return "last";
    case ::pto::ScatterConflict::Default: return "default";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::GatherAxis) { return "axis"; }
constexpr const char* word_of(::pto::GatherAxis member) {
  switch (member) {
    case ::pto::GatherAxis::GATHER_ROW: return "row";
    case ::pto::GatherAxis::GATHER_COL: return "col";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TInsertMode) { return "insert"; }
constexpr const char* word_of(::pto::TInsertMode member) {
  switch (member) {
    case ::pto::TInsertMode::NZ: return "nz";
    case ::pto::TInsertMode::NZ_PLUS_1: return "nz_plus_1";
    case ::pto::TInsertMode::SPLIT2: return "split2";
    case ::pto::TInsertMode::SPLIT4: return "split4";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TileSplitAxis) { return "split"; }
constexpr const char* word_of(::pto::TileSplitAxis member) {
  switch (member) {
    case ::pto::TILE_NO_SPLIT: return "none";
    case ::pto::TILE_UP_DOWN: return "up_down";
    case ::pto::TILE_LEFT_RIGHT: return "left_right";
    case ::pto::TILE_UP_DOWN_ODD: return "up_down_odd";
    case ::pto::TILE_LEFT_RIGHT_ODD: return "left_right_odd";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::Direction) { return "direction"; }
constexpr const char* word_of(::pto::Direction member) {
  switch (member) {
    case ::pto::UNDEFINED: return "undefined";
    case ::pto::DIR_C2V: return "c2v";
    case ::pto::DIR_V2C: return "v2c";
    case ::pto::DIR_BOTH: return "both";
    case ::pto::DIR_V2C_CTRL: return "v2c_ctrl";
    case ::pto::DIR_C2V_GM: return "c2v_gm";
    case ::pto::DIR_V2C_GM: return "v2c_gm";
    case ::pto::DIR_BOTH_GM: return "both_gm";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::FIFOType) { return "fifo"; }
constexpr const char* word_of(::pto::FIFOType member) {
  switch (member) {
    case ::pto::FIFOType::GM_FIFO: return "gm";
    case ::pto::FIFOType::VEC_FIFO: return "vec";
    case ::pto::FIFOType::MAT_FIFO: return "mat";
    case ::pto::FIFOType::CTRL_FIFO: return "ctrl";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::VecCubeRatio) { return "ratio"; }
constexpr const char* word_of(::pto::VecCubeRatio member) {
  switch (member) {
    case ::pto::VecCubeRatio::V1C1_VEC0: return "v1c1_vec0";
    case ::pto::VecCubeRatio::V1C1_VEC1: return "v1c1_vec1";
    case ::pto::VecCubeRatio::V2C1_VECS: return "v2c1_vecs";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::TSyncCVMode) { return "sync"; }
constexpr const char* word_of(::pto::TSyncCVMode member) {
  switch (member) {
    case ::pto::CUBE_ALL_CORE_SYNC: return "cube_all_core_sync";
    case ::pto::VEC_SUBCORES_SYNC: return "vec_subcores_sync";
    case ::pto::CV_CORES_SYNC: return "cv_cores_sync";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::LayoutMode_t) { return "layout"; }
constexpr const char* word_of(::pto::LayoutMode_t member) {
  switch (member) {
    case ::pto::LayoutMode_t::NZ2NZ: return "nz2nz";
    case ::pto::LayoutMode_t::NZ2ND: return "nz2nd";
    case ::pto::LayoutMode_t::NZ2DN: return "nz2dn";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::ClipReluMode_t) { return "clip"; }
constexpr const char* word_of(::pto::ClipReluMode_t member) {
  switch (member) {
    case ::pto::NOCLIP_RELU: return "none";
    case ::pto::CLIP_RELU: return "clip";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::DequantType) { return "quant"; }
constexpr const char* word_of(::pto::DequantType member) {
  switch (member) {
    case ::pto::DequantType::SCALAR: return "scalar";
    case ::pto::DequantType::TENSOR: return "tensor";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::VFImplKind) { return "form"; }
constexpr const char* word_of(::pto::VFImplKind member) {
  switch (member) {
    case ::pto::VFIMPL_DEFAULT: return "vfimpl_default";
    case ::pto::VFIMPL_1D_NO_POST_UPDATE: return "vfimpl_1d_no_post_update";
    case ::pto::VFIMPL_2D_NO_POST_UPDATE: return "vfimpl_2d_no_post_update";
    case ::pto::VFIMPL_1D_POST_UPDATE: return "vfimpl_1d_post_update";
    case ::pto::VFIMPL_2D_POST_UPDATE: return "vfimpl_2d_post_update";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::NotifyOp) { return "notify"; }
constexpr const char* word_of(::pto::comm::NotifyOp member) {
  switch (member) {
    case ::pto::comm::NotifyOp::AtomicAdd: return "add";
    case ::pto::comm::NotifyOp::Set: return "set";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::WaitCmp) { return "mode"; }
constexpr const char* word_of(::pto::comm::WaitCmp member) {
  switch (member) {
    case ::pto::comm::WaitCmp::EQ: return "eq";
    case ::pto::comm::WaitCmp::NE: return "ne";
    case ::pto::comm::WaitCmp::GT: return "gt";
    case ::pto::comm::WaitCmp::GE: return "ge";
    case ::pto::comm::WaitCmp::LT: return "lt";
    case ::pto::comm::WaitCmp::LE: return "le";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::ReduceOp) { return "reduce"; }
constexpr const char* word_of(::pto::comm::ReduceOp member) {
  switch (member) {
    case ::pto::comm::ReduceOp::Sum: return "sum";
    case ::pto::comm::ReduceOp::Max: return "max";
    case ::pto::comm::ReduceOp::Min: return "min";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::DmaEngine) { return "engine"; }
constexpr const char* word_of(::pto::comm::DmaEngine member) {
  switch (member) {
    case ::pto::comm::DmaEngine::SDMA: return "sdma";
    case ::pto::comm::DmaEngine::URMA: return "urma";
    case ::pto::comm::DmaEngine::RDMA: return "rdma";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::CollEngine) { return "engine"; }
constexpr const char* word_of(::pto::comm::CollEngine member) {
  switch (member) {
    case ::pto::comm::CollEngine::AIV: return "aiv";
    case ::pto::comm::CollEngine::CCU: return "ccu";
    default: return nullptr;
  }
}
constexpr const char* key_of(::pto::comm::CcuInputSource) { return "source"; }
constexpr const char* word_of(::pto::comm::CcuInputSource member) {
  switch (member) {
    case ::pto::comm::CcuInputSource::HostManaged: return "host";
    case ::pto::comm::CcuInputSource::AivStored: return "vector";
    default: return nullptr;
  }
}
}  // namespace ptokit

namespace pto {
enum class Op : uint16_t {
  TEXPANDS_MAT,
  TFILLPAD_MAT,
  MGATHER_MAT,
  TSTORE_VEC,
  TSTORE_MAT,
  TMOV_M2B,
  TMOV_M2L,
  TMOV_M2R,
  TEXTRACT_M2LR,
  TMOV_V2M,
  TEXTRACT_V2M,
  TMOV_M2S,
  TMOV_A2V,
  TMOV_A2M,
  TSTORE_ACC,
  TEXTRACT_A2M,
  TINSERT_A2M,
  SCALAR,
  TRESHAPE,
  VECTOR,
  TMOV_V2V,
  TFILLPAD_VEC,
  MGATHER_VEC,
  TSCATTER,
  MSCATTER,
  TEXPANDS,
  SETFMATRIX,
  SET_IMG2COL_PADDING,
  SET_IMG2COL_RPT,
  SET_QUANT_SCALAR,
  SET_QUANT_VECTOR,
  TABS,
  TADD,
  TADDC,
  TADDDEQRELU,
  TADDRELU,
  TADDRELUCONV,
  TADDS,
  TADDSC,
  TAND,
  TANDS,
  TAXPY,
  TCI,
  TCMP,
  TCMPS,
  TCOLARGMAX,
  TCOLARGMIN,
  TCOLEXPAND,
  TCOLEXPANDADD,
  TCOLEXPANDDIV,
  TCOLEXPANDEXPDIF,
  TCOLEXPANDMAX,
  TCOLEXPANDMIN,
  TCOLEXPANDMUL,
  TCOLEXPANDSUB,
  TCOLMAX,
  TCOLMIN,
  TCOLPROD,
  TCOLSUM,
  TCONCAT,
  TCVT,
  TDEINTERLEAVE,
  TDEQUANT,
  TDIV,
  TDIVS,
  TEXP,
  TEXTRACT_FP,
  TFILLPAD_EXPAND,
  TFILLPAD_INPLACE,
  TFMOD,
  TFMODS,
  TFUSEDMULADD,
  TFUSEDMULADDRELU,
  TGATHER,
  TGATHERB,
  TGEMV,
  TGEMV_ACC,
  TGEMV_BIAS,
  TGEMV_MX,
  TGEMV_MX_ACC,
  TGEMV_MX_BIAS,
  THISTOGRAM,
  TIMG2COL,
  TINSERT_FP,
  TINTERLEAVE,
  TLOAD,
  TLOG,
  TLRELU,
  TMATMUL,
  TMATMUL_ACC,
  TMATMUL_BIAS,
  TMATMUL_MX,
  TMATMUL_MX_ACC,
  TMATMUL_MX_BIAS,
  TMAX,
  TMAXS,
  TMIN,
  TMINS,
  TMOV_FP,
  TMRGSORT,
  TMUL,
  TMULADDDST,
  TMULS,
  TNEG,
  TNOT,
  TOR,
  TORS,
  TPACK,
  TPAIRREDUCESUM,
  TPARTADD,
  TPARTARGMAX,
  TPARTARGMIN,
  TPARTMAX,
  TPARTMIN,
  TPARTMUL,
  TPOW,
  TPOWS,
  TPREFETCH,
  TPRELU,
  TPRINT,
  TQUANT,
  TRANDOM,
  TRECIP,
  TRELU,
  TREM,
  TREMS,
  TROWARGMAX,
  TROWARGMIN,
  TROWEXPAND,
  TROWEXPANDADD,
  TROWEXPANDDIV,
  TROWEXPANDEXPDIF,
  TROWEXPANDMAX,
  TROWEXPANDMIN,
  TROWEXPANDMUL,
  TROWEXPANDSUB,
  TROWMAX,
  TROWMIN,
  TROWPROD,
  TROWSUM,
  TRSQRT,
  TSEL,
  TSELS,
  TSHL,
  TSHLS,
  TSHR,
  TSHRS,
  TSORT32,
  TSQRT,
  TSTORE_FP,
  TSUB,
  TSUBC,
  TSUBRELU,
  TSUBRELUCONV,
  TSUBS,
  TSUBSC,
  TTRANS,
  TTRI,
  TXOR,
  TXORS,
  OP_COUNT,
};

// The pipe that executes an operation.
constexpr pipe_t pipe_of(Op op) {
  switch (op) {
    case Op::TEXPANDS_MAT:
    case Op::TFILLPAD_MAT:
    case Op::MGATHER_MAT:
    case Op::TLOAD:
    case Op::TPREFETCH:
      return PIPE_MTE2;
    case Op::TSTORE_VEC:
    case Op::TSTORE_MAT:
      return PIPE_MTE3;
    case Op::TMOV_M2B:
    case Op::TMOV_M2L:
    case Op::TMOV_M2R:
    case Op::TEXTRACT_M2LR:
    case Op::TIMG2COL:
      return PIPE_MTE1;
    case Op::TMOV_V2M:
    case Op::TEXTRACT_V2M:
    case Op::TMOV_M2S:
    case Op::TMOV_A2V:
    case Op::TMOV_A2M:
    case Op::TSTORE_ACC:
    case Op::TEXTRACT_A2M:
    case Op::TINSERT_A2M:
    case Op::SET_QUANT_VECTOR:
    case Op::TEXTRACT_FP:
    case Op::TINSERT_FP:
    case Op::TMOV_FP:
    case Op::TSTORE_FP:
      return PIPE_FIX;
    case Op::SCALAR:
    case Op::TRESHAPE:
    case Op::SETFMATRIX:
    case Op::SET_IMG2COL_PADDING:
    case Op::SET_IMG2COL_RPT:
    case Op::SET_QUANT_SCALAR:
    case Op::TCI:
    case Op::TPRINT:
      return PIPE_S;
    case Op::VECTOR:
    case Op::TMOV_V2V:
    case Op::TFILLPAD_VEC:
    case Op::MGATHER_VEC:
    case Op::TSCATTER:
    case Op::MSCATTER:
    case Op::TEXPANDS:
    case Op::TABS:
    case Op::TADD:
    case Op::TADDC:
    case Op::TADDDEQRELU:
    case Op::TADDRELU:
    case Op::TADDRELUCONV:
    case Op::TADDS:
    case Op::TADDSC:
    case Op::TAND:
    case Op::TANDS:
    case Op::TAXPY:
    case Op::TCMP:
    case Op::TCMPS:
    case Op::TCOLARGMAX:
    case Op::TCOLARGMIN:
    case Op::TCOLEXPAND:
    case Op::TCOLEXPANDADD:
    case Op::TCOLEXPANDDIV:
    case Op::TCOLEXPANDEXPDIF:
    case Op::TCOLEXPANDMAX:
    case Op::TCOLEXPANDMIN:
    case Op::TCOLEXPANDMUL:
    case Op::TCOLEXPANDSUB:
    case Op::TCOLMAX:
    case Op::TCOLMIN:
    case Op::TCOLPROD:
    case Op::TCOLSUM:
    case Op::TCONCAT:
    case Op::TCVT:
    case Op::TDEINTERLEAVE:
    case Op::TDEQUANT:
    case Op::TDIV:
    case Op::TDIVS:
    case Op::TEXP:
    case Op::TFILLPAD_EXPAND:
    case Op::TFILLPAD_INPLACE:
    case Op::TFMOD:
    case Op::TFMODS:
    case Op::TFUSEDMULADD:
    case Op::TFUSEDMULADDRELU:
    case Op::TGATHER:
    case Op::TGATHERB:
    case Op::THISTOGRAM:
    case Op::TINTERLEAVE:
    case Op::TLOG:
    case Op::TLRELU:
    case Op::TMAX:
    case Op::TMAXS:
    case Op::TMIN:
    case Op::TMINS:
    case Op::TMRGSORT:
    case Op::TMUL:
    case Op::TMULADDDST:
    case Op::TMULS:
    case Op::TNEG:
    case Op::TNOT:
    case Op::TOR:
    case Op::TORS:
    case Op::TPACK:
    case Op::TPAIRREDUCESUM:
    case Op::TPARTADD:
    case Op::TPARTARGMAX:
    case Op::TPARTARGMIN:
    case Op::TPARTMAX:
    case Op::TPARTMIN:
    case Op::TPARTMUL:
    case Op::TPOW:
    case Op::TPOWS:
    case Op::TPRELU:
    case Op::TQUANT:
    case Op::TRANDOM:
    case Op::TRECIP:
    case Op::TRELU:
    case Op::TREM:
    case Op::TREMS:
    case Op::TROWARGMAX:
    case Op::TROWARGMIN:
    case Op::TROWEXPAND:
    case Op::TROWEXPANDADD:
    case Op::TROWEXPANDDIV:
    case Op::TROWEXPANDEXPDIF:
    case Op::TROWEXPANDMAX:
    case Op::TROWEXPANDMIN:
    case Op::TROWEXPANDMUL:
    case Op::TROWEXPANDSUB:
    case Op::TROWMAX:
    case Op::TROWMIN:
    case Op::TROWPROD:
    case Op::TROWSUM:
    case Op::TRSQRT:
    case Op::TSEL:
    case Op::TSELS:
    case Op::TSHL:
    case Op::TSHLS:
    case Op::TSHR:
    case Op::TSHRS:
    case Op::TSORT32:
    case Op::TSQRT:
    case Op::TSUB:
    case Op::TSUBC:
    case Op::TSUBRELU:
    case Op::TSUBRELUCONV:
    case Op::TSUBS:
    case Op::TSUBSC:
    case Op::TTRANS:
    case Op::TTRI:
    case Op::TXOR:
    case Op::TXORS:
      return PIPE_V;
    case Op::TGEMV:
    case Op::TGEMV_ACC:
    case Op::TGEMV_BIAS:
    case Op::TGEMV_MX:
    case Op::TGEMV_MX_ACC:
    case Op::TGEMV_MX_BIAS:
    case Op::TMATMUL:
    case Op::TMATMUL_ACC:
    case Op::TMATMUL_BIAS:
    case Op::TMATMUL_MX:
    case Op::TMATMUL_MX_ACC:
    case Op::TMATMUL_MX_BIAS:
      return PIPE_M;
    default:
      return PIPE_ALL;
  }
}
}  // namespace pto
