"""Every rule of the C++ headers is needed on every target that it names: without it there, a kernel is not refused.

The kernels stand in a table by instruction. A finding is identified as in `test_rules_by_target.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from tests.conformance.harness import findings_of, header_rules_of, identities, without_header_rule
from tests.text.test_cpp import emitted

Tiles = Mapping[str, str]
"""Names of tiles, with the arguments after their memory."""


def vectors(call: str, **tiles: str) -> str:
    """A kernel of one call over tiles in UB that are filled with ones; a tile named `_x` is only declared."""
    made = [f"{name.strip('_')} = pto.Tile('vec', {text})" for name, text in tiles.items()]
    filled = [f"pto.texpands({name}, 1)" for name in tiles if not name.startswith("_")]
    return "\n".join([*made, *filled, f"pto.{call}"])


def scatter(kind: str, words: str, *, row: bool = False) -> str:
    index = "'int32', 1, 8" if row else "'int32', 8, 64"
    return vectors(f"mscatter(x, t, i, {words})", t=f"'{kind}', 8, 64", i=index)


def elements(call: str, kind: str, **more: str) -> str:
    """A call over three tiles of one type."""
    return vectors(call, **dict.fromkeys("abc", f"'{kind}', 8, 64"), **more)


def row_expansion(call: str, kind: str) -> str:
    size = pto.dtype(kind).size
    return vectors(f"{call}(c, a, b)", a=f"'{kind}', 8, 64", b=f"'{kind}', 8, {32 // size}", c=f"'{kind}', 8, 64")


def column_expansion(call: str, kind: str, *, first: bool = False) -> str:
    a, b = ("1, 64", "8, 64") if first else ("8, 64", "1, 64")
    return vectors(f"{call}(c, a, b)", a=f"'{kind}', {a}", b=f"'{kind}', {b}", c=f"'{kind}', 8, 64")


def to_cube(loc: str, valid: str = "") -> str:
    mat = "blayout='col_major', slayout='row_major'"
    return (
        f"a = pto.Tile('mat', 'float16', 32, 32, {mat}, valid=(16, 16))\n"
        f"b = pto.Tile('{loc}', 'float16', 16, 16, {valid})\n"
        "pto.tload(a, x[0:16, 0:16])\npto.tmov(b, a)"
    )


def product(name: str) -> str:
    """A product of 8-bit floats."""
    more = {"acc": ("c, ", ""), "bias": ("", ", d")}.get(name.partition("_")[2], ("", ""))
    rows, valid = ("1", ", valid=(1, 32)") if name.startswith("tgemv") else ("32", "")
    tiles = {"a": f"'left', 'float8_e5m2', {rows}, 32", "b": "'right', 'float8_e5m2', 32, 32",
             "c": f"'acc', 'float32', 32, 32{valid}"}  # fmt: skip
    made = [f"{each} = pto.Tile({text})" for each, text in tiles.items()]
    return "\n".join([*made, "d = pto.Tile('bias', 'float32', 1, 32)", f"pto.{name}(c, {more[0]}a, b{more[1]})"])


PRODUCTS = [f"{name}{more}" for name in ("tmatmul", "tgemv") for more in ("", "_acc", "_bias")]
BITS, WORDS = "'uint8', 8, 32, valid=(8, 8)", "'uint32', 8, 32, valid=(8, 2)"
COLUMNS = [name for name in INSTRUCTIONS if name.startswith("tcolexpand") and name != "tcolexpand"]
ROWS = [name for name in INSTRUCTIONS if name.startswith("trowexpand") and name != "trowexpand"]
LONGS, LONG_BITS = "'int64', 8, 128", "'uint32', 8, 32, valid=(8, 4)"
LONG_SCALARS = ["tadds", "tsubs", "tmuls", "tmaxs", "tmins", "tshls", "tshrs", "trems"]
LONG_PAIRS = ["tdiv", "trem", "tpartadd", "tpartmax", "tpartmin"]
LONG_ROW, LONG_COLUMN = "'int64', 1, 128", "'int64', 8, 4, valid=(8, 1)"
POSITIONS = ("tcolargmax", "tcolargmin")
SHORT_INDEX = {"t": "'int16', 8, 64", "w": "'int16', {}, 64", "i": "'int16', {}, 64, valid=(8, 64)"}


def short(dst: int, idx: int) -> str:
    """A scatter by row with 16-bit indices, over tiles of some rows."""
    return vectors("tscatter(w, t, i)", **{name: text.format(dst if name == "w" else idx)
                                           for name, text in SHORT_INDEX.items()})  # fmt: skip


KERNELS: dict[str, list[str]] = {
    "mscatter": [
        scatter("uint32", "atomic='add'"),
        scatter("float32", "atomic='max'"),
        scatter("float32", "atomic='min'"),
        scatter("float32", "atomic='max', coalesce='row'", row=True),
    ],
    "tscatter": [
        short(520, 8),
        short(8, 520),
        vectors("tscatter(t, t, i)", t="'int32', 8, 64", i="'int32', 8, 64"),
        vectors("tscatter(w, t, i)", i="'int32', 8, 96", **dict.fromkeys("wt", "'int64', 8, 96")),
        vectors("tscatter(w[0:8], t, i)", w="'int32', 16, 64", t="'int32', 8, 64", i="'int32', 8, 64"),
    ],
    "tload": [
        "t = pto.Tile('vec', 'float8_e5m2', 8, 64)\npto.tload(t, e)",
        "t = pto.Tile('vec', 'int8', 4096, 32)\npto.tload(t, y)",
        "t = pto.Tile('vec', 'float32', 8, 64)\npto.tload(t[0:4, 0:32], x[0:4, 0:32])",
        "t = pto.Tile('vec', 'int8', 16, 32)\npto.tload(t, z)",
        "t = pto.Tile('mat', 'float32', 8, 16, slayout='none_box', valid=(8, 12))\npto.tload(t, x[0:8, 0:12])",
    ],
    "tstore": [
        "t = pto.Tile('vec', 'float8_e5m2', 8, 64)\npto.tload(t, e)\npto.tstore(e, t)",
        "t = pto.Tile('vec', 'int8', 16, 32)\npto.texpands(t, 1)\npto.tstore(z, t)",
    ],
    "tstore_fp": [
        "t = pto.Tile('acc', 'float32', 16, 32)\nf = pto.Tile('scaling', 'uint64', 1, 32)\npto.tstore_fp(z, t, f)",
    ],
    "tmov": [
        vectors("tmov(c, a)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 8, 64"),
        to_cube("left"),
        to_cube("left", valid="valid=(9, 16)"),
    ],
    **{name: [product(name)] for name in PRODUCTS},
    "textract": [
        elements("textract(c, a, 0, 0)", "uint8"),
        vectors("textract(c, a, 0, 0)", a="'float32', 8, 64", c="'float32', 16, 64, valid=(8, 64)"),
    ],
    "tabs": [vectors("tabs(c, a)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 8, 64")],
    "tpairreducesum": [vectors("tpairreducesum(c, a)", a="'float32', 8, 64", c="'float32', 8, 64")],
    "tadd": [vectors("tadd(c, a, a)", a="'float32', 8, 64", c="'float32', 16, 64, valid=(8, 64)")],
    "tgather": [
        elements("tgather(c, a, i)", "float32", i="'int16', 8, 64"),
        vectors("tgather(c, a, i)", a=LONGS, c=LONGS, i="'int32', 8, 128"),
        elements("tgather(c, a, i)", "int8", i="'int32', 8, 64"),
    ],
    "trowsum": [
        vectors("trowsum(c, a)", a="'uint32', 8, 64", _c="'uint32', 8, 8, valid=(8, 1)"),
        vectors("trowsum(c, a)", a="'float32', 16, 64, valid=(8, 64)", _c="'float32', 8, 8, valid=(8, 1)"),
        vectors("trowsum(c, a)", a="'uint8', 8, 64", _c="'uint8', 8, 32, valid=(8, 1)"),
        vectors("trowsum(c, a)", a=LONGS, _c=LONG_COLUMN),
    ],
    "tgather_mask": [vectors("tgather_mask(c, a, pattern='p1010')", a="'int64', 8, 64", c="'int64', 8, 32")],
    "tcmp": [
        elements("tcmp(m, a, b, 'lt')", "int32", m=BITS),
        elements("tcmp(m, a, b)", "int16", m=BITS),
        elements("tcmp(m, a, b, 'ne')", "float32", m="'uint16', 8, 32, valid=(8, 4)"),
        elements("tcmp(m, a, b)", "int64", m=WORDS),
        vectors("tcmp(m, a, b)", a=LONGS, b=LONGS, m=LONG_BITS),
        vectors("tcmp(m, a, b)", a="'float32', 8, 64", b="'float32', 8, 128, valid=(8, 64)", m=WORDS),
        elements("tcmp(m, a, b)", "float32", m="'uint16', 8, 32, valid=(8, 4)"),
    ],
    "tcmps": [
        vectors("tcmps(m, a, 1, 'lt')", a="'int32', 8, 64", m=BITS),
        vectors("tcmps(m, a, 1.0)", a="'float32', 8, 64", m=BITS),
        vectors("tcmps(m, a, 1.0, 'ne')", a="'float32', 8, 64", m="'uint16', 8, 32, valid=(8, 4)"),
        vectors("tcmps(m, a, 1)", a="'int16', 8, 64", m=BITS),
        vectors("tcmps(m, a, 1)", a=LONGS, m=LONG_BITS),
    ],
    **{name: [vectors(f"{name}(c, a, 1)", a=LONGS, c=LONGS)] for name in LONG_SCALARS},
    **{name: [vectors(f"{name}(c, a, a)", a=LONGS, c=LONGS)] for name in LONG_PAIRS},
    **{name: [elements(f"{name}(c, a, b, b)", "int32")] for name in ("taddc", "tsubc")},
    **{name: [elements(f"{name}(c, a, 1, b)", "int32")] for name in ("taddsc", "tsubsc")},
    "tneg": [vectors("tneg(c, a)", a=LONGS, c=LONGS)],
    "texpands": [vectors("texpands(c, 1)", c=LONGS)],
    "ttri": [vectors("ttri(c, 0)", c=LONGS)],
    **{name: [vectors(f"{name}(c, a)", a=LONGS, _c=LONG_COLUMN)] for name in ("trowmax", "trowmin")},
    "tcolmin": [vectors("tcolmin(c, a)", a=LONGS, c=LONG_ROW)],
    "trowexpand": [vectors("trowexpand(c, a)", a=LONG_COLUMN, c=LONGS)],
    "tcolexpand": [vectors("tcolexpand(c, a)", a=LONG_ROW, c=LONGS)],
    **{name: [vectors(f"{name}(i, a)", a="'uint32', 8, 64", i="'int32', 1, 64")] for name in POSITIONS},
    "tsel": [
        elements("tcmp(m, a, b)\npto.tsel(c, m, a, b)", "float32", m="'uint8', 8, 32, valid=(8, 32)"),
        vectors("tsel(c, m, a, a)", a="'float32', 1, 32", c="'float32', 1, 32", m="'uint32', 1, 8, valid=(1, 1)"),
        vectors("tsel(c, m, a, c)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 8, 64", m=BITS),
        vectors("tsel(c, m, a, c)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 8, 64", m=WORDS),
        vectors("tsel(c, m, a, a)", a=LONGS, c=LONGS, m=LONG_BITS),
    ],
    "tsels": [
        elements("tsels(c, m, a, 1)", "bfloat16", m=WORDS),
        vectors("tsels(c, m, a, 1)", a=LONGS, c=LONGS, m=LONG_BITS),
    ],
    "tdivs": [
        vectors("tdivs(c, a, 3)", a="'int32', 8, 64", c="'int32', 8, 64"),
        vectors("tdivs(c, a, 3)", a=LONGS, c=LONGS),
    ],
    "tcvt": [
        elements("tcvt(c, a, 'floor')", "float32"),
        vectors("tcvt(i, a, 'odd')", a="'float32', 8, 64", i="'int32', 8, 64"),
        vectors("tcvt(h, a, 'floor')", a="'float32', 8, 64", h="'float16', 8, 64"),
    ],
    "tcolsum": [
        vectors("tcolsum(c, a)", a="'int32', 8, 64", c="'int32', 1, 64"),
        vectors("tcolsum(c, a)", a=LONGS, c=LONG_ROW),
        vectors("tcolsum(c, a)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 1, 64"),
    ],
    "tcolmax": [
        vectors("tcolmax(c, a)", a="'int32', 8, 64", c="'int32', 1, 64"),
        vectors("tcolmax(c, a)", a=LONGS, c=LONG_ROW),
        vectors("tcolmax(c, a)", a="'float32', 8, 128, valid=(8, 64)", c="'float32', 1, 64"),
    ],
    **{name: [row_expansion(name, kind) for kind in ("int8", "uint8", "int64", "bfloat16")] for name in ROWS},
    **{
        name: [
            *(column_expansion(name, kind) for kind in ("int8", "bfloat16")),
            column_expansion(name, "float32", first=True),
        ]
        for name in COLUMNS
    },
}
"""By instruction: kernels that a target takes and its headers do not."""


def arguments(body: str) -> dict[str, Any]:
    """The arrays that a kernel names."""
    kind = body.split("'")[3] if "mscatter" in body else "float16" if "float16" in body else "float32"
    given = {
        "x": np.zeros((32, 64), kind),
        "e": np.zeros((8, 64), ml_dtypes.float8_e5m2),
        "y": np.zeros((4096, 32), "int8"),
        "z": np.zeros((2, 1, 1, 16, 32), "int8"),
    }
    used = {name for name in given if any(text in body for text in (f"{name}[", f"{name})", f"({name},"))}
    return {name: array for name, array in given.items() if name in used}


def refused(body: str, target: str) -> list[pto.Finding]:
    """The findings that stop the emission of a kernel; none where it is emitted."""
    try:
        emitted(body, target, **arguments(body))
    except pto.VerifyError as stop:
        return findings_of(stop)
    return []


def is_proved(instruction: Instruction, k: int, target: str) -> bool:
    """Whether a kernel is refused by the rule, and without the rule is not."""
    rule = header_rules_of(instruction)[k]
    for body in KERNELS.get(instruction.name, ()):
        if before := identities(refused(body, target), instruction.name, rule, target):
            with without_header_rule(instruction, k, target):
                if before - identities(refused(body, target), instruction.name, rule, target):
                    return True
    return False


NAMES = [name for name, instruction in INSTRUCTIONS.items() if header_rules_of(instruction)]


@pytest.mark.clause("CP-HDR-01")
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_of_the_headers_is_needed_on_every_target(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    unproved = [
        (name, k, rule.id, rule.operand, target)
        for k, rule in enumerate(header_rules_of(instruction))
        for target in rule.on
        if not is_proved(instruction, k, target)
    ]
    assert unproved == []
