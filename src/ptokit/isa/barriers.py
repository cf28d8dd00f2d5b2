"""The order of dependent vector instructions on A2/A3 (A-73): how an instruction walks its operands, and the barriers
that the headers have inside. Lines are those of `include/pto/npu/a2a3` at commit 3186c381.

Two instructions that walk the same bytes alike, one after the other, need no barrier between them in the vendor's
kernels. An operand is walked alike if the instruction goes through all of it, element by element, in the order of the
bytes. What a lowering reads in another shape or layout than it writes is not: reductions, broadcasts, transposes,
sorts, gathers. `make witness` compares the barriers with the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ptokit.isa.instruction import Call, is_tile
from ptokit.isa.layout import Layout
from ptokit.isa.move import Compute, Fill, Input, Move
from ptokit.isa.operand import TileSpec
from ptokit.isa.spelling import TMP
from ptokit.isa.table import Table
from ptokit.isa.unknown import certain


@dataclass(frozen=True)
class Inside:
    """The barriers on the vector pipe inside an instruction."""

    first: tuple[str, ...] | None = None
    """The operands that its first step touches, before a barrier: all others come after the end of what was issued
    before. None without such a barrier."""
    ends: bool = False
    """Whether it ends with a barrier: nothing that comes later has to wait for it."""


NONE, ENDS = Inside(), Inside(ends=True)
Choice = Callable[[Call], Inside]
SOURCES = ("src0", "src1", "src2", "src3")


def _columns(call: Call, names: tuple[str, ...]) -> tuple[str, ...]:
    """The operands that are a column of numbers, one for each row."""
    tiles = ((name, call.values[name]) for name in names)
    return tuple(name for name, tile in tiles if is_tile(tile) and tile.format == "dn" and tile.valid_cols == 1)


def _by_columns(call: Call) -> Inside:
    """A column is spread over blocks first (TRowExpandBinOp.hpp:178)."""
    columns = _columns(call, SOURCES[:2])
    return Inside((*columns, TMP)) if columns else NONE


def _quantised(call: Call) -> Inside:
    """The source is multiplied by the scale first, as by `trowexpandmul` (TQuant.hpp:42)."""
    columns = _columns(call, ("scale",))
    return Inside((*columns, TMP), ends=True) if columns else ENDS


def _by_type(integers: Inside, floats: Inside) -> Choice:
    """What depends on whether the elements of the destination are integers."""
    return lambda call: integers if call.dst.dtype.is_integer else floats


def _summed(call: Call) -> Inside:
    """One row is copied; without a workspace no barrier follows (TColSum.hpp:139)."""
    return NONE if call.operands.get(TMP) is None and certain(lambda: call.src.valid_rows == 1) else ENDS


def _in_parts(call: Call) -> Inside:
    """Rows that one source has alone are copied after the rest, without a barrier (TPartArgOp.hpp:114)."""
    src0, src1 = call.src0, call.src1
    is_last = certain(lambda: src0.valid_cols != src1.valid_cols or src0.valid_rows == src1.valid_rows)
    return ENDS if is_last else NONE


def _converted(call: Call) -> Inside:
    """A scale comes into force first (TCvt.hpp:793)."""
    return Inside(()) if (call.src.dtype.name, call.dst.dtype.name) == ("int32", "float16") else NONE


def _spread(call: Call) -> Inside:
    """The scalar pipe reads each row's number, between V to S and S to V (TRowExpand.hpp:38)."""
    return Inside(()) if call.route.endswith(".rows") else NONE


HEADERS: Mapping[str, Inside | Choice] = {
    **dict.fromkeys(("tands", "tors"), Inside(("dst",))),  # TBitwiseSOp.hpp:105
    **dict.fromkeys(("trecip", "tdivs"), _by_type(NONE, Inside(("dst",)))),  # TDivS.hpp:67
    "txor": Inside(("src0", "src1", TMP)),  # TXor.hpp:54
    "txors": Inside((TMP,)),  # TBitwiseSOp.hpp:117, 130: of the first OR
    "tpow": Inside(("src0", TMP)),  # TPow.hpp:147
    "tpows": Inside(("src", TMP)),  # TPow.hpp:182
    "trem": Inside(("src0", "src1", TMP), ends=True),  # TRem.hpp:31, 52, 83
    "trems": _by_type(Inside(("src", TMP), ends=True), Inside((TMP,), ends=True)),  # TRemS.hpp:25, 46, 76
    **dict.fromkeys(("tsel", "tsels"), Inside((TMP,))),  # TSel.hpp:52, TSels.hpp:40
    "trowexpand": _spread,
    **dict.fromkeys(("tquant", "tquant_asym"), _quantised),
    "tdequant": Inside(("dst", "src"), ends=True),  # TDequant.hpp:76
    "tprelu": Inside(("dst", "src0", "src1")),  # TPrelu.hpp:52
    **dict.fromkeys((f"trowexpand{op}" for op in ("add", "sub", "mul", "div", "max", "min", "expdif")), _by_columns),
    **dict.fromkeys(("trowsum", "trowmax", "trowmin"), _by_type(Inside((TMP,), ends=True), ENDS)),  # TRowSum.hpp:92
    "trowprod": Inside((TMP,), ends=True),  # TRowProd.hpp:55
    "tcolsum": _summed,
    "tcvt": _converted,
    "tgather": Inside(("dst", "idx", TMP)),  # TGather.hpp:65, 82
    **{f"tmrgsort{count}": Inside((*SOURCES[:count], TMP)) for count in (2, 3, 4)},  # TMrgSort.hpp:66
    "ttrans": Inside(("src", TMP)),  # TTrans.hpp:271
    **dict.fromkeys(("trowargmax", "trowargmin"), ENDS),  # TRowReduceIdxOps.hpp:53, 325
    **dict.fromkeys(("tcolmax", "tcolmin", "tcolprod"), ENDS),  # TColReduceOps.hpp:57, 72
    **dict.fromkeys(("tcolargmax", "tcolargmin"), ENDS),  # TColReduceIdx.hpp:205
    **dict.fromkeys(("tfmod", "tfmods"), ENDS),  # TFmod.hpp:33, TFmodS.hpp:34
    **dict.fromkeys(("tpartargmax", "tpartargmin"), _in_parts),  # TPartArgOp.hpp:97
    "tcolsum wrsn": _summed,
    "tsort32": ENDS,  # TSort32.hpp:138
    "tpairreducesum": ENDS,  # TPairReduceSum.hpp:89
    "tadddeqrelu": ENDS,  # TAddDeqRelu.hpp:80
    "ttri": ENDS,  # TTri.hpp:66
}
"""By instruction, and form if it is known by its effects: the barriers inside, or what they depend on."""
INSIDE = Table({"a2a3": HEADERS})

ALIKE = frozenset(("taddrelu", "tsubrelu", "tmuladddst", "tfusedmuladd", "tfusedmuladdrelu", "taddc", "tsubc", "taddsc",
                   "tsubsc"))  # fmt: skip
"""Instructions that are known by their effects only, and go through all operands element by element."""
REDUCING = tuple(f"{axis}{op}" for axis in ("row", "col") for op in ("sum", "prod", "max", "min", "argmax", "argmin"))
REORDERED = frozenset((*REDUCING, "sort32", "merge", "window"))
"""Operations that do not go through their inputs in the order of the bytes, whatever the shapes are."""
COMPARING = "cmp"
"""The operation whose inputs have an element for each bit of its result."""


def inside(call: Call) -> Inside:
    """The barriers inside an instruction on its target. Forms that are known by their effects have rows of their own: a
    gather by a mask, or a transpose for convolutions, has other steps than the instruction of that name."""
    name = f"{call.instruction.name} {call.instruction.opaque_form}".strip()
    found = call.lookup(INSIDE, {}).get(name, NONE)
    return found if isinstance(found, Inside) else found(call)


def walked_alike(call: Call) -> frozenset[str] | None:
    """The operands that an instruction walks element by element, in the order of their bytes; None if nothing is known
    of that. A tile that is converted to another width is read so, and not written."""
    form = call.instruction.opaque_form
    if form and call.instruction.name not in ALIKE:
        return None if "@" in form else frozenset()
    alike: set[str] = set()
    for step in call.lowered:
        alike.update(_alike_in(call, step))
    return frozenset(alike)


def _alike_in(call: Call, step: Move | Compute) -> Iterator[str]:
    """The same for one step."""
    dst: TileSpec = call.values[step.dst.operand]
    if isinstance(step, Move):
        inputs = [] if isinstance(step.src, Fill) else [Input(step.src.operand, step.src.layout, step.shape)]
        is_ordered = step.index is None
    else:
        inputs, is_ordered = list(step.inputs), step.op not in REORDERED
    tiles = [each for each in inputs if isinstance(call.values[each.operand], TileSpec)]
    read = [each for each in tiles if is_ordered and _is_whole(call, each.operand, each.layout, each.shape)]
    beside = [each for each in read if each.shape == step.shape]
    if isinstance(step, Compute) and step.op == COMPARING:
        yield from (each.operand for each in read)
    yield from (each.operand for each in beside)
    widths = {call.values[each.operand].dtype.size for each in beside}
    is_written = (widths == {dst.dtype.size}) if tiles else is_ordered
    if is_written and _is_whole(call, step.dst.operand, step.dst.layout, step.shape):
        yield step.dst.operand


def _is_whole(call: Call, operand: str, layout: Layout, shape: tuple[int, int]) -> bool:
    """Whether a region is the valid region of a tile, in its own layout."""
    spec = call.values[operand]
    return isinstance(spec, TileSpec) and layout == spec.layout and shape == tuple(spec.valid)
