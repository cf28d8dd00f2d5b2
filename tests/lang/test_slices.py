"""Slices of tiles: `tile[a:b, c:d]` as an operand, eagerly, in kernels, on every engine, in every form of text."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec, meet
from ptokit.isa.policy import BLayout, TileType
from ptokit.lang.launch import mode_of
from ptokit.lang.loaded import from_text
from ptokit.program.ir import Flag, Instr, walk
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.forms import FORMS, print_program, read_program
from tests import snippet
from tests.program.judge import assert_complete, auto
from tests.program.random_programs import runs
from tests.property.strategies import FUZZ

FAMILIES = ("cpu", "a2a3", "a5")
ENGINES = ("native", "reference", "machine")


def program_of(kernel: Any, target: str, *given: Any) -> Any:
    return kernel.trace(kernel.bind(given, {}), mode_of(target)).program


def kernel_of(body: str, arguments: str, **names: object) -> Any:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    code = f"@pto.kernel\ndef cut({arguments}):\n{indented}\n"
    scope: dict[str, Any] = {"pto": pto, **names}
    exec(snippet.compiled(code, "slices"), scope)
    return scope["cut"]


# --- eagerly ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blayout", ["row_major", "col_major"])
def test_a_slice_is_the_tiles_memory(blayout: str) -> None:
    tile = pto.Tile("vec", "int16", 16, 32, blayout=blayout).write(np.arange(512).reshape(16, 32))
    expected = tile.read()
    for rows, cols in [(slice(3, 9), slice(5, 21)), (slice(None), slice(4, 5)), (slice(7, 8), slice(None))]:
        part = tile[rows, cols]
        assert (part.read() == expected[rows, cols]).all()
        part.write(-part.read())
        expected[rows, cols] *= -1
        assert (tile.read() == expected).all()
    inner = tile[2:12, 4:28][3:5, 1:4]
    assert (inner.read() == expected[5:7, 5:8]).all()


def test_a_slice_of_boxes_is_the_tiles_memory() -> None:
    tile = pto.Tile("mat", "float32", 32, 32, blayout="col_major", slayout="row_major")
    tile.write(np.arange(1024).reshape(32, 32))
    part = tile[:, 8:24]
    assert (part.read() == tile.read()[:, 8:24]).all()
    part.write(0)
    assert (tile.read()[:, 8:24] == 0).all() and (tile.read()[:, 24:] != 0).all()


def test_a_slice_keeps_what_its_tile_is() -> None:
    tile = pto.Tile("vec", "float32", 16, 32, valid=(9, 20), addr=64)
    assert tile[2:5].valid == (3, 20) and tile[2:5].shape == (3, 32) and tile[2:5].addr == 64 + 2 * 32 * 4
    assert tile[4:].valid == (5, 20) and tile[:, 8:16].valid == (9, 8)
    assert tile[0:2, 8:16].spec.pitch == 32 and tile[0:1, 8:16].spec.pitch == 0
    assert tile[:, 3:20].spec.skew == 12 and tile[:, 3:20][:, 2:9].spec.skew == 20  # bytes after a block
    assert tile[0:2, 8:16].spec.burst_bytes == 128 and tile[0:2, 8:16].spec.elements == 40
    with pytest.raises(TypeError):
        iter(tile)
    plain = pto.Tile("vec", "float32", 4, 8).write(3)
    twin = copy.deepcopy(plain[0:2])
    twin.write(4)
    assert (plain.read() == 3).all()


@pytest.mark.parametrize("seed", range(40))
def test_regions_that_meet_share_a_byte(seed: int) -> None:
    """Against sets of bytes: parts of one tile, or of two that lie over one another."""
    draw = random.Random(seed)
    tiles = [
        TileSpec(dtype("int16"), TileType.Vec, 8, width, 8, width, draw.choice(tuple(BLayout)))
        for width in draw.choices((6, 8), k=2)
    ]
    for _ in range(200):
        parts, starts = [], []
        for whole in tiles:
            a, b = sorted(draw.sample(range(9), 2))
            c, d = sorted(draw.sample(range(whole.cols + 1), 2))
            start = whole.layout.offset(a, c)
            parts.append(whole.cut(b - a, d - c, start))
            starts.append(2 * start + draw.choice((0, 0, 12)))
        cells = [
            {
                at + 2 * part.layout.offset(i, j) + byte
                for i in range(part.rows) for j in range(part.cols) for byte in (0, 1)
            }
            for part, at in zip(parts, starts, strict=True)
        ]  # fmt: skip
        found = meet(parts[0], starts[0], parts[1], starts[1])
        if found != bool(cells[0] & cells[1]):
            assert found and (tiles[0].format != tiles[1].format or tiles[0].cols != tiles[1].cols), (
                parts,
                starts,
            )


# --- in kernels -----------------------------------------------------------------------------------------------------


def random_body(draw: random.Random) -> tuple[str, Any]:
    """Statements over slices of two 16 x 32 tiles, and a function that does the same to two arrays."""
    lines, steps = [], []
    for _ in range(draw.randrange(3, 8)):
        rows, cols = draw.choice((1, 2, 4, 8)), draw.choice((8, 16, 32))
        loops = draw.choice((1, 1, 2, 3))
        places = []
        for _ in range(3):
            first, step = draw.randrange(0, 17 - rows - 2 * (loops - 1)), draw.choice((0, 1, 2)) if loops > 1 else 0
            places.append((draw.choice("ab"), first, step, 8 * draw.randrange(0, (32 - cols) // 8 + 1)))
        clash = any(_meets(places[0], other, rows, cols, loops) for other in places[1:])
        if clash:
            places[0] = ("c", *places[0][1:])
        op = draw.choice(("tadd", "tsub", "tmax"))
        shown = ", ".join(_shown(place, rows, cols, loops) for place in places)
        lines.append(f"for i in pto.range({loops}):\n    pto.{op}({shown})" if loops > 1 else f"pto.{op}({shown})")
        steps.append((op, places, rows, cols, loops))

    def run(arrays: dict[str, Any]) -> None:
        functions = {"tadd": np.add, "tsub": np.subtract, "tmax": np.maximum}
        for op, places, rows, cols, loops in steps:
            for i in range(loops):
                dst, one, two = (
                    arrays[name][first + i * step : first + i * step + rows, col : col + cols]
                    for name, first, step, col in places
                )
                dst[:] = functions[op](one, two)

    return "\n".join(lines), run


def _shown(place: tuple[str, int, int, int], rows: int, cols: int, loops: int) -> str:
    name, first, step, col = place
    start = f"{first} + i * {step}" if loops > 1 and step else str(first)
    return f"{name}[{start} : {start} + {rows}, {col}:{col + cols}]"


def _meets(one: tuple[str, int, int, int], other: tuple[str, int, int, int], rows: int, cols: int, loops: int) -> bool:
    """Whether two places overlap in some iteration without being the same."""
    if one[0] != other[0] or abs(one[3] - other[3]) >= cols:
        return False
    ahead = [one[1] + i * one[2] - other[1] - i * other[2] for i in range(loops)]
    return any(abs(n) < rows for n in ahead) and not (one[3] == other[3] and not any(ahead))


BEGIN = """
a = pto.Tile("vec", "int32", 16, 32)
b = pto.Tile("vec", "int32", 16, 32)
c = pto.Tile("vec", "int32", 16, 32)
pto.tload(a, x)
pto.tload(b, y)
pto.texpands(c, 7)
"""
END = """
pto.tstore(x, a)
pto.tstore(y, b)
pto.tstore(z, c)
"""


@pytest.mark.parametrize("seed", range(30 if FUZZ else 3))
def test_random_kernels_over_slices(seed: int) -> None:
    draw = random.Random(seed)
    body, run = random_body(draw)
    kernel = kernel_of(BEGIN.strip() + "\n" + body + "\n" + END.strip(), "x, y, z")
    start = [np.random.default_rng(seed + k).integers(-99, 99, (16, 32)).astype("int32") for k in range(3)]
    arrays = {"a": start[0].copy(), "b": start[1].copy(), "c": np.full((16, 32), 7, "int32")}
    run(arrays)
    expected = [arrays[name].tobytes() for name in "abc"]
    launches: list[Any] = [kernel]
    for form in FORMS:
        program = program_of(kernel, "a5", *start)
        text = print_program(program, form)
        assert read_program(text, f"kernel.{form}") == program, text
        launches.append(from_text(text))
    for target in FAMILIES:
        for launch in launches:
            for engine in ENGINES if launch is kernel else ("native",):
                given = [array.copy() for array in start]
                launch[1](*given, target=target, engine=engine)
                assert [array.tobytes() for array in given] == expected, (target, engine, body)
        given = [array.copy() for array in start]
        kernel[1](*given, target=target, debug=True)
        assert [array.tobytes() for array in given] == expected


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_auto_mode_orders_slices_and_their_tile(seed: int, target: str) -> None:
    body, _ = random_body(random.Random(seed))
    arrays = [np.zeros((16, 32), "int32") for _ in range(3)]
    kernel = kernel_of(BEGIN.strip() + "\n" + body + "\n" + END.strip(), "x, y, z")
    program = program_of(kernel, target, *arrays)
    assert_complete(auto(program, profile(target)), profile(target), runs(program, 4))
    found = []
    for seed_of_schedule in (None, 1, 2):
        given = [np.full_like(array, 3) for array in arrays]
        machine = pto.MachineOptions(seed=seed_of_schedule)
        assert kernel[1](*given, target=target, engine="machine", options=machine).ok
        found.append([array.tobytes() for array in given])
    assert found[0] == found[1] == found[2]


def test_a_load_of_a_slice_waits_for_what_uses_the_tile() -> None:
    kernel = kernel_of(
        'a = pto.Tile("vec", "float32", 16, 32)\nb = pto.Tile("vec", "float32", 16, 32)\n'
        "pto.tload(a, x)\npto.tadds(b, a, 1)\npto.tload(a[8:16], x[0:8])\n"
        "pto.tadds(b[0:8], a[8:16], 2)\npto.tstore(x, b)",
        "x",
    )
    program = auto(program_of(kernel, "a2a3", np.zeros((16, 32), "float32")), profile("a2a3"))
    pairs = [(stmt.src, stmt.dst) for stmt in walk(program.body) if isinstance(stmt, Flag) and stmt.action == "wait"]
    assert pairs == [("MTE2", "V"), ("V", "MTE2"), ("MTE2", "V"), ("V", "MTE3")]


def test_what_a_slice_does_not_write_is_kept_in_a_loop() -> None:
    """The tile lives through the loop, so nothing else is placed over it, and it is poison only once."""
    body = """
a = pto.Tile("vec", "int32", 4, 8)
pto.texpands(a, 0)
for i in pto.range(4):
    t = pto.Tile("vec", "int32", 1, 8)
    pto.texpands(t, i)
    pto.tadds(a[i : i + 1], t, 1)
pto.tstore(x, a)
""".strip()
    kernel = kernel_of(body, "x")
    for target in FAMILIES:
        for engine in ENGINES:
            x = np.zeros((4, 8), "int32")
            kernel[1](x, target=target, engine=engine)
            assert x[:, 0].tolist() == [1, 2, 3, 4]


def test_a_slice_that_is_written_leaves_the_rest_poison() -> None:
    kernel = kernel_of('a = pto.Tile("vec", "int32", 2, 8)\npto.texpands(a[0:1], 5)\npto.tstore(x, a)', "x")
    for engine in ("native", "reference"):
        x = np.zeros((2, 8), "int32")
        kernel[1](x, engine=engine)
        assert x.tolist() == [[5] * 8, [-1] * 8]
    report = kernel[1](x, target="a5", engine="machine")
    assert [finding.kind for finding in report.findings] == ["H-36"]


def test_starts_and_lengths_of_the_run() -> None:
    body = """
a = pto.Tile("vec", "int32", 16, 8)
pto.tload(a, x)
pto.tmuls(a[0:n], a[0:n], 2)
part = a[m : m + 4]
part.valid = (k, 8)
pto.tadds(part, part, 100)
pto.tstore(x, a)
""".strip()
    kernel = kernel_of(body, "x, n: int, m: int, k: int")
    for n, m, k in [(3, 0, 4), (16, 12, 1), (1, 5, 3)]:
        start = np.arange(128, dtype="int32").reshape(16, 8)
        expected = start.copy()
        expected[:n] *= 2
        expected[m : m + k] += 100
        for target in FAMILIES:
            for engine in ENGINES:
                x = start.copy()
                kernel[1](x, n, m, k, target=target, engine=engine)
                assert (x == expected).all()
            program = program_of(kernel, target, start.copy(), n, m, k)
            for form in FORMS:
                assert read_program(print_program(program, form), f"k.{form}") == program


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("pto.tadds(a[n : n + 8], a[n : n + 8], 1)", "SL-01"),
        ("pto.tadds(a[0:4, n : n + 8], b[0:4, 0:8], 1)", "SL-02"),
        ("pto.tadds(a[n - 8 : n - 4], a[0:4], 1)", "SL-05"),
        ("pto.tadds(a[4 : n + 8], b[4:16], 1)", "SL-01"),
    ],
)
def test_violations_known_at_run_time_are_refused_then(engine: str, line: str, rule: str) -> None:
    body = f"""
a = pto.Tile("vec", "float32", 16, 32)
b = pto.Tile("vec", "float32", 16, 32)
pto.tload(a, x)
pto.tload(b, x)
{line}
""".strip()
    kernel = kernel_of(body, "x, n: int")
    with pytest.raises(pto.VerifyError) as refusal:
        kernel[1](np.zeros((16, 32), "float32"), 9, target="a2a3", engine=engine)
    assert [finding.rule for finding in refusal.value.findings] == [rule]


def test_the_machine_names_slices_that_overlap_by_their_own_clause() -> None:
    body = 'a = pto.Tile("vec", "float32", 16, 32)\npto.tload(a, x)\npto.tadds(a[n : n + 4], a[0:4], 1)'
    report = kernel_of(body, "x, n: int")[1](np.zeros((16, 32), "float32"), 2, target="a2a3", engine="machine")
    assert {finding.rule for finding in report.findings} == {"SL-05"}


def test_the_end_of_a_slice_is_what_the_fix_bounds() -> None:
    body = 'a = pto.Tile("vec", "float32", 16, 32)\npto.texpands(a, 0)\npto.tadds(a[4:n], a[4:n], 1)'
    with pytest.raises(pto.VerifyError) as refusal:
        kernel_of(body, "x, n: int")[1](np.zeros((16, 32), "float32"), 17)
    (finding,) = refusal.value.findings
    assert "a[4:17] does not lie within 0:16" in finding.message and "pto.min(16, stop)" in finding.fix


@pytest.mark.parametrize(("part", "printed"), [(slice(0, 6), "does not lie within 0:5"), (slice(3, 3), "is empty")])
def test_a_slice_beyond_the_valid_region_is_not_called_empty(part: slice, printed: str) -> None:
    with pytest.raises(pto.VerifyError, match=printed):
        pto.Tile("vec", "float32", 8, 8, valid=(5, 8))[part]


def test_a_loop_that_leaves_the_tile_is_found_before_it_runs() -> None:
    kernel = kernel_of(
        'a = pto.Tile("vec", "int32", 16, 8)\npto.tload(a, x)\n'
        "for i in pto.range(10):\n    pto.tadds(a[i : i + 8], a[i : i + 8], 1)",
        "x",
    )
    report = pto.check(kernel, np.zeros((16, 8), "int32"))
    assert {finding.rule for finding in report.findings} == {"SL-01"}
    assert "a[9:17]" in report.findings[0].message


def test_slices_in_manual_mode() -> None:
    code = """
@pto.kernel(mode="manual")
def cut(x):
    a = pto.Tile("vec", "int32", 16, 32, addr=256)
    pto.tload(a[0:8], x[0:8])
    pto.tload(a[8:16], x[8:16])
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(a[0:8, 0:16], a[0:8, 16:32], a[8:16, 0:16])
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(x[0:8], a[0:8])
"""
    scope: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(code, "manual slices"), scope)
    start = np.arange(512, dtype="int32").reshape(16, 32)
    expected = start.copy()
    expected[:8, :16] = start[:8, 16:] + start[8:, :16]
    for target in FAMILIES:
        for engine in ENGINES:
            x = start.copy()
            report = scope["cut"][1](x, target=target, engine=engine)
            assert (x == expected).all()
            assert engine != "machine" or report.ok
    missing = code.replace('    pto.wait_flag("MTE2", "V", 0)\n', "").replace('    pto.set_flag("MTE2", "V", 0)\n', "")
    exec(snippet.compiled(missing, "manual slices without a flag"), scope)
    report = scope["cut"][1](start.copy(), target="a2a3", engine="machine")
    assert not report.ok and "a" in report.findings[0].message


def test_cpp_writes_a_slice_as_a_tile_of_fewer_valid_columns() -> None:
    body = """
a = pto.Tile("vec", "float32", 16, 32)
b = pto.Tile("vec", "float32", 4, 8)
pto.tload(a, x)
for i in pto.range(4):
    pto.tmuls(b, a[i : i + 4, 8:16], 2)
    pto.tmuls(a[i + 4 : i + 5], a[i + 4 : i + 5], 3)
pto.tstore(x, a)
""".strip()
    program = program_of(kernel_of(body, "x"), "a5", np.zeros((16, 32), "float32"))
    text = emit(program, profile("a5"))
    assert "Tile<TileType::Vec, float, 4, 32, BLayout::RowMajor, 4, 8> a_slice;" in text
    assert "TASSIGN(a_slice, (i * 32 + 8) * 4);" in text
    assert "Tile<TileType::Vec, float, 1, 32> a_slice_1;" in text


def test_the_simulators_load_would_clear_what_lies_beside_a_slice() -> None:
    kernel = kernel_of(
        'a = pto.Tile("vec", "float32", 8, 32)\npto.tload(a, x)\npto.tload(a[:, 0:8], y)\npto.tstore(x, a)', "x, y"
    )
    given = np.zeros((8, 32), "float32"), np.zeros((8, 8), "float32")
    with pytest.raises(pto.VerifyError, match="TL-03"):
        emit(program_of(kernel, "cpu", *given), profile("cpu"))
    assert "TLOAD(a_slice" in emit(program_of(kernel, "a5", *given), profile("a5"))


@pytest.mark.parametrize(("tile", "refused"), [("a[4:n]", True), ("a[4:8]", False)])
def test_the_simulators_load_would_clear_what_is_not_valid_in_a_slice(tile: str, refused: bool) -> None:
    body = f'a = pto.Tile("vec", "float32", 16, 32)\npto.texpands(a, 3)\npto.tload({tile}, {tile.replace("a", "x")})'
    program = program_of(kernel_of(body, "x, n: int"), "cpu", np.zeros((16, 32), "float32"), 8)
    if refused:
        with pytest.raises(pto.VerifyError, match="TL-03"):
            emit(program, profile("cpu"))
    else:
        assert "TLOAD(a_slice" in emit(program, profile("cpu"))


def test_a_subset_of_text_is_a_slice() -> None:
    """An offset known at run time, of a tile that is valid in part: the rest of the tile is not."""
    text = """
func.func @f(%x: !pto.ptr<f32>, %i: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c12 = arith.constant 12 : index
  %c16 = arith.constant 16 : index
  %v = pto.make_tensor_view %x, shape = [%c16, %c8], strides = [%c8, %c1] : !pto.tensor_view<16x8xf32>
  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c12, %c8] : VIEW
  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x8xf32, valid=12x8>
  pto.tload ins(%p : !pto.partition_tensor_view<12x8xf32>) outs(%t : !pto.tile_buf<vec, 16x8xf32, valid=12x8>)
  %s = pto.subset %t[%i, %c0] sizes [4, 8] : !pto.tile_buf<vec, 16x8xf32, valid=12x8>
  pto.tabs ins(%s : !pto.tile_buf<vec, 4x8xf32, valid=?x8>) outs(%s : !pto.tile_buf<vec, 4x8xf32, valid=?x8>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 16x8xf32, valid=12x8>) outs(%p : !pto.partition_tensor_view<12x8xf32>)
  return
}
"""
    view = "!pto.tensor_view<16x8xf32> -> !pto.partition_tensor_view<12x8xf32>"
    kernel = from_text(text.replace("VIEW", view))
    for start in (0, 3, 10):
        x = np.full((16, 8), -1, "float32")
        kernel[1](x, start)
        assert (np.flatnonzero(x[:, 0] > 0) == np.arange(start, min(start + 4, 12))).all()


def test_an_instruction_knows_the_slice_it_uses() -> None:
    kernel = kernel_of('a = pto.Tile("vec", "int32", 16, 8)\npto.texpands(a[2:4], 1)', "x")
    program = program_of(kernel, "cpu", np.zeros(8, "int32"))
    (instr,) = (stmt for stmt in walk(program.body) if isinstance(stmt, Instr))
    assert instr.tiles[0].window is not None and instr.tiles[0].window.start == (2, 0)
