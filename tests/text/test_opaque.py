"""Instructions that are known by their effects only, in every form of text."""

from __future__ import annotations

from typing import Any

import pytest

from ptokit.finding import VerifyError
from ptokit.isa.dtype import dtype
from ptokit.isa.opaque import NONE, OpaqueRow, is_in_cpp, opaque_rows
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.program.ir import Branch, Flag, Instr, Number, Program, TileDecl, TileUse
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options
from ptokit.target import PROFILES
from ptokit.text.cpp import emit
from ptokit.text.errors import TextError
from ptokit.text.forms import print_program, read_program

SPEC = TileSpec(dtype("float32"), TileType.Vec, 8, 16, 8, 16)
NEEDED: dict[str, tuple[tuple[str, Any], ...]] = {
    **dict.fromkeys(("get_buf", "rls_buf"), (("buf_id", 0), ("op_type", "TLOAD"))),
    "reserve_buffer": (("name", "t0"),),
}
"""Attributes that an operation always has in text."""


def program(name: str, form: str) -> Program:
    """A kernel with one instruction."""
    letters = "" if form == NONE else form
    tiles = [TileDecl(f"t{k}", SPEC) for k, letter in enumerate(letters) if letter != "n"]
    operands = tuple(
        Number(dtype("int64"), k + 3) if letter == "n" else TileUse(f"t{k}", (8, 16))
        for k, letter in enumerate(letters)
    )
    attributes = NEEDED.get(name, (("mode", 3),))
    return Program("k", (), (*tiles, Instr(name, operands, opaque_form=form, attributes=attributes)))


@pytest.mark.parametrize("row", opaque_rows().values(), ids=lambda row: row.name)
def test_every_form_of_the_table_round_trips(row: OpaqueRow) -> None:
    for form in row.forms:
        made = program(row.name, form.key)
        assert read_program(print_program(made, "l1"), "k.pto") == made
        assert read_program(print_program(made, "l2"), "k.pto") == made
        assert read_program(print_program(made, "as"), "k.ptoas") == made
        if is_in_cpp(row.name, form.key):
            assert f"{row.name.upper()}(" in emit(made, PROFILES["a5"])
        else:
            with pytest.raises(VerifyError, match=r"CP-HDR-01.*: the C\+\+ headers have no call for it"):
                emit(made, PROFILES["a5"])


def test_a_call_that_is_not_in_the_table_round_trips() -> None:
    made = program("zzz_unheard_of", "rwnr")
    for form, file in (("l1", "k.pto"), ("l2", "k.pto"), ("as", "k.ptoas")):
        assert read_program(print_program(made, form), file) == made


TILE = "!pto.tile_buf<vec, 8x16xf32>"


def read(body: str, arguments: str = "") -> Program:
    return read_program(f"func.func @k({arguments}) {{\n{body}\nreturn\n}}\n", "k.pto")


def only(body: str) -> Instr:
    (instr,) = read(f"%t = pto.alloc_tile : {TILE}\n%u = pto.alloc_tile : {TILE}\n{body}").instructions
    return instr


def test_operands_stand_in_the_order_of_cpp() -> None:
    instr = only(f"pto.tpack ins(%t : {TILE}) outs(%u : {TILE})")
    assert (instr.name, instr.opaque_form) == ("tpack", "wr")
    assert [use.tile for use in instr.tiles] == ["u", "t"]


def test_a_form_of_a_modelled_instruction_that_is_not_modelled() -> None:
    masked = only(f"pto.tscatter ins(%t, {{maskPattern = #pto.mask_pattern<P0101>}} : {TILE}) outs(%u : {TILE})")
    assert (masked.name, masked.opaque_form, masked.attributes) == ("tscatter", "wr", (("maskPattern", "P0101"),))
    with pytest.raises(TextError, match="tadd takes 2 operands"):  # no public form
        only(f"pto.tadd ins(%t : {TILE}) outs(%u : {TILE})")


def test_a_misspelt_operation_is_refused() -> None:
    with pytest.raises(TextError, match=r"did you mean `?pto.tsort32"):
        only(f"pto.tsort23 ins(%t, %t : {TILE}, {TILE}) outs(%u : {TILE})")


def test_a_result_is_a_tile_that_is_written() -> None:
    popped = read(f"%t = pto.tpop_from_aic {{split = 1}} -> {TILE}\npto.tabs ins(%t : {TILE}) outs(%t : {TILE})")
    first, second = popped.instructions
    assert (first.name, first.opaque_form, first.tiles[0].tile) == ("tpop_from_aic", "w", "t")
    assert second.tiles[0].tile == "t"
    with pytest.raises(TextError, match=r"tpop_from_aic gives a tile(?s:.*)did you mean `!pto.tile_buf`"):
        read("%t = pto.tpop_from_aic {split = 1} -> !pto.tila_buf<vec, 16x32xf32>")


def test_a_reserved_buffer_takes_memory() -> None:
    text = '%a = pto.reserve_buffer {name = "fifo", size = 300000, location = #pto.address_space<vec>} -> i32'
    made = read(text)
    assert made.tiles["fifo"].spec.nbytes == 300000
    with pytest.raises(VerifyError, match="fifo"):
        emit(made, PROFILES["a5"])  # UB has 256 KB


def test_an_array_of_event_ids() -> None:
    made = read("""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %a = pto.declare_eventid_array -> !pto.eventid_array<2>
    pto.eventid_array_set %a[%c0], %c5 : !pto.eventid_array<2>
    pto.eventid_array_set %a[%c1], %c1 : !pto.eventid_array<2>
    %e = pto.eventid_array_get %a[%c0] : !pto.eventid_array<2>
    pto.set_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %e]
    pto.wait_flag_dyn [#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %e]
    """)
    assert [flag.event for flag in made.body if isinstance(flag, Flag)] == [5, 5]


def test_the_first_iteration_of_a_while_loop() -> None:
    made = read(
        f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = pto.alloc_tile : {TILE}
    %n = scf.while (%i = %c0) : (index) -> (index) {{
      %go = arith.cmpi slt, %i, %most : index
      scf.condition(%go) %i : index
    }} do {{
    ^bb0(%j: index):
      pto.tabs ins(%t : {TILE}) outs(%t : {TILE})
      %next = arith.addi %j, %c1 : index
      scf.yield %next : index
    }}
    """,
        "%most: index",
    )
    mark, branch = made.body[-2:]
    assert isinstance(mark, Instr) and mark.name == "scf_while"
    assert isinstance(branch, Branch) and [instr.name for instr in made.instructions] == ["scf_while", "tabs"]


def test_scales_of_cube_operands_have_memories_of_their_own() -> None:
    nz, zn, zz, nn = (
        f"blayout={outer}_major, slayout={inner}_major, fractal={size}"
        for outer, inner, size in (("col", "row", 512), ("row", "col", 512), ("row", "row", 32), ("col", "col", 32))
    )
    left, right = f"!pto.tile_buf<left, 16x64xf8E4M3FN, {nz}>", f"!pto.tile_buf<right, 64x32xf8E4M3FN, {zn}>"
    scale, other = f"!pto.tile_buf<scaling, 16x2x!pto.f8E8M0, {zz}>", f"!pto.tile_buf<scaling, 2x32x!pto.f8E8M0, {nn}>"
    acc = f"!pto.tile_buf<acc, 16x32xf32, {nz.replace('512', '1024')}>"
    made = read(f"""
    %a = pto.alloc_tile : {left}
    %b = pto.alloc_tile : {right}
    %x = pto.alloc_tile : {scale}
    %y = pto.alloc_tile : {other}
    %c = pto.alloc_tile : {acc}
    pto.tmatmul.mx ins(%a, %x, %b, %y : {left}, {scale}, {right}, {other}) outs(%c : {acc})
    """)
    places = {name: tile.spec.loc for name, tile in made.tiles.items()}
    assert (places["x"], places["y"]) == (TileType.ScaleLeft, TileType.ScaleRight)
    assert read_program(print_program(made), "k.pto") == made
    with pytest.raises(VerifyError, match="L0A scales"):
        emit(made, PROFILES["a2a3"])


def alias(op: str, kind: str, cols: int) -> str:
    """A kernel that adds to a tile of another type at the address of a tile."""
    tile = "!pto.tile_buf<loc=vec, dtype={}, rows={}, cols={}, v_row={}, v_col={}, blayout=row_major, " \
           "slayout=none_box, fractal=512, pad=0>"  # fmt: skip
    one, other = tile.format("f32", 8, 16, 8, 16), tile.format(kind, 1, cols, 1, cols)
    return f"""
func.func @k() {{
  %zero = arith.constant 0 : i64
  %a = pto.alloc_tile addr = %zero : {one}
  %b = pto.{op} %a : {one} -> {other}
  pto.tadd ins(%b, %b : {other}, {other}) outs(%b : {other})
  return
}}
"""


@pytest.mark.parametrize("case", [("treshape", "f32", 128), ("bitcast", "i32", 128), ("treshape", "f16", 256)])
def test_a_view_of_a_tile_with_an_address_is_a_tile_there(case: tuple[str, str, int]) -> None:
    op, kind, cols = case
    found = read_program(alias(op, kind, cols))
    assert [instr.name for instr in found.instructions] == ["tadd"]
    assert [found.tiles[name].addresses for name in ("a", "b")] == [(0,), (0,)]
    with pytest.raises(TextError, match="as many bytes"):
        read_program(alias(op, kind, 2 * cols))


ON_BOTH_CORES = """
func.func @k(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %v = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
  %from = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf32>
    -> !pto.partition_tensor_view<16x16xf32>
  %w = pto.make_tensor_view %out, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
  %to = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf32>
    -> !pto.partition_tensor_view<16x16xf32>
  %acc = pto.alloc_tile : !pto.tile_buf<acc, 16x16xf32>
  %vec = pto.alloc_tile : !pto.tile_buf<vec, 16x16xf32>
  pto.tstore ins(%acc : !pto.tile_buf<acc, 16x16xf32>) outs(%to : !pto.partition_tensor_view<16x16xf32>)
  PUSH
  pto.tload ins(%from : !pto.partition_tensor_view<16x16xf32>) outs(%vec : !pto.tile_buf<vec, 16x16xf32>)
  return
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_pushes_hand_over_between_the_cores(target: str) -> None:
    """In an order that is not modelled; without them nothing does."""
    push = "pto.tpush_to_aiv(%acc : !pto.tile_buf<acc, 16x16xf32>) {split = 0}"
    for line, expected in (("", True), (push, False)):
        case = read_program(ON_BOTH_CORES.replace("PUSH", line), "k.pto")
        assert expected == any(f.rule == "KN-16" for f in verify(case, PROFILES[target], Options()))
