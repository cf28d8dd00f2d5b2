"""Edge cases of kernels: enormous numbers, memory that is shared or folded, tensors that differ from their arrays."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.program.ir import Flag, walk
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target import profile

MODES = pytest.mark.parametrize("debug", [False, True])


def flags(kernel: Any, *arrays: Any, target: str = "a2a3") -> set[tuple[str, str]]:
    """The pipe pairs that auto mode orders."""
    program = kernel.trace(kernel.bind(arrays, {}), mode_of(target)).program
    ordered = order(place(program, profile(target)).program, profile(target))
    return {(stmt.src, stmt.dst) for stmt in walk(ordered.body) if isinstance(stmt, Flag)}


def test_an_endless_loop_is_not_tried_iteration_by_iteration() -> None:
    @pto.kernel
    def k(out):
        for i in pto.range(1 << 61):
            tile = pto.Tile("vec", "int32", 1, 8)
            pto.tload(tile, out[i * 8 : i * 8 + 8])

    assert pto.check(k, np.zeros(64, "int32"), grid=8).accepted


def test_numbers_too_large_for_the_arrays_that_try_blocks_are_left_to_the_run() -> None:
    @pto.kernel
    def k(out, far: pto.const):
        b = pto.block_idx()
        n = (b << 62) // (1 << 62)
        first = (n * (b + 1) - n * b) * 8
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 1)
        with pto.when(b + far > 0):
            pto.tstore(out[first : first + 8], tile)

    for far in (1, 1 << 63, 10**400):
        out = np.zeros(32, "int32")
        k[4](out, far)
        assert (out == 1).all()


@MODES
def test_valid_as_a_number_is_what_it_is_at_that_time(debug: bool) -> None:
    @pto.kernel
    def k(out):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 5)
        for i in pto.range(2):
            tile.valid = (1, 4 + i * 4)
            n = tile.valid[1]
            pto.tstore(out[i : i + 1, 0:n], tile)

    out = np.zeros((2, 8), "int32")
    k[1](out, debug=debug)
    assert (out != 0).sum(axis=1).tolist() == [4, 8]


def test_valid_as_a_number_after_its_body_is_refused() -> None:
    @pto.kernel
    def k(flag, out):
        tile = pto.Tile("vec", "int32", 1, 8)
        with pto.when(pto.load_scalar(flag, 0) > 0):
            tile.valid = (1, 4)
        pto.texpands(tile, tile.valid[1])

    with pytest.raises(pto.VerifyError) as refusal:
        k[1](np.zeros(1, "int32"), np.zeros(8, "int32"))
    assert refusal.value.findings[0].rule == "KN-12"


@MODES
def test_a_scalar_of_a_reinterpreted_array_is_its_bits(debug: bool) -> None:
    @pto.kernel
    def k(source, out):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, pto.load_scalar(source, 1))
        pto.tstore(out, tile)

    source, out = np.arange(8, 16, dtype="float32"), np.zeros(8, "int32")
    k[1](pto.GlobalTensor(source, dtype="int32"), out, debug=debug)
    assert (out == source.view("int32")[1]).all()


@pytest.mark.parametrize("given", [{"stride": (4, 1)}, {"shape": (8, 4)}, {"shape": (4, 8), "layout": "dn"}])
def test_a_tensor_that_is_not_its_array_is_sliced_nowhere(given: dict[str, Any]) -> None:
    @pto.kernel
    def k(x):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.tload(tile, x[0:1])

    tensor = pto.GlobalTensor(np.arange(32, dtype="int32").reshape(4, 8), **given)
    with pytest.raises(pto.VerifyError) as refusal:
        k[1](tensor)
    assert refusal.value.findings[0].rule == "KN-10"
    for run in (lambda: tensor[0:1], lambda: k[1](tensor, debug=True)):
        with pytest.raises(TypeError, match="own shape"):
            run()


def test_memory_is_shared_by_way_of_a_third_argument() -> None:
    @pto.kernel
    def k(a, c, b):
        tile = pto.Tile("vec", "int32", 1, 8)
        other = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 1)
        pto.tstore(c[0:8], tile)
        pto.tload(other, b[48:56])
        pto.tstore(a[0:8], other)

    memory = np.zeros(96, "int32")
    assert ("MTE3", "MTE2") in flags(k, memory[0:32], memory[64:96], memory[16:80])
    assert ("MTE3", "MTE2") not in flags(k, *(np.zeros(64, "int32") for _ in range(3)))


def test_an_array_whose_rows_lie_over_one_another() -> None:
    @pto.kernel
    def reads(x, out):
        tile = pto.Tile("vec", "int32", 1, 8)
        for i in pto.range(4):
            pto.tload(tile, x[i : i + 1])
            pto.tstore(out[i : i + 1], tile)

    @pto.kernel
    def writes(x):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 1)
        pto.tstore(x[0:1], tile)

    folded = as_strided(np.arange(20, dtype="int32"), (4, 8), (16, 4))
    out = np.zeros((4, 8), "int32")
    reads[1](folded, out)
    assert (out == folded).all()
    with pytest.raises(pto.VerifyError) as refusal:
        writes[1](folded)
    assert refusal.value.findings[0].rule == "CO-SEM-01"


def test_two_enormous_steps_are_two_iterations() -> None:
    @pto.kernel
    def k(x, out):
        tile = pto.Tile("vec", "int32", 1, 8)
        for i in pto.range(0, 2**60 + 1, 2**60):
            pto.tload(tile, x)
            pto.tstore(out, tile)
            pto.texpands(tile, i >> 60)

    assert {("MTE3", "V"), ("V", "MTE2")} <= flags(k, np.zeros(8, "int32"), np.zeros(8, "int32"))


def test_dynamic_extents_keep_their_mark_in_kernels() -> None:
    @pto.kernel
    def k(table, out):
        idx = pto.Tile("vec", "int32", 1, 8, valid=(1, pto.dyn(4)))
        tile = pto.Tile("vec", "float32", 8, 8)
        pto.texpands(idx, 0)
        pto.mgather(tile, table, idx)
        pto.tstore(out, tile)

    report = pto.check(k, np.zeros((8, 8), "float32"), np.zeros((8, 8), "float32"), target="a2a3")
    assert [finding.kind for finding in report.findings] == ["H-27"]
    header = pto.check(k, np.zeros((8, 8), "float32"), np.zeros((8, 8), "float32"), target="a2a3", header=True)
    assert [finding.level for finding in header.findings] == ["hazard"]


SIZE = 1


def test_a_number_of_the_module_that_changes_is_seen() -> None:
    global SIZE

    @pto.kernel
    def k(out):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, SIZE)
        pto.tstore(out, tile)

    out = np.zeros(8, "int32")
    for SIZE in (1, 2, 1):
        k[1](out)
        assert (out == SIZE).all()


def test_sums_that_double_are_refused_soon() -> None:
    @pto.kernel
    def k(out):
        n = pto.block_idx()
        for _ in range(40):
            n = n + n
        pto.texpands(pto.Tile("vec", "int32", 1, 8), n)

    with pytest.raises(pto.VerifyError, match="operations"):
        k[1](np.zeros(8, "int32"))


def test_many_maxima_are_verified_soon() -> None:
    @pto.kernel
    def k(out):
        b = pto.block_idx()
        first = 0
        for j in range(12):
            first = first + pto.max(b - j, 0)
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 1)
        pto.tstore(out[first : first + 8], tile)

    assert pto.check(k, np.zeros(64, "int32"), grid=2).accepted


def test_branches_do_not_depend_on_assertions() -> None:
    code = """
import linecache, numpy as np, ptokit as pto
source = '''
@pto.kernel
def k(out):
    tile = pto.Tile("vec", "int32", 1, 8)
    pto.texpands(tile, 1)
    with pto.when(pto.block_idx() == 0):
        pto.tstore(out[0:8], tile, atomic="add")
    with pto.otherwise():
        pto.tstore(out[8:16], tile, atomic="add")
'''
linecache.cache["k.py"] = (len(source), None, source.splitlines(True), "k.py")
names = {"pto": pto}
exec(compile(source, "k.py", "exec"), names)
out = np.zeros(16, "int32")
names["k"][2](out)
print(sorted(set(out.tolist())))
"""
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[1]"


def test_a_move_between_cores_hands_over() -> None:
    @pto.kernel
    def k(x, out):
        acc = pto.Tile("acc", "float32", 16, 16)
        left, right = pto.Tile("left", "float16", 16, 16), pto.Tile("right", "float16", 16, 16)
        l1 = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")
        ub = pto.Tile("vec", "float32", 16, 16)
        pto.tload(l1, x)
        pto.tmov(left, l1)
        pto.tmov(right, l1)
        pto.tmatmul(acc, left, right)
        pto.tmov(ub, acc)
        pto.tstore(out, ub)

    report = pto.check(k, np.zeros((16, 16), "float16"), np.zeros((16, 16), "float32"), target="a5")
    assert not [finding for finding in report.findings if finding.rule == "KN-16"]
