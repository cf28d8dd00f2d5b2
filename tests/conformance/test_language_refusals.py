"""Every statement that refuses a kernel by a clause of the language is needed.

Each statement of `lang/`, and each of `program/` and `engine/`, that names a clause KN-nn or SL-nn is left out in turn.
Some code must then lose its finding: the same clause, operand and message.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.finding import Finding
from ptokit.machine.report import MachineReport
from tests.conformance.harness import compiled, findings_of, forget
from tests.conformance.sites import Site, sites, without
from tests.conformance.test_shared_checks import ARRAYS
from tests.lang.test_kernel_mistakes import MISTAKES

SITES = sites(("lang", "program", "engine/frame.py", "engine/interpreter.py"), r"(KN|SL)-\d+")

KERNEL = "@pto.kernel(mode={mode!r})\ndef k({given}):\n{body}\nk[1]({launch}, debug={debug})\n"


def kernel(body: str, launch: str = "x", *, given: str = "x", mode: str = "auto", debug: bool = False) -> str:
    """A kernel and its launch."""
    text = KERNEL.format(body=indent(dedent(body), "    "), given=given, launch=launch, mode=mode, debug=debug)
    return f"import operator\n{ARRAYS}{text}"


TEXT = """
func.func @k(%p: !pto.ptr<f32>, %n: index, %f: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %p, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x8xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  pto.texpands ins(%f : f32) outs(%t : !pto.tile_buf<vec, 8x8xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 8x8xf32>) outs(%o : !pto.partition_tensor_view<8x8xf32>)
  return
}
"""


MOVING = """
func.func @k(%mem: !pto.ptr<i32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %one = arith.constant 1 : i32
  %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
  pto.texpands ins(%one : i32) outs(%t : !pto.tile_buf<vec, 1x8xi32>)
  %i = pto.get_block_idx
  %at = arith.index_cast %i : i64 to index
  %p = pto.addptr %mem, %at : !pto.ptr<i32> -> !pto.ptr<i32>
  %row = pto.make_tensor_view %p, shape = [%c8], strides = [%c1] : !pto.tensor_view<?xi32>
  %w = pto.partition_view %row, offsets = [%c0], sizes = [%c8]
    : !pto.tensor_view<?xi32> -> !pto.partition_tensor_view<8xi32>
  pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xi32>) outs(%w : !pto.partition_tensor_view<8xi32>)
  return
}
"""


CPP = Path(__file__).with_name("refused.cpp")


def loaded(launch: str, text: str | Path = TEXT, grid: int = 1) -> str:
    """A kernel from text or C++, and its launch. C++ is a file, which is compiled once."""
    if isinstance(text, Path):
        return f"pto.load({str(text)!r})[{grid}]({launch})\n"
    return (
        "import pathlib, tempfile\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        f"    file = pathlib.Path(folder, 'k.pto')\n"
        f"    file.write_text({text!r})\n"
        f"    pto.load(file)[{grid}]({launch})\n"
    )


IN_A_BODY = """
kept = [0]
for i in pto.range(2):
    operator.setitem(kept, 0, {})
{}
"""
MANY = """
from ptokit.lang import tracer
most, tracer.MOST_STATEMENTS = tracer.MOST_STATEMENTS, 8
try:
    {}
finally:
    tracer.MOST_STATEMENTS = most
"""
LOOP = """
    @pto.kernel
    def k(x):
        for _ in range(9):
            pto.texpands(pto.Tile('vec', 'float32', 1, 8), 0)
"""
OUTSIDE = kernel("kept.append(pto.Tile('vec', 'float32', 1, 8))").replace("@pto", "kept = []\n@pto")
NEST = "def nest(n):\n    for i in pto.range(1):\n        nest(n - 1) if n else None\n"
WHOLE = "np.zeros(64, 'float32')"
NZ = "blayout='col_major', slayout='row_major'"
HANDED = f"""
ub, l1 = pto.Tile('vec', 'float32', 16, 64), pto.Tile('mat', 'float32', 16, 64, {NZ})
pto.tload(ub, x[0:16])
pto.tstore(out[0:16], ub)
pto.tload(l1, out[0:16])
"""
CROSSING = "pto.set_flag('FIX', 'V', 0)\npto.wait_flag('FIX', 'V', 0)"
NO_FLAGS = """
from ptokit.program import order
kept, order.CROSS_USER_IDS = order.CROSS_USER_IDS, 0
try:
{}
finally:
    order.CROSS_USER_IDS = kept
"""
SIMT = f"""
l1 = pto.Tile('mat', 'float32', 16, 16, addr=0, {NZ})
pto.mgather(l1, x[0:64, 0:16], y, coalesce='elem', oob='zero', scratch=z, executor='simt')
pto.sync_set('AIC.MTE2', 2)
pto.sync_wait('V', 2)
"""
UNBOUND = "pto.texpands(pto.Tile('vec', 'float32', 1, 8), 0)"
FOREIGN = """
from ptokit.lang.loaded import TextKernel
from ptokit.program.ir import CrossFlag, Program
TextKernel(Program('k', (), (CrossFlag('set', 'AIC', 'V', 0),), mode='manual'))[1]()
"""
"""A flag that states a core and a pipe of the other one, as texts and C++ may."""
BY_LENGTH = """
@pto.kernel
def k(x):
    tile = pto.Tile('vec', 'float32', 8, 16)
    pto.tload(tile, x[0:8] if x.shape[0] == 1009 else x[8:16])
    pto.tstore(x[0:8], tile)
raise pto.VerifyError(pto.prove(k, pto.shaped('float32', 'n', 16), target='a5').findings)
"""
OF_TEXT = "raise pto.VerifyError(pto.prove(pto.load(file), pto.shaped('float32', 'n'), 1, 1.0, target='a5').findings)"
MORE = [
    BY_LENGTH,
    loaded("").replace("pto.load(file)[1]()", OF_TEXT),
    kernel(CROSSING, "x, engine='machine'", mode="manual").replace("k[1](", "report = k[1]("),
    kernel(UNBOUND, "x, engine='machine'", mode="manual").replace("k[1](", "report = k[1]("),
    kernel("pto.sync_set('FIX', 12)\npto.sync_wait('V', 12)", mode="manual"),
    kernel("pto.sync_set('M', 0)\npto.sync_wait('V', 0)", mode="manual"),
    FOREIGN,
    kernel(
        SIMT, "x[:, 0:16].copy(), np.zeros((16, 16), 'int32'), np.zeros(256, 'float32')", given="x, y, z", mode="manual"
    ),
    NO_FLAGS.format(indent(kernel(HANDED, "x, out, engine='machine'", given="x, out"), "    ")),
    kernel("pass", "object()"),
    kernel("getattr(pto, 'otherwise')().__enter__()"),
    kernel("nest(33)").replace("@pto", NEST + "@pto"),
    kernel("for i in pto.range(64 // n):\n    pass", "0, engine='reference'", given="n"),
    loaded("np.zeros(10, 'int32')", MOVING, 4),
    kernel("pto.load_scalar(x, 0)", "pto.GlobalTensor(lens, shape=(2, 2))"),
    kernel("pto.load_scalar(kept, 0)", "x").replace("@pto", "kept = pto.GlobalTensor(lens)\n@pto"),
    kernel("pto.load_scalar(x, 9)", "lens", debug=True),
    kernel("pto.block_idx().valid", "x"),
    kernel("y = 2 ** pto.block_idx()", "x"),
    kernel(IN_A_BODY.format("pto.Tile('vec', 'float32', 1, 8)", "pto.texpands(kept[0], 0)")),
    kernel(IN_A_BODY.format("x[i:i + 1, 0:8]", "pto.tload(pto.Tile('vec', 'float32', 1, 8), kept[0])")),
    kernel("tile = pto.Tile('vec', 'float32', 8, 8, addr=0)\npto.tassign(tile[0:4], 64)", mode="manual"),
    OUTSIDE + "pto.texpands(kept[0], 0)\n",
    MANY.format(LOOP.strip() + "\n    k[1](np.zeros(8, 'float32'))"),
    loaded("np.zeros(63, 'float32'), 1, 1.0"),
    loaded("np.zeros((4, 16), 'float32'), 1, 1.0"),
    loaded("5, 1, 1.0"),
    loaded("np.zeros(64, 'int32'), 1, 1.0"),
    loaded(f"{WHOLE}, 1.5, 1.0"),
    loaded(f"{WHOLE}, 1, 'one'"),
    loaded("np.zeros((8, 8), 'float32')[:, ::2], 1", CPP),
    loaded("np.zeros(64, 'int32'), 1", CPP),
    loaded(f"{WHOLE}, 1.5", CPP),
]
"""Code beside the examples and the mistakes."""
Said = tuple[str, str, str]


def run(code: str) -> list[Finding]:
    """Every finding that some code makes."""
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": "a5"}
    found: list[Finding] = []
    with pto.target("a5") as here, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(compiled.__wrapped__(code, "a5"), names)  # read anew: what was found of the source is kept with it
        except Exception as stop:
            found = [finding for finding in findings_of(stop) if isinstance(finding, Finding)]
        found += here.findings
    found += [finding for warning in warned for finding in findings_of(warning.message)]  # type: ignore[arg-type]
    report = names.get("report")
    return [*found, *(report.findings if isinstance(report, MachineReport) else ())]


def said(code: str) -> frozenset[Said]:
    return frozenset((finding.rule, finding.operand, finding.message) for finding in run(code))


@contextmanager
def watched(seen: set[Site]) -> Iterator[None]:
    """Within, the sites that make findings are collected."""
    make = Finding.__init__
    by_file: dict[str, list[Site]] = {}
    for site in SITES:
        by_file.setdefault(site.path, []).append(site)

    def look(self: Finding, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        frame = sys._getframe(1)
        while frame is not None:
            for site in by_file.get(frame.f_code.co_filename, ()):
                if site.line <= frame.f_lineno <= site.last and site.clause == self.rule:
                    seen.add(site)
            frame = frame.f_back

    Finding.__init__ = look
    forget()  # a call that is known makes no new finding
    try:
        yield
    finally:
        Finding.__init__ = make


def samples() -> Iterator[str]:
    """Code that the language refuses."""
    yield from MORE
    yield from (ARRAYS + mistake.code for mistake in MISTAKES.values())
    for name, example in spec.examples().items():
        if name.startswith(("KN-", "SL-")) or example.rule.startswith(("KN-", "SL-")):
            yield from example.breaks


@cache
def reaching() -> dict[Site, dict[str, frozenset[Said]]]:
    """The code that makes a finding at each site, and all that is said of it."""
    found: dict[Site, dict[str, frozenset[Said]]] = {site: {} for site in SITES}
    for code in samples():
        seen: set[Site] = set()
        with watched(seen):
            before = said(code)
        for site in seen:
            found[site][code] = before
    return found


@pytest.mark.parametrize("site", SITES, ids=str)
def test_every_refusal_is_needed(site: Site) -> None:
    reached = reaching()[site]
    assert reached, "no code is refused here"
    for code, before in reached.items():
        forget()
        with without(site):
            after = said(code)
        forget()
        if any(rule == site.clause for rule, _, _ in before - after):
            return
    pytest.fail("without it, all code is refused in the same words")
