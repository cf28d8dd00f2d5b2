"""TSTORE: a tile into a block of global memory."""
# ruff: noqa: F403, F405

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.casts import *
from ptokit.isa.headers import EIGHT_TO_64, moved_in_cpp, typed_in_headers, whole_block
from ptokit.isa.tload import VEC_PAIRS, fits, has_fractal_dims, in_ub_unboxed, is_pair, not_empty, plain_if_wide
from ptokit.isa.vocabulary import *

PAIRS = {TileType.Vec: VEC_PAIRS, TileType.Acc: frozenset({("nd", "nz"), ("nz", "nz")})}
"""Which tensor layout a tile form stores into (TT-01)."""

ADD_TYPES = ("int8", "int16", "int32", "float16", "bfloat16", "float32")


def is_run(call: Call) -> bool:
    """A tile of one row or one column is contiguous, in any layout (TT-01)."""
    src = call.src
    return src.loc is TileType.Vec and 1 in (src.rows, src.cols) and src.format in ("nd", "dn") and not src.pitch


def has_wide_blocks(call: Call) -> bool:
    """Whether the fractals of an NZ tensor are those of accumulators: 16 x 16 elements of 4 bytes. Its last dims say
    so, if they are static."""
    dst = call.dst
    of_acc = call.src.loc is TileType.Acc and dst.layout_kind is GlobalLayout.NZ and dst.dtype.size == 4
    return of_acc and not any(dst.dynamic[3:5]) and dst.shape[3:] == (FRACTAL_ROWS, FRACTAL_ROWS)


def memory(call: Call) -> TensorSpec:
    """The tensor; one whose fractals are those of accumulators as a tensor of its dims."""
    return WideBlocks.of(call.dst) if has_wide_blocks(call) else call.dst


def is_block(call: Call) -> bool:
    """Tile and tensor have matching layouts, and the tensor is large enough."""
    return is_pair(call.dst, call.src, PAIRS) and fits(memory(call), call.src)


def is_burst(call: Call) -> bool:
    """Contiguous elements are stored to a packed tensor that is large enough."""
    return is_run(call) and call.dst.is_packed and call.dst.elements >= max(call.src.valid)


def casts(call: Call) -> Casts:
    """What FIX converts on the way out of an accumulator."""
    return NARROWED if call.src.loc is TileType.Acc else frozenset()


def has_stored_dims(call: Call) -> bool:
    """Whether an NZ tensor ends in fractals of its type, or in those of accumulators."""
    return has_wide_blocks(call) or has_fractal_dims(call.dst)


def last_dim(call: Call) -> str:
    """The last dims that an NZ tensor may have."""
    wide = call.src.loc is TileType.Acc and call.dst.dtype.size == 4
    return f"{call.dst.dtype.c0} or {FRACTAL_ROWS}" if wide else str(call.dst.dtype.c0)


ADDS = Option("atomic", StoreAtomic)
adds = Case("atomic add", lambda c: c.atomic is StoreAtomic.Add)

RULES = (
    routing("TT-01", "dst", "a GlobalTensor", lambda c: is_tensor(c.dst), fix=Fix(
                called("tstore", "array", "tile"), ": the array comes first; it is wrapped, ", ARRAY_VIEW)),
    Rule("MG-L1-33", "src", "a tile outside L1: A5's cube core has no copy from L1 to GM",
         lambda c: not is_tile(c.src, TileType.Mat), on=error("a5"), blocks="execution",
         fix=Fix("move it to a Vec tile first: ", called("tmov", "vec", "mat"))),
    routing("TT-01", "src", "a Vec or Acc tile", lambda c: is_tile(c.src, TileType.Vec, TileType.Acc),
            fix=Fix("move it to a Vec tile first: ", called("tmov", "vec", "tile"))),
    data_type("src", WIDE_TYPES),
    cast_type("TT-01", "dst", "src", casts),
    plain_if_wide("src", "TT-01"),
    *fix_rules(SCALED_TO_MEMORY),
    routing("TT-01", "dst", lambda c: f"of a layout that a {c.src.format} tile stores into",
            lambda c: is_pair(c.dst, c.src, PAIRS) or is_run(c), found=lambda c: c.dst.layout_kind.name,
            fix="give tile and tensor the same layout"),
    sized("TT-01", "dst",
          lambda c: f"of a layout that a {c.src.format} tile stores into, and hold {show_extents(c.src.valid)}",
          lambda c: is_burst(c) or (is_block(c) if is_run(c) else fits(memory(c), c.src)),
          found=lambda c: f"{c.dst.layout_kind.name} {show_extents(c.dst.extents)}",
          fix="give tile and tensor the same layout, and the tensor at least the extents of the valid region"),
    sized("TT-01", "dst", lambda c: f"of Shape[3] == 16 and Shape[4] == {last_dim(c)} in NZ layout", has_stored_dims,
          fix=NZ_SHAPE),
    Rule("TT-01", "dst", f"one of {', '.join(ADD_TYPES)} for atomic add", lambda c: c.dst.dtype.name in ADD_TYPES,
         on=error(*FAMILIES), when=adds, found=type_of("dst"), blocks="execution", fix=Fix("store without ", ADDS)),
    Rule("A-16", "src", "a number type for atomic add", lambda c: c.src.dtype.is_number, on=error("host"), when=adds,
         found=type_of("src"), blocks="execution", fix=Fix("store without ", ADDS)),
    *not_empty("src"),
    burst_multiple("CO-ALIGN-01", "src", *NPU, when=in_ub_unboxed("src")),
)  # fmt: skip


def lower(call: Call) -> tuple[Move | Compute, ...]:
    """Store the valid region, as a block or as one burst."""
    if is_block(call):
        dst, src, region = memory(call).layout, call.src.layout, call.src.valid
    else:
        dst, src, region = flat(), flat(), (1, max(call.src.valid))
    stored = copied(call, region, dst, src)
    return (replace(stored, combine=Combine.ADD) if adds(call) else stored,)


def on_pipe(pipe: str, path: str) -> RouteKernel:
    """One pipe reads the tile and writes memory, at the bandwidth of its path."""
    return RouteKernel((Effect("src", "read", pipe), Effect("dst", "update", pipe)), cost={pipe: Cost("block", path)})


def template(call: Call) -> tuple[tuple[str, None], ...]:
    """The types of the operands come before the operation."""
    types = tuple(f"decltype({{{name}}})" for name in ("src", "dst", "fp") if name in call.operands)
    atomic = "AtomicType::AtomicAdd" if adds(call) else "AtomicType::AtomicNone"
    relu = ("ReluPreMode::NormalRelu",) if RECTIFIED(call) else ()
    arguments = (*types, atomic, *relu) if adds(call) or relu else ()
    return tuple((text, None) for text in arguments)


ATOMIC = Attribute("atomicType", "atomic_type", ((StoreAtomic.NONE, "atomic_none"), (StoreAtomic.Add, "atomic_add")))
MODIFIERS = (
    Modifier("atomic", StoreAtomic, always(StoreAtomic.NONE), "how an element is combined with the cell", text=ATOMIC),
    RELU,
)
ADDED = attributes(MODIFIERS)

WHOLE = whole_block("TT-01", "dst", "src", memory)

TSTORE = Instruction(
    name="tstore",
    summary="Store a tile into a contiguous block of GM.",
    meaning=(
        "dst[i, j] = src[i, j]    over the source's valid region",
        "atomic add: dst[i, j] += src[i, j]    in dst's type",
        "float32 of an accumulator may become float16 or bfloat16",
        SCALED_MEANING,
    ),
    operands=(
        Param("dst", "update", "the block in GM", kind="memory", is_block=True),
        Param("src", "read", "source tile: Vec, or Acc", has_scales=True),
        SCALE,
    ),
    modifiers=MODIFIERS,
    rules=RULES,
    lower=lower,
    route=lambda call: f"tstore.{call.src.loc.text}",
    cpp=Cpp(
        "TSTORE(dst, src, scale)",
        template,
        (typed_in_headers("src", {"a2a3": EIGHT_TO_64}), WHOLE),
        written=moved_in_cpp("TT-01", "dst", "src", memory),
        is_transfer=True,
        without_pipe=Table({"a2a3": "mat"}),
    ),
    kernels={
        family: {"tstore.vec": on_pipe("MTE3", "UB to GM GB/s"), "tstore.acc": on_pipe("FIX", "L0C to GM GB/s")}
        for family in NPU
    },
    pages=Pages(documents=("TT",)),
    text=OpText(typed_each=True, reordered=True),
    spellings={
        "C++": ("TSTORE(tensor, tile)",),
        "Level 1": (
            f"pto.tstore %src, %dst{ADDED} : (!pto.tile<...>, !pto.partition_tensor_view<...>) -> ()",
            f"pto.tstore %src, %scale, %dst{ADDED} : (!pto.tile<...>, i64, !pto.partition_tensor_view<...>) -> ()",
        ),
        "Level 2": (
            f"pto.tstore ins(%src : ...) outs(%dst : !pto.partition_tensor_view<...>){ADDED}",
            f"pto.tstore ins(%src : ..., %scale : i64) outs(%dst : !pto.partition_tensor_view<...>){ADDED}",
        ),
    },
)


def takes(call: Call) -> bool:
    """Whether the destination is a block for the source."""
    return is_tensor(call.dst) and is_block(call) and has_stored_dims(call)


FP_CPP = Cpp("TSTORE_FP(dst, src, fp)", template, (WHOLE,), is_transfer=True)
TSTORE_FP = with_factors(TSTORE, FP_CPP, SCALED_TO_MEMORY, takes)
