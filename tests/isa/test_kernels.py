"""A route is one record: kernels are found by target and route, and only the instructions' files name them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ptokit
import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.kernel import NO_KERNEL, RouteKernel, kernel_of, kernels_of
from ptokit.isa.mgather import MGATHER
from ptokit.isa.operand import ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout, TileType
from ptokit.program.instr_calls import effects
from ptokit.target import PROFILES
from ptokit.target.profile import routes

SOURCE = Path(ptokit.__file__).parent


def test_a_revision_has_its_own_kernels_or_those_of_its_family() -> None:
    own = RouteKernel(reach=lambda call: 7)
    revised = replace(MGATHER, kernels={**MGATHER.kernels, "a5@new": {"mgather.row": own}})
    assert kernel_of(revised, "a5@new", "mgather.row") is own
    assert kernel_of(revised, "a5@old", "mgather.row") is MGATHER.kernels["a5"]["mgather.row"]
    assert kernels_of(revised, "cpu@aicore") == MGATHER.kernels["cpu"]


def test_what_a_target_does_not_have_is_an_empty_kernel() -> None:
    assert kernel_of(MGATHER, "a5", "mgather.row.nz") is NO_KERNEL
    assert kernel_of(INSTRUCTIONS["tadd"], "cpu", "tadd") is NO_KERNEL
    assert not NO_KERNEL.effects


@pytest.mark.parametrize("name", PROFILES)
def test_the_kernels_of_a_target_are_those_of_its_instructions(name: str) -> None:
    here = PROFILES[name]
    assert set(here.kernels) <= routes()
    for route, kernel in here.kernels.items():
        assert here.kernel(route) is kernel


@pytest.mark.parametrize("package", ["machine", "program", "engine", "target"])
def test_only_the_files_of_instructions_name_them(package: str) -> None:
    names = {*INSTRUCTIONS, *routes()}
    for path in (SOURCE / package).rglob("*.py"):
        constants = (n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant))
        assert not {each for each in constants if isinstance(each, str) and each in names}, path


@pytest.mark.clause("A-67", "A-47")
@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("float16", 2), ("float32", 4)])
def test_columns_that_a_row_transfer_writes(kind: str, size: int) -> None:
    """A2/A3 moves whole 32-byte blocks, and every column of an NZ table; A5 writes the valid columns only."""
    idx = TileSpec(dtype("int32"), TileType.Vec, 1, 8, 1, 4)
    plain = TensorSpec(dtype(kind), (1, 1, 1, 9, 96), (864, 864, 864, 96, 1), GlobalLayout.ND)
    for cols in range(1, 97):
        dst = TileSpec(dtype(kind), TileType.Vec, 8, 96, 4, cols)
        call = Call(MGATHER, {"dst": dst, "table": plain, "idx": idx, "scratch": None}, (None,) * 3, "a2a3")
        blocks = len({k * size // 32 for k in range(cols)})
        reach, nz = (kernel_of(MGATHER, "a2a3", route).reach for route in ("mgather.row", "mgather.row.nz"))
        assert reach is not None and nz is not None
        assert reach(call) * size == 32 * blocks
        assert nz(call) == 96
    assert kernel_of(MGATHER, "a5", "mgather.row").reach is None


ON_BOTH = {
    "MTE2": "tload.vec tload.mat texpands.mat tfillpad.mat", "MTE3": "tstore.vec",
    "M": "tmatmul tmatmul_acc tmatmul_bias tgemv tgemv_acc tgemv_bias "
         "tmatmul_mx tmatmul_mx_acc tmatmul_mx_bias tgemv_mx tgemv_mx_acc tgemv_mx_bias",
    "MTE1": "tmov.mat.left tmov.mat.right tmov.mat.bias textract.mat.left textract.mat.right",
    "FIX": "tstore.acc tmov.acc.mat tmov.mat.scaling textract.acc.mat tinsert.acc.mat "
           "tstore_fp.acc tmov_fp.acc.mat tmov_fp.mat.scaling textract_fp.acc.mat tinsert_fp.acc.mat",
}  # fmt: skip
ON_ONE = {
    "a2a3": {
        "S": "mgather.elem mgather.elem.nz mscatter.elem tscatter.row tscatter.flat tci tshl tshr tpow.integers "
             "tpows.integers tdivs.integers ttrans.elements tinsert.vec.vec.element textract.vec.vec.element",
        "S V": "tsels tpow tpows trowargmax.steps trowargmin.steps tconcat.elements tconcat.either",
        "S MTE2": "mgather.row mgather.row.nz mgather.l1.row mgather.l1.elem", "S MTE3": "mscatter.row",
    },
    "a5": {
        "V": "mgather.row mgather.elem mscatter.row mscatter.elem tscatter.row tscatter.flat tci",
        "S": "mgather.elem.scalar tdivs.integers tinsert.vec.vec.element textract.vec.vec.element",
        "S MTE2": "mgather.l1.row mgather.l1.elem", "V MTE2": "mgather.l1.elem.simt",
        "FIX": "tmov.acc.vec tinsert.acc.vec textract.acc.vec tmov_fp.acc.vec tinsert_fp.acc.vec textract_fp.acc.vec",
        "MTE1": "tmov.mat.vec tmov.mat.scale_left tmov.mat.scale_right "
                "textract.mat.scale_left textract.mat.scale_right",
        "MTE3": "tmov.vec.mat tinsert.vec.mat textract.vec.mat",
    },
}  # fmt: skip


@pytest.mark.parametrize("target", ON_ONE)
def test_routes_run_on_the_pipes_that_the_facts_name(target: str) -> None:
    """What moves data is listed; everything else is arithmetic of the vector pipe, and every instruction is there."""
    here = PROFILES[target]
    listed = [*ON_BOTH.items(), *ON_ONE[target].items()]
    expected = {route: set(pipes.split()) for pipes, names in listed for route in names.split()}
    assert expected.keys() <= here.kernels.keys()
    assert {route.partition(".")[0] for route in here.kernels} == INSTRUCTIONS.keys() - {"tassign"}
    for route, kernel in here.kernels.items():
        assert {effect.pipe for effect in kernel.effects} == expected.get(route, {"V"}), route


KINDS = (
    TileSpec(dtype("float32"), TileType.Vec, 16, 16, 16, 16),
    TileSpec(dtype("int32"), TileType.Mat, 1, 16, 1, 16),
    TensorSpec(dtype("float32"), (1, 1, 1, 16, 16), (256, 256, 256, 16, 1), GlobalLayout.ND),
    ScalarSpec(dtype("float32")),
)
"""Operands of every kind, right or wrong."""


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_a_call_without_a_route_has_an_empty_kernel(name: str) -> None:
    """Whatever the operands are, it is known what works for a call: a route's kernel, or nothing."""
    instruction = INSTRUCTIONS[name]
    operands = [param.name for param in instruction.operands]
    others = {param.name: None if param.optional else KINDS[0] for param in instruction.operands}
    for target, kinds in product(PROFILES, product(KINDS, repeat=min(len(operands), 3))):
        specs = others | dict(zip(operands, kinds, strict=False))
        call = Call(instruction, specs, (None,) * len(instruction.modifiers), target)
        kernel, touched = call.route_kernel, effects(call)
        assert call.has_route or (kernel is NO_KERNEL and not touched)


def tile_of(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    return pto.Tile("vec", kind, rows, cols, **options).write(1)


ROUTES: tuple[tuple[str, str, Callable[[], Any]], ...] = (
    ("trowsum.integers", "trowsum", lambda: pto.trowsum(tile_of("int32", 8, 8), tile_of("int32", 8, 8))),
    ("trowmax.step", "trowmax", lambda: pto.trowmax(tile_of("float32", 8, 8), tile_of("float32", 8, 64))),
    ("trowmax", "trowmax", lambda: pto.trowmax(tile_of("float32", 8, 8), tile_of("float32", 8, 72))),
    ("trowargmin.step", "trowargmin", lambda: pto.trowargmin(tile_of("int32", 8, 8), tile_of("float32", 8, 64))),
    ("trowargmin.steps", "trowargmin", lambda: pto.trowargmin(tile_of("int32", 8, 8), tile_of("float32", 8, 72))),
    ("tpows.integers", "tpows", lambda: pto.tpows(tile_of("int16", 8, 16), tile_of("int16", 8, 16), 2)),
    ("tpows", "tpows", lambda: pto.tpows(tile_of("float32", 8, 8), tile_of("float32", 8, 8), 2)),
    ("tdivs.integers", "tdivs.integers", lambda: pto.tdivs(tile_of("int16", 8, 16), tile_of("int16", 8, 16), 2)),
    ("ttrans", "ttrans", lambda: pto.ttrans(tile_of("float32", 8, 16), tile_of("float32", 16, 8))),
    ("ttrans.elements", "ttrans", lambda: pto.ttrans(tile_of("float32", 8, 8), tile_of("float32", 8, 8))),
    ("trowexpand.rows", "trowexpand",
     lambda: pto.trowexpand(tile_of("float32", 8, 8), tile_of("float32", 8, 8, valid=(8, 1)))),
    ("trowexpand", "trowexpand",
     lambda: pto.trowexpand(tile_of("float32", 8, 8), tile_of("float32", 8, 1, blayout="col_major"))),
    ("tor", "tor", lambda: pto.tor(*(tile_of("int8", 8, 32) for _ in range(3)))),
)  # fmt: skip


@pytest.mark.parametrize(("on_a2a3", "on_a5", "call"), ROUTES, ids=[row[0] for row in ROUTES])
def test_a_call_takes_the_way_of_its_headers(on_a2a3: str, on_a5: str, call: Callable[[], Any]) -> None:
    """As the witness shows it (docs/witness.md)."""
    for target, route in (("a2a3", on_a2a3), ("a5", on_a5)):
        with pto.target(target), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert call().route == route
