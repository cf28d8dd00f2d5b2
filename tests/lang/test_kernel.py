"""Kernels: traced once for a signature, launched over a grid, the same bits in debug runs and in manual mode."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests import snippet

TARGETS = ("cpu", "a2a3", "a5")
WAYS = [(target, debug) for target in TARGETS for debug in (False, True)]
"""Every target, as a program and with real values."""
every_way = pytest.mark.parametrize(("target", "debug"), WAYS)

Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def zeros(*shape: int, dtype: str = "float32") -> Array:
    return np.zeros(shape, dtype)


TRACED: list[object] = []
"""What was traced, in order."""


@pto.kernel
def scale(x, out, add, factor: pto.const = 2, *, rows: pto.const = 4):
    """Multiply and add, some rows a block."""
    TRACED.append((factor, rows))
    start = pto.block_idx() * rows
    n = pto.min(rows, x.shape[0] - start)
    tile = pto.Tile("vec", x.dtype, rows, x.shape[1], valid=(n, x.shape[1]))
    pto.tload(tile, x[start : start + n])
    pto.tmuls(tile, tile, factor)
    pto.tadds(tile, tile, add)
    pto.tstore(out[start : start + n], tile)


@pytest.fixture(autouse=True)
def nothing_traced() -> None:
    TRACED.clear()
    scale._reads = None  # nothing that was traced is valid


# Tracing


def test_a_kernel_is_traced_once_for_a_signature() -> None:
    x, out = floats(10, 16), zeros(10, 16)
    for add in range(5):
        scale[3](x, out, add)
        assert (out == 2 * x + add).all()
    scale[7 // 2](x + 1, zeros(10, 16), 3)
    assert TRACED == [(2, 4)]


@pto.kernel
def add_rows(table, src, ids):
    rows, lanes = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    pto.tload(rows, src)
    pto.tload(lanes, ids)
    pto.mscatter(table, rows, lanes, coalesce="row", atomic="add")


def test_launches_with_remarks_are_cached_and_report_them_again() -> None:
    table, src, ids = zeros(9, 16), floats(8, 16), np.arange(8, dtype="int32")[None]
    found = [[each.rule for each in add_rows[1](table, src, ids, target="a5").findings] for _ in range(3)]
    assert found == [["MS-HAZ-04"]] * 3 and len(add_rows.cached) == 1
    assert (table[:8] == 3 * src).all()


@pytest.mark.parametrize(
    "change",
    [
        {"x": floats(12, 32), "out": zeros(12, 32)},
        {"x": floats(11, 16), "out": zeros(11, 16)},
        {"x": floats(12, 16).astype("int32"), "out": zeros(12, 16, dtype="int32")},
        {"x": floats(12, 32)[:, :16]},
        {"factor": 3},
        {"factor": 2.0},
        {"rows": 5},
        {"target": "a5"},
    ],
    ids=lambda change: ", ".join(change),
)
def test_whatever_the_program_depends_on_traces_again(change: dict[str, Any]) -> None:
    first = {"x": floats(12, 16), "out": zeros(12, 16), "add": 1}
    for given in (first, {**first, **change}, first):
        scale[3](**given)
        assert (given["out"] == given.get("factor", 2) * given["x"] + 1).all()
    assert len(TRACED) == 2


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), ((1,), (1.0,)), ((True,), (1,))])
def test_equal_constants_of_different_types_are_distinct(one: object, other: object) -> None:
    @pto.kernel
    def fill(out, value: pto.const):
        number = value if isinstance(value, float) else len(str(value))
        tile = pto.Tile("vec", "float32", 1, 8)
        pto.texpands(tile, number)
        pto.tstore(out, tile)

    outs = zeros(1, 8), zeros(1, 8)
    for out, value in zip(outs, (one, other), strict=True):
        fill[1](out, value)
    assert outs[0].tobytes() != outs[1].tobytes()


def test_arguments_by_position_by_name_and_by_default() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    for launch in (
        lambda: scale[1](x, out, 1, 3),
        lambda: scale[1](x, add=1, factor=3, out=out),
        lambda: scale[1](out=out, x=x, factor=3, rows=4, add=1),
    ):
        out[:] = 0
        launch()
        assert (out == 3 * x + 1).all()
    assert len(TRACED) == 1


ANNOTATED = """
import ptokit
from ptokit import const as fixed

@pto.kernel
def k(out, a: pto.const, b: ptokit.const, c: fixed, d: int):
    assert (a, b, c) == (1, "two", (3.0, 4))
    assert not isinstance(d, int)
    tile = pto.Tile("vec", "int32", 1, 8)
    pto.texpands(tile, d)
    pto.tstore(out, tile)

k[1](out, 1, "two", (3.0, 4), 5)
"""


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n"])
def test_constants_are_known_by_their_annotation(first: str) -> None:
    out = zeros(1, 8, dtype="int32")
    exec(snippet.compiled(first + ANNOTATED, f"annotated {len(first)}"), {"pto": pto, "out": out})
    assert (out == 5).all()


def test_numbers_of_numpy_and_element_types_are_constants() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    scale[1](x, out, 0, np.float32(0.5), rows=np.int64(4))
    assert (out == x / 2).all()

    @pto.kernel
    def fill(out, kind: pto.const):
        tile = pto.Tile("vec", kind, 1, 8)
        pto.texpands(tile, 7)
        pto.tstore(out, tile)

    for kind in ("int32", pto.dtype("int32"), np.dtype("int32")):
        out = zeros(1, 8, dtype="int32")
        fill[1](out, kind)
        assert (out == 7).all()


@pytest.mark.parametrize("debug", [False, True])
def test_closures(debug: bool) -> None:
    def adder(amount: int) -> pto.Kernel:
        space = pto

        @pto.kernel
        def add(x, out):
            tile = space.Tile("vec", "float32", 4, 8)
            for i in space.range(3):
                pto.tload(tile, x)
                with space.when(i == 2):
                    pto.tadds(tile, tile, amount)
            pto.tstore(out, tile)

        return add

    x = floats(4, 8)
    for amount in (1, 2):
        out = zeros(4, 8)
        adder(amount)[1](x, out, debug=debug)
        assert (out == x + amount).all()


def loaded(x, rows):
    """A helper with a traced body that hands its tile back."""
    tile = pto.Tile("vec", "float32", rows, 8)
    for i in pto.range(x.shape[0] - rows + 1):
        pto.tload(tile, x[i : i + rows])
    return tile


def halved(tile, condition):
    """A helper that decides."""
    with pto.when(condition):
        pto.tmuls(tile, tile, 0.5)
    with pto.otherwise():
        pto.tneg(tile, tile)


@pytest.mark.parametrize("debug", [False, True])
def test_helpers_have_bodies_of_their_own(debug: bool) -> None:
    @pto.kernel
    def last(x, out):
        b = pto.block_idx()
        tile = loaded(x, 2)
        halved(tile, b == 1)
        pto.tstore(out[b * 2 : b * 2 + 2], tile)

    x, out = floats(6, 8), zeros(4, 8)
    last[2](x, out, debug=debug)
    assert (out[:2] == -x[4:]).all() and (out[2:] == x[4:] / 2).all()


class Filler:
    """A helper with a state."""

    def __init__(self, number: int) -> None:
        self.__number = number

    def fill(self, tile, condition):
        """Decide in a method."""
        with pto.when(condition):
            pto.texpands(tile, self.__number)


class Negated(Filler):
    """A helper that calls another, which a keyword without an argument finds."""

    def fill(self, tile, condition):
        """Negate what the other has filled."""
        super().fill(tile, condition)
        pto.tneg(tile, tile)


@pytest.mark.parametrize("debug", [False, True])
def test_methods_may_decide(debug: bool) -> None:
    @pto.kernel
    def filled(out):
        b = pto.block_idx()
        tile = pto.Tile("vec", "float32", 1, 8)
        pto.texpands(tile, 1)
        Negated(7).fill(tile, b == 1)
        pto.tstore(out[b : b + 1], tile)

    out = zeros(3, 8)
    filled[3](out, debug=debug)
    assert out[:, 0].tolist() == [-1, -7, -1]


@pytest.mark.parametrize("debug", [False, True])
def test_functions_and_lambdas_inside_may_change_what_a_body_made(debug: bool) -> None:
    @pto.kernel
    def counted(out):
        tile, before = pto.Tile("vec", "float32", 1, 8), []

        def grown(numbers):
            def grow():
                numbers.append(1)

            grow()
            return len(numbers)

        total = grown(before)
        size = lambda: len([n for n in before])  # noqa: C416, E731
        for i in pto.range(2):
            own = [1, 2]
            add = lambda: own.append(3)  # noqa: B023, E731
            add()
            [rows.append(0) for rows in (own,)]
            doubled = [last := n * 2 for n in own]
            pto.texpands(tile, total + size() + len(doubled) + int(np.add(last, 0)) + next(iter(own)))
            pto.tstore(out[i : i + 1], tile)

    out = zeros(2, 8)
    counted[1](out, debug=debug)
    assert (out == 1 + 1 + 4 + 0 + 1).all()


def test_a_kernel_is_read_with_the_names_of_its_own_closure() -> None:
    def made(counting: Any) -> pto.Kernel:
        @pto.kernel
        def k(out):
            total = 0
            for _ in counting(3):
                total += 1
            tile = pto.Tile("vec", "float32", 1, 8)
            pto.texpands(tile, total)
            pto.tstore(out, tile)

        return k

    for _ in range(2):
        out = zeros(1, 8)
        made(range)[1](out)
        assert (out == 3).all()
        with pytest.raises(pto.VerifyError, match="KN-03"):
            made(pto.range)[1](out)


def test_reading_a_kernel_keeps_nothing_of_its_module() -> None:
    class Large:
        pass

    names: dict[str, Any] = {"pto": pto, "large": Large()}
    gone = weakref.ref(names["large"])
    exec(snippet.compiled(INDENTED, "kept"), names)
    kernel = names["made"]()
    for debug in (False, True):
        kernel[1](floats(4, 8), zeros(4, 8), debug=debug)
    del names["large"]
    gc.collect()
    assert gone() is None


CHANGES = {
    "a line above": ("import ptokit as pto", "import ptokit as pto\n"),
    "a number": ("number, 1", "number, 2"),
    "an operator": ("number + 1", "number - 1"),
    "a name": ("out[b : b", "out[n : n"),
    "a line less": ("    pto.tadds(tile, tile, 1)\n", "    #\n"),
    "another name": ("def k(", "def l("),
    "a line that is not finished": ("number + 1)", "number + 1"),
}
FILE = """\
import ptokit as pto
@pto.kernel
def k(out, number):
    b = n = pto.block_idx()
    tile = pto.Tile("vec", "float32", 1, 8)
    with pto.when(pto.max(number, 1) > 0):
        pto.texpands(tile, number + 1)
    pto.tadds(tile, tile, 1)
    pto.tstore(out[b : b + 1], tile)
"""


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_has_changed_is_not_taken_for_the_kernel(tmp_path: Path, change: str, debug: bool) -> None:
    old, new = CHANGES[change]
    assert FILE.count(old) == 1
    file, out = tmp_path / "module.py", zeros(1, 8)
    file.write_text(FILE)
    kernel = runpy.run_path(str(file))["k"]
    file.write_text(FILE.replace(old, new))
    with pytest.raises(pto.VerifyError, match="the source of k has changed since it was imported"):
        kernel[1](out, 3, debug=debug)
    file.write_text(FILE)
    os.utime(file, (0, 0))  # whoever looks at the time sees that it is another
    kernel[1](out, 3, debug=debug)
    file.write_text(FILE.replace(old, new))
    kernel[1](out, 3, debug=debug)  # as it was read
    assert (out == 5).all()


def test_plain_loops_over_constants_unroll() -> None:
    @pto.kernel
    def fan(x, out, times: pto.const):
        tile = pto.Tile("vec", "float32", 1, 8)
        for k in range(times):
            pto.tload(tile, x[k : k + 1])
            if k % 2:
                pto.tneg(tile, tile)
            pto.tstore(out[k : k + 1], tile)

    x, out = floats(4, 8), zeros(4, 8)
    fan[1](x, out, 3)
    assert (out == x * [[1], [-1], [1], [0]]).all()


@pytest.mark.parametrize("debug", [False, True])
def test_names_of_the_kernel_do_not_mix(debug: bool) -> None:
    @pto.kernel
    def mixed(lens, out, i, n):
        tile, told, size, b = pto.Tile("vec", "int32", 1, 8), i, n, pto.block_idx()
        n = pto.load_scalar(lens, 1)
        for i in pto.range(2):
            block_idx = pto.load_scalar(lens, i)
            for block_num in pto.range(1):
                pto.texpands(tile, told * 1000 + size * 100 + n * 10 + block_idx + block_num + pto.block_num())
            pto.tstore(out[2 * b + i : 2 * b + i + 1], tile)

    out = zeros(4, 8, dtype="int32")
    mixed[2](np.array([3, 4], "int32"), out, 5, 6, debug=debug)
    assert out[:, 0].tolist() == [5645, 5646] * 2


INDENTED = '''
def made():
    @pto.kernel
    def k(x, out):
        """Words that go on
at the margin."""
        tile = pto.Tile("vec", "float32", 4, 8)
        pto.tload(tile, x)
        with pto.when(pto.block_idx() == 0):
            pto.tstore(out, tile)
    return k
'''


@pytest.mark.parametrize("debug", [False, True])
def test_text_at_the_margin_does_not_hide_the_source(debug: bool) -> None:
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(INDENTED, "indented"), names)
    x, out = floats(4, 8), zeros(4, 8)
    names["made"]()[2](x, out, debug=debug)
    assert (out == x).all()


def test_underscore_is_not_a_name() -> None:
    @pto.kernel
    def often(x, out):
        tile = pto.Tile("vec", "float32", 4, 8)
        for _ in range(2):
            pto.tload(tile, x)
        for _ in pto.range(2):
            for _ in range(2):
                pto.tadds(tile, tile, 1)
        pto.tstore(out, tile)

    x, out = floats(4, 8), zeros(4, 8)
    often[1](x, out)
    assert (out == x + 4).all()


def test_a_body_that_raises_is_as_if_it_were_not_there() -> None:
    @pto.kernel
    def careful(x, out):
        tile = pto.Tile("vec", "float32", 4, 8)
        pto.tload(tile, x)
        try:
            with pto.when(pto.block_idx() == 0):
                for i in pto.range(4):
                    raise KeyError(i)
        except KeyError:
            pto.tadds(tile, tile, 1)
        pto.tstore(out, tile)

    x, out = floats(4, 8), zeros(4, 8)
    careful[1](x, out)
    assert (out == x + 1).all()


def test_a_kernel_looks_like_its_function() -> None:
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Multiply and add, some rows a block."
    assert repr(scale) == "<kernel scale>"
    assert isinstance(scale, pto.Kernel)


def test_threads_launch_the_same_kernel() -> None:
    def launch(add: int) -> bool:
        x, out = floats(40, 16), zeros(40, 16)
        scale[10](x, out, add)
        return bool((out == 2 * x + add).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(launch, range(12)))


# Arguments


def test_arrays_of_every_kind_are_worked_on_in_place() -> None:
    torch = pytest.importorskip("torch")
    for make in (np.asarray, pto.GlobalTensor, torch.from_numpy):
        x, out = floats(4, 8), zeros(4, 8)
        scale[1](make(x), make(out), 1)
        assert (out == 2 * x + 1).all()
    assert len(TRACED) == 1
    tensor = torch.ones(4, 8, dtype=torch.bfloat16)
    scale[1](tensor, tensor, 1)
    assert (tensor == 3).all()


def test_arrays_may_be_parts_of_others() -> None:
    big, out = floats(20, 40), zeros(12, 50)
    scale[2](big[1:16:2, 8:24], out[2:10, 5:21], 1)
    expected = zeros(12, 50)
    expected[2:10, 5:21] = 2 * big[1:16:2, 8:24] + 1
    assert (out == expected).all()


def test_whole_numbers_are_passed_by_the_launch() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    for add in (3, np.int64(-4), np.uint8(5)):
        scale[1](x, out, add)
        assert (out == 2 * x + int(add)).all()
    assert len(TRACED) == 1


@every_way
def test_arrays_that_share_memory(target: str, debug: bool) -> None:
    @pto.kernel
    def shift(x, out):
        tile = pto.Tile("vec", "float32", 1, 8)
        for i in pto.range(x.shape[0]):
            pto.tload(tile, x[i : i + 1])
            pto.tstore(out[i : i + 1], tile)

    line = floats(6, 8)
    shift[1](line[:5], line[1:], target=target, debug=debug)
    assert (line == np.arange(8)).all(), "every row is stored before the next one is loaded"
    scale[2](line, line, 1, target=target, debug=debug)
    assert (line == 2 * np.arange(8) + 1).all()


def test_sharing_memory_is_part_of_the_signature() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    scale[1](x, out, 1)
    scale[1](x, x, 1)
    scale[1](x, x[:], 1)
    assert len(TRACED) == 2
    shared = [traced.program.tensors["out"].memory for traced in scale._traced.values()]
    assert shared == ["", "x"]


def test_what_is_only_read_may_be_read_only() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    x.flags.writeable = False
    scale[1](x, out, 1)
    assert (out == 2 * x + 1).all()
    with pytest.raises(ValueError, match="scale: out is read-only"):
        scale[1](out, x, 1)


def test_tensors_with_shapes_and_layouts_of_their_own() -> None:
    @pto.kernel
    def fractals(x, out):
        tile = pto.Tile("vec", "float32", 16, 16, blayout="col_major", slayout="row_major")
        pto.tload(tile, x)
        pto.tstore(out, tile)

    x, out = floats(256), zeros(256)
    shape = {"shape": (1, 2, 1, 16, 8), "layout": "nz"}
    fractals[1](pto.GlobalTensor(x, **shape), pto.GlobalTensor(out, **shape))
    assert (out == x).all()


# Launches


@pytest.mark.parametrize(("grid", "blocks"), [(0, 0), (1, 1), ((3,), 3), (np.int32(2), 2), ((np.int64(3),), 3)])
def test_grids(grid: object, blocks: int) -> None:
    x, out = floats(9, 8), zeros(9, 8)
    run = scale[grid](x, out, 1, rows=3)
    assert run.grid == blocks
    assert (out[: 3 * blocks] == 2 * x[: 3 * blocks] + 1).all() and not out[3 * blocks :].any()


@pytest.mark.parametrize("grid", [-1, 2**31, 1 << 1000, 1.0, True, "1", (1, 1), None])
def test_what_is_no_grid(grid: object) -> None:
    x = floats(9, 8)
    with pytest.raises(pto.VerifyError, match=r"KN-18\] a grid is .*, a whole number from 0 to 2,147,483,647; found"):
        scale[grid](x, x, 1, rows=3)
    with pytest.raises(pto.VerifyError, match="KN-18"):
        pto.check(scale, x, x, 1, rows=3, grid=grid)


@pytest.mark.parametrize("target", [["a5"], {}, 5, b"a5"])
def test_what_is_no_target(target: object) -> None:
    x = floats(9, 8)
    with pytest.raises(ValueError, match=r"unknown target .*; known: cpu"):
        scale[1](x, x, 1, rows=3, target=target)
    with pytest.raises(ValueError, match=r"unknown target .*; known: cpu"):
        pto.check(scale, x, x, 1, rows=3, target=[target])


@every_way
def test_blocks_know_themselves(target: str, debug: bool) -> None:
    @pto.kernel
    def number(out):
        b = pto.block_idx()
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, b * 100 + pto.block_num())
        pto.tstore(out[b : b + 1], tile)

    out = zeros(5, 8, dtype="int32")
    number[5](out, target=target, debug=debug)
    assert out[:, 0].tolist() == [5, 105, 205, 305, 405]


def test_nothing_to_do_is_no_mistake() -> None:
    empty = zeros(0, 8)
    assert scale[0](empty, empty, 1).grid == 0
    with pytest.raises(pto.VerifyError):
        scale[1](empty, empty, 1)


def test_a_run_has_its_settings_and_findings() -> None:
    run = scale[2](floats(8, 8), zeros(8, 8), 1, target="a2a3", engine="reference")
    assert isinstance(run, pto.Run)
    assert (run.target, run.engine, run.grid, run.findings) == ("a2a3", "reference", 2, ())
    assert 0 < run.seconds < 60


def test_the_current_target_is_the_default() -> None:
    x, out = floats(4, 8), zeros(4, 8)
    assert scale[1](x, out, 1).target == "cpu"
    with pto.target("a5"):
        assert scale[1](x, out, 1).target == "a5"
        assert scale[1](x, out, 1, target="a2a3").target == "a2a3"
        assert scale[1](x, out, 1, debug=True).target == "a5"
    assert scale[1](x, out, 1).target == "cpu"


def test_options_come_from_the_current_target_or_the_launch() -> None:
    @pto.kernel(mode="manual")
    def wide(table, tokens, out):
        ids, got = pto.Tile("vec", "int32", 1, 80, addr=0), pto.Tile("vec", "float32", 80, 512, addr=512)
        pto.tload(ids, tokens)
        pto.mgather(got, table, ids)
        pto.tstore(out, got)

    table, tokens, out = floats(8, 512), np.arange(80, dtype="int32") % 8, zeros(80, 512)
    with pytest.raises(pto.VerifyError, match="launch with dyn_ub=164352 or more"):
        wide[1](table, tokens, out, target="a5")
    wide[1](table, tokens, out, target="a5", dyn_ub=164352)
    assert (out == table[tokens]).all()
    with pto.target("a5", dyn_ub=164352):
        wide[1](table, tokens, out)
        with pytest.raises(pto.VerifyError, match="under dyn_ub=1000"):
            wide[1](table, tokens, out, dyn_ub=1000)


# Findings


@pto.kernel
def elements(table, idx, out):
    """Gathers from rows that do not lie close together, which is a hazard everywhere."""
    for i in pto.range(3):
        indices, tile = pto.Tile("vec", "int32", 2, 8), pto.Tile("vec", "float32", 2, 8)
        pto.tload(indices, idx)
        pto.mgather(tile, table, indices, coalesce="elem")
        pto.tadds(tile, tile, i)
        pto.tstore(out, tile)


HAZARD_LINE = elements.function.__code__.co_firstlineno + 6
ROWS_APART = (floats(4, 16)[:, :8], zeros(2, 8, dtype="int32"), zeros(2, 8))


@pytest.mark.parametrize("debug", [False, True])
def test_a_hazard_is_reported_once_per_launch_at_its_line(debug: bool) -> None:
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = elements[4](*ROWS_APART, debug=debug)
        assert [(finding.level, finding.rule, finding.kind) for finding in run.findings] == [("hazard", "A-10", "H-06")]
        assert run.findings[0].where == pto.Where(__file__, HAZARD_LINE)
        assert {(warning.category, warning.filename, warning.lineno) for warning in caught} == {
            (pto.HazardWarning, __file__, HAZARD_LINE)
        }
        assert debug or len(caught) == 1


@pytest.mark.parametrize("debug", [False, True])
def test_strict_refuses_hazards(debug: bool) -> None:
    with pytest.raises(pto.VerifyError) as refusal:
        elements[4](*ROWS_APART, strict=True, debug=debug)
    with pytest.raises(pto.VerifyError), pto.target("cpu", strict=True):
        elements[4](*ROWS_APART, debug=debug)
    (finding,) = refusal.value.findings
    assert (finding.level, finding.rule, finding.where) == ("error", "A-10", pto.Where(__file__, HAZARD_LINE))


def test_hazards_of_indices_are_reported_at_run_time() -> None:
    @pto.kernel
    def gather(table, idx, out):
        b = pto.block_idx()
        indices, tile = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
        pto.tload(indices, idx[b * 8 : b * 8 + 8])
        pto.mgather(tile, table, indices, oob="clamp")
        pto.tstore(out[b * 8 : b * 8 + 8], tile)

    table, idx, out = floats(9, 8), np.full(24, -1, "int32"), zeros(24, 8)
    with pytest.warns(pto.HazardWarning) as caught:
        run = gather[3](table, idx, out)
    assert len(caught) == len(run.findings) == 1
    assert (out == table[8]).all()
    assert not gather[0](table, idx, out).findings


# Real values


def test_debug_shows_real_values(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(1))

    @pto.kernel
    def watched(x, out, n):
        b = pto.block_idx()
        tile = pto.Tile("vec", "float32", 1, 8)
        pto.tload(tile, x[b : b + 1])
        print("block", b, "of", pto.block_num(), tile.read()[0, 0], x.array.shape)
        with pto.when(b == n):
            breakpoint()
            assert tile.read()[0, 0] == 8 * n
            print("stored")
        with pto.otherwise():
            pto.texpands(tile, -1)
        pto.tstore(out[b : b + 1], tile)

    x, out = floats(3, 8), zeros(3, 8)
    watched[3](x, out, 1, debug=True)
    assert capsys.readouterr().out.splitlines() == [
        "block 0 of 3 0.0 (3, 8)",
        "block 1 of 3 8.0 (3, 8)",
        "stored",
        "block 2 of 3 16.0 (3, 8)",
    ]
    assert len(stops) == 1
    assert (out == [[-1] * 8, x[1], [-1] * 8]).all()


def test_debug_stops_at_an_assertion_of_the_kernel() -> None:
    @pto.kernel
    def checked(x):
        tile = pto.Tile("vec", "float32", 4, 8)
        pto.tload(tile, x)
        assert tile.read().max() < 31, "too large"

    with pytest.raises(AssertionError, match="too large") as stop:
        checked[1](floats(4, 8), debug=True)
    assert stop.traceback[-1].lineno + 1 == checked.function.__code__.co_firstlineno + 4


# Control


@every_way
def test_loops_branches_and_double_buffers(target: str, debug: bool) -> None:
    @pto.kernel
    def mixed(x, lens, out, skip):
        b = pto.block_idx()
        length = pto.load_scalar(lens, b)
        total = pto.Tile("vec", "float32", 2, 8)
        pto.texpands(total, 0)
        for i in pto.range(length, 0, -1, buffers=2):
            rows = pto.Tile("vec", "float32", 2, 8)
            pto.tload(rows, x[2 * i - 2 : 2 * i])
            with pto.when(i == skip):
                pto.tsubs(total, total, i)
            with pto.otherwise():
                for j in pto.range(i, i + 4, 2):
                    with pto.when((j % 3 != 0) | (i > 3)):
                        pto.tmuls(rows, rows, j)
                        pto.tadd(total, total, rows)
        pto.tstore(out[2 * b : 2 * b + 2], total)

    x, lens, out = floats(10, 8), np.array([0, 2, 5], "uint8"), zeros(6, 8)
    mixed[3](x, lens, out, 2, target=target, debug=debug)
    for b, length in enumerate(lens):
        total = zeros(2, 8)
        for i in range(int(length), 0, -1):
            rows = x[2 * i - 2 : 2 * i].copy()
            if i == 2:
                total -= i
                continue
            for j in range(i, i + 4, 2):
                if j % 3 != 0 or i > 3:
                    rows *= j
                    total += rows
        assert (out[2 * b : 2 * b + 2] == total).all()


@every_way
@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_a_tile_is_poison_every_time_it_is_made(target: str, debug: bool, buffers: int) -> None:
    @pto.kernel
    def made(out, buffers: pto.const):
        for i in pto.range(4, buffers=buffers):
            tile = pto.Tile("vec", "int32", 1, 8)
            with pto.when(i < 2):
                pto.texpands(tile, i)
            pto.tstore(out[i : i + 1], tile)

    out = zeros(4, 8, dtype="int32")
    made[1](out, buffers, target=target, debug=debug)
    assert out[:, 0].tolist() == [0, 1, -1, -1]


@every_way
@pytest.mark.parametrize("bounds", [(5,), (2, 5), (7, 0, -3), (0, 9, 4), (3, 3), (4, 1), (1, 4, -1)])
def test_ranges_count_like_python(target: str, debug: bool, bounds: tuple[int, ...]) -> None:
    @pto.kernel
    def counted(out, sizes: pto.const, start, stop, step):
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, 1)
        for i in pto.range(*sizes):
            pto.tstore(out[i : i + 1], tile)
        for i in pto.range(start, stop, step):
            pto.tstore(out[i + 10 : i + 11], tile)

    told = slice(*bounds) if len(bounds) > 1 else slice(0, *bounds)
    out = zeros(20, 8, dtype="int32")
    counted[1](out, bounds, told.start, told.stop, told.step or 1, target=target, debug=debug)
    expected = [*range(*bounds), *(10 + i for i in range(*bounds))]
    assert np.flatnonzero(out[:, 0]).tolist() == sorted(expected)


@every_way
def test_scalars_from_memory(target: str, debug: bool) -> None:
    @pto.kernel
    def pick(table, starts, out):
        b = pto.block_idx()
        first = pto.load_scalar(table[1:3], b, pto.load_scalar(starts, b))
        tile = pto.Tile("vec", "int32", 1, 8)
        pto.texpands(tile, first)
        pto.tadds(tile, tile, pto.load_scalar(table, 0, 0) * 1000)
        pto.tstore(out[b : b + 1], tile)

    for kind in ("int8", "uint16", "int32"):
        table, starts, out = floats(3, 5).astype(kind) + 1, np.array([4, 2], kind), zeros(2, 8, dtype="int32")
        pick[2](table, starts, out, target=target, debug=debug)
        assert out[:, 0].tolist() == [1010, 1013]


@every_way
def test_valid_extents_may_be_computed_and_set(target: str, debug: bool) -> None:
    @pto.kernel
    def stairs(x, out, lens):
        b = pto.block_idx()
        tile = pto.Tile("vec", "float32", 4, 8, valid=(pto.load_scalar(lens, b), 8))
        pto.tload(tile, x)
        for i in pto.range(1, 5):
            tile.valid = (i, 8)
            pto.tadds(tile, tile, 1)
        tile.valid = (b + 1, 5)
        rows, cols = tile.valid
        pto.tstore(out[4 * b : 4 * b + rows, 0:cols], tile)

    x, out = floats(4, 8), zeros(12, 8)
    stairs[3](x, out, np.array([4, 4, 4], "int32"), target=target, debug=debug)
    expected = zeros(12, 8)
    for b in range(3):
        expected[4 * b : 5 * b + 1, :5] = np.add(x, [[4], [3], [2], [1]])[: b + 1, :5]
    assert (out == expected).all()


@every_way
def test_valid_extents_can_be_the_same_again(target: str, debug: bool) -> None:
    @pto.kernel
    def twice(x, out):
        tile = pto.Tile("vec", "float32", 4, 8)
        with pto.when(pto.block_idx() == 0):
            tile.valid = (2, 8)
            pto.tload(tile, x)
        with pto.otherwise():
            tile.valid = (2, 8)
            pto.tload(tile, x[2:4])
        tile.valid = (2, 8)
        pto.tstore(out[2 * pto.block_idx() : 2 * pto.block_idx() + 2], tile)

    x, out = floats(4, 8), zeros(4, 8)
    twice[2](x, out, target=target, debug=debug)
    assert (out == x).all()


@every_way
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_valid_extents_of_one_arm_do_not_reach_the_other(rows: int, target: str, debug: bool) -> None:
    @pto.kernel
    def last_is_short(x, out, n):
        tile = pto.Tile("vec", "float32", 4, 8)
        for i in pto.range(3):
            tile.valid = (4, 8)
            with pto.when(i == 2):
                tile.valid = (n, 8)
                with pto.when(n == 3):
                    tile.valid = (n - 1, 8)
                    pto.tload(tile, x[4 * i : 4 * i + n - 1])
                    pto.tstore(out[4 * i : 4 * i + n - 1], tile)
                with pto.otherwise():
                    pto.tload(tile, x[4 * i : 4 * i + n])
                    pto.tstore(out[4 * i : 4 * i + n], tile)
            with pto.otherwise():
                for _ in pto.range(2):
                    pto.tload(tile, x[4 * i : 4 * i + 4])
                    pto.tstore(out[4 * i : 4 * i + 4], tile)

    x, out, expected = floats(12, 8), zeros(12, 8), zeros(12, 8)
    expected[: 8 + {2: 2, 3: 2, 4: 4}[rows]] = x[: 8 + {2: 2, 3: 2, 4: 4}[rows]]
    last_is_short[1](x, out, rows, target=target, debug=debug)
    assert (out == expected).all()


def test_valid_extents_of_an_arm_reach_the_next_iteration_and_what_follows() -> None:
    @pto.kernel
    def next_iteration(x, out):
        tile = pto.Tile("vec", "float32", 4, 8)
        for i in pto.range(2):
            with pto.when(i == 0):
                tile.valid = (2, 8)
                pto.tload(tile, x[0:2])
            with pto.otherwise():
                pto.tload(tile, x)

    @pto.kernel
    def after(x, out):
        tile = pto.Tile("vec", "float32", 4, 8)
        with pto.when(pto.block_idx() == 0):
            tile.valid = (2, 8)
            pto.tload(tile, x[0:2])
        with pto.otherwise():
            pto.tload(tile, x)
        pto.tstore(out, tile)

    for kernel in (next_iteration, after):
        with pytest.raises(pto.VerifyError, match="KN-12"):
            kernel[1](floats(4, 8), zeros(4, 8))


OPERATORS = (
    lambda a, b: a + b,
    lambda a, b: 7 - a,
    lambda a, b: a - b * 3,
    lambda a, b: (a + 9) // 4,
    lambda a, b: (a - 9) // (b + 1),
    lambda a, b: (a - 9) % (b + 2),
    lambda a, b: 100 // (a + 1),
    lambda a, b: 100 % (b + 3),
    lambda a, b: 3 << a,
    lambda a, b: (a * 77) >> b,
    lambda a, b: (a << 4) | b,
    lambda a, b: (a + 13) & 6,
    lambda a, b: -a,
    lambda a, b: +a + (a == b),
    lambda a, b: (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a != b),
    lambda a, b: (a > 2) & (b > 1) | (a == 0),
    lambda a, b: pto.min(a, b, 3),
    lambda a, b: pto.max(a - 4, b, -1),
    lambda a, b: pto.min(5, 3) + a * 0,
    lambda a, b: np.int64(3) * a + b * np.int32(2),
)


@every_way
def test_every_operator_is_pythons(target: str, debug: bool) -> None:
    @pto.kernel
    def computed(out, n):
        a = pto.block_idx()
        tile = pto.Tile("vec", "int32", 1, 8)
        for k, operator in enumerate(OPERATORS):
            pto.texpands(tile, operator(a, n))
            at = a * len(OPERATORS) + k
            pto.tstore(out[at : at + 1], tile)

    for n in (0, 2, 5):
        out = zeros(6 * len(OPERATORS), 8, dtype="int32")
        computed[6](out, n, target=target, debug=debug)
        assert out[:, 0].tolist() == [int(operator(a, n)) for a in range(6) for operator in OPERATORS]


@every_way
def test_a_comparison_is_a_number_everywhere(target: str, debug: bool) -> None:
    @pto.kernel
    def compared(x, lens, out, n):
        b = pto.block_idx()
        tile = pto.Tile("vec", "float32", 2, 8, valid=(1 + (b < n), 8))
        first = b == n
        pto.tload(tile, x[first : first + 2])
        pto.tadds(tile, tile, pto.max(b > 0, b > 1))
        pto.tmuls(tile, tile, b >= 0)
        for i in pto.range(b != n):
            pto.tadds(tile, tile, pto.load_scalar(lens, b > 1) + i)
        with pto.when(first | (b < 1)):
            pto.tadds(tile, tile, 1000)
        tile.valid = (b == b, 8)
        pto.tstore(out[b : b + 1], tile)

    x, out = floats(4, 8), zeros(3, 8)
    compared[3](x, np.array([10, 20], "int32"), out, 1, target=target, debug=debug)
    assert out[:, 0].tolist() == [1010, 1009, 21]


@every_way
def test_windows_move_with_the_block(target: str, debug: bool) -> None:
    @pto.kernel
    def windows(x, out, col):
        b = pto.block_idx()
        whole, part = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "float32", 2, 8)
        pto.tload(whole, x)
        for i in pto.range(2):
            pto.textract(part, whole, 2 * b + i, col * i)
            pto.tstore(out[4 * b + 2 * i : 4 * b + 2 * i + 2], part)

    x, out = floats(8, 16), zeros(12, 8)
    windows[3](x, out, 8, target=target, debug=debug)
    parts = [x[2 * b + i : 2 * b + i + 2, 8 * i : 8 * i + 8] for b in range(3) for i in range(2)]
    assert (out == np.concatenate(parts)).all()


# By hand


@pto.kernel
def sums(x, out):
    """Rows of a block and a running sum of them, flags and addresses in auto mode."""
    total = pto.Tile("vec", "float32", 2, 16)
    pto.texpands(total, 0)
    for i in pto.range(4, buffers=2):
        rows = pto.Tile("vec", "float32", 2, 16)
        start = pto.block_idx() * 8 + i * 2
        pto.tload(rows, x[start : start + 2])
        pto.tadd(total, total, rows)
        pto.tstore(out[start : start + 2], total)


@pto.kernel(mode="manual")
def sums_by_hand(x, out):
    """The same in manual mode, with addresses, flags, events and barriers."""
    total = pto.Tile("vec", "float32", 2, 16, addr=0)
    rows = pto.Tile("vec", "float32", 2, 16)
    pto.texpands(total, 0)
    pto.barrier("V")
    for i in pto.range(4):
        pto.tassign(rows, 128 + i % 2 * 128)
        start = pto.block_idx() * 8 + i * 2
        loaded = pto.tload(rows, x[start : start + 2])
        pto.tadd(total, total, rows, wait=loaded)
        pto.set_flag("V", "MTE3", i % 2)
        pto.wait_flag("V", "MTE3", i % 2)
        pto.tstore(out[start : start + 2], total)
        pto.barrier()


@every_way
def test_by_hand_gives_the_same_bits(target: str, debug: bool) -> None:
    x = np.random.default_rng(3).standard_normal((24, 16)).astype("float32")
    found = zeros(24, 16), zeros(24, 16)
    sums[3](x, found[0], target=target, debug=debug)
    sums_by_hand[3](x, found[1], target=target, debug=debug)
    assert found[0].tobytes() == found[1].tobytes()
    assert (found[0].reshape(3, 4, 2, 16) == np.cumsum(x.reshape(3, 4, 2, 16), axis=1, dtype="float32")).all()


@every_way
def test_tiles_at_one_address_show_the_same_bytes(target: str, debug: bool) -> None:
    @pto.kernel(mode="manual")
    def bits(x, out):
        whole = pto.Tile("vec", "float32", 4, 8, addr=64)
        low = pto.Tile("vec", "int32", 2, 8, addr=64 + 64)
        pto.tload(whole, x)
        pto.barrier()
        pto.tstore(out, low)

    x, out = floats(4, 8), zeros(2, 8, dtype="int32")
    bits[1](x, out, target=target, debug=debug)
    assert (out.view("float32") == x[2:]).all()


# What is shown


SHOWN = """\
kernel sums, auto mode, {target}
    x: float32 [24, 16]
    out: float32 [24, 16]
  total = tile vec float32 2x16 at 0x0 :3
  texpands(total, 0.0) :4
  for i in range(0, 4, buffers=2): :5
    rows = tile vec float32 2x16 x 2 at 0x80, 0x100 :6
    start = block_idx * 8 + i * 2
    tload(rows, x[start : start + 2]) :8
    tadd(total, total, rows) :9
    tstore(out[start : start + 2], total) :10
"""
"""What the author wrote, with the lines counted from the first of the kernel."""


@pytest.mark.parametrize("target", TARGETS)
def test_show_prints_the_program(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    pto.show(sums, floats(24, 16), zeros(24, 16), target=target)
    head, *lines = capsys.readouterr().out.splitlines()
    if target == "cpu":
        assert lines.pop() == "(cpu has no pipes and needs no flags; a2a3 and a5 do)"
    first = sums.function.__code__.co_firstlineno
    assert head.endswith(f" {__file__}:{first}")
    own = [head.removesuffix(f"{__file__}:{first}").rstrip()]
    for line in lines:
        text, mark, place = line.rpartition(":")
        is_placed = mark and place.isdigit()
        own.append(f"{text.rstrip()} :{int(place) - first}" if is_placed else line)
    added = [line for line in own if line.startswith("+")]
    assert [line for line in own if line not in added] == SHOWN.format(target=target).splitlines()
    assert bool(added) == (target != "cpu"), "only targets with pipes need flags"
    assert all("_flag(" in line or "barrier(" in line for line in added)
    assert max(map(len, lines)) <= 80


def test_show_prints_everything_a_kernel_can_say(capsys: pytest.CaptureFixture[str]) -> None:
    pto.show(sums_by_hand, floats(24, 16), zeros(24, 16), target="a5")
    text = capsys.readouterr().out
    for words in (
        "kernel sums_by_hand, manual mode, a5",
        "total = tile vec float32 2x16 at 0x0",
        "tassign(rows, 128 + i % 2 * 128)",
        "event 0 = tload(rows, x[start : start + 2])",
        "tadd(total, total, rows, wait=event 0)",
        'set_flag("V", "MTE3", i % 2)',
        'barrier("V")',
        'barrier("ALL")',
    ):
        assert words in text
    assert not [line for line in text.splitlines() if line.startswith("+")], "nothing is inserted"
    pto.show(scale, floats(8, 8), zeros(8, 8), 1, factor=3)
    text = capsys.readouterr().out
    for words in ("add: whole number", "factor = 3", "rows = 4", "tmuls(tile valid [n, 8], tile valid [n, 8], 3.0)"):
        assert words in text


@pto.kernel
def vector_and_cube(x):
    """Both NPUs refuse it."""
    ub = pto.Tile("vec", "float32", 16, 64)
    l1 = pto.Tile("mat", "float32", 16, 64, blayout="col_major", slayout="row_major")
    pto.tload(ub, x)
    pto.tload(l1, x)


def test_a_report_of_a_kernel_that_every_target_takes() -> None:
    report = pto.check(sums, floats(24, 16), zeros(24, 16), grid=3)
    assert isinstance(report, pto.Report)
    assert (report.kernel, report.grid, report.accepted, report.ok) == ("sums", 3, TARGETS, True)
    assert report.findings == ()
    for target, size in (("a2a3", 192 * 1024), ("a5", 256 * 1024)):
        one = report[target]
        assert isinstance(one, pto.TargetReport)
        assert one.accepted and one.ok
        assert one.memory == {"UB": (384, size)}
        assert one.pipes == ("V", "MTE2", "MTE3")
        assert [(tile.name, tile.memory, tile.nbytes, len(tile.addresses)) for tile in one.tiles] == [
            ("total", "UB", 128, 1),
            ("rows", "UB", 128, 2),
        ]
    assert report["cpu"].pipes == ()


def test_a_report_says_who_takes_a_kernel_and_who_does_not() -> None:
    report = pto.check(vector_and_cube, floats(16, 64))
    assert (report.accepted, report.ok) == (("cpu",), False)
    assert [each.verdict for each in report.targets.values()] == ["accepted", "refused", "refused"]
    line = vector_and_cube.function.__code__.co_firstlineno + 6
    for target in ("a2a3", "a5"):
        assert [(f.level, f.rule, f.where.line) for f in report[target].findings] == [("error", "KN-16", line)]
    assert report["a2a3"].refused and not (report["a2a3"].accepted or report["a2a3"].ok)
    assert set(report["a5"].memory) == {"UB", "L1"}
    assert pto.check(vector_and_cube, floats(16, 64), target="a5").accepted == ()
    assert pto.check(vector_and_cube, floats(16, 64), target="a2a3", strict=True).accepted == ()


def test_a_report_executes_nothing_and_finds_what_a_launch_would() -> None:
    x, out = floats(24, 16), zeros(24, 16)
    report = pto.check(sums, x, out, grid=4, target="a5")
    assert not report.ok and not out.any()
    with pytest.raises(pto.VerifyError) as refusal:
        sums[4](x, out, target="a5")
    assert refusal.value.findings == report.findings


def test_a_report_of_a_kernel_that_cannot_be_traced() -> None:
    @pto.kernel
    def undecided(x):
        if pto.block_idx() == 0:
            pass

    report = pto.check(undecided, floats(4, 8))
    assert report.accepted == ()
    assert {(finding.rule, finding.where.file) for finding in report.findings} == {("KN-02", __file__)}


@pytest.mark.parametrize("grid", [3, 4])
def test_a_report_fits_a_narrow_screen(grid: int) -> None:
    reports = [pto.check(sums, floats(24, 16), zeros(24, 16), grid=grid), pto.check(vector_and_cube, floats(16, 64))]
    for line in "\n".join(map(str, reports)).splitlines():
        assert len(line) <= 80 or __file__ in line
    text = str(reports[0])
    assert text.startswith(f"sums over {grid} blocks\n\ncpu: {'accepted' if grid == 3 else 'refused'}\n")
    assert "UB: 384 of 196,608 bytes (0%)" in text
    assert "pipes: V, MTE2, MTE3" in text
    assert "total: 0x0..0x80" in text and "rows: 0x80..0x100, 0x100..0x180" in text
