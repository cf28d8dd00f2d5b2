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

A call that was recorded with headers states more, `w@S[16x128/256],r@S[1x64/64],n;V-S,S,S-V`: the pipe of each operand,
the bytes that it accesses (rows, their length, and how far they are apart), and the order of work and flags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from ptokit.brief import brief
from ptokit.isa.catalog import variants
from ptokit.isa.common import SCALAR_LAST, certain
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import EVERYWHERE, NPU, Call, Cpp, Destination, Instruction, Param
from ptokit.isa.kernel import ByteRows, Cost, Effect, Handshake, Pair, RouteKernel, full_launch
from ptokit.isa.layout import Layout
from ptokit.isa.move import NOTHING, UNSPECIFIED, Access, Compute, Input
from ptokit.isa.operand import ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.reduce import is_one_step
from ptokit.isa.spelling import TMP, OpText
from ptokit.isa.table import Table
from ptokit.isa.timg2col import IMAGE_FORM, NUMBERS, image_to_columns, load_image
from ptokit.isa.tquant import by_groups

OpaqueKind = Literal["tile", "scaling", "pointer", "memory", "number"]
"""What an operand of a call is; of tiles, whether it lies in the fixpipe buffer, or was given by a pointer."""
OWN_KINDS: dict[str, OpaqueKind] = {
    "fp": "scaling", **dict.fromkeys(("exp", "max", "scaling", "exp_zz", "offset"), "pointer"),
}  # fmt: skip
"""Names of operands that C++ takes as such tiles only."""

NONE = "-"
"""The form without operands."""
BY_MEMORY = ""
"""The pipe of an instruction connects the memories of its operands."""
MOST_OPERANDS = 32
"""Of a form."""
MOST_FORMS = 4096
"""Forms that are kept."""
EXACT = {"getvalue": "r", "setvalue": "wn", "scalar_load": "r", "scalar_store": "wr", "device_load": "r",
         "device_store": "wr", "simt_load": "r", "simt_store": "wr"}  # fmt: skip
"""Accesses of the scalar unit to one element of a tile, and those through pointers, of threads, too: forms that are
modelled. The operand is that element, or what the pointers reach."""
WITH_VALUES: dict[tuple[str, str], Callable[[Call], tuple[Compute, ...]]] = {
    ("timg2col", "wr" + "n" * len(NUMBERS)): image_to_columns, ("tload_image", "wr"): load_image,
    **{(f"tquant_{each}", "wrwww"): by_groups(each) for each in ("ocp", "nv")},
}  # fmt: skip
"""Forms of recordings that are modelled, too."""
AS_RECORDED = "A call in C++, with all numbers that it uses."
UNCACHED = frozenset(("device_load", "device_store"))
"""Those past the cache of the scalar unit, or through lines of it that are cleaned."""
ALIASES = ("treshape", "bitcast")
"""Instructions whose result is a tile of another type on the same bytes."""
ADDRESSES = frozenset(("tget_scale_addr",))
"""Instructions that make a tile lie where another does. C++ records them only if that has no address."""
GRID_BARRIERS = frozenset(("syncall",))
"""Instructions that end, on every core, after all blocks have come to them."""
PUSHES = frozenset(("tpush", "tpop", "tpush_to_aiv", "tpush_to_aic", "tpop_from_aiv", "tpop_from_aic"))
"""Instructions that hand over between the cores, in an order that is not modelled."""
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
_STATED = r"[wursn](?:@(?:S|V|M|MTE1|MTE2|MTE3|FIX)\[\d{1,9}x\d{1,9}/\d{1,9}\])?"
_STEP = r"[A-Z0-9]{1,4}(?:-[A-Z0-9]{1,4})?"
RECORDED = re.compile(rf"{_STATED}(?:,{_STATED})*(?:;{_STEP}(?:,{_STEP}){{,15}})?")
"""The form of a call that was recorded with headers."""


@dataclass(frozen=True)
class RecordedAccess:
    """What a recorded call did with an operand."""

    letter: str
    pipe: str = ""
    rows: ByteRows | None = None

    def __str__(self) -> str:
        if self.rows is None:
            return self.letter
        return f"{self.letter}@{self.pipe}[{self.rows.rows}x{self.rows.length}/{self.rows.pitch}]"

    @classmethod
    def parse(cls, word: str) -> RecordedAccess:
        """The inverse of `str`."""
        letter, _, rest = word.partition("@")
        pipe, _, numbers = rest.partition("[")
        return cls(letter, pipe, ByteRows(*map(int, re.findall(r"\d+", numbers))) if rest else None)


def recorded_form(accesses: Sequence[str], steps: Sequence[str] = ()) -> str:
    """The form that states accesses, and pipes that work and flags between two of them in order."""
    return ",".join(accesses) + (f";{','.join(steps)}" if steps else "")


def _split(form: str) -> tuple[tuple[RecordedAccess, ...], tuple[str, ...]]:
    """The accesses and steps of a form that states them; none for other forms."""
    if "@" not in form:
        return (), ()
    accesses, _, steps = form.partition(";")
    return tuple(map(RecordedAccess.parse, accesses.split(","))), tuple(steps.split(",")) if steps else ()


def letters_of(form: str) -> str:
    """The letters of a form."""
    accesses, _ = _split(form)
    return "".join(access.letter for access in accesses) if accesses else "" if form == NONE else form


@dataclass(frozen=True)
class OpaqueForm:
    """A form of an instruction: the names of its operands, and a letter for each."""

    names: tuple[str, ...]
    letters: str
    recorded: str = ""
    """The same with what headers did."""

    def __post_init__(self) -> None:
        distinct = {name for name in self.names if name.isidentifier()}
        if len(distinct) != len(self.letters) or not set(self.letters) <= set(ACCESS):
            raise ValueError(f"{self.names} of the forms {brief(self.letters)} are no operands")

    @property
    def key(self) -> str:
        """The form as programs have it."""
        return self.recorded or self.letters or NONE

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


UNARY, BINARY = "w:dst r:src", "w:dst r:src0,src1"
MERGES = [f"{written} s r:src0,src1{more}" for written in ("w:dst,executed", "w:dst")
          for more in ("", ",src2", ",src2,src3")]  # fmt: skip


def _form(text: str) -> OpaqueForm:
    """A form as the table writes it: `w:dst r:src0,src1 s`, a letter and names of operands. A workspace without a name
    is the only one."""
    groups = [group.partition(":") for group in text.split() if text != NONE]
    named = [(name, letter) for letter, _, names in groups for name in (names or WORK).split(",")]
    return OpaqueForm(tuple(name for name, _ in named), "".join(letter for _, letter in named))


def _rows(names: str, pipe: str, *forms: str, in_cpp: bool = True) -> Iterator[OpaqueRow]:
    return (OpaqueRow(name, pipe, tuple(map(_form, forms)), in_cpp) for name in names.split())


def _modelled(names: str, *forms: str, pipe: str | None = None) -> Iterator[OpaqueRow]:
    """Modelled instructions: their own forms and those of their variants, without their workspaces and with them; and
    others, which are not modelled. The pipe is that of their kernels, if they have one, unless it is given."""
    for name in names.split():
        definitions = variants(name)
        own = [_own_form(each, has_work) for has_work in (False, True) for each in definitions]
        tables = (table for each in definitions for table in each.kernels.values())
        kernels = (kernel for table in tables for route, kernel in table.items() if "." not in route)
        pipes = {pipe for kernel in kernels for each in kernel.effects for pipe in kernel.pipes_of(each.operand)}
        own_pipe = pipes.pop() if len(pipes) == 1 else BY_MEMORY
        known = dict.fromkeys((*filter(None, own), *map(_form, forms)))
        yield OpaqueRow(name, own_pipe if pipe is None else pipe, tuple(known))


def _own_form(definition: Instruction, has_work: bool) -> OpaqueForm | None:
    """That of a modelled instruction, in the order of C++; None if it has no such form."""
    text = definition.cpp.call or definition.spellings["C++"][0]
    assert isinstance(text, str)
    words = [word.lstrip("&") for word in text.partition("(")[2].partition(")")[0].split(", ") if word]
    params = {param.name: param for param in definition.operands}
    if definition.workspace and TMP not in words:
        words.insert(definition.workspace.position + 1, TMP)
    if (TMP in words) < has_work or not set(words) <= {*params, TMP}:
        return None
    numbers = ("number", "position")
    letters = {name: "n" if param.kind in numbers else LETTERS[param.access] for name, param in params.items()}
    kept = [name for name in words if name != TMP or has_work]
    return OpaqueForm(
        tuple(WORK if name == TMP else name for name in kept), "".join(letters.get(name, "s") for name in kept)
    )


ROWS = (
    # vector arithmetic
    *_rows("taddrelu", "V", BINARY),
    *_modelled("taddc tsubc taddsc tsubsc"),
    *_modelled("taddreluconv tadddeqrelu tsubrelu tsubreluconv tmuladddst tfusedmuladd tfusedmuladdrelu"),
    *_modelled("tprelu txor txors trem trems tfmod tfmods tpow tpows trsqrt"),
    *_rows("tcmps", "V", BINARY),
    *_rows("tcvt", "V", "w:dst r:src s", "w:dst r:src s n:mode", "w:dst r:src s n:mode,saturation"),
    # partial arithmetic
    *_modelled("tpartargmax tpartargmin"),
    # rows and columns
    *_modelled("trowprod"),
    *_modelled("tcolsum", "w:dst r:src s n:is_binary"),
    *_modelled("trowargmax trowargmin tcolargmax tcolargmin", "w:dst,dst_idx r:src s"),
    *_modelled("trowexpandexpdif trowexpandadd trowexpandsub trowexpandmul trowexpanddiv trowexpandmax trowexpandmin"),
    *_modelled("tpairreducesum"),
    # fills, padding, parts
    *_modelled("tfillpad"),
    *_modelled("tfillpad_inplace tfillpad_expand", pipe=BY_MEMORY),
    *_rows(
        "trandom",
        "V",
        "w:dst n:key0,key1,counter0,counter1,counter2,counter3",
        "w:dst r:key,counter",
        "w:dst n:key,counter",
    ),
    *_modelled("tconcat", "w:dst r:src0,src1,src0_idx,src1_idx", "w:dst r:src0,src1 w:dst_idx r:src0_idx,src1_idx"),
    *_modelled("tinterleave"),
    *_modelled("tdeinterleave", "w:dst1,dst0 r:src"),
    *_rows("tpack", "V", UNARY),
    *_rows("treshape", BY_MEMORY, UNARY),
    *_rows("bitcast", BY_MEMORY, UNARY, in_cpp=False),
    *_rows("tsubview", BY_MEMORY, "w:dst r:src n:row,col"),
    *_rows("tinsert", BY_MEMORY, "w:dst r:src n:row,col", UNARY),
    *_rows("textract", BY_MEMORY, "w:dst0,dst1 r:src n:row0,col0,row1,col1", UNARY),
    *_rows("timg2col", "MTE1", "w:dst r:src n:pos_m,pos_k", UNARY, IMAGE_FORM),
    *_rows("tload_image", "MTE2", UNARY, in_cpp=False),
    # sorting, gathering
    *_modelled("tsort32"),
    *_modelled("tmrgsort", *MERGES),
    *_modelled(
        "tgather",
        "w:dst r:src,value w:counts s n:offset",
        "w:dst r:src n:value w:counts s n:offset",
        "w:dst r:src,value w:counts s",
        "w:dst r:src n:value w:counts s",
    ),
    *_modelled("tgatherb"),
    *_rows("tscatter", "V", UNARY),
    *_modelled("thistogram", UNARY),
    # quantisation
    *_modelled("tquant", "w:dst r:src w:exp,max,scaling", "w:dst r:src w:exp,max,scaling,exp_zz"),
    *_rows("tquant_ocp tquant_nv", "V", "w:dst r:src w:exp,max,scaling", in_cpp=False),
    *_modelled("tdequant", "w:dst r:src,scale"),
    *_rows("tmov", BY_MEMORY, "w:dst r:src s"),
    *_rows("set_quant_scalar", "S", "n:scale"),
    *_rows("set_quant_vector", "FIX", "r:fp"),
    # cube
    *_modelled("tmatmul_mx", "w:dst r:acc,left,left_scale,right,right_scale"),
    *_modelled("tmatmul_mx_acc tmatmul_mx_bias tgemv"),
    *_modelled("tgemv_acc", "u:dst r:left,right"),
    *_modelled("tgemv_bias"),
    *_modelled("tgemv_mx", "w:dst r:acc,left,left_scale,right,right_scale"),
    *_modelled("tgemv_mx_acc tgemv_mx_bias"),
    *_rows("tget_scale_addr", "S", "w:scales r:scaled"),
    *_rows("setfmatrix set_img2col_rpt set_img2col_padding", "S", "r:src", NONE),
    # scalars, printing
    *_rows("tgetval", "S", "r:src n:offset", in_cpp=False),
    *_rows("tsetval", "S", "u:dst n:offset,value", in_cpp=False),
    *_rows("getvalue", "S", "r:src n:offset", in_cpp=False),
    *_rows("setvalue", "S", "u:dst n:offset,value", in_cpp=False),
    *_rows("scalar_load device_load", "S", "r:src", in_cpp=False),
    *_rows("scalar_store device_store", "S", "w:dst r:values", in_cpp=False),
    *_rows("simt_load", "V", "r:src", in_cpp=False),
    *_rows("simt_store", "V", "w:dst r:values", in_cpp=False),
    *_rows("tprint", "S", "r:src", "r:src s"),
    *_rows("print", "S", "n:value", in_cpp=False),
    *_rows("trap", "S", NONE, in_cpp=False),
    # pipes between the cores
    *_rows("tpush", BY_MEMORY, "r:tile", "r:tile n:core", NONE),
    *_rows("tpop", BY_MEMORY, "w:tile", "w:tile n:core", NONE),
    *_rows("tfree", "S", "r:tile", NONE),
    *_rows("talloc", "S", "w:tile", NONE),
    *_rows("grid_tpush", "MTE3", "r:tile n:direction,steps,pipe", in_cpp=False),
    *_rows("grid_tpush_span", "MTE3", "r:tile n:span,pipe", in_cpp=False),
    *_rows("grid_tpop", "MTE2", "w:tile n:direction,steps,pipe", in_cpp=False),
    *_rows("tpush_to_aiv tpush_to_aic", BY_MEMORY, "r:tile", in_cpp=False),
    *_rows("tpop_from_aiv tpop_from_aic", BY_MEMORY, "w:tile", in_cpp=False),
    *_rows("tfree_from_aiv tfree_from_aic aic_initialize_pipe aiv_initialize_pipe", "S", NONE, in_cpp=False),
    *_rows("initialize_l2l_pipe initialize_l2g2l_pipe", "S", NONE, in_cpp=False),
    *_rows("reserve_buffer", "S", "w:buffer", in_cpp=False),
    *_rows("import_reserved_buffer", "S", NONE, in_cpp=False),
    # order
    *_rows("syncall", "ALL", NONE, "r:workspace", "r:workspace n:cores", "r:workspace s", "r:workspace s n:cores"),
    *_rows("tsync", "S", NONE, "r:src", "r:src0,src1"),
    *_rows("get_buf rls_buf", "S", NONE, in_cpp=False),
    # control flow that programs do not have
    *_rows("scf_while", "S", NONE, in_cpp=False),
    # communication between devices, prefetching
    *_rows("tput", "MTE3", "w:dst r:src s:ping", "w:dst r:src s:ping,pong", UNARY),
    *_rows("tget", "MTE2", "w:dst r:src s:ping", "w:dst r:src s:ping,pong", UNARY),
    *_rows("tput_async tget_async", "S", UNARY),
    *_rows("tnotify", "S", "u:signal n:value", "u:signal n:value,op"),
    *_rows("twait ttest", "S", "r:signal n:value", "r:signal n:value,cmp"),
    *_rows("tbroadcast", "MTE3", "r:src s:ping", "r:src s:ping,pong"),
    *_rows("treduce", "MTE3", "w:dst s:acc,ping", "w:dst s:acc,ping,pong"),
    *_rows("build_async_session", "S", "s:scratch u:workspace", NONE, in_cpp=False),
    *_rows("wait_async_event test_async_event", "S", NONE, in_cpp=False),
    *_rows("tprefetch", "MTE2", "r:src", UNARY),
    *_rows("tprefetch_async", "S", "r:src"),
)
"""All instructions with their pipes and forms."""


@cache
def opaque_rows() -> dict[str, OpaqueRow]:
    """The table, by name."""
    return {row.name: row for row in ROWS}


def is_in_cpp(name: str, form: str) -> bool:
    """Whether C++ has a call of this form. Others are of texts, or steps of recordings."""
    row = opaque_rows().get(name)
    return (name, form) not in WITH_VALUES and (row is None or row.in_cpp)


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


def form_in_text(row: OpaqueRow | None, outs: Sequence[OpaqueKind], ins: Sequence[OpaqueKind]) -> OpaqueForm:
    """The form of an operation with these destinations and sources: the first of the table, else destinations first."""
    for form in row.forms if row else ():
        if len(form.outs) == len(outs) and form.takes_sources(ins):
            return form
    letters = "w" * len(outs) + "".join("n" if kind == "number" else "r" for kind in ins)
    return OpaqueForm(_generic(letters), letters)


def spelt_form(key: str) -> OpaqueForm:
    """The form that a text states."""
    letters = letters_of(key)
    return OpaqueForm(_generic(letters), letters, key if "@" in key else "")


def unused(name: str, source: DType, attributes: Sequence[tuple[str, str | int]]) -> tuple[int, ...]:
    """The places of operands that a call does not read: a histogram of the highest bytes filters by no others."""
    return (2,) if name == "thistogram" and ("byte", f"byte_{source.size - 1}") in attributes else ()


def _guessed(kinds: Sequence[OpaqueKind]) -> str:
    """The form of an unknown call."""
    target = next((kinds.index(kind) for kind in ("tile", "pointer", "memory") if kind in kinds), None)
    letters = ("n" if kind == "number" else "w" if k == target else "r" for k, kind in enumerate(kinds))
    return "".join(letters) or NONE


def is_form(text: object) -> bool:
    """Whether a text is a form."""
    if not isinstance(text, str) or not 0 < len(text) <= MOST_OPERANDS * (64 if "@" in text else 1):
        return False
    return text == NONE or set(text) <= set(ACCESS) or ("@" in text and RECORDED.fullmatch(text) is not None)


EXTENTS = ("none", "pairs", "valid", "blocks", "tile")
"""How much of a tile a call writes: nothing, a column for each pair of valid ones, the valid region, that in whole
blocks of 32 bytes, all or not known."""
RECORDED_EFFECTS = Path(__file__).parent / "effects.json"
"""What the witness saw written in calls of each form, by family; `python -m tests.witness.opaque` writes it."""


@cache
def recorded_effects() -> dict[str, dict[str, Any]]:
    """For each family: the revision of the public headers, and the extents of each form's operands."""
    return json.loads(RECORDED_EFFECTS.read_text(encoding="utf-8"))


def written_extent(call: Call, name: str) -> str:
    """How much of an operand a call writes, as far as its family's headers showed."""
    names = [param.name for param in call.instruction.operands]
    effects = call.lookup({family: table["effects"] for family, table in recorded_effects().items()}, {})
    known = effects.get(f"{call.instruction.name} {call.instruction.opaque_form}", "").split()
    return known[names.index(name)] if len(known) == len(names) else "tile"


@lru_cache(maxsize=MOST_FORMS)
def opaque(name: str, form: str) -> Instruction:
    """The definition of an instruction in one form. The name need not be in the table."""
    letters, row = letters_of(form), opaque_rows().get(name)
    accesses, steps = _split(form)
    known = next((each.names for each in row.forms if each.letters == letters), None) if row else None
    names = known or _generic(letters)
    params = tuple(_param(*each) for each in zip(names, letters, strict=True))
    pipe = next((each.pipe for each in accesses if each.pipe), row.pipe if row else BY_MEMORY)
    kernels = dict(_kernels(name, pipe, params))
    if accesses:
        kernels = {f"{name}.{pipe}": _recorded_kernel(params, accesses, steps)}
    with_values = WITH_VALUES.get((name, form))
    is_exact = EXACT.get(name) == form or with_values is not None
    lower = _store_element if is_exact and "w" in form else _lowering(params, accesses)
    return Instruction(
        name=name,
        summary=AS_RECORDED if with_values else "Known by its effects only: what it writes has unspecified values.",
        meaning=tuple(f"{param.name} = unspecified" for param in params if param.access != "read" and not with_values),
        operands=params,
        modifiers=(),
        rules=(),
        lower=with_values or lower,
        route=lambda call: f"{name}.{pipe or pipe_of(call)}{_suffix(call)}",
        kernels={family: kernels if accesses else {**kernels, **_own_kernels(family, name, params)} for family in NPU},
        cpp=Cpp(call=f"{name.upper()}({', '.join(names)})"),
        destination=Destination(in_place=Table(dict.fromkeys(EVERYWHERE, True))),
        text=OpText(name=row.op if row else name),
        opaque_form="" if is_exact else form,
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


def _lowering(params: tuple[Param, ...], accesses: tuple[RecordedAccess, ...]) -> Callable[[Call], tuple[Compute, ...]]:
    reads = tuple(param.name for param in params if param.access != "write" and param.kind != "number")
    writes = tuple(param.name for param in params if param.access != "read")
    rows = {param.name: access.rows for param, access in zip(params, accesses, strict=bool(accesses))}

    def lower(call: Call) -> tuple[Compute, ...]:
        inputs = tuple(_input(call, name) for name in reads)
        if not writes and reads:  # nothing is written, and the reads count
            nothing = Access(reads[0], Layout.plain(0, 0))
            return (Compute(UNSPECIFIED, NOTHING, nothing, inputs),)
        return tuple(_output(call, name, rows.get(name), () if k else inputs) for k, name in enumerate(writes))

    return lower


def _store_element(call: Call) -> tuple[Compute, ...]:
    """A number into one element, or values into as many."""
    dst, source = call.instruction.operands
    value = Input(source.name, Layout.plain(0, 0), (1, 1)) if source.kind == "number" else _input(call, source.name)
    return (Compute("copy", value.shape, Access(dst.name, call.values[dst.name].layout), (value,)),)


def _input(call: Call, name: str) -> Input:
    spec = call.values[name]
    return Input(name, spec.layout, spec.valid if isinstance(spec, TileSpec) else spec.extents)


def _output(call: Call, name: str, rows: ByteRows | None, inputs: tuple[Input, ...]) -> Compute:
    """What is written: all of a tile, unless it was recorded how much is. What is behind a tile is an effect."""
    spec = call.values[name]
    if isinstance(spec, TileSpec) and rows is not None and 0 < rows.length <= spec.nbytes:
        size, pitch = spec.dtype.size, max(rows.pitch, 1)
        count = min(rows.rows, (spec.nbytes - rows.length) // pitch + 1)
        if not (rows.length % size or pitch % size):
            return Compute(
                UNSPECIFIED, (count, rows.length // size), Access(name, Layout.plain(pitch // size, 1)), inputs
            )
    if not isinstance(spec, TileSpec):
        shape = spec.extents
    elif written_extent(call, name) == "valid":
        shape = _in_boxes(spec)
    elif written_extent(call, name) == "pairs":
        shape = spec.valid_rows, -(-spec.valid_cols // 2)
    else:
        shape = spec.rows, spec.cols
    return Compute(UNSPECIFIED, shape, Access(name, spec.layout), inputs)


def _in_boxes(spec: TileSpec) -> tuple[int, int]:
    """The valid region; of scales in boxes, whole boxes (a5/TMov.hpp:329)."""
    if spec.format not in ("zz", "nn"):
        return spec.valid
    rows, cols = (-(-size // box) * box for size, box in zip(spec.valid, spec.box, strict=True))
    return min(rows, spec.rows), min(cols, spec.cols)


ESTIMATE = Cost("estimate")
FROM_L1 = frozenset({TileType.Left, TileType.Right, TileType.Bias, TileType.ScaleLeft, TileType.ScaleRight})


def _recorded_kernel(
    params: tuple[Param, ...], accesses: tuple[RecordedAccess, ...], steps: tuple[str, ...]
) -> RouteKernel:
    """The kernel of a call that was recorded with headers."""
    done = [(param, each, each.rows) for param, each in zip(params, accesses, strict=True) if each.rows is not None]
    effects = (Effect(param.name, param.access, each.pipe, lambda _, rows=rows: rows) for param, each, rows in done)
    pipes = tuple(dict.fromkeys([*(step for step in steps if "-" not in step), *(each.pipe for _, each, _ in done)]))
    work = [k for k, step in enumerate(steps) if "-" not in step] or [0]
    before, between, after = map(_flags, (steps[: work[0]], steps[work[0] : work[-1]], steps[work[-1] :]))
    handshake = Handshake(before, pipes, after, between=between)
    return RouteKernel(tuple(effects), handshake=handshake, cost=dict.fromkeys(pipes, ESTIMATE))


def _flags(steps: Sequence[str]) -> tuple[Pair, ...]:
    """The flags among steps."""
    pairs = (step.partition("-") for step in steps if "-" in step)
    return tuple((src, dst) for src, _, dst in pairs)


def _kernels(name: str, pipe: str, params: tuple[Param, ...]) -> Iterator[tuple[str, RouteKernel]]:
    for each in PIPES if pipe == BY_MEMORY else (pipe,):
        unit = "S" if each == ALL_PIPES else each
        effects = tuple(Effect(param.name, param.access, unit) for param in params if param.kind != "number")
        before = tuple((other, unit) for other in PIPES if other != unit) if each == ALL_PIPES else ()
        yield f"{name}.{each}", RouteKernel(effects, handshake=Handshake(before, (unit,)), cost={unit: ESTIMATE})


def _own_kernels(family: str, name: str, params: tuple[Param, ...]) -> dict[str, RouteKernel]:
    """What headers do otherwise than one instruction of the vector unit does. A gather of rows writes one for each of
    the source (TGather.hpp:125). Those of A2/A3 read indices by the scalar pipe (TConcat.hpp:135), scatter by it
    (TScatter.hpp:145), and find positions in columns by two rows of a workspace, which may be longer than its tile
    (TColReduceIdx.hpp:129). A gather by comparison numbers all elements and counts by it, behind the workspace
    (TGather.hpp:167, 281). A number in a tile is read by the scalar pipe (TCmps.hpp:138), which also takes what was
    found in rows out of the workspace (TRowReduceIdxOps.hpp:277)."""
    plain = dict(_kernels(name, "V", params))
    operands = tuple(param.name for param in params)
    if name.startswith("simt_"):
        return {route: replace(kernel, launch=full_launch, launched=operands[0]) for route, kernel in plain.items()}
    if name == "tgather" and operands == ("dst", "src"):
        more = Effect("dst", "write", "V", _rows_of_source)
        return {route: replace(kernel, effects=(*kernel.effects, more)) for route, kernel in plain.items()}
    if (family, name, operands) == ("a2a3", "tscatter", ("dst", "src")):
        effects = tuple(Effect(each.name, each.access, "S") for each in params)
        handshake = Handshake((("V", "S"),), ("S",), (("S", "V"),))
        return {f"{name}.V": RouteKernel(effects, handshake=handshake, cost={"S": ESTIMATE})}
    if family == "a2a3" and name in ("tcolargmax", "tcolargmin") and operands == ("dst", "dst_idx", "src", WORK):
        more = Effect(WORK, "write", "V", _two_steps)
        return {route: replace(kernel, effects=(*kernel.effects, more)) for route, kernel in plain.items()}
    if family == "a2a3" and operands == BY_SCALAR_LAST:
        last = tuple(Effect(each.name, each.access, "V" if each.name == "src" else "S") for each in params)
        found = Effect(WORK, "write", "V")
        cost = dict.fromkeys("VS", ESTIMATE)
        return {
            f"{name}.V": plain[f"{name}.V"],
            f"{name}.V.scalar": RouteKernel((found, *last), handshake=SCALAR_LAST, cost=cost),
        }
    if (family, name, operands[2:5]) == ("a2a3", "tgather", ("value", "counts", WORK)):
        effects = (Effect(each.name, each.access, "S" if each.name == "counts" else "V") for each in params[:5])
        handshake = Handshake(body=("S", "V"), between=(("S", "V"),), each_row=(("V", "S"), ("S", "V")))
        behind, cost = Effect(WORK, "write", "S", _numbers_behind), dict.fromkeys("SV", ESTIMATE)
        return {f"{name}.V": RouteKernel((*effects, behind), handshake=handshake, cost=cost)}
    if (family, name) == ("a2a3", "tcmps"):
        effects = (Effect(each.name, each.access, "S" if each.name == "src1" else "V") for each in params)
        handshake = Handshake((("V", "S"), ("MTE1", "S"), ("MTE2", "S")), ("S", "V"))
        return {f"{name}.V": RouteKernel(tuple(effects), handshake=handshake, cost=dict.fromkeys("SV", ESTIMATE))}
    if (family, name) == ("a2a3", "tconcat") and any(param.name in INDICES for param in params):
        effects = (Effect(each.name, each.access, "S" if each.name in INDICES else "V") for each in params)
        handshake = Handshake((("MTE2", "S"),), ("S", "V"), between=(("S", "V"),))
        return {f"{name}.V": RouteKernel(tuple(effects), handshake=handshake, cost=dict.fromkeys("SV", ESTIMATE))}
    return {}


BY_SCALAR_LAST = ("dst", "dst_idx", "src", WORK)
"""The operands of a search for elements and their positions."""


def _suffix(call: Call) -> str:
    """The end of the route of a search in rows, if a scalar loop takes what was found: of rows longer than a step, and
    into tiles that are no columns (TRowReduceIdxOps.hpp:276, 330)."""
    names = tuple(param.name for param in call.instruction.operands)
    if not call.lookup({"a2a3": call.instruction.name.startswith("trowarg") and names == BY_SCALAR_LAST}, False):
        return ""
    is_column = certain(lambda: call.values["dst"].cols == call.values["dst_idx"].cols == 1 and is_one_step(call))
    return "" if is_column else ".scalar"


def _rows_of_source(call: Call) -> ByteRows:
    """The valid columns of as many rows as the source has valid ones."""
    src, dst = call.src, call.dst
    return ByteRows(src.valid_rows, src.valid_cols * dst.dtype.size, dst.stride * dst.dtype.size)


def _numbers_behind(call: Call) -> ByteRows:
    """The workspace, behind it a number of each element, and the values in the source's type: a step of the vector unit
    for as many as it has (TGather.hpp:281, 287)."""
    src, value = call.src, call.values["value"]
    steps = -(-src.valid_rows * value.dtype.size // 256) * 256
    return ByteRows(1, call.values[WORK].nbytes + src.rows * src.cols * call.dst.dtype.size + steps)


def _two_steps(call: Call) -> ByteRows:
    """Numbers of rows, and the elements found so far: a step of the vector unit each (TColReduceIdx.hpp:129, 253)."""
    width = call.src.valid_cols * call.src.dtype.size
    count = 2 * min(-(-width // 32) * 32, 256)
    return ByteRows(1, count, count)


INDICES = frozenset(("src0_idx", "src1_idx", "dst_idx"))
"""Operands of TCONCAT that the scalar pipe reads and writes."""
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
