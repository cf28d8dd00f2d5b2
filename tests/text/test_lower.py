"""From text to programs: what operations mean, what is refused, and where findings point."""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ptokit as pto
from ptokit.isa.policy import BLayout, Coalesce, Dividend, GatherOOB, ScatterAtomicOp, ScatterConflict, ScatterOOB
from ptokit.lang.loaded import from_text
from ptokit.program.expr import BLOCK_IDX, Op, Var
from ptokit.program.ir import Argument, Barrier, Branch, Flag, Instr, Integer, LoadScalar, Loop, Program, TileDecl, walk
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.text.cpp import emit
from ptokit.text.errors import TextError
from ptokit.text.forms import FORMS, print_program, read_program
from tests.program import happens_before

TILE = "!pto.tile_buf<vec, 8x8xi32>"
HEAD = """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
"""
VIEW = """
    %view = pto.make_tensor_view %out, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xi32>
    %part = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c8, %c8]
      : !pto.tensor_view<8x8xi32> -> !pto.partition_tensor_view<8x8xi32>
"""
STORE = f"pto.tstore ins(%t : {TILE}) outs(%part : !pto.partition_tensor_view<8x8xi32>)"


def kernel(body: str, arguments: str = "%out: !pto.ptr<i32>", others: str = "", name: str = "k") -> str:
    """A kernel that knows 0, 1, 8 and a view of its output."""
    head = HEAD + (VIEW if "%out" in arguments else "")
    return f"module {{\n{others}\nfunc.func @{name}({arguments}) {{{head}{textwrap.dedent(body)}\nreturn\n}}\n}}\n"


def program(body: str, arguments: str = "%out: !pto.ptr<i32>", others: str = "") -> Program:
    return read_program(kernel(body, arguments, others), "k.pto")


def instructions(found: Program) -> list[Instr]:
    return [stmt for stmt in walk(found.body) if isinstance(stmt, Instr)]


def value_of(body: str, grid: int = 1, arguments: str = "%out: !pto.ptr<i32>", **given: Any) -> int:
    """The number `%x` (of type i32) that a kernel computes in its last block."""
    out = np.zeros((8, 8), "int32")
    computing(body, arguments)[grid](out=out, **given)
    return int(out[0, 0])


@lru_cache
def computing(body: str, arguments: str) -> Any:
    """A kernel that stores the number `%x`."""
    written = f"""{body}
    %t = pto.alloc_tile : {TILE}
    pto.texpands ins(%x : i32) outs(%t : {TILE})
    {STORE}"""
    return from_text(kernel(written, arguments))


# --- Numbers -------------------------------------------------------------------------------------------------------


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


NAIVE: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "divsi": towards_zero,
    "remsi": lambda a, b: a - towards_zero(a, b) * b, "floordivsi": operator.floordiv,
    "ceildivsi": lambda a, b: -(-a // b), "minsi": min, "maxsi": max, "andi": operator.and_, "ori": operator.or_,
    "xori": operator.xor, "shli": lambda a, b: a << b, "shrsi": lambda a, b: a >> b,
    "divui": lambda a, b: (a % 2**64) // (b % 2**64), "remui": lambda a, b: (a % 2**64) % (b % 2**64),
    "minui": lambda a, b: min(a % 2**64, b % 2**64), "maxui": lambda a, b: max(a % 2**64, b % 2**64),
}  # fmt: skip
DIVISIONS = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui")
NUMBERS = st.integers(-40, 40)


@settings(deadline=None)
@given(st.sampled_from(sorted(NAIVE)), NUMBERS, NUMBERS, st.booleans())
def test_numbers_are_what_mlir_says_they_are(name: str, a: int, b: int, known: bool) -> None:
    assume(b or name not in DIVISIONS)
    assume(b >= 0 or name not in ("shli", "shrsi"))
    expected = NAIVE[name](a, b)
    assume(-(2**31) <= expected < 2**31)
    body = f"%r = arith.{name} %a, %b : index\n%x = arith.index_cast %r : index to i32"
    if known:  # both numbers stand in the text, or only the launch knows them
        constants = f"%a = arith.constant {a} : index\n%b = arith.constant {b} : index\n"
        assert value_of(constants + body) == expected
    else:
        assert value_of(body, 1, "%out: !pto.ptr<i32>, %a: index, %b: index", a=a, b=b) == expected


COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne,
    "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge,
    "ult": lambda a, b: a % 2**64 < b % 2**64, "ule": lambda a, b: a % 2**64 <= b % 2**64,
    "ugt": lambda a, b: a % 2**64 > b % 2**64, "uge": lambda a, b: a % 2**64 >= b % 2**64,
}  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(sorted(COMPARED)), NUMBERS, NUMBERS)
def test_comparisons_and_selections_are_what_mlir_says_they_are(name: str, a: int, b: int) -> None:
    body = f"""%c = arith.cmpi {name}, %a, %b : i64
    %r = arith.select %c, %a, %b : i64
    %x = arith.trunci %r : i64 to i32"""
    found = value_of(body, 1, "%out: !pto.ptr<i32>, %a: i64, %b: i64", a=a, b=b)
    assert found == (a if COMPARED[name](a, b) else b)


@pytest.mark.parametrize(("number", "kept"), [(5, 5), (300, 44), (-1, -1), (200, -56), (2**40 + 3, 3)])
def test_a_number_is_cut_to_its_type(number: int, kept: int) -> None:
    body = "%n8 = arith.trunci %n : i64 to i8\n%x = arith.extsi %n8 : i8 to i32"
    assert value_of(body, 1, "%out: !pto.ptr<i32>, %n: i64", n=number) == kept


def test_the_sign_of_one_bit_and_of_unsigned_results() -> None:
    arguments = "%out: !pto.ptr<i32>, %a: i32, %b: i32"
    assert value_of("%x = arith.minui %a, %b : i32", 1, arguments, a=-7, b=-2) == -7
    smaller = "%c = arith.cmpi slt, %a, %b : i32\n"
    assert value_of(smaller + "%x = arith.extsi %c : i1 to i32", 1, arguments, a=1, b=2) == -1
    assert value_of(smaller + "%x = arith.extui %c : i1 to i32", 1, arguments, a=1, b=2) == 1
    chosen = "%x = arith.select %a, %b, %b2 : i32".replace("%b2", "%c")
    body = "%c = arith.constant 4 : i32\n" + chosen
    assert value_of(body, 1, "%out: !pto.ptr<i32>, %a: i1, %b: i32", a=2, b=8) == 8


@pytest.mark.parametrize(("number", "kept"), [(5, 5), (-1, 255), (-128, 128)])
def test_a_number_is_widened_without_a_sign(number: int, kept: int) -> None:
    body = "%n8 = arith.trunci %n : i64 to i8\n%x = arith.extui %n8 : i8 to i32"
    assert value_of(body, 1, "%out: !pto.ptr<i32>, %n: i64", n=number) == kept


def test_the_number_of_a_block() -> None:
    body = "%b = pto.get_block_idx\n%x = arith.trunci %b : i64 to i32"
    assert value_of(body, grid=4) == 3
    assert value_of("%b = pto.get_block_num\n%x = arith.trunci %b : i64 to i32", grid=4) == 4


def test_divisions_stay_divisions_where_nothing_is_negative() -> None:
    found = program("""
        %b = pto.get_block_idx
        %i = arith.index_cast %b : i64 to index
        %q = arith.divsi %i, %c8 : index
        %r = arith.remui %i, %c8 : index
        scf.for %j = %q to %r step %c1 { pto.barrier <PIPE_ALL> }
    """)
    loop = next(stmt for stmt in walk(found.body) if isinstance(stmt, Loop))
    assert (loop.start, loop.stop) == (Op("floordiv", (BLOCK_IDX, 8)), Op("mod", (BLOCK_IDX, 8)))


def test_an_endless_expression_is_refused() -> None:
    lines = ["%x0 = arith.addi %n, %n : index"]
    lines += [f"%x{k} = arith.addi %x{k - 1}, %x{k - 1} : index" for k in range(1, 60)]
    with pytest.raises(TextError, match="more than 400 operations"):
        program("\n".join(lines), "%n: index")


# --- Loops, branches, calls ------------------------------------------------------------------------------------------


def test_a_loop_carries_a_number_that_grows() -> None:
    body = """
    %ten = arith.constant 10 : index
    %two = arith.constant 2 : index
    %s = scf.for %i = %c1 to %ten step %two iter_args(%acc = %c8) -> (index) {
      %more = arith.addi %acc, %two : index
      scf.yield %more : index
    }
    %x = arith.index_cast %s : index to i32
    """
    assert value_of(body) == 8 + 2 * 5


def test_a_loop_that_never_runs_carries_nothing_further() -> None:
    body = """
    %s = scf.for %i = %c8 to %c0 step %c1 iter_args(%acc = %c8) -> (index) {
      %more = arith.addi %acc, %c1 : index
      scf.yield %more : index
    }
    %x = arith.index_cast %s : index to i32
    """
    assert value_of(body) == 8


def test_a_loop_that_carries_a_sum_of_its_own_variable_is_refused() -> None:
    with pytest.raises(TextError, match="which the loop carries") as caught:
        program("""
            %s = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %c0) -> (index) {
              %more = arith.addi %acc, %i : index
              scf.yield %more : index
            }
        """)
    assert "must grow by the same" in str(caught.value)


@pytest.mark.parametrize(("step", "expected"), [(1, 7), (3, 6), (5, 5)])
def test_a_step_that_the_launch_passes_is_counted_in_iterations(step: int, expected: int) -> None:
    body = f"""
    %t = pto.alloc_tile : {TILE}
    scf.for %i = %c0 to %c8 step %step {{
      %x = arith.index_cast %i : index to i32
      pto.texpands ins(%x : i32) outs(%t : {TILE})
    }}
    {STORE}"""
    out = np.zeros((8, 8), "int32")
    from_text(kernel(body, "%out: !pto.ptr<i32>, %step: index"))[1](out=out, step=step)
    assert out[0, 0] == expected


def test_a_branch_gives_one_number_or_the_other() -> None:
    body = """
    %c = arith.cmpi slt, %n, %c8 : index
    %r = scf.if %c -> (index) {
      scf.yield %c1 : index
    } else {
      %twice = arith.addi %n, %n : index
      scf.yield %twice : index
    }
    %x = arith.index_cast %r : index to i32
    """
    arguments = "%out: !pto.ptr<i32>, %n: index"
    assert [value_of(body, 1, arguments, n=n) for n in (3, 8, 20)] == [1, 16, 40]


def test_a_call_is_written_out_for_its_arguments() -> None:
    others = f"""
    func.func @fill(%t: {TILE}, %n: index) -> index {{
      %x = arith.index_cast %n : index to i32
      pto.texpands ins(%x : i32) outs(%t : {TILE})
      %more = arith.addi %n, %n : index
      return %more : index
    }}"""
    body = f"""
    %t = pto.alloc_tile : {TILE}
    %a = func.call @fill(%t, %c8) : ({TILE}, index) -> index
    %b = call @fill(%t, %a) : ({TILE}, index) -> index
    {STORE}"""
    out = np.zeros((8, 8), "int32")
    from_text(kernel(body, others=others))[1](out=out)
    assert (out == 16).all()


def test_a_number_that_only_one_arm_can_compute_is_refused() -> None:
    for arm in ("%v = arith.divsi %c8, %n : index", "%l = pto.load_scalar %ids[%c0] : !pto.ptr<i32> -> i32\n"
                "%v = arith.index_cast %l : i32 to index"):  # fmt: skip
        with pytest.raises(TextError, match="which only one arm can compute"):
            program(f"""
                %c = arith.cmpi ne, %n, %c0 : index
                %r = scf.if %c -> (index) {{ {arm}
                  scf.yield %v : index }} else {{ scf.yield %c0 : index }}
            """, "%ids: !pto.ptr<i32>, %n: index")  # fmt: skip


def test_extents_that_a_loop_changes_in_a_call_are_refused() -> None:
    wide = "!pto.tile_buf<vec, 8x8xi32, valid=?x?>"
    others = f"func.func @shrink(%x: {wide}, %n: index) {{ pto.set_validshape %x, %n, %n : {wide}\n return }}"
    body = f"""
    %t = pto.alloc_tile valid_row = %c8 valid_col = %c8 : {wide}
    scf.for %i = %c0 to %c8 step %c1 {{
      pto.tabs ins(%t : {wide}) outs(%t : {wide})
      func.call @shrink(%t, %c1) : ({wide}, index) -> ()
    }}"""
    with pytest.raises(TextError, match="changes the valid extents of %t in a call"):
        program(body, "", others)


def test_extents_that_both_arms_set_alike_are_known() -> None:
    wide = "!pto.tile_buf<vec, 8x8xi32, valid=?x?>"
    found = program(f"""
    %t = pto.alloc_tile valid_row = %c8 valid_col = %c8 : {wide}
    %c = arith.cmpi slt, %n, %c8 : index
    scf.if %c {{ pto.set_validshape %t, %c1, %c8 : {wide} }} else {{ pto.set_validshape %t, %c1, %c8 : {wide} }}
    pto.tabs ins(%t : {wide}) outs(%t : {wide})""", "%n: index")  # fmt: skip
    assert instructions(found)[0].operands[0].valid == (1, 8)  # type: ignore[union-attr]
    assert read_program(print_program(found), "k") == found


def test_a_result_in_a_called_function_goes_into_its_own_tile() -> None:
    tile = "!pto.tile<8x8xi32>"
    others = f"""
    func.func @twice(%a: {tile}) {{
      %t = pto.tabs %a : ({tile}) -> {tile}
      %u = pto.tadd %t, %a {{tile = "t"}} : ({tile}, {tile}) -> {tile}
      return
    }}"""
    found = program(f"%t = pto.alloc_tile : {tile}\nfunc.call @twice(%t) : ({tile}) -> ()", "", others)
    assert [instr.operands[0].tile for instr in instructions(found)] == ["t_1", "t_1"]  # type: ignore[union-attr]


def test_a_function_that_calls_itself_is_refused() -> None:
    others = "func.func @again(%n: index) {\n func.call @again(%n) : (index) -> ()\n return\n}"
    with pytest.raises(TextError, match="nested calls"):
        program("func.call @again(%c0) : (index) -> ()", others=others)


def test_calls_that_double_at_every_level_are_bounded() -> None:
    levels = [
        f"func.func @f{k}() {{ call @f{k + 1}() : () -> ()\n call @f{k + 1}() : () -> ()\n return }}" for k in range(14)
    ]
    levels.append("func.func @f14() { " + "\n".join(["pto.barrier <PIPE_ALL>"] * 40) + "\n return }")
    with pytest.raises(TextError, match=r"calls of functions of more than [0-9]+ characters"):
        program("call @f0() : () -> ()", others="\n".join(levels))


def test_the_kernel_is_the_function_without_callers() -> None:
    text = "func.func @b() { return }\nfunc.func @a() { call @b() : () -> ()\n return }"
    assert read_program(text, "x.pto").name == "a"
    assert read_program(text, "x.pto", "b").name == "b"
    two = "func.func @a() { return }\nfunc.func @b() { return }"
    with pytest.raises(TextError, match="2 kernels \\(a, b\\)"):
        read_program(two, "x.pto")
    marked = two.replace("@b()", "@b() attributes {pto.entry}")
    assert read_program(marked, "x.pto").name == "b"
    with pytest.raises(TextError, match="no function c; the text has a, b"):
        read_program(two, "x.pto", "c")
    with pytest.raises(TextError, match="no kernel"):
        read_program("module {}", "x.pto")


# --- Memory --------------------------------------------------------------------------------------------------------


def test_the_first_view_of_a_pointer_is_the_argument_and_others_share_its_memory() -> None:
    found = program("""
        %c64 = arith.constant 64 : index
        %half = pto.addptr %out, %c8 : !pto.ptr<i32> -> !pto.ptr<i32>
        %flat = pto.make_tensor_view %half, shape = [%c8], strides = [%c1] : !pto.tensor_view<8xi32>
        %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
        %w = pto.partition_view %flat, offsets = [%c0], sizes = [%c8]
          : !pto.tensor_view<8xi32> -> !pto.partition_tensor_view<8xi32>
        pto.tload ins(%w : !pto.partition_tensor_view<8xi32>) outs(%t : !pto.tile_buf<vec, 1x8xi32>)
    """)
    owner, other = (a for a in found.arguments if isinstance(a, Argument))
    assert (owner.name, owner.shape, owner.stride, owner.view_of, owner.offset) == ("out", (8, 8), (8, 1), "", 0)
    assert (other.name, other.shape, other.view_of, other.offset) == ("flat", (8,), "out", 8)


def test_views_of_one_pointer_show_one_memory() -> None:
    body = """
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
    %u = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
    scf.for %i = %c0 to %c8 step %c1 {
      %at = arith.muli %i, %c8 : index
      %p = pto.addptr %out, %at : !pto.ptr<i32> -> !pto.ptr<i32>
      %row = pto.make_tensor_view %p, shape = [%c8], strides = [%c1] : !pto.tensor_view<?xi32>
      %w = pto.partition_view %row, offsets = [%c0], sizes = [%c8]
        : !pto.tensor_view<?xi32> -> !pto.partition_tensor_view<8xi32>
      %x = arith.index_cast %i : index to i32
      pto.texpands ins(%x : i32) outs(%t : !pto.tile_buf<vec, 1x8xi32>)
      pto.tload ins(%w : !pto.partition_tensor_view<8xi32>) outs(%u : !pto.tile_buf<vec, 1x8xi32>)
      pto.tadd ins(%t, %u : !pto.tile_buf<vec, 1x8xi32>, !pto.tile_buf<vec, 1x8xi32>)
        outs(%u : !pto.tile_buf<vec, 1x8xi32>)
      pto.tstore ins(%u : !pto.tile_buf<vec, 1x8xi32>) outs(%w : !pto.partition_tensor_view<8xi32>)
    }
    """
    for target in ("cpu", "a2a3", "a5"):
        out = np.full((8, 8), 100, "int32")
        from_text(kernel(body))[1](out=out, target=target)
        assert (out == 100 + np.arange(8)[:, None]).all()
    found = program(body)
    assert read_program(print_program(found), "k") == found
    for target in (A2A3, A5):
        ordered = order(place(found, target).program, target)
        assert any(isinstance(stmt, Flag) for stmt in walk(ordered.body))
        assert happens_before.check(ordered, target) == []


def test_names_of_the_block_are_no_ones_else() -> None:
    arguments = "%out: !pto.ptr<i32>, %block_idx: index"
    body = """
    %sum = scf.for %block_num = %c0 to %block_idx step %c1 iter_args(%s = %c0) -> (index) {
      %more = arith.addi %s, %c8 : index
      scf.yield %more : index
    }
    %x = arith.index_cast %sum : index to i32
    """
    assert value_of(body, 5, arguments, block_idx_1=3) == 24


def test_a_view_beyond_the_array_is_refused_before_and_during_the_run() -> None:
    text = kernel(f"%t = pto.alloc_tile : {TILE}\n{STORE}")
    with pytest.raises(pto.OutOfBoundsError, match="64 in all; found an array of 63"):
        from_text(text)[1](out=np.zeros(63, "int32"))
    body = """
    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x8xi32>
    pto.texpands ins(%one : i32) outs(%t : !pto.tile_buf<vec, 1x8xi32>)
    %i = pto.get_block_idx
    %at = arith.index_cast %i : i64 to index
    %p = pto.addptr %mem, %at : !pto.ptr<i32> -> !pto.ptr<i32>
    %row = pto.make_tensor_view %p, shape = [%c8], strides = [%c1] : !pto.tensor_view<?xi32>
    %w = pto.partition_view %row, offsets = [%c0], sizes = [%c8]
      : !pto.tensor_view<?xi32> -> !pto.partition_tensor_view<8xi32>
    pto.tstore ins(%t : !pto.tile_buf<vec, 1x8xi32>) outs(%w : !pto.partition_tensor_view<8xi32>)
    """
    moving = kernel("%one = arith.constant 1 : i32\n" + body, "%mem: !pto.ptr<i32>")
    mem = np.zeros(10, "int32")
    from_text(moving)[3](mem=mem)
    assert (mem == 1).all()
    with pytest.raises(pto.OutOfBoundsError, match="elements 3 to 10 of row are used, but its array has 10 elements"):
        from_text(moving)[4](mem=mem)


def test_an_array_of_another_type_or_shape_is_refused() -> None:
    text = kernel(f"%t = pto.alloc_tile : {TILE}\n{STORE}")
    with pytest.raises(pto.VerifyError, match="holds int32 in the text; found float32"):
        from_text(text)[1](out=np.zeros((8, 8), "float32"))
    with pytest.raises(
        pto.VerifyError, match=r"is \[8, 8\] in the text, with strides \[8, 1\]; found an array of shape \[4, 16\]"
    ):
        from_text(text)[1](out=np.zeros((4, 16), "int32"))
    wide = np.zeros((8, 16), "int32")
    for strided in (wide[:, :8], wide[:, ::2], np.asfortranarray(np.zeros((8, 8), "int32")), wide.reshape(-1)[::2]):
        with pytest.raises(pto.VerifyError, match="found an array of shape"):
            from_text(text)[1](out=strided)
    with pytest.raises(TypeError, match="missing out; it takes out \\(array\\)"):
        from_text(text)[1]()
    with pytest.raises(TypeError, match="unknown other"):
        from_text(text)[1](other=1)


ROWS_OF_IDS = """
%c5 = arith.constant 5 : index
%c3 = arith.constant 3 : index
%v = pto.make_tensor_view %ids, shape = [%c5, %c8], strides = [%c8, %c1] : !pto.tensor_view<5x8xi32>
%from = arith.muli %row, %c8 : index
"""


def test_a_scalar_load_by_a_pointer_to_a_row_has_the_dims_of_its_argument() -> None:
    arguments = "%out: !pto.ptr<i32>, %ids: !pto.ptr<i32>, %row: index"
    body = (
        ROWS_OF_IDS
        + """
    %p = pto.addptr %ids, %from : !pto.ptr<i32> -> !pto.ptr<i32>
    %x = pto.load_scalar %p[%c3] : !pto.ptr<i32> -> i32
    """
    )
    ids = np.arange(40, dtype="int32").reshape(5, 8)
    assert value_of(body, 1, arguments, ids=ids, row=2) == ids[2, 3]
    found = program(body, arguments)
    load = next(stmt for stmt in walk(found.body) if isinstance(stmt, LoadScalar))
    assert (load.source.argument, load.source.starts) == ("ids", (Var("row"), 3))
    assert read_program(print_program(found), "k") == found
    with pytest.raises(pto.OutOfBoundsError):
        value_of(body, 1, arguments, ids=ids, row=5)


def test_another_scalar_load_is_bounded_by_the_array_alone() -> None:
    arguments = "%out: !pto.ptr<i32>, %ids: !pto.ptr<i32>, %row: index"
    body = (
        ROWS_OF_IDS
        + """
    %at = arith.addi %from, %c8 : index
    %x = pto.load_scalar %ids[%at] : !pto.ptr<i32> -> i32
    """
    )
    ids = np.arange(40, dtype="int32").reshape(5, 8)
    assert value_of(body, 1, arguments, ids=ids, row=2) == ids[3, 0]
    found = program(body, arguments)
    assert read_program(print_program(found), "k") == found
    with pytest.raises(pto.OutOfBoundsError):
        value_of(body, 1, arguments, ids=ids, row=4)


def test_a_scalar_load_of_a_bare_pointer_is_bounded_by_the_array() -> None:
    arguments = "%out: !pto.ptr<i32>, %ids: !pto.ptr<i32>, %i: index"
    body = "%x = pto.load %ids[%i] : !pto.ptr<i32> -> i32"
    ids = np.arange(5, dtype="int32") * 10
    assert value_of(body, 1, arguments, ids=ids, i=4) == 40
    for outside in (5, -1):
        with pytest.raises(pto.OutOfBoundsError):
            value_of(body, 1, arguments, ids=ids, i=outside)


def test_a_number_for_the_launch_gives_a_view_its_extent() -> None:
    arguments = "%src: !pto.ptr<f32>, %n: index, %scale: f32"
    tile = "!pto.tile_buf<vec, 8x8xf32, valid=?x8>"
    text = kernel(f"""
    %v = pto.make_tensor_view %src, shape = [%n, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x8xf32>
    %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%n, %c8]
      : !pto.tensor_view<?x8xf32> -> !pto.partition_tensor_view<?x8xf32>
    %t = pto.alloc_tile valid_row = %n : {tile}
    pto.tload ins(%w : !pto.partition_tensor_view<?x8xf32>) outs(%t : {tile})
    pto.tmuls ins(%t, %scale : {tile}, f32) outs(%t : {tile})
    pto.tstore ins(%t : {tile}) outs(%w : !pto.partition_tensor_view<?x8xf32>)
    """, arguments)  # fmt: skip
    loaded = from_text(text)
    assert loaded.parameters == {"src": "array", "n": "integer", "scale": "float"}
    src = np.ones((5, 8), "float32")
    loaded[1](src=src, n=5, scale=2.5)
    assert (src == 2.5).all()
    with pytest.raises(pto.OutOfBoundsError):
        loaded[1](src=src, n=6, scale=2.5)
    with pytest.raises(pto.VerifyError, match="takes a whole number"):
        loaded[1](src=src, n=2.0, scale=2.5)
    with pytest.raises(pto.VerifyError, match="takes one number"):
        loaded[1](src=src, n=5, scale="x")


def test_an_array_argument_with_open_extents_takes_those_of_the_array() -> None:
    text = f"""
    func.func @k(%a: !pto.tensor_view<?x8xf32>) {{
      {HEAD}
      %n = pto.get_tensor_view_dim %a, %c0 : !pto.tensor_view<?x8xf32> -> index
      %w = pto.partition_view %a, offsets = [%c0, %c0], sizes = [%n, %c8]
        : !pto.tensor_view<?x8xf32> -> !pto.partition_tensor_view<?x8xf32>
      %t = pto.alloc_tile valid_row = %n : !pto.tile_buf<vec, 8x8xf32, valid=?x8>
      %x = arith.constant 2.0 : f32
      pto.texpands ins(%x : f32) outs(%t : !pto.tile_buf<vec, 8x8xf32, valid=?x8>)
      pto.tstore ins(%t : !pto.tile_buf<vec, 8x8xf32, valid=?x8>) outs(%w : !pto.partition_tensor_view<?x8xf32>)
      return
    }}"""
    array = np.zeros((3, 8), "float32")
    loaded = from_text(text)
    loaded[1](array)
    assert (array == 2).all()
    assert [argument.name for argument in loaded.program.arguments] == ["a", "a.d0"]
    assert read_program(print_program(loaded.program), "k") == loaded.program


# --- Tiles, flags, instructions ------------------------------------------------------------------------------------


def test_addresses_flags_and_extents_are_kept() -> None:
    found = program("""
        %at = arith.constant 4096 : i64
        %e = arith.constant 3 : index
        %t = pto.alloc_tile addr = %at valid_row = %c8 : !pto.tile_buf<vec, 16x8xi32, valid=?x8>
        pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID2>]
        pto.wait_flag_dyn[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_V>, %e]
        pto.record_event [#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TVEC>, <EVENT_ID1>]
        pto.barrier <PIPE_ALL>
    """)
    assert found.mode == "manual"
    tile, *flags = found.body
    assert isinstance(tile, TileDecl) and tile.addresses == (4096,) and not tile.fresh
    assert tile.spec.valid == (8, 8) and tile.spec.dynamic == (True, False)
    shown = [(s.action, s.src, s.dst, s.event) if isinstance(s, Flag) else s for s in flags]
    assert shown == [("set", "MTE2", "V", 2), ("wait", "MTE2", "V", 3), ("set", "MTE2", "V", 1), Barrier("ALL")]


def test_valid_extents_that_depend_on_the_way_must_be_set_again() -> None:
    wide = "!pto.tile_buf<vec, 8x8xi32, valid=?x?>"
    body = f"""
    %t = pto.alloc_tile valid_row = %c8 valid_col = %c8 : {wide}
    %c = arith.cmpi slt, %n, %c8 : index
    scf.if %c {{ pto.set_validshape %t, %c1, %c8 : {wide} }}
    pto.tabs ins(%t : {wide}) outs(%t : {wide})"""
    with pytest.raises(TextError, match="are not known here; set_validshape sets them"):
        program(body, "%n: index")
    again = body.replace("pto.tabs", f"pto.set_validshape %t, %c8, %n : {wide}\npto.tabs")
    assert instructions(program(again, "%n: index"))[0].operands[0].valid == (8, Var("n"))  # type: ignore[union-attr]


def test_both_orders_of_a_division_by_a_scalar() -> None:
    tile = "!pto.tile_buf<vec, 8x8xf32>"
    first, second = instructions(program(f"""
        %t = pto.alloc_tile : {tile}
        pto.tdivs ins(%t, %x : {tile}, f32) outs(%t : {tile})
        pto.tdivs ins(%x, %t : f32, {tile}) outs(%t : {tile})
    """, "%x: f32"))  # fmt: skip
    assert first.modifiers == (None,) and second.modifiers == (Dividend.Scalar,)
    assert first.operands == second.operands


FLAT, COLUMN_OF = "!pto.tile_buf<vec, 8x8xf32>", "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
REDUCED = f"""
%t = pto.alloc_tile ADDR_T : {FLAT}
%tmp = pto.alloc_tile ADDR_TMP : {FLAT}
%sum = pto.alloc_tile ADDR_SUM : {COLUMN_OF}
pto.trowsum ins(%t, %tmp : {FLAT}, {FLAT}) outs(%sum : {COLUMN_OF})
"""


def test_the_workspace_of_an_author_is_kept() -> None:
    found = program(re.sub("ADDR_[A-Z]+", "", REDUCED), "")
    assert list(found.tiles) == ["t", "tmp", "sum"]
    (instr,) = instructions(found)
    assert instr.workspace is not None and instr.workspace.tile == "tmp"
    for form in FORMS:
        assert read_program(print_program(found, form), "k") == found
    assert "TROWSUM(sum, t, tmp)" in emit(found, A2A3)


@pytest.mark.parametrize(("at", "kind"), [(128, "H-38"), (1024, None), (196_608, "H-22")])
def test_a_workspace_lies_apart_from_other_tiles_and_inside_its_memory(at: int, kind: str | None) -> None:
    constants = f"%a = arith.constant 0 : i64\n%b = arith.constant {at} : i64\n%c = arith.constant 512 : i64\n"
    placed = REDUCED.replace("ADDR_TMP", "addr = %b").replace("ADDR_T", "addr = %a").replace("ADDR_SUM", "addr = %c")
    written = f"%x = arith.constant 0.0 : f32\npto.texpands ins(%x : f32) outs(%t : {FLAT})\npto.trowsum"
    kernel_of_text = from_text(kernel(constants + placed.replace("pto.trowsum", written), ""))
    report = pto.check(kernel_of_text, target="a2a3")
    assert {finding.kind for finding in report.findings if finding.level == "error"} == ({kind} if kind else set())


def test_a_workspace_that_was_made_up_for_the_text_is_no_part_of_the_program() -> None:
    found = program(re.sub("ADDR_[A-Z]+", "", REDUCED).replace(f"%tmp = pto.alloc_tile  : {FLAT}\n", "").replace(
        f"%t, %tmp : {FLAT}, {FLAT}", f"%t : {FLAT}"), "")  # fmt: skip
    assert list(found.tiles) == ["t", "sum"]
    for form in FORMS:
        text = print_program(found, form)
        assert "%tmp" in text and "ptokit.workspace" in text
        assert read_program(text, "k") == found


def test_the_layout_of_a_tile_in_left_is_that_of_the_architecture() -> None:
    tile = "!pto.tile_buf<left, 16x16xf16, slayout=row_major>"
    for arch, layout in (("a3", BLayout.RowMajor), ("a5", BLayout.ColMajor)):
        head = f'module attributes {{pto.target_arch = "{arch}"}}'
        text = f"{head} {{ func.func @k() {{ %t = pto.alloc_tile : {tile}\nreturn }} }}"
        found = read_program(text, "k.pto")
        assert found.tiles["t"].spec.blayout is layout
        for form in ("l1", "l2", "as"):
            assert read_program(print_program(found, form), "k").tiles["t"].spec.blayout is layout


MEMORY, DATA, ROWS = (
    "!pto.partition_tensor_view<16x8xf32>",
    "!pto.tile_buf<vec, 8x8xf32>",
    "!pto.tile_buf<vec, 1x8xi32>",
)
COLUMN = "!pto.tile_buf<vec, 8x1xi32, blayout=col_major>"
GATHERING = "%mem: !pto.partition_tensor_view<16x8xf32>"


def indexed(line: str, index: str = ROWS) -> Instr:
    """The one instruction of a line that knows memory, a tile of data and one of indices."""
    body = f"%dst = pto.alloc_tile : {DATA}\n%idx = pto.alloc_tile : {index}\n{line}"
    return instructions(program(body, GATHERING))[0]


@pytest.mark.clause("CO-ASM-01", "CO-ASM-02", "MG-ASM-06")
def test_mgather_with_destinations() -> None:
    found = indexed(f"pto.mgather ins(%mem, %idx : {MEMORY}, {ROWS}) outs(%dst : {DATA})")
    assert found.name == "mgather" and found.modifiers == (None, None, None)
    full = indexed(
        f"pto.mgather ins(%mem, %idx : {MEMORY}, {ROWS}) outs(%dst : {DATA})"
        " {coalesce = #pto<coalesce row>, gatherOob = #pto<gather_oob zero>}"
    )
    assert full.modifiers == (None, GatherOOB.Zero, None)
    assert full.operands == found.operands


@pytest.mark.clause("MG-ASM-05", "MG-ASM-07", "CO-ASM-03", "CO-ASM-04")
def test_mgather_with_values() -> None:
    tile = "!pto.tile<vec, f32, 8, 8, row_major, none_box, 512, null>"
    for line in (
        f"%new = pto.mgather %mem, %idx : ({MEMORY}, pto.tile<1x8xi32>) -> {tile}",
        f"%new = pto.mgather %mem, %idx : ({MEMORY}, !pto.tile<1x8xi32>)\n  -> !pto.tile<8x8xf32>",
        f"%new = pto.mgather %mem, %idx : ({MEMORY}, pto.tile<1x8xi32>)",
    ):
        found = indexed(line, "!pto.tile<1x8xi32>")
        assert found.name == "mgather" and found.operands[0].tile == "new"  # type: ignore[union-attr]


@pytest.mark.clause("MG-ASM-07", "A-26")
def test_a_listing_without_result_types_lowers_in_a_function() -> None:
    rows = "!pto.tile<1x8xi32>"
    typed = indexed(f"%new = pto.mgather %mem, %idx : ({MEMORY}, !pto.tile<1x8xi32>) -> !pto.tile<8x8xf32>", rows)
    assert indexed(f"%new = pto.mgather %mem, %idx : ({MEMORY}, pto.tile<1x8xi32>)", rows) == typed
    elem = "{coalesce = #pto<coalesce elem>}"
    bare = indexed(f"%new = pto.mgather %mem, %idx {elem} : ({MEMORY}, pto.tile<8x16xi32>)", "!pto.tile<8x16xi32>")
    full = f"%new = pto.mgather %mem, %idx {elem} : ({MEMORY}, !pto.tile<8x16xi32>) -> !pto.tile<8x16xf32>"
    assert bare == indexed(full, "!pto.tile<8x16xi32>")
    with pytest.raises(TextError, match="the type of %new is not known; write it at the end"):
        program(f"%a = pto.alloc_tile : {DATA}\n%new = pto.trowsum %a, %a : ({DATA}, {DATA})")


@pytest.mark.clause("MS-ASM-02", "MS-ASM-03")
def test_mscatter_with_destinations_and_with_values() -> None:
    down = indexed(f"pto.mscatter ins(%dst, %idx : {DATA}, {COLUMN}) outs(%mem : {MEMORY})", COLUMN)
    values = indexed(f"pto.mscatter %dst, %idx, %mem : ({DATA}, {COLUMN}, {MEMORY}) -> ()", COLUMN)
    assert down == values and down.modifiers == (None, None, None, None)
    full = indexed(
        f"pto.mscatter ins(%dst, %idx : {DATA}, {ROWS}) outs(%mem : {MEMORY}) {{coalesce = #pto<coalesce row>,"
        " scatterAtomicOp = #pto<scatter_atomic_op add>, scatterOob = #pto<scatter_oob skip>,"
        " scatterConflict = #pto<scatter_conflict last>}"
    )
    assert full.modifiers == (Coalesce.Row, ScatterAtomicOp.Add, ScatterOOB.Skip, ScatterConflict.Last)


@pytest.mark.clause("TS-ASM-02", "TS-ASM-03")
def test_tscatter_with_destinations_and_with_values() -> None:
    rows = "!pto.tile_buf<vec, 8x8xi32>"
    down = indexed(f"pto.tscatter ins(%src, %idx : {DATA}, {rows}) outs(%dst : {DATA})".replace("%src", "%dst"), rows)
    assert down.name == "tscatter"
    values = indexed(f"%new = pto.tscatter %dst, %idx : ({DATA}, {rows}) -> {DATA}", rows)
    assert values.operands[1:] == down.operands[1:] and values.operands[0].tile == "new"  # type: ignore[union-attr]


# --- Refusals and places -------------------------------------------------------------------------------------------

REFUSED = {
    "pto.tsort23 ins(%t : T) outs(%t : T)": "`pto.tsort23` is read and kept, but has no lowering",
    "pto.tadd ins(%t : T) outs(%t : T)": "tadd takes 2 operands (src0, src1), found 1",
    "pto.tload ins(%c0 : index) outs(%t : T)": "tload: src must be a block of memory",
    "pto.tadds ins(%t, %f : T, f32) outs(%t : T)": "tadds: scalar must be a number of type i32; found f32",
    "pto.tload ins(%out : !pto.ptr<i32>) outs(%t : T)": "make a view of the pointer",
    "pto.tstore ins(%t : T) outs(%part : P) {reluMode = #pto<relu_pre_mode normal_relu>}": "has no lowering",
    "pto.set_flag[<PIPE_V2>, <PIPE_V>, <EVENT_ID0>]": "the pipe PIPE_V2 has no lowering",
    "pto.record_event [#pto.pipe_event_type<TMOV_V2M>, #pto.pipe_event_type<TVEC>, <EVENT_ID0>]": "the work TMOV_V2M",
    "%y = arith.addf %f, %f : f32": "`arith.addf` is read and kept",
    "%m = memref.alloc() : memref<4xf32>": "`memref.alloc` is read and kept",
    "%z = pto.load_scalar %fp[%c0] : !pto.ptr<f32> -> f32": "a scalar load of f32 has no lowering",
    "%l = pto.make_tensor_view %out, shape = [%c8], strides = [%c1] {layout = #pto.layout<hif4_a_zz>} : V": "hif4_a_zz",
    "scf.for %i = %c0 to %c8 step %c0 { pto.barrier <PIPE_V> }": "the step of a loop is positive; found 0",
    "%u = pto.alloc_tile : !pto.tile_buf<vec, 8x8xi32, compact=1>": "the type of %u is not a tile type",
    "%q = arith.divsi %c8, %c0 : index": "8 // 0 has no value",
    "func.call @nobody() : () -> ()": "there is no function @nobody with a body",
    "pto.sync.set <PIPE_FIX>, 16": "flags between cores have ids 0 to 15; found 16",
    "pto.sync.set <PIPE_MTE2>, 3": "both cores have the pipe MTE2",
    "pto.sync.set <PIPE_MTE3>, 3 {ffts_mode = 0 : i32}": "a synchronisation of all cores has no lowering",
    "pto.section.cube { pto.sync.wait <PIPE_V>, 3 }": "AIC has no pipe V",
    "%w2 = pto.partition_view %view, offsets = [%c0, %c0], sizes = [%c8, %c8] : W -> H": "says 4, and its operands 8",
    "%v2 = pto.make_tensor_view %out, shape = [%c8], strides = [%c1] : !pto.tensor_view<8xf16>": "its type says f16",
    "%v3 = pto.make_tensor_view %out, shape = [%c8], strides = [%c1] : !pto.tensor_view<8x8xi32>": "has 1 dims",
    "%u2 = pto.alloc_tile valid_row = %c1 : T": "for an extent that the type leaves open",
    "%u3 = pto.alloc_tile : !pto.tile_buf<vec, 100000x100000xf32>": "a tile of more than 64 MB",
    "scf.for %i = %c0 to %c8 step %c1 { pto.barrier <PIPE_V> } {ptokit.buffers = 0 : i64}": "from 1 to 8; found 0",
    "pto.tabs ins(%t : T) outs(%t : T) {waits = 3 : i64}": "`event` is a number from 0 up, `waits` a list",
    "%big = arith.constant 99999999999999999999 : index": "a number of more than 64 bits",
    "%d = pto.get_tensor_view_dim %view, %c8 : !pto.tensor_view<8x8xi32> -> index": "the number of one of its dims",
}  # fmt: skip


TYPES = {
    "W": "!pto.tensor_view<8x8xi32>",
    "T": TILE,
    "P": "!pto.partition_tensor_view<8x8xi32>",
    "V": "!pto.tensor_view<8xi32>",
    "H": "!pto.partition_tensor_view<4x8xi32>",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_has_no_lowering_is_named_with_its_line(line: str) -> None:
    shown = line
    for word, kind in TYPES.items():
        shown = re.sub(rf"(?<![\w.<]){word}\b(?![<(])", kind, shown)
    text = kernel(f"%t = pto.alloc_tile : {TILE}\n{shown}", "%out: !pto.ptr<i32>, %f: f32, %fp: !pto.ptr<f32>")
    with pytest.raises(TextError) as caught:
        read_program(text, "some/kernel.pto")
    problem = caught.value
    assert REFUSED[line] in str(problem)
    assert problem.file == "some/kernel.pto"
    assert text.splitlines()[problem.line - 1].strip() == shown.splitlines()[0].strip()
    assert str(problem).splitlines()[2].strip() == "^"


def test_the_refusal_of_an_op_says_what_is_supported() -> None:
    with pytest.raises(TextError, match=r"supported: .*, and arith on whole numbers") as caught:
        program(f"%t = pto.alloc_tile : {TILE}\npto.tsort23 ins(%t : {TILE}) outs(%t : {TILE})")
    assert caught.value.hint.count("pto.") <= 6


@pytest.mark.parametrize("word", ["tprelux", "tpowx", "tfmodx", "tremx", "tsort23"])
def test_what_is_supported_is_named_once(word: str) -> None:
    with pytest.raises(TextError) as caught:
        program(f"%t = pto.alloc_tile : {TILE}\npto.{word} ins(%t : {TILE}) outs(%t : {TILE})")
    names = caught.value.hint.partition("supported: ")[2].partition(",")[0].split()
    assert len(names) == len({*names}) > 2


def test_every_refusal_of_a_text_is_reported() -> None:
    text = kernel(f"""
    %t = pto.alloc_tile : {TILE}
    %u = pto.treshap %t : {TILE} -> {TILE}
    pto.tadd ins(%u, %t : {TILE}, {TILE}) outs(%t : {TILE})
    pto.tsort23 ins(%t : {TILE}) outs(%t : {TILE})
    scf.for %i = %c0 to %c8 step %c1 {{
      pto.tstore ins(%t : {TILE}) outs(%t : {TILE}) {{atomicTypo = #pto<atomic_type atomic_add>}}
    }}
    """)
    with pytest.raises(TextError) as caught:
        read_program(text, "k.pto")
    first, second, third = caught.value.errors
    assert "treshap" in first.message and "tsort23" in second.message
    assert third.column == text.splitlines()[third.line - 1].index("atomicTypo") + 1
    assert third.hint == "did you mean `atomicType`?"
    assert str(caught.value).count("k.pto:") == 3


NOT_READ_AND_NOT_LOWERED = {
    "k.pto": """func.func @k(%n: index, %c: i1) {
  %t = pto.alloc_tile : TILE
  %u = pto.alloc_tile : →xint
  →pto.tsort23 ins(%t : TILE) outs(%t : TILE)
  pto.tadd ins(%u, %t : TILE, TILE) outs(%t : TILE)
  scf.for %i = →0 to %n step %n {
    →pto.tsort23 ins(%t : TILE) outs(%t : TILE)
    %w = arith.addi %i, %n : index
    pto.set_validshape %t, %w, %w : TILE
  }
  %d = pto.alloc_tile : !pto.tile_buf<vec, 16x32xf32, valid=?x32>
  pto.set_validshape %d, %n →%n : !pto.tile_buf<vec, 16x32xf32, valid=?x32>
  pto.tabs ins(%d : !pto.tile_buf<vec, 16x32xf32, valid=?x32>) outs(%t : TILE)
  %r = scf.for %i = %n to %n step %n iter_args(%a = %n) -> (index) {
    →scf.yeld %a : index
  }
  scf.for →%c = %n to %n step %n {
    →pto.tsort23 ins(%t : TILE) outs(%t : TILE)
  }
  func.call @g(%r) : (index) -> ()
  →pto.treshap %t : TILE -> TILE
  return
}
func.func @g(%n: →inex) {
  return
}
""".replace("TILE", TILE),
    "k.ptoas": """.kernel k
.arg %t : !pto.tile<16x32xf32>
.arg %n : index
%u = alloc_tile : !pto.tile<16x32x→int33>
→tsort23 %t, %t
tadd %t, %u, %t
tadd %t, %t →%t
for %i = 0 to 4 step →{
  →tsort23 %t, %t
  %w = arith.addi %i, %n : index
} else {
  →tsort23 %t, %t
}
for →%n = 0 to 4 step 1 {
  →tsort23 %t, %t
}
→%r = treshap %t : !pto.tile<16x32xf32> -> !pto.tile<16x32xf32>
tabs %r, %t
""",
}
"""Texts with a mark at each error: statements that cannot be read, and others without a lowering."""


@pytest.mark.parametrize("file", NOT_READ_AND_NOT_LOWERED)
def test_what_cannot_be_read_does_not_hide_what_has_no_lowering(file: str) -> None:
    marked = NOT_READ_AND_NOT_LOWERED[file]
    with pytest.raises(TextError) as caught:
        read_program(marked.replace("→", ""), file)
    lines = [(number, line.index("→") + 1) for number, line in enumerate(marked.splitlines(), 1) if "→" in line]
    assert [(error.line, error.column) for error in caught.value.errors] == lines
    assert any("has no lowering" in error.message for error in caught.value.errors)


def test_a_text_whose_kernel_cannot_be_read_has_only_the_errors_of_reading() -> None:
    with pytest.raises(TextError, match="expected a type") as caught:
        read_program("func.func @k(%n: inex) {\n  return\n}\n", "k.pto")
    assert len(caught.value.errors) == 1


def test_findings_point_into_the_text() -> None:
    text = kernel(f"""
    %t = pto.alloc_tile : {TILE}
    pto.trecip ins(%t : {TILE}) outs(%t : {TILE})
    """)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "trecip" in row)
    report = pto.check(from_text(text, "dir/k.pto"))
    (where,) = {finding.where for finding in report.findings if finding.level == "error"}
    assert where is not None
    assert (where.file, where.line, where.column) == ("dir/k.pto", line, text.splitlines()[line - 1].index("pto") + 1)


def test_a_branch_and_a_loop_are_nested_as_in_the_text() -> None:
    found = program("""
        scf.for %i = %c0 to %c8 step %c1 {
          %c = arith.cmpi eq, %i, %c1 : index
          scf.if %c { pto.barrier <PIPE_V> } else { pto.barrier <PIPE_ALL> }
        } {ptokit.buffers = 2 : i64}
    """)
    (loop,) = found.body
    assert isinstance(loop, Loop) and (loop.start, loop.stop, loop.step, loop.buffers) == (0, 8, 1, 2)
    assert loop.body == (Branch(Op("eq", (Var("i"), 1)), (Barrier("V"),), (Barrier("ALL"),)),)


def test_whole_numbers_of_every_type_are_arguments() -> None:
    found = program("%x = arith.addi %a, %a : i32", "%a: i32, %b: index, %c: i64")
    assert found.arguments == (Integer("a"), Integer("b"), Integer("c"))


# --- Attributes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ("%v = pto.make_tensor_view %out, shape = [%c8, %c8], strides = [%c8, %c1] {layuot = #pto.layout<dn>} : "
         "!pto.tensor_view<8x8xi32>", "layuot", "did you mean `layout`?"),
        (f"%t = pto.alloc_tile {{adr = 3}} : {TILE}", "adr", "did you mean `addr`?"),
        (f"%t = pto.alloc_tile {{vaild_row = 3}} : {TILE}", "vaild_row", "did you mean `valid_row`?"),
        ("scf.for %i = %c0 to %c8 step %c1 {\n} {bufers = 2}", "bufers", ""),
        ("%n = arith.addi %c0, %c1 {overlfow = 1} : index", "overlfow", ""),
    ],
)  # fmt: skip
def test_an_unknown_attribute_is_refused_at_its_key(line: str, key: str, hint: str) -> None:
    with pytest.raises(TextError, match=f"`{key} = .*` has no lowering") as caught:
        program(line)
    assert caught.value.excerpt[caught.value.column - 1 :].startswith(key)
    assert caught.value.hint == hint


def test_an_operand_that_is_written_as_an_attribute_is_refused() -> None:
    with pytest.raises(TextError, match=r"it is an operand: `addr = %x`"):
        program(f"%t = pto.alloc_tile {{addr = 3}} : {TILE}")


def test_attributes_of_other_dialects_and_those_without_effect_are_read() -> None:
    program(f"%t = pto.alloc_tile {{my.note = 3}} : {TILE}")
    program('%n = "arith.addi"(%c0, %c1) {overflowFlags = 0} : (index, index) -> index')
