"""The public names of C++ kernels as data: enums, instructions and include paths. It writes headers from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ptokit.isa import policy
from ptokit.isa.catalog import INSTRUCTIONS, variants
from ptokit.isa.kernel import RouteKernel, kernels_of
from ptokit.isa.opaque import PIPES as CORE_PIPES
from ptokit.isa.opaque import ROWS, SCALAR, opaque_rows
from ptokit.isa.policy import PtoEnum, TileType, enumerator
from ptokit.target import DEFAULT_ARCH, PROFILES, compiler_of, families_in_cpp, left_layouts, profile

INCLUDE = Path(__file__).parent / "include"
"""The folder of headers that are written by hand."""
OWN = INCLUDE / "own"
"""The folder of ptokit's own headers. It is searched before all others."""
HEAD = "// Written by ptokit.cxx.names; edit its tables.\n#pragma once\n"


@dataclass(frozen=True)
class Enumeration:
    """A public enum: its modifier's key, and the word that is recorded for each member."""

    name: str
    key: str
    members: tuple[tuple[str, int, str], ...]
    """Name in C++, number, word."""
    storage: str = "uint8_t"
    space: str = "pto"
    scoped: bool = True


def _enum(
    name: str, key: str, members: str, *, storage: str = "uint8_t", space: str = "pto", scoped: bool = True
) -> Enumeration:
    """An enum from `Name=number:word ...`; numbers count up, and words are the names in lower case."""
    rows: list[tuple[str, int, str]] = []
    number = 0
    for text in members.split():
        head, _, word = text.partition(":")
        member, _, given = head.partition("=")
        number = int(given, 0) if given else number
        rows.append((member, number, word or member.lower()))
        number += 1
    return Enumeration(name, key, tuple(rows), storage, space, scoped)


def _policy(enum: type[PtoEnum], key: str = "", more: str = "", *, storage: str = "uint8_t") -> Enumeration:
    """An enum of the instruction set, with more members of C++. Without a key it is that of the modifiers that have it;
    members whose values are words are numbered."""
    name = enumerator(next(iter(enum))).partition("::")[0]
    key = key or next(m.name for row in INSTRUCTIONS.values() for m in row.modifiers if m.enum is enum)
    numbers = (member.value if isinstance(member.value, int) else place for place, member in enumerate(enum))
    pairs = zip(enum, numbers, strict=True)
    members = (f"{enumerator(member).partition('::')[2]}={number}:{member.text}" for member, number in pairs)
    return _enum(name, key, " ".join((*members, more)), storage=storage)


ALGORITHMS = "Pow Div Sqrt Rsqrt Recip Exp Log Fmod FmodS Rem RemS"
QUANT_MODES = """
    NoQuant F322F16 F322BF16 DEQF16 VDEQF16 QF322B8_PRE VQF322B8_PRE REQ8 VREQ8 DEQS16 VDEQS16 QF162B8_PRE
    VQF162B8_PRE QF162S4_PRE VQF162S4_PRE REQ4 VREQ4 QF162S16_PRE VQF162S16_PRE SHIFTS322S16 VSHIFTS322S16 QF322S4_PRE
    VQF322S4_PRE QF322F16_PRE VQF322F16_PRE QF322BF16_PRE VQF322BF16_PRE QS322BF16_PRE VQS322BF16_PRE QF322F32_PRE
    VQF322F32_PRE QF322HIF8_PRE VQF322HIF8_PRE QF322HIF8_PRE_HYBRID VQF322HIF8_PRE_HYBRID QF322FP8_PRE VQF322FP8_PRE"""
PIPES = "PIPE_S PIPE_V PIPE_M PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_ALL PIPE_MTE4 PIPE_MTE5 PIPE_V2 PIPE_FIX"

ENUMS = (
    _enum("pipe_t", "pipe", " ".join(f"{pipe}:{pipe}" for pipe in PIPES.split()), space="", scoped=False),
    _enum("event_t", "event", " ".join(f"EVENT_ID{n}" for n in range(8)), space="", scoped=False),
    _enum("QuantMode_t", "quant", QUANT_MODES, space="", scoped=False),
    _enum("mem_dsb_t", "barrier", "DSB_ALL DSB_DDR DSB_UB DSB_SEQ", space="", scoped=False),
    _enum("cache_line_t", "line", "SINGLE_CACHE_LINE ENTIRE_DATA_CACHE", space="", scoped=False),
    _enum("dcci_dst_t", "cache", "CACHELINE_ALL CACHELINE_UB CACHELINE_OUT CACHELINE_ATOMIC", space="", scoped=False),
    *map(_policy, (policy.Coalesce, policy.GatherOOB, policy.GatherExec, policy.ScatterAtomicOp, policy.ScatterOOB,
                   policy.CmpMode, policy.RoundMode, policy.Saturation, policy.MaskPattern)),
    _policy(policy.TileType, "memory", "Ctrl", storage="int"),
    _policy(policy.BLayout, "blayout", storage="int"),
    _policy(policy.SLayout, "slayout", storage="int"),
    _policy(policy.Pad, "pad", "CustomBase=0x100000000:custom", storage="uint64_t"),
    _enum("Layout", "layout", "ND DN NZ SCALE MX_A_ND MX_A_DN MX_A_ZZ MX_B_ND MX_B_DN MX_B_NN HIF4_A_ZZ HIF4_B_NN "
          "NC1HWC0 GNC1HWC0 NCHW GNCHW NHWC NDC1HWC0 NCDHW FRACTAL_Z FRACTAL_Z_S16S8 FRACTAL_Z_3D MAX", storage="int"),
    _enum("CompactMode", "compact", "Null Normal RowPlusOne:row_plus_one RowAlignedPadding:row_aligned", storage="int"),
    _enum("PrintFormat", "format", "Width8_Precision4 Width8_Precision2 Width10_Precision6"),
    _enum("QuantType", "quant", "MXFP8 MXFP4_E2M1 INT8_SYM INT8_ASYM", storage="int"),
    _enum("QuantScaleAlg", "scale", "OCP NV", storage="int"),
    _enum("MxQuantAlg", "quant", "OcpMxFp8E4M3:ocp_mxfp8 NvMxFp8E4M3:nv_mxfp8 OcpMxFp4E2M1:ocp_mxfp4 "
          "NvMxFp4E2M1:nv_mxfp4 Hif4", storage="int"),
    _enum("VecStoreMode", "store", "ND NZ", storage="int"),
    _enum("STPhase", "phase", "Unspecified Partial=2 Final"),
    _enum("AccPhase", "phase", "Unspecified Unknown=0 Partial=2 Final"),
    _enum("TCopyMode", "copy", "SHALLOW_COPY:shallow DEEP_COPY:deep"),
    _enum("SyncAllMode", "sync", "Hard Soft"),
    _enum("SyncCoreType", "core", "AIVOnly:vector AICOnly:cube Mix"),
    _enum("AccToVecMode", "acc_to_vec", "SingleModeVec0:vec0 SingleModeVec1:vec1 DualModeSplitM:split_m "
          "DualModeSplitN:split_n"),
    _enum("ReluPreMode", "relu", "NoRelu:none NormalRelu:relu"),
    _enum("AtomicType", "atomic", "AtomicNone:none AtomicAdd:add AtomicMax:max AtomicMin:min"),
    _enum("TFillPadMode", "fill", "Normal InPlace:in_place Expand"),
    _enum("SetFmatrixMode", "fmatrix", "FMATRIX_A_AUTO:a_auto FMATRIX_B_AUTO:b_auto FMATRIX_A_MANUAL:a_manual "
          "FMATRIX_B_MANUAL:b_manual", storage="int"),
    _enum("TileLayoutCustom", "layout", "ND DN NZ ZN ZZ NONE"),
    _policy(policy.HistByte, "byte"),
    *(_enum(f"{name}Algorithm", "algorithm", "DEFAULT HIGH_PRECISION") for name in ALGORITHMS.split()),
    _enum("ScatterAxis", "axis", "SCATTER_ROW:row SCATTER_COL:col"),
    _enum("ScatterConflict", "conflict", "Last Default"),
    _enum("GatherAxis", "axis", "GATHER_ROW:row GATHER_COL:col"),
    _enum("TInsertMode", "insert", "NZ=0 NZ_PLUS_1 SPLIT2 SPLIT4"),
    _enum("TileSplitAxis", "split", "TILE_NO_SPLIT:none TILE_UP_DOWN:up_down TILE_LEFT_RIGHT:left_right "
          "TILE_UP_DOWN_ODD:up_down_odd TILE_LEFT_RIGHT_ODD:left_right_odd", scoped=False),
    _enum("Direction", "direction", "UNDEFINED DIR_C2V:c2v DIR_V2C:v2c DIR_BOTH:both DIR_V2C_CTRL:v2c_ctrl "
          "DIR_C2V_GM:c2v_gm DIR_V2C_GM:v2c_gm DIR_BOTH_GM:both_gm", scoped=False),
    _enum("FIFOType", "fifo", "GM_FIFO:gm VEC_FIFO:vec MAT_FIFO:mat CTRL_FIFO:ctrl"),
    _enum("VecCubeRatio", "ratio", "V1C1_VEC0 V1C1_VEC1 V2C1_VECS"),
    _enum("TSyncCVMode", "sync", "CUBE_ALL_CORE_SYNC=0 VEC_ALL_CORE_SYNC=0 VEC_SUBCORES_SYNC CV_CORES_SYNC",
          scoped=False),
    _enum("LayoutMode_t", "layout", "NZ2NZ NZ2ND NZ2DN"),
    _enum("ClipReluMode_t", "clip", "NOCLIP_RELU:none CLIP_RELU:clip", scoped=False),
    _enum("DequantType", "quant", "SCALAR TENSOR", storage="int"),
    _enum("VFImplKind", "form", "VFIMPL_DEFAULT VFIMPL_1D_NO_POST_UPDATE VFIMPL_2D_NO_POST_UPDATE "
          "VFIMPL_1D_POST_UPDATE VFIMPL_2D_POST_UPDATE", storage="unsigned", scoped=False),
    _enum("NotifyOp", "notify", "AtomicAdd:add Set", space="pto::comm"),
    _enum("WaitCmp", "mode", "EQ NE GT GE LT LE", space="pto::comm"),
    _enum("ReduceOp", "reduce", "Sum Max Min", space="pto::comm"),
    _enum("DmaEngine", "engine", "SDMA URMA RDMA", space="pto::comm"),
    _enum("CollEngine", "engine", "AIV CCU", space="pto::comm"),
    _enum("CcuInputSource", "source", "HostManaged:host AivStored:vector", space="pto::comm"),
)  # fmt: skip

OP_PIPES = {
    "MTE2": "TEXPANDS_MAT TFILLPAD_MAT MGATHER_MAT",
    "MTE3": "TSTORE_VEC TSTORE_MAT",
    "MTE1": "TMOV_M2B TMOV_M2L TMOV_M2R TEXTRACT_M2LR",
    "FIX": "TMOV_V2M TEXTRACT_V2M TMOV_M2S TMOV_A2V TMOV_A2M TSTORE_ACC TEXTRACT_A2M TINSERT_A2M",
    "S": "SCALAR TRESHAPE",
    "V": "VECTOR TMOV_V2V TFILLPAD_VEC MGATHER_VEC TSCATTER MSCATTER TEXPANDS",
}
"""The operations that events name, by the pipe that executes them, besides instructions of one pipe."""

COLLECTIVES = "TPUT TGET TGATHER TSCATTER TBROADCAST TREDUCE"
"""Instructions of several devices; they record as `comm_tput`."""

WRITTEN_BY_HAND = """
    SETFMATRIX SET_IMG2COL_PADDING SET_IMG2COL_RPT SYNCALL TALLOC TASSIGN TFREE TGET_ASYNC TGET_SCALE_ADDR TIMG2COL
    TNOTIFY TPOP TPREFETCH_ASYNC TPUSH TPUT_ASYNC TRESHAPE
    TSUBVIEW TSYNC TTEST TWAIT"""
"""Functions that other headers define."""
WITHOUT_DEFINITION = "PTO_PREFETCH"
"""Functions that are no instructions, and recorded as such."""

USED = "PTOKIT_USED"
"""The macro that leaves out the functions of instructions; with the name of one behind it, that keeps it."""
_OF_ENUMS = re.compile(r'^# \d+ "[^"]*/own/ptokit/enums\.hpp".*?(?=^# \d+ ")', re.MULTILINE | re.DOTALL)
"""Lines of a preprocessed text that name all operations."""

INTRINSICS = """
    copy_gm_to_ubuf copy_gm_to_ubuf_align_b8 copy_gm_to_ubuf_align_b16 copy_gm_to_ubuf_align_b32
    copy_gm_to_ubuf_align_v2 copy_ubuf_to_gm copy_ubuf_to_gm_align_b8 copy_ubuf_to_gm_align_b16
    copy_ubuf_to_gm_align_b32 copy_ubuf_to_gm_align_v2
    copy_gm_to_cbuf copy_gm_to_cbuf_align_v2 copy_gm_to_cbuf_multi_nd2nz_b8 copy_gm_to_cbuf_multi_nd2nz_b16
    copy_gm_to_cbuf_multi_nd2nz_b32s copy_cbuf_to_gm copy_cbuf_to_ubuf copy_ubuf_to_cbuf copy_ubuf_to_ubuf
    copy_matrix_cc_to_gm copy_matrix_cc_to_cbuf copy_matrix_cc_to_ubuf create_cbuf_matrix create_ca_matrix
    create_cb_matrix load_cbuf_to_ca load_cbuf_to_cb load_cbuf_to_ca_mx load_cbuf_to_cb_mx mad mad_mx vector_dup vadd
    vsub vmul vdiv vadds vmuls vmax vmin vmaxs vmins vexp vln vabs vrec vsqrt vrsqrt vrelu vconv_f322f16 vconv_f162f32
    set_vector_mask set_mask_norm set_mask_count set_nd_para set_loop_size_outtoub set_loop_size_ubtoout
    set_loop1_stride_outtoub set_loop2_stride_outtoub set_loop1_stride_ubtoout set_loop2_stride_ubtoout set_atomic_add
    set_atomic_none set_atomic_f32 set_atomic_f16 set_atomic_s32 set_atomic_s16 set_atomic_s8 set_atomic_bf16
    set_quant_pre set_fpc set_padding set_fmatrix set_fmatrix_b mem_bar set_mov_pad_val
    pto_copy_gm_to_ubuf_align_v2 pto_copy_ubuf_to_gm_align_v2"""
"""Functions of the device compiler that are recorded with their arguments as they are."""

PATHS = """
    pto/pto-inst.hpp
    pto/common/arch_capability.hpp pto/common/arch_macro.hpp pto/common/buffer_limits.hpp pto/common/constants.hpp
    pto/common/cpu_stub.hpp pto/common/debug.h pto/common/event.hpp pto/common/fifo.hpp pto/common/fixpipe.hpp
    pto/common/kernel_meta.hpp pto/common/memory.hpp pto/common/pto_instr.hpp pto/common/pto_instr_impl.hpp
    pto/common/pto_tile.hpp pto/common/type.hpp pto/common/utils.hpp
    pto/comm/comm_types.hpp pto/comm/pto_comm_inst.hpp pto/comm/pto_comm_instr_impl.hpp
    pto/comm/async_common/async_types.hpp pto/comm/async/sdma/sdma_types.hpp
    pto/comm/async/sdma/sdma_async_intrin.hpp pto/comm/async/urma/urma_async_intrin.hpp
    pto/comm/async/rdma/rdma_async_intrin.hpp pto/comm/async/sdma/sdma_workspace_manager.hpp
    pto/comm/async/urma/urma_workspace_manager.hpp pto/comm/async/rdma/rdma_workspace_manager.hpp
    pto/npu/a2a3/custom/TSyncCVID.hpp pto/npu/a2a3/custom/TSync_Custom.hpp pto/npu/a5/custom/TSyncCVID.hpp
    pto/npu/a5/custom/TSync_Custom.hpp pto/npu/a5/custom/MScatter.hpp pto/npu/kernels/Pto_prefetch.hpp
    pto/cpu/MGatherScatter.hpp kernel_operator.h"""
OTHER_PATHS = {
    "acl": "acl/acl.h acl/acl_rt.h acl/acl_base.h",
    "rt": "runtime/rt.h runtime/rt_ffts.h",
    "hccl": "hccl/hccl.h hccl/hccl_types.h hccl/hccl_comm.h",
    "securec": "securec.h",
    "grid": "pto/npu/a2a3/grid_intrinsic.hpp pto/npu/a2a3/grid_pipe_runtime.hpp",
}
"""Include paths of host libraries and of parts that few kernels need, by the header that has their names."""
SIZED = {"UB": TileType.Vec, "L1": TileType.Mat, "L0A": TileType.Left, "L0B": TileType.Right, "L0C": TileType.Acc}
"""The memories whose sizes headers state."""
IMPLEMENTATIONS = "MGather MScatter TAssign TInsert TLoad TMatmul TMov TPop TPush TQuant TSort32 TStore TSync"
"""Headers of one instruction that public kernels include: `pto/npu/a5/TMov.hpp`."""


def instructions() -> list[str]:
    """The instruction functions that are generated, in alphabetical order."""
    modelled = {instruction.name for instruction in INSTRUCTIONS.values() if not instruction.text.variant_of}
    known = {name.upper() for name in modelled | {row.name for row in ROWS if row.in_cpp}}
    of_devices = {name for name in COLLECTIVES.split() if name.lower() not in modelled}
    return sorted(known - {*WRITTEN_BY_HAND.split()} - of_devices | {*WITHOUT_DEFINITION.split()})


def scalar_like(name: str) -> int:
    """The position of the operand whose element type the scalar of an instruction has; -1 if there is none. A scalar
    that comes before it has the type of the destination."""
    known = INSTRUCTIONS.get(name.lower())
    if known is None:
        row = opaque_rows().get(name.lower())
        return 0 if row and any(SCALAR in form.names for form in row.forms) else -1
    names = [param.name for param in known.operands]
    numbers = (param.typed_as for param in known.operands if param.kind == "number" and param.dtype is None)
    return next((names.index(typed_as) if typed_as else 0 for typed_as in numbers), -1)


def macros_of(target: str, *cores: str) -> list[str]:
    """The macros of a family, each with its value: those of its device compiler, and what the headers ask for. `cores`
    are the ends of the names of its cores' macros."""
    compiler, memories = compiler_of(target), profile(target).memories
    assert compiler is not None
    return [
        f"PTOKIT_AICORE={compiler.aicore}",
        f"PTOKIT_NPU_ARCH={compiler.npu_arch}",
        f"PTOKIT_{compiler.macros[0]}=1",
        *(f"{name}=1" for name in compiler.macros),
        f"PTOKIT_LEFT_LAYOUT={left_layouts()[profile(target).arch].name}",
        *(f"PTOKIT_{name}_BYTES={memories[loc].size}" for name, loc in SIZED.items()),
        *(f"{name}_{core}__=1" for core in cores for name in ("__DAV", f"__DAV_C{compiler.aicore}")),
    ]


def _defaults() -> str:
    """A header with the macros of the default target, for compilations that state none."""
    target = next(name for name in families_in_cpp() if PROFILES[name].arch == DEFAULT_ARCH)
    defined = (f"#define {macro.replace('=', ' ', 1)}\n" for macro in macros_of(target, "VEC", "CUBE"))
    return f"{HEAD}#ifndef PTOKIT_AICORE\n{''.join(defined)}#endif\n"


OTHER_KEYS = {"TRANDOM": "rounds"}
"""Those of instructions that are known by their effects."""


def value_key(name: str) -> str:
    """The key of a template parameter that is a plain number: that of the modifier in text, whose words are numbers."""
    modifiers = (modifier for form in variants(name.lower()) for modifier in form.modifiers)
    default = OTHER_KEYS.get(name, "value")
    return next((modifier.text.key for modifier in modifiers if modifier.text and modifier.text.has_numbers), default)


def op_pipes() -> dict[str, str]:
    """The operations that events name, and the pipe that executes each. Of one that another pipe executes on a later
    family, that of the first."""
    stated = {name: pipe for pipe, names in OP_PIPES.items() for name in names.split()}
    for name in instructions():
        definition, row = INSTRUCTIONS.get(name.lower()), opaque_rows().get(name.lower())
        kernels: Mapping[str, RouteKernel] = kernels_of(definition, families_in_cpp()[0]) if definition else {}
        plain = [kernels[name.lower()]] if name.lower() in kernels else [*kernels.values()]
        names = [param.name for param in definition.operands] if definition else []
        found = {pipe for kernel in plain for each in names for pipe in kernel.pipes_of(each)}
        pipes = found or {row.pipe if row else ""}
        if len(pipes) == 1 and pipes <= set(CORE_PIPES):
            stated.setdefault(name, *pipes)
    return stated


@cache
def files() -> dict[str, str]:
    """The generated headers: path under the include folder, and text."""
    forward = f"{HEAD}#include <ptokit/pto.hpp>\n"
    paths = [*PATHS.split(), *re.findall(r"\bpto/(common/\S+)", PATHS)]  # include/pto may be a folder of -I
    paths += [f"pto/npu/{target}/{name}.hpp" for target in families_in_cpp() for name in IMPLEMENTATIONS.split()]
    return {
        "own/ptokit/enums.hpp": "\n".join(_enums()) + "\n",
        "own/ptokit/instructions.hpp": "\n".join(_instructions()) + "\n",
        "own/ptokit/target.hpp": _defaults(),
        **dict.fromkeys(paths, forward),
        **{
            path: f"{HEAD}#include <ptokit/{name}.hpp>\n"
            for name, paths in OTHER_PATHS.items()
            for path in paths.split()
        },
    }


def _enums() -> Iterator[str]:
    yield f"{HEAD}\n#include <cstdint>\n"
    for row in ENUMS:
        yield declared(row)
    yield from ("", "namespace ptokit {")
    for row in ENUMS:
        yield from _words(row)
    yield from ("}  // namespace ptokit", "", "namespace pto {", "enum class Op : uint16_t {")
    pipes = op_pipes()
    yield from (f"  {name}," for name in pipes)
    yield from ("  OP_COUNT,", "};", "", "// The pipe that executes an operation.")
    yield from ("constexpr pipe_t pipe_of(Op op) {", "  switch (op) {")
    for pipe in dict.fromkeys(pipes.values()):
        yield from (f"    case Op::{name}:" for name, own in pipes.items() if own == pipe)
        yield f"      return PIPE_{pipe};"
    yield from ("    default:", "      return PIPE_ALL;", "  }", "}")
    yield "}  // namespace pto"


def declared(row: Enumeration) -> str:
    """An enum as C++."""
    opening, closing = (f"namespace {row.space} {{ ", " }") if row.space else ("", "")
    kind = "enum class" if row.scoped else "enum"
    members = ", ".join(f"{member} = {number:#x}" for member, number, _ in row.members)
    return f"{opening}{kind} {row.name} : {row.storage} {{ {members} }};{closing}"


def _words(row: Enumeration) -> Iterator[str]:
    """The functions that give a modifier's key and word."""
    path = f"{row.space}::{row.name}" if row.space else row.name
    scope = path if row.scoped else row.space
    seen: set[int] = set()
    yield f'constexpr const char* key_of(::{path}) {{ return "{row.key}"; }}'
    yield f"constexpr const char* word_of(::{path} member) {{"
    yield "  switch (member) {"
    for member, number, word in row.members:
        if number not in seen:
            yield f'    case ::{scope}::{member}: return "{word}";'.replace("::::", "::")
        seen.add(number)
    yield from ("    default: return nullptr;", "  }", "}")


def _instructions() -> Iterator[str]:
    yield f"{HEAD}\n#include <ptokit/issue.hpp>\n\nnamespace pto {{"
    for name in instructions():
        like, key = scalar_like(name), value_key(name)
        yield from _if_used(name, *(f'({each}, "{name.lower()}", {like}, "{key}")' for each in (name, f"{name}_IMPL")))
    yield "namespace comm {"
    for name in COLLECTIVES.split():
        yield from _if_used(name, f'({name}, "comm_{name.lower()}", -1, "value")')
    yield from ("}  // namespace comm", "}  // namespace pto", "")
    yield from (f'PTOKIT_INTRINSIC({name}, "{name}")' for name in INTRINSICS.split())


def _if_used(name: str, *rows: str) -> Iterator[str]:
    """Functions that are defined unless only others are used: to compile all takes longer than most sources."""
    yield f"#if !defined({USED}) || defined({USED}_{name})"
    yield from (f"PTOKIT_INSTRUCTION{row}" for row in rows)
    yield "#endif"


def used_in(texts: Iterable[str]) -> list[str]:
    """The macros that leave out the functions of instructions whose names are in none of some texts."""
    words = set[str]().union(*(re.findall(r"\b[A-Z]\w+", _OF_ENUMS.sub("", text)) for text in texts))
    known = dict.fromkeys((*instructions(), *COLLECTIVES.split()))
    return [USED, *(f"{USED}_{name}" for name in known if name in words or f"{name}_IMPL" in words)]
