"""Kernels that move each row by itself: gathers, stores of owned rows, combinations in any order.

Those that read indices only are behind them: which are outside, which rows they name, which lane is the last of a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.engine.cuda.whole.combining import atomically
from ptokit.engine.cuda.whole.kinds import PIECE
from ptokit.engine.cuda.whole.site import KernelSite, Place, both, held, where
from ptokit.engine.llvm.emit import I32, I64, IrValue
from ptokit.engine.llvm.resolve import SENTINEL
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Term
from ptokit.isa.move import Combine, Remap


def gather(site: KernelSite) -> None:
    """Rows of the table to the other array."""
    _gather(site, site.open)


def checked_gather(site: KernelSite) -> None:
    """The same, with a check of the indices; rows of those that are inside are written in any case."""
    _gather(site, None, checks=True)


def _gather(site: KernelSite, may_write: IrValue | None, checks: bool = False) -> None:
    code = site.code
    with site.thread_loop(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        indices = [site.read(i) for i, _ in split]
        places = [site.place(value) for value in indices]
        found = [site.load(site.of_table(place.row, j)) for place, (_, j) in zip(places, split, strict=True)]
        for (i, j), place, value in zip(split, places, found, strict=True):
            if site.kind.remap is Remap.ZERO:
                assert place.inside is not None
                site.stream(code.select(place.inside, value, 0), site.of_other(i, j))
                continue
            with where(site, both(may_write, place.inside)):
                site.stream(value, site.of_other(i, j))
        for (i, j), index, (_, counts) in zip(split, indices, numbers, strict=True) if checks else ():
            site.refuse(index, i, both(j.compare("eq", 0), counts))


def scatter(site: KernelSite) -> None:
    """Rows of the other array to the table, in any order; where rows are owned, only those of the last lanes."""
    code, kind = site.code, site.kind
    with site.thread_loop(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        places = [site.place(value) for value in [site.read(i) for i, _ in split]]
        found = [site.load(site.of_other(i, j)) for i, j in split]
        owners = [code.load(I32, code.at(site.keys, p.row * 4)) for p in places] if kind.owned else []
        for k, ((i, j), place, value) in enumerate(zip(split, places, found, strict=True)):
            held = both(both(site.open, place.inside), numbers[k][1])
            if owners:
                held = both(held, owners[k].compare("eq", i.to("trunc", I32) + 1))
            with where(site, held):
                _put(site, value, site.of_table(place.row, j))


def _put(site: KernelSite, value: IrValue, at: IrValue) -> None:
    if site.kind.combine is Combine.STORE:
        site.code.store(value, at, site.kind.piece)
    else:
        atomically(site.code, site.kind.combine, site.kind.dtype, at, value)


def private(site: KernelSite) -> None:
    """Combine elements into a copy of a small table in shared memory, and that into the table.

    Under `REFUSE` the indices are checked meanwhile, and the copies are stored for `commit`.
    """
    code, kind, checks = site.code, site.kind, site.open is not None
    size, combine, dtype = kind.dtype.size, kind.combine, kind.dtype
    nothing = code.constant(site.bits, neutral(combine, dtype))
    with code.phase(), code.share(0, site.capacity) as cell:
        code.store(nothing, code.at(code.shared, cell * size))
    with site.thread_loop(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        places = [site.place(value) for value in values]
        found = [site.load(site.of_other(i, code.i64(0))) for i, _ in lanes]
        for (i, counts), index, place, value in zip(lanes, values, places, found, strict=True):
            with where(site, both(place.inside, counts)):
                atomically(code, combine, dtype, code.at(code.shared, place.row * size), value)
            if checks:
                site.refuse(index, i, counts)
    with code.phase(), code.share(0, site.capacity) as cell:
        value = code.load(site.bits, code.at(code.shared, cell * size))
        if checks:
            code.store(value, _copied(site, cell))
        else:
            _combine_copy(site, value, cell)


def commit(site: KernelSite) -> None:
    """Combine the copies of a small table into the table, if no index is refused."""
    code = site.code
    with code.phase(), where(site, site.open), code.share(0, site.capacity) as cell:
        _combine_copy(site, code.load(site.bits, _copied(site, cell)), cell)


def _copied(site: KernelSite, cell: IrValue) -> IrValue:
    """Where the cell of a block's copy of a small table is stored."""
    return site.code.at(site.keys, (site.code.block * site.capacity + cell) * site.kind.dtype.size)


def _combine_copy(site: KernelSite, value: IrValue, cell: IrValue) -> None:
    code, kind = site.code, site.kind
    with code.when(value.compare("ne", neutral(kind.combine, kind.dtype))):
        atomically(code, kind.combine, kind.dtype, site.of_table(cell, code.i64(0)), value)


def neutral(combine: Combine, dtype: DType) -> int:
    """The bits of an element that changes nothing."""
    top = 1 << (8 * dtype.size - 1)
    if combine is Combine.ADD:
        return top if dtype.is_float else 0
    least, greatest = (0, 2 * top - 1) if dtype.family == "uint" else (top, top - 1)
    return least if combine is Combine.MAX else greatest


def check(site: KernelSite) -> None:
    """Count the indices that are outside."""
    code, size = site.code, site.kind.index_type.size
    if site.kind.index.rows != (Term(size),):
        _check_lanes(site)
        return
    odd = site.index.base.to("ptrtoint", I64) & (PIECE - 1)
    code.choose(odd.compare("eq", 0), lambda: _check_pieces(site, PIECE // size), lambda: _check_lanes(site))


def _check_pieces(site: KernelSite, wide: int) -> None:
    """So many at a time, which lie side by side; then the rest."""
    code, pieces = site.code, site.count.op("udiv", wide)
    with site.thread_loop(pieces, site.tuning.pieces) as numbers:
        for (n, counts), values in [(each, site.read(each[0] * wide, wide)) for each in numbers]:
            found = [code.write(site.lane, f"extractelement {values!r}, i64 {k}") for k in range(wide)]
            outside = site.is_outside(found[0])
            for value in found[1:]:
                outside = outside | site.is_outside(value)
            with code.when(held(outside, counts)):
                for k, value in enumerate(found):
                    site.refuse(value, n * wide + k, None)
    with code.phase():
        i = pieces * wide + code.lane
        with code.when(i.compare("slt", site.count) & code.block.compare("eq", 0)):
            site.refuse(site.read(i), i, None)


def _check_lanes(site: KernelSite) -> None:
    with site.thread_loop(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        for (i, counts), value in zip(lanes, values, strict=True):
            site.refuse(value, i, counts)


def keys(site: KernelSite) -> None:
    """A key for each lane: the row that it names, and the lane. Those that name none come last."""
    code, refuses = site.code, site.kind.remap is Remap.REFUSE
    with site.thread_loop(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        for (i, counts), value in zip(lanes, values, strict=True):
            place = site.place(value)
            key = place.row.op("shl", site.shift) | i
            if place.inside is not None:
                key = code.select(place.inside, key, SENTINEL)
            code.store(key, code.at(site.keys, i * 8))
            if refuses:
                site.refuse(value, i, counts)


def mark(site: KernelSite) -> None:
    """Of the lanes that name a row, find the last one."""
    for place, at, i in _owners(site):
        with where(site, place.inside):
            site.code.line(f"  atomicrmw umax {at!r}, {i.to('trunc', I32) + 1!r} monotonic")


def clear(site: KernelSite) -> None:
    """Forget the owners of all rows that `scatter` looks up: of those that lanes name, and the first for others."""
    for _, at, _ in _owners(site):
        site.code.store(site.code.constant(I32, 0), at)


def _owners(site: KernelSite) -> Iterator[tuple[Place, IrValue, IrValue]]:
    """The place of each lane, where the owner of its row lies, and the lane."""
    with site.thread_loop(site.count, site.tuning.indices) as lanes:
        places = [site.place(value) for value in [site.read(i) for i, _ in lanes]]
        for (i, _), place in zip(lanes, places, strict=True):
            yield place, site.code.at(site.keys, place.row * 4), i
