"""Instructions that ptokit knows by their effects only: what they read and write, and on which pipe.

One table has all public instructions, and forms of modelled instructions, that ptokit does not execute. An instruction
of a program has the name and the form of one: a letter for each operand, in the order of C++.

| letter | the operand |
|---|---|
| `w` | is written |
| `u` | is read and written |
| `r` | is read |
| `s` | is a workspace: written, and undefined afterwards |
| `n` | is a number |

A form without operands is `-`. What is written gets unspecified values (`Compute` with the operation `UNSPECIFIED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from ptokit.isa.instruction import EVERYWHERE, NPU, Call, Cpp, Instruction, Param
from ptokit.isa.kernel import Cost, Effect, Handshake, RouteKernel
from ptokit.isa.layout import Layout
from ptokit.isa.move import NOTHING, UNSPECIFIED, Access, Compute, Input
from ptokit.isa.operand import ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.table import Table

OpaqueKind = Literal["tile", "scaling", "pointer", "memory", "number"]
"""What an operand of a call is; of tiles, whether it lies in the fixpipe buffer, or was given by a pointer."""
OWN_KINDS: dict[str, OpaqueKind] = {
    "fp": "scaling", **dict.fromkeys(("exp", "max", "scaling", "exp_zz", "offset"), "pointer"),
}  # fmt: skip
"""Names of operands that C++ takes as such tiles only."""

NONE = "-"
"""The form without operands."""
BY_MEMORY = ""
"""The pipe of an instruction is the one between the memories of its operands."""
MOST_OPERANDS = 32
"""Of a form."""
MOST_FORMS = 4096
"""Forms that are kept."""
EXACT = {"getvalue": "r", "setvalue": "wn"}
"""Accesses of the scalar unit to one element of a tile: forms that are modelled. The operand is that element."""
GRID_BARRIERS = frozenset(("syncall",))
"""Instructions that end, on every core, after all blocks have come to them."""
PLAIN = frozenset(("tile", "memory", "number"))
"""Kinds that no name tells apart."""
SCALAR = "scalar"
"""The name of a number that has the element type of the destination."""
MARKS = {"=": "w", "+": "u", "~": "s", "#": "n"}
"""In the table: the letter of an operand, by the mark behind its name; `r` without one."""
ACCESS = {"w": "write", "u": "update", "s": "write", "r": "read", "n": "read"}


@dataclass(frozen=True)
class OpaqueForm:
    """A form of an instruction: the names of its operands, and a letter for each."""

    names: tuple[str, ...]
    letters: str

    @property
    def key(self) -> str:
        """The form as programs have it."""
        return self.letters or NONE

    @property
    def outs(self) -> tuple[int, ...]:
        """The operands that text lists as destinations."""
        return tuple(k for k, letter in enumerate(self.letters) if letter in "wu")

    @property
    def ins(self) -> tuple[int, ...]:
        """The others."""
        return tuple(k for k, letter in enumerate(self.letters) if letter not in "wu")

    def takes(self, kinds: Sequence[OpaqueKind]) -> bool:
        """Whether operands of these kinds have this form: numbers stand where numbers are expected."""
        return [kind == "number" for kind in kinds] == [letter == "n" for letter in self.letters]

    def fits(self, kinds: Sequence[OpaqueKind]) -> bool:
        """Whether operands also lie where those of their names do."""
        own = (OWN_KINDS.get(name, "tile") for name in self.names)
        return all((mine == kind) or {mine, kind} <= PLAIN for mine, kind in zip(own, kinds, strict=True))

    def takes_sources(self, kinds: Sequence[OpaqueKind]) -> bool:
        """The same for operands that are no destinations in text."""
        return [kind == "number" for kind in kinds] == [self.letters[k] == "n" for k in self.ins]


@dataclass(frozen=True)
class OpaqueRow:
    """A row of the table."""

    name: str
    pipe: str
    forms: tuple[OpaqueForm, ...]
    in_cpp: bool
    """Whether C++ has a function of this name."""

    @property
    def op(self) -> str:
        """The name in text: that of C++, with dots in the names of cube instructions."""
        return self.name.replace("_", ".") if self.name.startswith(("tmatmul_", "tgemv_")) else self.name


def _form(text: str) -> OpaqueForm:
    """A form from the names of its operands, with marks."""
    words = text.split()
    return OpaqueForm(tuple(w.rstrip("=+~#") for w in words), "".join(MARKS.get(w[-1], "r") for w in words))


def _row(name: str, pipe: str, *forms: str, in_cpp: bool = True) -> OpaqueRow:
    return OpaqueRow(name, pipe, tuple(map(_form, forms)), in_cpp)


ROWS = (
    # vector arithmetic
    _row("taddc", "V", "dst= src0 src1 src2"),
    _row("tsubc", "V", "dst= src0 src1 src2"),
    _row("taddsc", "V", "dst= src0 scalar# src1"),
    _row("tsubsc", "V", "dst= src0 scalar# src1"),
    _row("taddrelu", "V", "dst= src0 src1"),
    _row("taddreluconv", "V", "dst= src0 src1"),
    _row("tadddeqrelu", "V", "dst= src0 src1 scale# work~"),
    _row("tsubrelu", "V", "dst= src0 src1"),
    _row("tsubreluconv", "V", "dst= src0 src1"),
    _row("tmuladddst", "V", "dst+ src0 src1"),
    _row("tfusedmuladd", "V", "dst+ src0 src1"),
    _row("tfusedmuladdrelu", "V", "dst+ src0 src1"),
    _row("tprelu", "V", "dst= src0 src1 work~", "dst= src0 src1"),
    _row("txor", "V", "dst= src0 src1 work~", "dst= src0 src1"),
    _row("txors", "V", "dst= src scalar# work~", "dst= src scalar#"),
    _row("trem", "V", "dst= src0 src1 work~", "dst= src0 src1"),
    _row("trems", "V", "dst= src scalar# work~", "dst= src scalar#"),
    _row("tfmod", "V", "dst= src0 src1"),
    _row("tfmods", "V", "dst= src scalar#"),
    _row("tpow", "V", "dst= base exp work~", "dst= base exp"),
    _row("tpows", "V", "dst= base exp# work~", "dst= base exp#"),
    _row("trsqrt", "V", "dst= src work~", "dst= src"),
    _row("tcmps", "V", "dst= src0 src1"),
    _row("tcvt", "V", "dst= src work~", "dst= src work~ mode#", "dst= src work~ mode# saturation#"),
    # partial arithmetic
    _row("tpartargmax", "V", "dst= src0 src1 dst_idx= src0_idx src1_idx"),
    _row("tpartargmin", "V", "dst= src0 src1 dst_idx= src0_idx src1_idx"),
    # rows and columns
    _row("trowprod", "V", "dst= src work~", "dst= src"),
    _row("tcolsum", "V", "dst= src work~ is_binary#", "dst= src work~"),
    _row("trowargmax", "V", "dst= src work~", "dst= dst_idx= src work~"),
    _row("trowargmin", "V", "dst= src work~", "dst= dst_idx= src work~"),
    _row("tcolargmax", "V", "dst= src work~", "dst= dst_idx= src work~"),
    _row("tcolargmin", "V", "dst= src work~", "dst= dst_idx= src work~"),
    _row("trowexpandexpdif", "V", "dst= src0 src1", "dst= src0 src1 work~"),
    _row("trowexpandadd", "V", "dst= src0 src1 work~"),
    _row("trowexpandsub", "V", "dst= src0 src1 work~"),
    _row("trowexpandmul", "V", "dst= src0 src1 work~"),
    _row("trowexpanddiv", "V", "dst= src0 src1 work~"),
    _row("trowexpandmax", "V", "dst= src0 src1 work~"),
    _row("trowexpandmin", "V", "dst= src0 src1 work~"),
    _row("tpairreducesum", "V", "dst= src"),
    # fills, padding, parts
    _row("tfillpad", BY_MEMORY, "dst= src"),
    _row("tfillpad_inplace", BY_MEMORY, "dst= src"),
    _row("tfillpad_expand", BY_MEMORY, "dst= src"),
    _row(
        "trandom",
        "V",
        "dst= key0# key1# counter0# counter1# counter2# counter3#",
        "dst= key counter",
        "dst= key# counter#",
    ),
    _row(
        "tconcat",
        "V",
        "dst= src0 src1",
        "dst= src0 src1 src0_idx src1_idx",
        "dst= src0 src1 dst_idx= src0_idx src1_idx",
    ),
    _row("tinterleave", "V", "dst1= dst0= src1 src0"),
    _row("tdeinterleave", "V", "dst1= dst0= src1 src0", "dst1= dst0= src"),
    _row("tpack", "V", "dst= src"),
    _row("treshape", BY_MEMORY, "dst= src"),
    _row("bitcast", BY_MEMORY, "dst= src", in_cpp=False),
    _row("tsubview", BY_MEMORY, "dst= src row# col#"),
    _row("tinsert", BY_MEMORY, "dst= src row# col#", "dst= src"),
    _row("textract", BY_MEMORY, "dst0= dst1= src row0# col0# row1# col1#", "dst= src"),
    _row("timg2col", "MTE1", "dst= src pos_m# pos_k#", "dst= src"),
    # sorting, gathering
    _row("tsort32", "V", "dst= src idx", "dst= src idx work~"),
    _row(
        "tmrgsort",
        "V",
        "dst= src length#",
        "dst= executed= work~ src0 src1",
        "dst= executed= work~ src0 src1 src2",
        "dst= executed= work~ src0 src1 src2 src3",
        "dst= work~ src0 src1",
        "dst= work~ src0 src1 src2",
        "dst= work~ src0 src1 src2 src3",
    ),
    _row(
        "tgather",
        "V",
        "dst= src",
        "dst= src idx work~",
        "dst= src value counts= work~ offset#",
        "dst= src value# counts= work~ offset#",
        "dst= src value counts= work~",
        "dst= src value# counts= work~",
    ),
    _row("tgatherb", "V", "dst= src offset"),
    _row("tscatter", "V", "dst= src"),
    _row("thistogram", "V", "dst= src idx", "dst= src"),
    # quantisation
    _row(
        "tquant",
        "V",
        "dst= src scale",
        "dst= src scale offset",
        "dst= src scale work~",
        "dst= src scale work~ offset",
        "dst= src exp= max= scaling=",
        "dst= src exp= max= scaling= exp_zz=",
    ),
    _row("tdequant", "V", "dst= src scale offset", "dst= src scale"),
    _row("tmov", BY_MEMORY, "dst= src work~"),
    _row("set_quant_scalar", "S", "scale#"),
    _row("set_quant_vector", "FIX", "fp"),
    # cube
    _row("tmatmul_mx", "M", "dst= left left_scale right right_scale", "dst= acc left left_scale right right_scale"),
    _row("tmatmul_mx_acc", "M", "dst= acc left left_scale right right_scale"),
    _row("tmatmul_mx_bias", "M", "dst= left left_scale right right_scale bias"),
    _row("tgemv", "M", "dst= left right"),
    _row("tgemv_acc", "M", "dst= acc left right", "dst+ left right"),
    _row("tgemv_bias", "M", "dst= left right bias"),
    _row("tgemv_mx", "M", "dst= left left_scale right right_scale", "dst= acc left left_scale right right_scale"),
    _row("tgemv_mx_acc", "M", "dst= acc left left_scale right right_scale"),
    _row("tgemv_mx_bias", "M", "dst= left left_scale right right_scale bias"),
    _row("tget_scale_addr", "S", "scales= scaled"),
    _row("setfmatrix", "S", "src", ""),
    _row("set_img2col_rpt", "S", "src", ""),
    _row("set_img2col_padding", "S", "src", ""),
    # scalars, printing
    _row("tgetval", "S", "src offset#", in_cpp=False),
    _row("tsetval", "S", "dst+ offset# value#", in_cpp=False),
    _row("getvalue", "S", "src offset#", in_cpp=False),
    _row("setvalue", "S", "dst+ offset# value#", in_cpp=False),
    _row("tprint", "S", "src", "src work~"),
    _row("print", "S", "value#", in_cpp=False),
    _row("trap", "S", "", in_cpp=False),
    # pipes between the cores
    _row("tpush", BY_MEMORY, "tile", "tile core#", ""),
    _row("tpop", BY_MEMORY, "tile=", "tile= core#", ""),
    _row("tfree", "S", "tile", ""),
    _row("talloc", "S", "tile=", ""),
    _row("tpush_to_aiv", BY_MEMORY, "tile", in_cpp=False),
    _row("tpush_to_aic", BY_MEMORY, "tile", in_cpp=False),
    _row("tpop_from_aiv", BY_MEMORY, "tile=", in_cpp=False),
    _row("tpop_from_aic", BY_MEMORY, "tile=", in_cpp=False),
    _row("tfree_from_aiv", "S", "", in_cpp=False),
    _row("tfree_from_aic", "S", "", in_cpp=False),
    _row("aic_initialize_pipe", "S", "", in_cpp=False),
    _row("aiv_initialize_pipe", "S", "", in_cpp=False),
    _row("initialize_l2l_pipe", "S", "", in_cpp=False),
    _row("initialize_l2g2l_pipe", "S", "", in_cpp=False),
    _row("reserve_buffer", "S", "buffer=", in_cpp=False),
    _row("import_reserved_buffer", "S", "", in_cpp=False),
    # order
    _row("syncall", "ALL", "", "workspace", "workspace cores#", "workspace work~", "workspace work~ cores#"),
    _row("tsync", "S", "", "src", "src0 src1"),
    _row("get_buf", "S", "", in_cpp=False),
    _row("rls_buf", "S", "", in_cpp=False),
    # control flow that programs do not have
    _row("scf_while", "S", "", in_cpp=False),
    # communication between devices, prefetching
    _row("tput", "MTE3", "dst= src ping~", "dst= src ping~ pong~", "dst= src"),
    _row("tget", "MTE2", "dst= src ping~", "dst= src ping~ pong~", "dst= src"),
    _row("tput_async", "S", "dst= src"),
    _row("tget_async", "S", "dst= src"),
    _row("tnotify", "S", "signal+ value#", "signal+ value# op#"),
    _row("twait", "S", "signal value#", "signal value# cmp#"),
    _row("ttest", "S", "signal value#", "signal value# cmp#"),
    _row("tbroadcast", "MTE3", "src ping~", "src ping~ pong~"),
    _row("treduce", "MTE3", "dst= acc~ ping~", "dst= acc~ ping~ pong~"),
    _row("build_async_session", "S", "scratch~ workspace+", "", in_cpp=False),
    _row("wait_async_event", "S", "", in_cpp=False),
    _row("test_async_event", "S", "", in_cpp=False),
    _row("tprefetch", "MTE2", "src", "dst= src"),
    _row("tprefetch_async", "S", "src"),
)
"""All instructions with their pipes and forms."""


@cache
def opaque_rows() -> dict[str, OpaqueRow]:
    """The table, by name."""
    return {row.name: row for row in ROWS}


@cache
def _by_op() -> dict[str, OpaqueRow]:
    return {row.op: row for row in opaque_rows().values()}


def opaque_ops() -> tuple[str, ...]:
    """The names in text."""
    return tuple(_by_op())


def row_of_op(op: str) -> OpaqueRow | None:
    """The row of an operation's name in text; dots and underscores are equivalent."""
    return _by_op().get(op) or opaque_rows().get(op.replace(".", "_"))


def form_for(name: str, kinds: Sequence[OpaqueKind]) -> str:
    """The form of a call with operands of these kinds, in the order of C++.

    A call that no form takes, or that is not in the table, writes its first tile, else its first array.
    """
    row = opaque_rows().get(name)
    forms = [form for form in row.forms if form.takes(kinds)] if row else []
    found = next((form for form in forms if form.fits(kinds)), forms[0] if forms else None)
    return found.key if found else _guessed(kinds)


def form_in_order(name: str, kinds: Sequence[OpaqueKind]) -> Instruction:
    """The definition for a C++ call with operands of these kinds, in the order of C++."""
    return opaque(name, form_for(name, kinds))


def form_in_text(row: OpaqueRow | None, outs: Sequence[OpaqueKind], ins: Sequence[OpaqueKind]) -> OpaqueForm:
    """The form of an operation with these destinations and sources: the first of the table, else destinations first."""
    for form in row.forms if row else ():
        if len(form.outs) == len(outs) and form.takes_sources(ins):
            return form
    letters = "w" * len(outs) + "".join("n" if kind == "number" else "r" for kind in ins)
    return OpaqueForm(_generic(letters), letters)


def spelt_form(key: str) -> OpaqueForm:
    """The form that a text states."""
    letters = "" if key == NONE else key
    return OpaqueForm(_generic(letters), letters)


def _guessed(kinds: Sequence[OpaqueKind]) -> str:
    """The form of an unknown call."""
    target = next((kinds.index(kind) for kind in ("tile", "pointer", "memory") if kind in kinds), None)
    letters = ("n" if kind == "number" else "w" if k == target else "r" for k, kind in enumerate(kinds))
    return "".join(letters) or NONE


def is_form(text: object) -> bool:
    """Whether a text is a form."""
    if not isinstance(text, str) or not 0 < len(text) <= MOST_OPERANDS:
        return False
    return text == NONE or set(text) <= set(ACCESS)


@lru_cache(maxsize=MOST_FORMS)
def opaque(name: str, form: str) -> Instruction:
    """The definition of an instruction in one form. The name need not be in the table."""
    letters = "" if form == NONE else form
    row = opaque_rows().get(name)
    known = next((each.names for each in row.forms if each.letters == letters), None) if row else None
    names = known or _generic(letters)
    params = tuple(_param(*each) for each in zip(names, letters, strict=True))
    pipe = row.pipe if row else BY_MEMORY
    is_exact = EXACT.get(name) == form
    return Instruction(
        name=name,
        summary="Known by its effects only: what it writes has unspecified values.",
        meaning=tuple(f"{param.name} = unspecified" for param in params if param.access != "read"),
        operands=params,
        modifiers=(),
        rules=(),
        lower=_store_element if is_exact and name == "setvalue" else _lowering(params),
        route=lambda call: f"{name}.{pipe_of(call) if pipe == BY_MEMORY else pipe}",
        kernels={family: dict(_kernels(name, pipe, params)) for family in NPU},
        cpp=Cpp(call=f"{name.upper()}({', '.join(names)})"),
        in_place=Table(dict.fromkeys(EVERYWHERE, True)),
        text_name=row.op if row else name,
        form_key="" if is_exact else form,
    )


def _generic(letters: str) -> tuple[str, ...]:
    """Names for operands of an unknown call."""
    words = {"w": "dst", "u": "dst", "s": "work", "r": "src", "n": "number"}
    seen: dict[str, int] = {}
    found: list[str] = []
    for letter in letters:
        word = words[letter]
        number = seen[word] = seen.get(word, -1) + 1
        found.append(f"{word}{number}" if number or word != "dst" else word)
    return tuple(found)


def _param(name: str, letter: str) -> Param:
    kind = "number" if letter == "n" else "tile or memory"
    return Param(name, ACCESS[letter], "", kind=kind)


# --- what it does


def _lowering(params: tuple[Param, ...]) -> Callable[[Call], tuple[Compute, ...]]:
    reads = tuple(param.name for param in params if param.access != "write" and param.kind != "number")
    writes = tuple(param.name for param in params if param.access != "read")

    def lower(call: Call) -> tuple[Compute, ...]:
        inputs = tuple(_input(call, name) for name in reads)
        if not writes and reads:  # nothing is written, and the reads count
            nothing = Access(reads[0], Layout.plain(0, 0))
            return (Compute(UNSPECIFIED, NOTHING, nothing, inputs),)
        return tuple(_output(call, name, () if k else inputs) for k, name in enumerate(writes))

    return lower


def _store_element(call: Call) -> tuple[Compute, ...]:
    """A number into one element."""
    dst, number = call.instruction.operands
    value = Input(number.name, Layout.plain(0, 0), (1, 1))
    return (Compute("copy", (1, 1), Access(dst.name, call.values[dst.name].layout), (value,)),)


def _input(call: Call, name: str) -> Input:
    spec = call.values[name]
    return Input(name, spec.layout, spec.valid if isinstance(spec, TileSpec) else spec.extents)


def _output(call: Call, name: str, inputs: tuple[Input, ...]) -> Compute:
    """All of a tile is written: how much the instruction writes is not known."""
    spec = call.values[name]
    shape = (spec.rows, spec.cols) if isinstance(spec, TileSpec) else spec.extents
    return Compute(UNSPECIFIED, shape, Access(name, spec.layout), inputs)


PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
ESTIMATE = Cost("estimate")
FROM_L1 = frozenset({TileType.Left, TileType.Right, TileType.Bias, TileType.ScaleLeft, TileType.ScaleRight})


def _kernels(name: str, pipe: str, params: tuple[Param, ...]) -> Iterator[tuple[str, RouteKernel]]:
    for each in PIPES if pipe == BY_MEMORY else (pipe,):
        unit = "S" if each == "ALL" else each
        effects = tuple(Effect(param.name, param.access, unit) for param in params if param.kind != "number")
        before = tuple((other, unit) for other in PIPES if other != unit) if each == "ALL" else ()
        yield f"{name}.{each}", RouteKernel(effects, handshake=Handshake(before, (unit,)), cost={unit: ESTIMATE})


UNNAMED_SOURCES, UNNAMED_TARGETS = {"tload": frozenset(("gm",))}, {"tstore": frozenset(("gm",))}
"""Memories that a call uses even if that operand is left out: a pointer in none of the arrays of a launch."""


def pipe_of(call: Call) -> str:
    """The pipe between the memories of a call's operands."""
    given = [(param, call.operands[param.name]) for param in call.instruction.operands]
    name = call.instruction.name
    reads = _places(spec for param, spec in given if param.access != "write") | UNNAMED_SOURCES.get(name, frozenset())
    writes = _places(spec for param, spec in given if param.access != "read") | UNNAMED_TARGETS.get(name, frozenset())
    if "gm" in writes:
        return "FIX" if TileType.Acc in reads else "MTE3"
    if "gm" in reads:
        return "MTE2"
    if TileType.Acc in writes:
        return "M"
    if TileType.Acc in reads or TileType.Scaling in writes:
        return "FIX"
    if TileType.Mat in reads & writes:
        return "MTE2"
    if FROM_L1 & writes or TileType.Mat in reads:
        return "MTE1"
    if TileType.Mat in writes:
        return "MTE3"
    return "V" if TileType.Vec in reads | writes else "S"


def _places(specs: Iterator[object]) -> set[object]:
    found: set[object] = set()
    for spec in specs:
        if isinstance(spec, TileSpec):
            found.add(spec.loc)
        elif isinstance(spec, TensorSpec):
            found.add("gm")
        else:
            assert spec is None or isinstance(spec, ScalarSpec)
    return found
