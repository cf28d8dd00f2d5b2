"""Matrix products of tiles in shared memory: 128 lanes multiply 64 x k by k x n, and go on with other work meanwhile.

Such a tile lies there as panels of so many columns, row after row. Of every row, pieces of 16 bytes are exchanged as
the units expect it, so that those of one column lie in different banks. The sums are in registers, as `units` has them:
those of 16 rows by n columns belong to 32 lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd

from ptokit.engine.llvm.compute.units import COLS, GroupSums
from ptokit.engine.llvm.emit import I32, I64, Chip, IrBuilder, IrValue, Variable
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, Term

ROWS, DEEP = 64, 16
"""Rows of 128 lanes, and how many products of each sum they take at once."""
MOST_ROWS, MOST_COLS, MOST_SUMS = 512, 256, 1 << 15
"""Rows and columns of a product, and numbers that registers of all lanes hold."""
SIZE = 2
"""Bytes of an element."""
ALIGNED = 1024
"""The units exchange bits of addresses: tiles begin where all of these are 0."""
TYPES = {"bfloat16": "bf16", "float16": "f16"}
SWIZZLES = {128: 1 << 62, 64: -2 << 62, 32: -1 << 62}
"""How descriptors name the width of panels: in the last two bits."""


@dataclass(frozen=True)
class Panels:
    """How a tile lies in shared memory."""

    shape: tuple[int, int]

    @property
    def nbytes(self) -> int:
        """Bytes up to where the next tile may begin."""
        return -(-self.shape[0] * self.shape[1] * SIZE // ALIGNED) * ALIGNED

    @property
    def width(self) -> int:
        """Bytes of the rows of a panel."""
        return gcd(128, self.shape[1] * SIZE)

    @property
    def panel(self) -> int:
        """Bytes from a panel to the next one."""
        return self.shape[0] * self.width

    @property
    def swizzle(self) -> int:
        """Bits of an address that are exchanged."""
        return self.width - 16

    @property
    def layout(self) -> Layout:
        """Where elements would lie if none were exchanged."""
        cols = self.width // SIZE
        return Layout((Term(cols),), (Term(1, 1, cols), Term(self.panel // SIZE, cols)))

    def descriptor(self, base: IrValue) -> IrValue:
        """What the units are told: the address, the distances of panels and of eight rows, the width."""
        code = base.code
        at = (code.in_space(base, 3).to("ptrtoint", I64) >> 4) & 0x3FFF
        return at | (self.panel >> 4 << 16 | 8 * self.width >> 4 << 32) | SWIZZLES[self.width]


def takes(chip: Chip, given: DType, m: int, n: int, k: int) -> bool:
    """Whether a chip multiplies tiles of these extents so."""
    is_whole = not (m % ROWS or n % DEEP or k % DEEP)
    return given.name in chip.wide_units and is_whole and m <= MOST_ROWS and n <= MOST_COLS


def lanes_for(m: int) -> int:
    """Lanes that hold m rows."""
    return m // ROWS * 128


def parts_for(n: int) -> tuple[int, int]:
    """Products of `units` down and across that 32 lanes hold."""
    return 1, n // COLS


def multiply(given: DType, tiles: Sequence[tuple[Panels, IrValue]], sums: GroupSums, keep: IrValue) -> None:
    """Begin to add the product of two tiles to the sums, if `keep` is not 0; or else to put it there. In a phase."""
    (a, left), (b, right) = tiles
    code, (k, n), kind = keep.code, b.shape, TYPES[given.name]
    left, right = a.descriptor(code.at(left, (code.lane >> 7) * (ROWS * a.width))), b.descriptor(right)
    steps = range(k // DEEP)
    ats = [divmod(step * DEEP * SIZE, a.width) for step in steps]
    sides = [left + ((panel * a.panel + at) >> 4) for panel, at in ats]
    sides += [right + ((step * DEEP * b.width) >> 4) for step in steps]
    first = 2 * len(_flat(sums)) + 1
    name = f"wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{DEEP}.f32.{kind}.{kind}"
    listed = ", ".join(f"${place}" for place in range(len(_flat(sums))))
    lines = [f"{{.reg .pred keep; setp.ne.b32 keep, ${first - 1}, 0; wgmma.fence.sync.aligned"]
    for step in steps:
        both = f"${first + step}, ${first + len(steps) + step}"
        lines.append(f"{name} {{{listed}}}, {both}, {'1' if step else 'keep'}, 1, 1, 0, 1")
    text = "; ".join([*lines, "wgmma.commit_group.sync.aligned;}"])
    _over(code, sums, f"multiply_{kind}_{n}_{len(steps)}", text, keep, *sides)


def finish(code: IrBuilder, sums: GroupSums, later: int = 0) -> None:
    """Wait until the products are added."""
    _over(code, sums, f"multiplied_{len(_flat(sums))}_{later}", f"wgmma.wait_group.sync.aligned {later};")


def _flat(sums: GroupSums) -> list[Variable]:
    return [*chain.from_iterable(sums.cells)]


def _over(code: IrBuilder, sums: GroupSums, name: str, text: str, *given: IrValue) -> None:
    """An instruction that replaces all sums."""
    cells = _flat(sums)
    kind = "{" + ", ".join(["float"] * len(cells)) + "}"
    tied = [*["=f"] * len(cells), *map(str, range(len(cells)))]
    constraints = ",".join([*tied, *({I32: "r", I64: "l"}[each.type] for each in given), "~{memory}"])
    made = code.ptx(kind, name, text, constraints, *(cell.get() for cell in cells), *given)
    for place, cell in enumerate(cells):
        cell.set(code.write("float", f"extractvalue {made!r}, {place}"))
