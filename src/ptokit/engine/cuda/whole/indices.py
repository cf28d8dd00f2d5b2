"""Kernels that read indices only: which are outside, which rows they name, which lane is the last of a row."""

from __future__ import annotations

from collections.abc import Iterator

from ptokit.engine.cuda.whole.pieces import PIECE
from ptokit.engine.cuda.whole.site import KernelSite, Place, held, where
from ptokit.engine.llvm.emit import I32, I64, IrValue
from ptokit.engine.llvm.resolve import SENTINEL
from ptokit.isa.layout import Term
from ptokit.isa.move import Remap


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
    with site.each(pieces, site.tuning.pieces) as numbers:
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
    with site.each(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        for (i, counts), value in zip(lanes, values, strict=True):
            site.refuse(value, i, counts)


def keys(site: KernelSite) -> None:
    """A key for each lane: the row that it names, and the lane. Those that name none come last."""
    code, refuses = site.code, site.kind.remap is Remap.REFUSE
    with site.each(site.count, site.tuning.indices) as lanes:
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
    with site.each(site.count, site.tuning.indices) as lanes:
        places = [site.place(value) for value in [site.read(i) for i, _ in lanes]]
        for (i, _), place in zip(lanes, places, strict=True):
            yield place, site.code.at(site.keys, place.row * 4), i
