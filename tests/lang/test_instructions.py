"""The Python functions of instructions follow from the definitions, and type checkers and editors see them."""

from __future__ import annotations

import inspect
import linecache
import pickle
import traceback
from dataclasses import replace
from importlib.resources import files
from typing import get_type_hints

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa import catalog
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.lang.instructions import NAMES, call_named


def test_every_instruction_is_public() -> None:
    assert set(INSTRUCTIONS) <= set(pto.__all__) <= set(dir(pto))


def tile(kind: str = "float32", rows: int = 1, cols: int = 8) -> pto.Tile:
    return pto.Tile("vec", kind, rows, cols)


def test_the_package_says_that_it_is_typed() -> None:
    assert files("ptokit").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_a_name_a_signature_and_documentation(name: str) -> None:
    function, instruction = getattr(pto, name), INSTRUCTIONS[name]
    assert (function.__name__, function.__qualname__) == (name, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert function.__doc__.startswith(instruction.summary)
    parameters = inspect.signature(function).parameters
    assert set(get_type_hints(function)) == {*parameters, "return"}
    documented = function.__doc__.partition("Args:\n")[2]
    assert [each for each in parameters if each not in documented] == []
    assert inspect.getsource(function).startswith(f"def {name}(")


@pytest.mark.parametrize("name", NAMES)
def test_python_shows_the_source_of_a_function_after_the_cache_was_cleared(name: str) -> None:
    function = getattr(pto, name)
    for forget in (linecache.checkcache, linecache.clearcache):
        forget()
        assert inspect.getsource(function).startswith(f"def {name}(")


def test_a_traceback_shows_the_line_of_a_function_after_the_cache_was_cleared() -> None:
    linecache.clearcache()
    with pytest.raises(TypeError) as caught:
        inspect.unwrap(pto.tload)(tile(), 5)  # type: ignore[arg-type]
    lines = {frame.name: frame.line for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert (lines["tload"] or "").startswith("return _execute(")


def test_sources_in_either_order_state_the_modifier() -> None:
    ones, dst = tile().write(4), tile()
    pto.tdivs(dst, ones, 2)
    assert (dst.read() == 2).all()
    pto.tdivs(dst, divisor=ones, dividend=2)
    assert (dst.read() == 0.5).all()
    with pytest.raises(TypeError, match="tdivs takes a tile and a number, got 1 and 2"):
        pto.tdivs(dst, 1, 2)


def test_a_modifier_of_two_members_is_a_flag() -> None:
    dst = tile("int32")
    pto.tci(dst, 7, descending=True)
    assert dst.read().tolist() == [[7, 6, 5, 4, 3, 2, 1, 0]]
    pto.tci(dst, 0)
    assert dst.read().tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_number_has_the_element_type_of_the_operand_that_the_definition_names() -> None:
    mask, values = tile("uint8", cols=32), tile().write(np.arange(8)[None])
    pto.tcmps(mask, values, 3.5, "gt")
    assert mask.read()[0, 0] == 0b11110000
    with pytest.raises(ValueError, match=r"256.* is not representable in uint8"):
        pto.tadds(tile("uint8", cols=32), tile("uint8", cols=32), 256)


def test_positions_are_zero_by_default() -> None:
    dst, src = tile(), tile(rows=2).write(np.arange(16).reshape(2, 8))
    pto.textract(dst, src)
    assert (dst.read() == np.arange(8)).all()
    pto.textract(dst, src, 1)
    assert (dst.read() == np.arange(8, 16)).all()


def test_arguments_that_do_not_match_are_reported_as_by_any_function() -> None:
    with pytest.raises(TypeError, match=r"tadd\(\) missing 1 required positional argument: 'src1'"):
        pto.tadd(tile(), tile())  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'dts'\. Did you mean 'dst'\?"):
        pto.tadd(dts=tile())  # type: ignore[call-arg]


def test_a_function_stays_the_same_when_the_catalogue_changes() -> None:
    catalog.add(replace(INSTRUCTIONS["tadd"], name="tsum2"))
    try:
        assert call_named("tadd") is pto.tadd
        assert call_named("tsum2") is not pto.tadd
    finally:
        catalog.remove("tsum2")
    assert call_named("tadd") is pto.tadd
