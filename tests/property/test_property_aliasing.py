"""Operands that share memory: lanes in order, compared with the naive loops byte for byte.

Tiles alias by being one object or by their addresses, global tensors by being made over the same array or over a
tile's buffer. An index may change under its own instruction; one that then breaks the promise undoes the call.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from tests.property.naive import SIZE
from tests.property.runner import World, run_in
from tests.property.strategies import (
    ATOMIC_TYPES,
    BASE,
    GATHER_OOB,
    SCATTER_OOB,
    Case,
    Maker,
    TensorArg,
    TileArg,
    c0,
    fuzz,
    grid,
    up,
)

TARGETS = ("cpu", "a2a3", "a5", "host")


def larger(make: Maker) -> tuple[int, int]:
    """Regions of more than a few dozen lanes, so that runs of lanes begin and end inside them."""
    return make.upto(1, 24), make.upto(1, 24)


def names(make: Maker, n: int, capacity: int, dtype: str, wild: bool) -> list[int]:
    """Index values, also as data: mostly in range, so that what is written over an index is one again."""
    top = min(capacity, (1 << (8 * SIZE[dtype] - 1)) - 1)
    found = [int(v) for v in make.rng.integers(0, top, n)]
    if wild:
        for k in make.rng.integers(0, n, 2):
            found[int(k)] = (1 << (8 * SIZE[dtype])) - 1 - int(k)
    return found


def same(world: World, name: str, other: str) -> None:
    """One tile under two names."""
    world.operands[name], world.plain[name] = world.operands[other], world.plain[other]


def ordered(world: World, *order: str) -> None:
    """Operands in call order."""
    world.operands = {name: world.operands[name] for name in order}


# --- TSCATTER ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["src dst", "idx dst", "src idx", "src idx dst"])
@pytest.mark.parametrize("reading", ["row", "flat"])
@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_tscatter(target: str, reading: str, shared: str, data: st.DataObject) -> None:
    make = Maker(data.draw, target)
    together = shared.split()
    kind = make.one_of("int32", "uint32", "int16", "uint16")
    dtype = kind if "idx" in together else make.one_of(*(t for t in BASE if SIZE[t] == SIZE[kind]))
    valid = larger(make)
    rows, cols = make.pad(valid[0]), make.pad(valid[1])
    capacity = rows if reading == "row" else rows * cols

    def indexed(arg: TileArg) -> TileArg:
        """The tile filled with index values, now and then with bad ones among them."""
        wild = make.one_of(True, False, False)
        return make.index_tile(arg, names(make, prod(valid), capacity, arg.dtype, wild), grid(valid))

    with pto.target(target):
        world = World()
        for name in ("dst", "src", "idx"):
            arg = make.tile(kind if name == "idx" else dtype, rows, cols, valid)
            is_index = name == "idx" or (dtype == kind and make.one_of(True, False))
            world.tile(name, indexed(arg) if is_index else arg)
        for name in together:
            same(world, name, "idx" if "idx" in together else "dst")
        ordered(world, "dst", "src", "idx")
        run_in(Case(target, "tscatter", {}, {"index": reading}, reading), world)


# --- MGATHER -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_mgather_over_its_own_index(target: str, data: st.DataObject) -> None:
    """dst and idx are one tile; the table may lie in it too."""
    make = Maker(data.draw, target)
    kind, oob = make.one_of("int32", "uint32"), make.one_of(*GATHER_OOB)
    valid = larger(make)
    form = make.one_of("nd", "dn") if target == "a5" else "nd"
    arg = make.tile(kind, *make.plain(kind, valid, form, bursts=True), valid, form=form)
    entries = make.upto(1, arg.rows * arg.cols)
    arg = make.index_tile(arg, make.indices(prod(valid), entries, kind, oob), grid(valid))
    with pto.target(target):
        world = World()
        world.tile("dst", arg)
        same(world, "idx", "dst")
        table = TensorArg(kind, (1, 1, 1, 1, entries), (1, 1, 1, 1, 1))
        if make.one_of(True, False):
            world.tensor_over("table", table, "dst", SIZE[kind] * make.upto(0, arg.rows * arg.cols - entries))
        else:
            content = b"".join(
                v.to_bytes(4, "little") for v in names(make, entries, entries, kind, make.one_of(True, False))
            )
            world.memory("gm", np.frombuffer(bytearray(content), np.uint8))
            world.tensor_over("table", table, "gm", 0)
        ordered(world, "dst", "table", "idx")
        run_in(Case(target, "mgather", {}, {"oob": oob, "coalesce": "elem"}, "elem"), world)


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("target", ["cpu", "a5", "host"])
@fuzz()
@given(data=st.data())
def test_mgather_from_its_own_destination(target: str, mode: str, data: st.DataObject) -> None:
    """The table lies in dst.buffer; rows of A2/A3 are left out, whose bursts have unspecified tails."""
    make = Maker(data.draw, target)
    dtype, oob = make.one_of(*BASE), make.one_of(*GATHER_OOB)
    valid = larger(make)
    form = make.one_of("nd", "dn") if target == "a5" else "nd"
    dst = make.tile(dtype, *make.plain(dtype, valid, form, bursts=True), valid, form=form)
    room = dst.rows * dst.cols
    shape = (1, 1, 1, make.upto(1, room // valid[1]), valid[1]) if mode == "row" else (1, 1, 1, 1, make.upto(1, room))
    capacity = shape[3] if mode == "row" else shape[4]
    kind = make.one_of("int32", "uint32")
    lanes = [(0, r) for r in range(valid[0])] if mode == "row" else grid(valid)
    index = make.tile(kind, 1, valid[0], (1, valid[0])) if mode == "row" else make.tile(kind, *valid, valid)
    index = make.index_tile(index, make.indices(len(lanes), capacity, kind, oob), lanes)
    with pto.target(target):
        world = World()
        world.tile("dst", dst)
        world.tile("idx", index)
        base = SIZE[dtype] * make.upto(0, room - prod(shape))
        world.tensor_over("table", TensorArg(dtype, shape, (1, 1, 1, shape[4], 1)), "dst", base)
        ordered(world, "dst", "table", "idx")
        run_in(Case(target, "mgather", {}, {"oob": oob, "coalesce": mode}, mode), world)


@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@fuzz(2)
@given(data=st.data())
def test_mgather_into_l1(target: str, mode: str, data: st.DataObject) -> None:
    """Table, index, scratch and the destination itself anywhere in one memory."""
    make = Maker(data.draw, target)
    kind, oob = make.one_of("int32", "uint32"), make.one_of(*GATHER_OOB)
    dtype = make.one_of(kind, kind, "float32", "int16", "uint8")
    valid = (make.upto(1, 20), make.upto(1, 12))
    dst = make.tile(dtype, make.pad(valid[0], 16), make.pad(valid[1], c0(dtype)), valid, form="nz", loc="mat")
    area = dst.rows * dst.cols
    shape = (1, 1, 1, make.upto(1, 20), valid[1]) if mode == "row" else (1, 1, 1, 1, make.upto(1, 60))
    capacity = shape[3] if mode == "row" else prod(shape)
    dims = (1, 1, 1, 1, valid[0]) if mode == "row" else (1, 1, 1, *valid)
    with pto.target(target):
        world = World()
        in_tile = make.one_of(True, False)
        dst = replace(dst, data=bytes(dst.nbytes))
        world.tile("dst", dst)
        if in_tile:
            memory, size = "dst", dst.nbytes
            if dims[3] * dims[4] * 4 > size or prod(shape) * SIZE[dtype] > size:
                return
        else:
            memory, size = "gm", 2 * area * SIZE[dtype] + 4 * prod(dims) + 4 * prod(shape) + 8
            world.memory("gm", np.zeros(size, np.uint8))
        content = make.values(dtype, size // SIZE[dtype])
        world.real[memory][: len(content)] = np.frombuffer(content, np.uint8)
        if dtype == kind:  # a table of indices, so that they stay in range when it is written over them
            few = make.rng.integers(0, capacity, size // 4).astype(np.uint32)
            world.real[memory][: 4 * few.size] = few.view(np.uint8)
        at = 4 * make.upto(0, (size - 4 * prod(dims)) // 4)
        bits = np.array(make.indices(prod(dims), capacity, kind, oob), np.uint32)
        world.real[memory][at : at + bits.nbytes] = bits.view(np.uint8)
        world.model[memory][:] = world.real[memory].tobytes()
        place = make.upto(0, size // SIZE[dtype] - prod(shape)) * SIZE[dtype]
        world.tensor_over("table", TensorArg(dtype, shape, (1, 1, 1, shape[4], 1)), memory, place)
        world.tensor_over("idx", TensorArg(kind, dims, (1, 1, 1, dims[4], 1)), memory, at)
        words: dict[str, Any] = {"oob": oob, "coalesce": mode}
        order = ["dst", "table", "idx"]
        if mode == "elem":
            place = make.upto(0, size // SIZE[dtype] - area) * SIZE[dtype]
            world.tensor_over("scratch", TensorArg(dtype, (1, 1, 1, 1, area), (1, 1, 1, 1, 1)), memory, place)
            order.append("scratch")
            if target == "a5" and make.one_of(True, False):
                words["executor"] = "simt"
        ordered(world, *order)
        run_in(Case(target, "mgather", {}, words, mode), world)


# --- MSCATTER ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["src", "idx"])
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_mscatter_into_its_own_operands(target: str, mode: str, over: str, data: st.DataObject) -> None:
    """The table lies in src.buffer or in idx.buffer; src and idx may be one tile."""
    make = Maker(data.draw, target)
    kind, oob = make.one_of("int32", "uint32"), make.one_of(*SCATTER_OOB)
    dtype = make.one_of("int32", "uint32", "float32") if over == "idx" else make.one_of(*BASE)
    atomic = make.one_of("none", *(op for op, types in ATOMIC_TYPES.items() if dtype in types))
    valid = larger(make)
    src = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid)
    index = make.tile(kind, src.rows, 1, (valid[0], 1)) if mode == "row" else make.tile(kind, src.rows, src.cols, valid)
    room = (src if over == "src" else index).rows * (src if over == "src" else index).cols
    if mode == "row" and room < valid[1]:
        return
    shape = (1, 1, 1, make.upto(1, room // valid[1]), valid[1]) if mode == "row" else (1, 1, 1, 1, make.upto(1, room))
    capacity = shape[3] if mode == "row" else shape[4]
    lanes = [(r, 0) for r in range(valid[0])] if mode == "row" else grid(valid)
    index = make.index_tile(index, make.indices(len(lanes), capacity, kind, oob), lanes)
    if "int32" in dtype and make.one_of(True, False):
        src = make.index_tile(src, names(make, prod(valid), capacity, dtype, make.one_of(True, False)), grid(valid))
    with pto.target(target):
        world = World()
        world.tile("idx", index)
        if mode == "elem" and dtype == kind and make.one_of(True, False, False):
            same(world, "src", "idx")
            over = "idx"
        else:
            world.tile("src", src)
        base = SIZE[dtype] * make.upto(0, room - prod(shape))
        world.tensor_over("table", TensorArg(dtype, shape, (1, 1, 1, shape[4], 1)), over, base)
        ordered(world, "table", "src", "idx")
        run_in(Case(target, "mscatter", {}, {"oob": oob, "atomic": atomic}, mode), world)


# --- TLOAD, TSTORE -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_tload_from_its_own_tile(target: str, data: st.DataObject) -> None:
    make = Maker(data.draw, target)
    dtype, valid = make.one_of(*BASE), larger(make)
    pad = make.one_of("null", "null", "zero", "max")
    arg = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid, pad=pad)
    room = arg.rows * arg.cols
    with pto.target(target):
        world = World()
        world.tile("dst", arg)
        step = make.upto(valid[1], (room - valid[1]) // max(1, valid[0] - 1)) if valid[0] > 1 else valid[1]
        source = TensorArg(dtype, (1, 1, 1, *valid), (1, 1, 1, step, 1))
        world.tensor_over("src", source, "dst", SIZE[dtype] * make.upto(0, room - source.span))
        run_in(Case(target, "tload", {}, {}), world)


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_tstore_into_its_own_tile(target: str, data: st.DataObject) -> None:
    make = Maker(data.draw, target)
    dtype, valid = make.one_of(*BASE), larger(make)
    atomic = make.one_of("none", "add") if dtype not in ("uint8", "uint16", "uint32") else "none"
    arg = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid)
    room = arg.rows * arg.cols
    with pto.target(target):
        world = World()
        world.tile("src", arg)
        step = make.upto(valid[1], (room - valid[1]) // max(1, valid[0] - 1)) if valid[0] > 1 else valid[1]
        block = TensorArg(dtype, (1, 1, 1, *valid), (1, 1, 1, step, 1))
        world.tensor_over("dst", block, "src", SIZE[dtype] * make.upto(0, room - block.span))
        ordered(world, "dst", "src")
        run_in(Case(target, "tstore", {}, {"atomic": atomic}), world)


# --- Tiles at overlapping addresses ----------------------------------------------------------------------------------


def laid(make: Maker, world: World, tiles: dict[str, TileArg]) -> None:
    """Tiles anywhere in one small memory, the index written last so that it is whole."""
    arena = up(max(arg.nbytes for arg in tiles.values()) + 64, 64)
    memory = pto.Tile("vec", "uint8", 1, arena, addr=0).buffer
    memory[:] = np.frombuffer(make.noise(arena), np.uint8)
    for name, arg in tiles.items():
        size = SIZE[arg.dtype]
        addr = size * make.upto(0, (arena - arg.nbytes) // size)
        memory[addr : addr + arg.nbytes] = np.frombuffer(arg.data, np.uint8)
        tiles[name] = replace(arg, addr=addr)
    world.memory("vec", memory)
    for name, arg in tiles.items():
        world.tile(name, arg)


@pytest.mark.parametrize("reading", ["row", "flat"])
@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_tscatter_at_overlapping_addresses(target: str, reading: str, data: st.DataObject) -> None:
    """`header=True` runs what H-38 refuses: elements of one tile may lie across those of another."""
    make = Maker(data.draw, target)
    dtype = make.one_of(*BASE)
    kind = make.one_of("int32", "uint32") if SIZE[dtype] == 4 else make.one_of("int16", "uint16")
    valid = larger(make)
    dst = make.tile(dtype, make.pad(valid[0]), make.pad(valid[1]), valid)
    capacity = dst.rows if reading == "row" else dst.rows * dst.cols
    index = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
    index = make.index_tile(index, names(make, prod(valid), capacity, kind, wild=False), grid(valid))
    src = make.tile(dtype, make.pad(valid[0]), make.pad(valid[1]), valid)
    if dtype == kind or make.one_of(True, False):  # small numbers, which leave an index in range
        src = replace(src, data=bytes(b % 3 if k % SIZE[dtype] == 0 else 0 for k, b in enumerate(src.data)))
    with pto.target(target, header=True):
        world = World()
        laid(make, world, {"dst": dst, "src": src, "idx": index})
        run_in(Case(target, "tscatter", {}, {"index": reading}, reading), world)


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_mgather_at_overlapping_addresses(target: str, data: st.DataObject) -> None:
    make = Maker(data.draw, target)
    dtype, kind = make.one_of(*BASE), make.one_of("int32", "uint32")
    oob, valid = make.one_of(*GATHER_OOB), larger(make)
    dst = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid)
    entries = make.upto(1, 60)
    index = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
    index = make.index_tile(index, make.indices(prod(valid), entries, kind, oob), grid(valid))
    table = make.tensor(dtype, (1, 1, 1, 1, entries), (1, 1, 1, 1, 1))
    with pto.target(target, header=True):
        world = World()
        laid(make, world, {"dst": dst, "idx": index})
        world.tensor("table", table)
        ordered(world, "dst", "table", "idx")
        run_in(Case(target, "mgather", {}, {"oob": oob, "coalesce": "elem"}, "elem"), world)


@fuzz(3)
@given(data=st.data())
def test_mgather_nz_at_overlapping_addresses(data: st.DataObject) -> None:
    """MG-NZ-10: an NZ element gather iterates over block columns, and so does the naive loop."""
    make = Maker(data.draw, "a2a3")
    dtype, kind = make.one_of("int32", "uint32", "int32", "int16", "uint8"), make.one_of("int32", "uint32")
    kc0, oob = c0(dtype), make.one_of(*GATHER_OOB)
    valid = (make.upto(1, 24), make.upto(1, 3 * kc0))
    dst = make.tile(dtype, up(valid[0], 16), up(valid[1], kc0), valid, form="nz")
    shape = (make.upto(1, 2), make.upto(1, 2), make.upto(1, 2), 16, kc0)
    capacity = prod(shape)
    index = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
    index = make.index_tile(index, make.indices(prod(valid), capacity, kind, oob), grid(valid))
    table = make.tensor(dtype, shape, tuple(prod(shape[k + 1 :]) for k in range(5)), "nz")
    with pto.target("a2a3", header=True):
        world = World()
        laid(make, world, {"dst": dst, "idx": index})
        world.tensor("table", table)
        if SIZE[dtype] == 4:  # a table of indices, so that they stay in range when they are written over
            few = np.array(names(make, capacity, capacity, dtype, make.one_of(True, False)), np.uint32).view(np.uint8)
            world.real["table"][table.before : table.before + few.size] = few
            world.model["table"][table.before : table.before + few.size] = few.tobytes()
        ordered(world, "dst", "table", "idx")
        run_in(Case("a2a3", "mgather", {}, {"oob": oob, "coalesce": "elem"}, "elem"), world)


@fuzz(2)
@given(data=st.data())
def test_mgather_nz_from_its_own_destination(data: st.DataObject) -> None:
    """The NZ table lies in dst.buffer: a later lane loads what one lane stores."""
    make = Maker(data.draw, "a2a3")
    dtype, oob, kind = make.one_of(*BASE), make.one_of(*GATHER_OOB), make.one_of("int32", "uint32")
    kc0 = c0(dtype)
    valid = (make.upto(1, 32), make.upto(1, 3 * kc0))
    dst = make.tile(dtype, up(valid[0], 16), up(valid[1], kc0), valid, form="nz")
    shape = (1, make.upto(1, dst.cols // kc0), make.upto(1, dst.rows // 16), 16, kc0)
    index = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
    index = make.index_tile(index, make.indices(prod(valid), prod(shape), kind, oob), grid(valid))
    with pto.target("a2a3"):
        world = World()
        world.tile("dst", dst)
        world.tile("idx", index)
        table = TensorArg(dtype, shape, tuple(prod(shape[k + 1 :]) for k in range(5)), "nz")
        world.tensor_over("table", table, "dst", SIZE[dtype] * make.upto(0, dst.rows * dst.cols - prod(shape)))
        ordered(world, "dst", "table", "idx")
        run_in(Case("a2a3", "mgather", {}, {"oob": oob, "coalesce": "elem"}, "elem"), world)


@pytest.mark.parametrize("target", TARGETS)
@fuzz()
@given(data=st.data())
def test_tmov_at_overlapping_addresses(target: str, data: st.DataObject) -> None:
    make = Maker(data.draw, target)
    dtype, valid = make.one_of(*BASE), larger(make)
    with pto.target(target, header=True):
        world = World()
        dst = make.any_tile(dtype, valid)
        src = dst if target == "a2a3" else make.any_tile(dtype, valid)  # its header compares the storage
        laid(make, world, {"dst": dst, "src": src})
        run_in(Case(target, "tmov", {}, {}), world)


@pytest.mark.parametrize("target", TARGETS)
def test_placed_tiles_may_not_overlap(target: str) -> None:
    """H-38: what these tests do with one tile is refused for two that share bytes."""
    with pto.target(target), warnings.catch_warnings():
        dst = pto.Tile("vec", "int32", 8, 8, addr=0)
        src = pto.Tile("vec", "int32", 8, 8, addr=64).write(0)
        with pytest.raises(pto.VerifyError, match="H-38"):
            pto.tscatter(dst, src, src)
