"""Flags and barriers of one core: every form keeps the core, and they order nothing on the other one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import VerifyError
from ptokit.isa.opaque import NONE
from ptokit.program.ir import Barrier, CrossFlag, Flag, Instr, Program
from ptokit.program.order import races
from ptokit.target.a5 import A5
from ptokit.text.forms import Form, print_program, read_program
from tests.program.building import exp, load, program, tile
from tests.text.test_round_trips import program_of

CUBE, VECTOR = CrossFlag("set", "AIC", "FIX", 0), CrossFlag("wait", "AIV", "V", 0)
every_form = pytest.mark.parametrize("form", ["l1", "l2", "as"])
STATED = (
    Barrier("ALL", core="AIC"), Barrier("MTE2", core="AIV"), CUBE, VECTOR,
    Flag("set", "MTE2", "S", 1, core="AIV"), Flag("wait", "MTE2", "S", 1, core="AIV"),
)  # fmt: skip
SECTIONS = """
module {
  func.func @k() attributes {ptokit.mode = "manual"} {
    pto.sync.set <PIPE_FIX>, 0
    pto.section.vector {
      pto.sync.wait <PIPE_V>, 0
      pto.set_flag[<PIPE_MTE2>, <PIPE_S>, <EVENT_ID1>]
      pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID2>]
    }
    func.call @cube() : () -> ()
    pto.barrier <PIPE_ALL>
    return
  }
  func.func private @cube() attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    pto.barrier <PIPE_ALL>
    return
  }
}
"""


@every_form
def test_every_form_keeps_the_core(form: Form) -> None:
    stated = Program("k", (), STATED, mode="manual")
    again = read_program(print_program(stated, form), f"kernel.{form}")
    assert again.body == STATED


def test_sections_and_kinds_of_functions_name_the_core() -> None:
    """Only where both cores have the pipes."""
    assert read_program(SECTIONS, function="k").body == (
        CUBE, VECTOR, Flag("set", "MTE2", "S", 1, core="AIV"), Flag("set", "MTE2", "V", 2),
        Barrier("ALL", core="AIC"), Barrier("ALL"),
    )  # fmt: skip


def test_programs_for_one_core_have_none() -> None:
    """What another core orders for itself is left out."""
    text = SECTIONS.replace("pto.sync.set <PIPE_FIX>, 0", "")
    assert read_program(text, function="k").body == (
        VECTOR, Flag("set", "MTE2", "S", 1), Flag("set", "MTE2", "V", 2), Barrier("ALL"),
    )  # fmt: skip


@pytest.mark.parametrize(("core", "is_ordered"), [("", True), ("AIV", True), ("AIC", False)])
def test_a_barrier_orders_its_own_core(core: str, is_ordered: bool) -> None:
    body = (load("a", "x"), Barrier("ALL", core=core), exp("a", "a"))
    assert (not races(replace(program(tile("a"), *body), mode="manual"), A5)) == is_ordered


@every_form
def test_an_operation_without_the_attributes_of_its_shape_is_printed(form: Form) -> None:
    short = Program("k", (), (Instr("get_buf", (), opaque_form=NONE),), mode="manual")
    assert read_program(print_program(short, form), f"kernel.{form}").body == short.body


@pto.kernel(mode="manual")
def named(x, name: pto.const = "AIC.ALL"):
    a = pto.Tile("vec", "float32", 16, 16, addr=0)
    b = pto.Tile("mat", "float32", 16, 16, addr=0, blayout="col_major", slayout="row_major")
    pto.tload(a, x)
    pto.tload(b, x)
    pto.set_flag("AIV.MTE2", "AIV.S", 0)
    pto.wait_flag("AIV.MTE2", "AIV.S", 0)
    pto.barrier(name)


def test_python_names_the_core() -> None:
    body = program_of(named, "a5", {"x": np.zeros((16, 16), "float32")}).body
    assert [each for each in body if isinstance(each, Flag | Barrier)] == [
        Flag("set", "MTE2", "S", 0, core="AIV"), Flag("wait", "MTE2", "S", 0, core="AIV"), Barrier("ALL", core="AIC"),
    ]  # fmt: skip
    with pytest.raises(VerifyError, match="no core"):
        program_of(named, "a5", {"x": np.zeros((16, 16), "float32"), "name": "AIX.ALL"})
