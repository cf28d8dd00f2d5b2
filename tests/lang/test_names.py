"""Tiles have the names that the author gives them, in whatever way they are bound."""

# ruff: noqa: F841, RUF059

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.kernel import Kernel
from ptokit.lang.launch import mode_of
from ptokit.program.ir import Instr, LoadScalar, Program
from ptokit.text.forms import FORMS, Form, print_program, read_program

X = np.zeros((8, 8), "float32")


def program(kernel: Kernel, *more: Any) -> Program:
    return kernel.trace(kernel.bind((X, *more), {}), mode_of("cpu")).program


def tile() -> Any:
    return pto.Tile("vec", "float32", 8, 8)


def pair() -> Any:
    return tile(), tile()


def several(count: int) -> Any:
    return [tile() for _ in range(count)]


def local() -> Any:
    made = tile()
    return made


def swapped() -> Any:
    one = tile()
    hidden = tile()
    two = tile()
    pto.tadd(hidden, one, two)
    return two, one


def own_list() -> int:
    own = [tile() for _ in range(2)]
    return len(own)


def unreturned(x: Any) -> int:
    pto.tload(tile(), x)
    return 1


class State:
    """A helper with a tile."""

    def __init__(self) -> None:
        self.sum = tile()


@pto.kernel
def displays(x):
    a, b = tile(), tile()
    (c, (d, e)), f = (tile(), [tile(), tile()]), tile()
    g = h = tile()
    if (j := tile()) is not None:
        pass
    k: Any = tile()
    m = tile() if x.shape[0] else None
    pairs = [tile(), tile()]
    by_key = {"left": tile(), 7: tile()}
    for n in range(2):
        by_key[n] = tile()


@pto.kernel
def starred(x):
    a, *b = tile(), tile(), tile()
    c, *d, e = tile(), tile(), tile(), tile()
    *f, g = tile(), tile()


@pto.kernel
def comprehensions(x):
    a = [pto.Tile("vec", "float32", 8, 8) for _ in range(2)]
    b = tuple(pto.Tile("vec", "float32", 8, 8) for _ in range(2))
    c, d = [tile() for _ in range(2)]
    e, f = (tile() for _ in range(2))
    g = {name: tile() for name in ("x", "y")}
    h = [(tile(), tile()) for _ in range(2)]
    for _ in range(2):
        j = [tile() for _ in range(2)]
    k = []
    for _ in range(2):
        k.append(tile())
    k.append(tile())


@pto.kernel
def returned(x):
    a, b = pair()
    c = pair()
    d = several(2)
    e = several(2)
    f = local()
    g, h = swapped()
    own_list()
    own_list()
    make = lambda: (tile(), tile())  # noqa: E731
    j, k = make()


@pto.kernel
def attributes(x):
    State()
    space = SimpleNamespace()
    space.part = tile()


@pto.kernel
def unnamed(x):
    pto.tload(tile(), x)
    seen = unreturned(x)
    grid = [[tile() for _ in range(2)] for _ in range(2)]
    joined = [*pair(), tile()]


@pto.kernel
def scalars(x, ids):
    (first, second), rest = (pto.load_scalar(ids, 0), pto.load_scalar(ids, 1)), [pto.load_scalar(ids, 2)]
    part = tile()
    for i, j in ((first, second), (rest[0], first)):
        pto.tload(part, x[i : i + 8])
        pto.tload(part, x[j : j + 8])


NAMES = {
    displays: "a b c d e f g j k m pairs[0] pairs[1] by_key['left'] by_key[7] by_key[0] by_key[1]",
    starred: "a b[0] b[1] c d[0] d[1] e f[0] g",
    comprehensions: "a[0] a[1] b[0] b[1] c d e f g['x'] g['y'] h[0][0] h[0][1] h[1][0] h[1][1] "
    "j[0] j[1] j[0]_1 j[1]_1 k[0] k[1] k[2]",
    returned: "a b c[0] c[1] d[0] d[1] e[0] e[1] f h hidden g own[0] own[1] own[0]_1 own[1]_1 j k",
    attributes: "self.sum space.part",
}


@pytest.mark.parametrize("kernel", NAMES, ids=lambda kernel: kernel.__name__)
def test_a_tile_has_the_name_that_it_is_bound_to(kernel: Kernel) -> None:
    tiles = program(kernel).tiles
    assert list(tiles) == NAMES[kernel].split()
    assert all(each.named for each in tiles.values())


def test_a_tile_that_is_bound_to_nothing_has_no_name() -> None:
    assert not any(each.named for each in program(unnamed).tiles.values())


def test_scalars_have_names_too() -> None:
    loads = [stmt for stmt in program(scalars, np.zeros(4, "int32")).body if isinstance(stmt, LoadScalar)]
    assert [str(stmt.result) for stmt in loads] == ["first", "second", "rest[0]"]


@pto.kernel(mode="manual")
def raced(x, y):
    bufs = [pto.Tile("vec", "float32", 8, 8, addr=k * 256) for k in range(2)]
    pto.tload(bufs[1], x)
    pto.tstore(y, bufs[1])


def test_a_finding_says_the_name_once() -> None:
    finding = raced[1](X, X.copy(), target="a5", engine="machine").findings[0]
    assert finding.message.startswith("tstore reads bufs[1] (src) on MTE3")
    assert "bufs[1]" in finding.details[0] and " is bufs" not in str(finding)


@pto.kernel
def copied(x, y):
    bufs = [tile() for _ in range(2)]
    both = {"sum": tile()}
    pto.tload(bufs[0], x)
    pto.tload(bufs[1], x)
    pto.tadd(both["sum"], *bufs)
    pto.tstore(y, both["sum"])


@pytest.mark.parametrize("form", FORMS)
def test_text_has_names_of_its_own_for_them(form: Form) -> None:
    text = print_program(program(copied, X), form)
    assert "bufs" in text and "bufs[" not in text
    again = read_program(text).body
    assert [stmt.name for stmt in again if isinstance(stmt, Instr)] == ["tload", "tload", "tadd", "tstore"]
    added = next(stmt for stmt in again if isinstance(stmt, Instr) and stmt.name == "tadd")
    assert len({use.tile for use in added.tiles}) == 3
