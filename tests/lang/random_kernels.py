"""Random kernels as source text: loads, gathers, arithmetic, scatters and stores under loops and branches.

Every slice is clamped into its array and every tile is written before it is read, so that a kernel has one meaning:
in auto mode, at addresses of its own, and with real values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count
from random import Random

ROWS, COLS = 4, 8
"""Every tile but the index and the large one that windows are cut from."""
TABLE = 64
"""Rows of the arrays; some indices are larger."""
HEAD = "def k(x, large, idx, lens, out, n):"
FILL = ["pto.tload(ta, x[0:4])", "pto.tload(tb, x[4:8])", "pto.tload(whole, large)"]
KEEP = ["pto.tstore(out[0:4], ta)", "pto.tstore(out[4:8], tb)"]
BUFFERS = re.compile(r", buffers=\d")
ADDRESS = re.compile(r"<at (\d+)>")

Lines = list[str]


@dataclass
class Scope:
    """What is known at a place: numbers by their text, and tiles by name."""

    numbers: list[str]
    tiles: list[str]

    def inner(self, *more: str) -> Scope:
        """An inner scope."""
        return Scope([*self.numbers, *more], [*self.tiles])


@dataclass
class Writer:
    """Writes one kernel."""

    random: Random
    names: count[int] = field(default_factory=count)
    free: int = 0
    """The next free address."""

    def name(self, letter: str) -> str:
        """A name that is new."""
        return f"{letter}{next(self.names)}"

    def tile(self, kind: str = "float32", rows: int = ROWS, cols: int = COLS, more: str = "") -> str:
        """A tile at the next free address, if it is to have one."""
        at, self.free = self.free, self.free + 4 * rows * cols
        return f'pto.Tile("vec", "{kind}", {rows}, {cols}{more}<at {at}>)'

    def number(self, scope: Scope, depth: int = 2) -> str:
        """An expression that has a value for all values of its variables."""
        if not depth or self.random.random() < 0.3:
            return self.random.choice([*scope.numbers, *scope.numbers, str(self.random.randint(-3, 9))])
        a, b, small = self.number(scope, depth - 1), self.number(scope, depth - 1), self.random.randint(1, 3)
        forms = (
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {small})", f"({a} % -{small + 1})",
            f"({a} << {small})", f"({a} >> {small})", f"({a} & {b})", f"({a} | {b})", f"-({a})",
            f"pto.min({a}, {b})", f"pto.max({a}, {b})", f"({a} < {b})", f"({a} != {b})",
        )  # fmt: skip
        return self.random.choice(forms)

    def within(self, scope: Scope, most: int) -> str:
        """A number from 0 to `most`."""
        return f"pto.max(0, pto.min({most}, {self.number(scope)}))"

    def kernel(self) -> str:
        """The text of the whole, with places for addresses."""
        tiles = {
            "ta": self.tile(),
            "tb": self.tile(),
            "rows": self.tile("int32", 1, 8, f", valid=(1, {ROWS})"),
            "whole": self.tile(rows=8, cols=16),
        }
        body = self.block(Scope(["n", "pto.block_idx()", "pto.block_num()"], ["ta", "tb"]), 3)
        lines = [*(f"{name} = {tile}" for name, tile in tiles.items()), *FILL, *body, *KEEP]
        return "\n".join([HEAD, *_indented(lines)]) + "\n"

    def block(self, scope: Scope, depth: int) -> Lines:
        """One to four statements."""
        return [line for _ in range(self.random.randint(1, 4)) for line in self.statement(scope, depth)]

    def statement(self, scope: Scope, depth: int) -> Lines:
        """Anything; bodies only so deep."""
        plain = (self.load, self.store, self.store, self.compute, self.compute, self.gather, self.scatter, self.bind,
                 self.make, self.extents)  # fmt: skip
        if depth and self.random.random() < 0.35:
            return self.random.choice((self.loop, self.branch))(scope, depth - 1)
        return self.random.choice(plain)(scope)

    def load(self, scope: Scope) -> Lines:
        at, tile = self.name("e"), self.random.choice(scope.tiles)
        window = f"pto.textract({tile}, whole, {self.within(scope, 4)}, {self.within(scope, 1)} * 8)"
        rows = [f"{at} = {self.within(scope, TABLE - ROWS)}", f"pto.tload({tile}, x[{at} : {at} + {ROWS}])"]
        return self.random.choice((rows, rows, [window]))

    def store(self, scope: Scope) -> Lines:
        at, how = self.name("e"), self.random.choice(("none", "add"))
        tile = self.random.choice(scope.tiles)
        return [
            f"{at} = {self.within(scope, TABLE - ROWS)}",
            f'pto.tstore(out[{at} : {at} + {ROWS}], {tile}, atomic="{how}")',
        ]

    def compute(self, scope: Scope) -> Lines:
        a, b, c = (self.random.choice(scope.tiles) for _ in range(3))
        two = f"pto.{self.random.choice(('tadd', 'tsub', 'tmax', 'tmin'))}({a}, {b}, {c})"
        one = f"pto.{self.random.choice(('tadds', 'tmuls', 'tmaxs'))}({a}, {b}, ({self.number(scope)}) % 5 - 2)"
        return [self.random.choice((two, one))]

    def indices(self, scope: Scope) -> Lines:
        at = self.name("e")
        return [f"{at} = {self.within(scope, TABLE - 8)}", f"pto.tload(rows, idx[{at} : {at} + 8])"]

    def gather(self, scope: Scope) -> Lines:
        tile, oob = self.random.choice(scope.tiles), self.random.choice(("clamp", "wrap", "zero"))
        return [*self.indices(scope), f'pto.mgather({tile}, x, rows, oob="{oob}")']

    def scatter(self, scope: Scope) -> Lines:
        tile, oob = self.random.choice(scope.tiles), self.random.choice(("clamp", "wrap", "skip"))
        how = self.random.choice(("none", "add"))
        return [*self.indices(scope), f'pto.mscatter(out, {tile}, rows, coalesce="row", atomic="{how}", oob="{oob}")']

    def bind(self, scope: Scope) -> Lines:
        name = self.name("s")
        value = self.random.choice((f"pto.load_scalar(lens, {self.within(scope, 3)})", self.number(scope)))
        scope.numbers.append(name)
        return [f"{name} = {value}"]

    def make(self, scope: Scope) -> Lines:
        tile = self.name("t")
        scope.tiles.append(tile)
        return [f"{tile} = {self.tile()}", f"pto.texpands({tile}, {self.random.randint(-3, 3)})"]

    def extents(self, scope: Scope) -> Lines:
        tile, at, size = self.name("d"), self.name("e"), self.name("n")
        return [
            f"{tile} = {self.tile()}",
            f"{at}, {size} = {self.within(scope, TABLE - ROWS)}, 1 + {self.within(scope, ROWS - 1)}",
            f"{tile}.valid = ({size}, {self.random.choice((COLS, 5))})",
            f"pto.tload({tile}, x[{at} : {at} + {ROWS}])",
            f"pto.tstore(out[{at} : {at} + {tile}.valid[0], 0 : {tile}.valid[1]], {tile})",
        ]

    def loop(self, scope: Scope, depth: int) -> Lines:
        var, end, buffers = self.name("i"), f"pto.min(4, {self.number(scope)})", self.random.choice((1, 2))
        bounds = self.random.choice(("3", end, f"-1, {end}, 2", f"{end}, 0, -1", f"0, 6, 2 + {self.within(scope, 3)}"))
        body = self.block(scope.inner(var), depth)
        return [f"for {var} in pto.range({bounds}, buffers={buffers}):", *_indented(body)]

    def branch(self, scope: Scope, depth: int) -> Lines:
        lines = [f"with pto.when({self.number(scope)}):", *_indented(self.block(scope.inner(), depth))]
        if self.random.random() < 0.5:
            lines += ["with pto.otherwise():", *_indented(self.block(scope.inner(), depth))]
        return lines


def _indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def random_kernel(seed: int) -> tuple[str, str]:
    """The source of a kernel in auto mode, and of the same one in manual mode with addresses."""
    text = Writer(Random(seed)).kernel()
    manual = BUFFERS.sub("", ADDRESS.sub(r", addr=\1", text))  # copies are a matter of auto mode
    return f"@pto.kernel\n{ADDRESS.sub('', text)}", f'@pto.kernel(mode="manual")\n{manual}'
