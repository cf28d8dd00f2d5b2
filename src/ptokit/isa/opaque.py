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

from ptokit.brief import brief
from ptokit.isa.catalog import variants
from ptokit.isa.instruction import EVERYWHERE, NPU, Call, Cpp, Instruction, Param
from ptokit.isa.kernel import Cost, Effect, Handshake, RouteKernel
from ptokit.isa.layout import Layout
from ptokit.isa.move import NOTHING, UNSPECIFIED, Access, Compute, Input
from ptokit.isa.operand import ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import TMP
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
WORK = "work"
"""The name of the only workspace."""
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
ALL_PIPES = "ALL"
"""The pipe of an instruction that all pipes wait for."""
ACCESS = {"w": "write", "u": "update", "s": "write", "r": "read", "n": "read"}
LETTERS = {"write": "w", "update": "u", "read": "r"}


@dataclass(frozen=True)
class OpaqueForm:
    """A form of an instruction: the names of its operands, and a letter for each."""

    names: tuple[str, ...]
    letters: str

    def __post_init__(self) -> None:
        distinct = {name for name in self.names if name.isidentifier()}
        if len(distinct) != len(self.letters) or not set(self.letters) <= set(ACCESS):
            raise ValueError(f"{self.names} of the forms {brief(self.letters)} are no operands")

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
    in_cpp: bool = True
    """Whether C++ has a function of this name."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.pipe not in (*PIPES, ALL_PIPES, BY_MEMORY):
            raise ValueError(f"{brief(self.name)} on {brief(self.pipe)} is no instruction")

    @property
    def op(self) -> str:
        """The name in text: that of C++, with dots in the names of cube instructions."""
        return self.name.replace("_", ".") if self.name.startswith(("tmatmul_", "tgemv_")) else self.name


Operands = tuple[tuple[str, str], ...]
"""Names of operands with their letters, in the order of C++."""
NO_OPERANDS: Operands = ()


def out(*names: str) -> Operands:
    """Operands that are written."""
    return tuple((name, "w") for name in names)


def update(*names: str) -> Operands:
    """Operands that are read and written."""
    return tuple((name, "u") for name in names)


def read(*names: str) -> Operands:
    """Operands that are read."""
    return tuple((name, "r") for name in names)


def work(*names: str) -> Operands:
    """Workspaces; without names, the only one."""
    return tuple((name, "s") for name in names or (WORK,))


def number(*names: str) -> Operands:
    """Numbers."""
    return tuple((name, "n") for name in names)


UNARY, BINARY = out("dst") + read("src"), out("dst") + read("src0", "src1")


def _form(operands: Operands) -> OpaqueForm:
    return OpaqueForm(tuple(name for name, _ in operands), "".join(letter for _, letter in operands))


def _row(name: str, pipe: str, *forms: Operands, in_cpp: bool = True) -> OpaqueRow:
    return OpaqueRow(name, pipe, tuple(map(_form, forms)), in_cpp)


def _modelled(name: str, *forms: Operands, pipe: str | None = None) -> OpaqueRow:
    """A modelled instruction: its own forms and those of its variants, without their workspaces and with them; and
    others, which are not modelled. Its pipe is that of its kernels, if they have one, unless it is given."""
    definitions = variants(name)
    own = [_operands(each, has_work) for has_work in (False, True) for each in definitions]
    kernels = (kernel for each in definitions for table in each.kernels.values() for kernel in table.values())
    pipes = {effect.pipe for kernel in kernels for effect in kernel.effects}
    own_pipe = pipes.pop() if len(pipes) == 1 else BY_MEMORY
    return _row(name, own_pipe if pipe is None else pipe, *dict.fromkeys((*filter(None, own), *forms)))


def _operands(definition: Instruction, has_work: bool) -> Operands:
    """Those of a modelled instruction, in the order of C++; none if it has no such form."""
    text = definition.cpp.call or definition.spellings["C++"][0]
    assert isinstance(text, str)
    words = [word.lstrip("&") for word in text.partition("(")[2].partition(")")[0].split(", ") if word]
    params = {param.name: param for param in definition.operands}
    if definition.workspace and TMP not in words:
        words.insert(definition.workspace.position + 1, TMP)
    if (TMP in words) < has_work or not set(words) <= {*params, TMP}:
        return NO_OPERANDS
    numbers = ("number", "position")
    letters = {name: "n" if param.kind in numbers else LETTERS[param.access] for name, param in params.items()}
    return tuple((name, letters[name]) if name != TMP else (WORK, "s") for name in words if name != TMP or has_work)


ROWS = (
    # vector arithmetic
    _row("taddc", "V", out("dst") + read("src0", "src1", "src2")),
    _row("tsubc", "V", out("dst") + read("src0", "src1", "src2")),
    _row("taddsc", "V", out("dst") + read("src0") + number("scalar") + read("src1")),
    _row("tsubsc", "V", out("dst") + read("src0") + number("scalar") + read("src1")),
    _row("taddrelu", "V", BINARY),
    _row("taddreluconv", "V", BINARY),
    _row("tadddeqrelu", "V", BINARY + number("scale") + work()),
    _row("tsubrelu", "V", BINARY),
    _row("tsubreluconv", "V", BINARY),
    _row("tmuladddst", "V", update("dst") + read("src0", "src1")),
    _row("tfusedmuladd", "V", update("dst") + read("src0", "src1")),
    _row("tfusedmuladdrelu", "V", update("dst") + read("src0", "src1")),
    _modelled("tprelu"),
    _modelled("txor"),
    _modelled("txors"),
    _modelled("trem"),
    _modelled("trems"),
    _modelled("tfmod"),
    _modelled("tfmods"),
    _modelled("tpow"),
    _modelled("tpows"),
    _modelled("trsqrt"),
    _row("tcmps", "V", BINARY),
    _row(
        "tcvt",
        "V",
        UNARY + work(),
        UNARY + work() + number("mode"),
        UNARY + work() + number("mode", "saturation"),
    ),
    # partial arithmetic
    _row("tpartargmax", "V", BINARY + out("dst_idx") + read("src0_idx", "src1_idx")),
    _row("tpartargmin", "V", BINARY + out("dst_idx") + read("src0_idx", "src1_idx")),
    # rows and columns
    _modelled("trowprod"),
    _modelled("tcolsum", UNARY + work() + number("is_binary")),
    _modelled("trowargmax", out("dst", "dst_idx") + read("src") + work()),
    _modelled("trowargmin", out("dst", "dst_idx") + read("src") + work()),
    _modelled("tcolargmax", out("dst", "dst_idx") + read("src") + work()),
    _modelled("tcolargmin", out("dst", "dst_idx") + read("src") + work()),
    _modelled("trowexpandexpdif"),
    _modelled("trowexpandadd"),
    _modelled("trowexpandsub"),
    _modelled("trowexpandmul"),
    _modelled("trowexpanddiv"),
    _modelled("trowexpandmax"),
    _modelled("trowexpandmin"),
    _row("tpairreducesum", "V", UNARY),
    # fills, padding, parts
    _modelled("tfillpad"),
    _modelled("tfillpad_inplace", pipe=BY_MEMORY),
    _modelled("tfillpad_expand", pipe=BY_MEMORY),
    _row(
        "trandom",
        "V",
        out("dst") + number("key0", "key1", "counter0", "counter1", "counter2", "counter3"),
        out("dst") + read("key", "counter"),
        out("dst") + number("key", "counter"),
    ),
    _modelled(
        "tconcat",
        out("dst") + read("src0", "src1", "src0_idx", "src1_idx"),
        BINARY + out("dst_idx") + read("src0_idx", "src1_idx"),
    ),
    _row("tinterleave", "V", out("dst1", "dst0") + read("src1", "src0")),
    _row("tdeinterleave", "V", out("dst1", "dst0") + read("src1", "src0"), out("dst1", "dst0") + read("src")),
    _row("tpack", "V", UNARY),
    _row("treshape", BY_MEMORY, UNARY),
    _row("bitcast", BY_MEMORY, UNARY, in_cpp=False),
    _row("tsubview", BY_MEMORY, UNARY + number("row", "col")),
    _row("tinsert", BY_MEMORY, UNARY + number("row", "col"), UNARY),
    _row(
        "textract",
        BY_MEMORY,
        out("dst0", "dst1") + read("src") + number("row0", "col0", "row1", "col1"),
        UNARY,
    ),
    _row("timg2col", "MTE1", UNARY + number("pos_m", "pos_k"), UNARY),
    # sorting, gathering
    _modelled("tsort32"),
    _modelled(
        "tmrgsort",
        *(
            written + work() + read("src0", "src1", "src2", "src3")[:count]
            for written in (out("dst", "executed"), out("dst"))
            for count in (2, 3, 4)
        ),
    ),
    _modelled(
        "tgather",
        out("dst") + read("src", "value") + out("counts") + work() + number("offset"),
        UNARY + number("value") + out("counts") + work() + number("offset"),
        out("dst") + read("src", "value") + out("counts") + work(),
        UNARY + number("value") + out("counts") + work(),
    ),
    _row("tgatherb", "V", out("dst") + read("src", "offset")),
    _row("tscatter", "V", UNARY),
    _row("thistogram", "V", out("dst") + read("src", "idx"), UNARY),
    # quantisation
    _modelled(
        "tquant",
        UNARY + out("exp", "max", "scaling"),
        UNARY + out("exp", "max", "scaling", "exp_zz"),
    ),
    _modelled("tdequant", out("dst") + read("src", "scale")),
    _row("tmov", BY_MEMORY, UNARY + work()),
    _row("set_quant_scalar", "S", number("scale")),
    _row("set_quant_vector", "FIX", read("fp")),
    # cube
    _modelled("tmatmul_mx", out("dst") + read("acc", "left", "left_scale", "right", "right_scale")),
    _modelled("tmatmul_mx_acc"),
    _modelled("tmatmul_mx_bias"),
    _modelled("tgemv"),
    _modelled("tgemv_acc", update("dst") + read("left", "right")),
    _modelled("tgemv_bias"),
    _modelled("tgemv_mx", out("dst") + read("acc", "left", "left_scale", "right", "right_scale")),
    _modelled("tgemv_mx_acc"),
    _modelled("tgemv_mx_bias"),
    _row("tget_scale_addr", "S", out("scales") + read("scaled")),
    _row("setfmatrix", "S", read("src"), NO_OPERANDS),
    _row("set_img2col_rpt", "S", read("src"), NO_OPERANDS),
    _row("set_img2col_padding", "S", read("src"), NO_OPERANDS),
    # scalars, printing
    _row("tgetval", "S", read("src") + number("offset"), in_cpp=False),
    _row("tsetval", "S", update("dst") + number("offset", "value"), in_cpp=False),
    _row("getvalue", "S", read("src") + number("offset"), in_cpp=False),
    _row("setvalue", "S", update("dst") + number("offset", "value"), in_cpp=False),
    _row("tprint", "S", read("src"), read("src") + work()),
    _row("print", "S", number("value"), in_cpp=False),
    _row("trap", "S", NO_OPERANDS, in_cpp=False),
    # pipes between the cores
    _row("tpush", BY_MEMORY, read("tile"), read("tile") + number("core"), NO_OPERANDS),
    _row("tpop", BY_MEMORY, out("tile"), out("tile") + number("core"), NO_OPERANDS),
    _row("tfree", "S", read("tile"), NO_OPERANDS),
    _row("talloc", "S", out("tile"), NO_OPERANDS),
    _row("tpush_to_aiv", BY_MEMORY, read("tile"), in_cpp=False),
    _row("tpush_to_aic", BY_MEMORY, read("tile"), in_cpp=False),
    _row("tpop_from_aiv", BY_MEMORY, out("tile"), in_cpp=False),
    _row("tpop_from_aic", BY_MEMORY, out("tile"), in_cpp=False),
    _row("tfree_from_aiv", "S", NO_OPERANDS, in_cpp=False),
    _row("tfree_from_aic", "S", NO_OPERANDS, in_cpp=False),
    _row("aic_initialize_pipe", "S", NO_OPERANDS, in_cpp=False),
    _row("aiv_initialize_pipe", "S", NO_OPERANDS, in_cpp=False),
    _row("initialize_l2l_pipe", "S", NO_OPERANDS, in_cpp=False),
    _row("initialize_l2g2l_pipe", "S", NO_OPERANDS, in_cpp=False),
    _row("reserve_buffer", "S", out("buffer"), in_cpp=False),
    _row("import_reserved_buffer", "S", NO_OPERANDS, in_cpp=False),
    # order
    _row(
        "syncall",
        "ALL",
        NO_OPERANDS,
        read("workspace"),
        read("workspace") + number("cores"),
        read("workspace") + work(),
        read("workspace") + work() + number("cores"),
    ),
    _row("tsync", "S", NO_OPERANDS, read("src"), read("src0", "src1")),
    _row("get_buf", "S", NO_OPERANDS, in_cpp=False),
    _row("rls_buf", "S", NO_OPERANDS, in_cpp=False),
    # control flow that programs do not have
    _row("scf_while", "S", NO_OPERANDS, in_cpp=False),
    # communication between devices, prefetching
    _row(
        "tput",
        "MTE3",
        UNARY + work("ping"),
        UNARY + work("ping", "pong"),
        UNARY,
    ),
    _row(
        "tget",
        "MTE2",
        UNARY + work("ping"),
        UNARY + work("ping", "pong"),
        UNARY,
    ),
    _row("tput_async", "S", UNARY),
    _row("tget_async", "S", UNARY),
    _row("tnotify", "S", update("signal") + number("value"), update("signal") + number("value", "op")),
    _row("twait", "S", read("signal") + number("value"), read("signal") + number("value", "cmp")),
    _row("ttest", "S", read("signal") + number("value"), read("signal") + number("value", "cmp")),
    _row("tbroadcast", "MTE3", read("src") + work("ping"), read("src") + work("ping", "pong")),
    _row("treduce", "MTE3", out("dst") + work("acc", "ping"), out("dst") + work("acc", "ping", "pong")),
    _row("build_async_session", "S", work("scratch") + update("workspace"), NO_OPERANDS, in_cpp=False),
    _row("wait_async_event", "S", NO_OPERANDS, in_cpp=False),
    _row("test_async_event", "S", NO_OPERANDS, in_cpp=False),
    _row("tprefetch", "MTE2", read("src"), UNARY),
    _row("tprefetch_async", "S", read("src")),
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


ESTIMATE = Cost("estimate")
FROM_L1 = frozenset({TileType.Left, TileType.Right, TileType.Bias, TileType.ScaleLeft, TileType.ScaleRight})


def _kernels(name: str, pipe: str, params: tuple[Param, ...]) -> Iterator[tuple[str, RouteKernel]]:
    for each in PIPES if pipe == BY_MEMORY else (pipe,):
        unit = "S" if each == ALL_PIPES else each
        effects = tuple(Effect(param.name, param.access, unit) for param in params if param.kind != "number")
        before = tuple((other, unit) for other in PIPES if other != unit) if each == ALL_PIPES else ()
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
