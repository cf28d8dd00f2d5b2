"""Layouts on a terminal: a tile in logical order beside its memory, line by line."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from rich.text import Text

from ptokit.engine.storage import Array
from ptokit.isa.operand import BLOCK, TileSpec
from ptokit.report.sources import terms

MOST_ELEMENTS = 1 << 20
"""Elements of a tile whose offsets are listed."""
MOST_ROWS, MOST_COLS, MOST_LINES = 64, 256, 64
"""Rows, columns and lines of memory that are drawn."""
GLYPHS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PADDING = "."
MARGIN = 5
"""Characters before the cells of a row."""
BETWEEN = 4
"""Characters between the two parts."""


@dataclass(frozen=True)
class LayoutPicture:
    """A tile of known extents, and where it lies."""

    spec: TileSpec
    address: int = 0

    @property
    def offsets(self) -> Array:
        """The element offset of every (i, j)."""
        if self.spec.rows * self.spec.cols > MOST_ELEMENTS:
            found = f"{self.spec.rows}x{self.spec.cols}"
            raise ValueError(f"{found} is too large to list: at most {MOST_ELEMENTS:,} elements")
        return self._offsets(self.spec.rows, self.spec.cols)

    def _offsets(self, rows: int, cols: int) -> Array:
        i, j = np.arange(rows)[:, None], np.arange(cols)[None, :]
        return self.spec.layout.offset(i, j) + np.zeros((rows, cols), np.int64)

    @cached_property
    def _shown(self) -> Array:
        """The offsets of the rows and columns that are drawn."""
        return self._offsets(min(self.spec.rows, MOST_ROWS), min(self.spec.cols, MOST_COLS))

    def _is_valid(self, row: int, col: int) -> bool:
        """Whether (row, col) is in the valid region."""
        return row < self.spec.valid[0] and col < self.spec.valid[1]

    @cached_property
    def cells(self) -> Array:
        """By offset, in the lines that are drawn: the number of the element in logical order; -1 for memory that no
        element has."""
        end = min(self.spec.elements, MOST_LINES * self.across)
        held = np.full(end, -1, np.int64)
        i, j, offsets = self.spec.layout.first(self.spec.rows, self.spec.cols, end)
        held[offsets] = i * self.spec.cols + j
        return held

    @property
    def remarks(self) -> list[str]:
        """What is unusual about the extents."""
        extents = zip(("rows", "columns"), (self.spec.rows, self.spec.cols), self.spec.box, strict=True)
        return [f"{n} {what} are not a multiple of the {box} {what} of a box" for what, n, box in extents if n % box]

    @property
    def across(self) -> int:
        """Elements of a line of memory: 32 bytes."""
        return max(1, BLOCK // self.spec.dtype.size)

    @property
    def lines(self) -> int:
        """Lines of memory."""
        return -(-self.spec.elements // self.across)

    @property
    def title(self) -> str:
        """`NZ float16 16x32: boxes of 16x16, 1,024 bytes`."""
        spec = self.spec
        boxes = "boxes of {}x{}, ".format(*spec.box) if spec.box != (1, 1) else ""
        valid = "" if spec.valid == (spec.rows, spec.cols) else " valid {}x{}".format(*spec.valid)
        return f"{spec.format.upper()} {spec.dtype} {spec.rows}x{spec.cols}{valid}: {boxes}{spec.nbytes:,} bytes"

    def as_dict(self) -> dict[str, Any]:
        """The layout as plain data."""
        spec = self.spec
        return {
            "layout": spec.format,
            "dtype": str(spec.dtype),
            "rows": spec.rows,
            "cols": spec.cols,
            "valid": [*spec.valid],
            "box": [*spec.box],
            "bytes": spec.nbytes,
            "remarks": self.remarks,
            "address": self.address,
            "terms": terms(spec.layout),
            "offsets": self.offsets.tolist(),
        }

    def text(self, width: int, *, offsets: bool = False) -> Text:
        """Both parts: side by side if they fit, else one below the other. `offsets` are numbers instead of letters."""
        logical, memory = [*self._logical(width, offsets)], [*self._memory()]
        left = max(line.cell_len for line in logical)
        if left + BETWEEN + max(line.cell_len for line in memory) > width:
            return Text("\n").join([*logical, Text(), *memory])
        rows = zip_longest(logical, memory, fillvalue=Text())
        return Text("\n").join(_beside(one, left, other) for one, other in rows)

    # --- logical order

    def _logical(self, width: int, offsets: bool) -> Iterator[Text]:
        wide = len(str(self.spec.elements - 1)) + 1 if offsets else 1
        rows, cols = min(self.spec.rows, MOST_ROWS), min(self.spec.cols, MOST_COLS)
        pieces = [*_pieces(cols, self.spec.box[1], (width - MARGIN) // wide)]
        for k, piece in enumerate(pieces):
            named = f", columns {piece.start}..{piece.stop - 1}" if len(pieces) > 1 else ""
            yield Text(f"{chr(10) if k else ''}logical order{named}", style="bold")
            for row in range(rows):
                if row and self.spec.box[0] > 1 and row % self.spec.box[0] == 0:
                    yield Text()
                yield self._row(row, piece, wide if offsets else 0)
        left_out = [f"{n - most:,} {what} more" for n, most, what in self._beyond if n > most]
        if left_out:
            yield Text(f"... {', '.join(left_out)}", style="dim")

    @property
    def _beyond(self) -> tuple[tuple[int, int, str], ...]:
        return (self.spec.rows, MOST_ROWS, "rows"), (self.spec.cols, MOST_COLS, "columns")

    def _row(self, row: int, piece: range, wide: int) -> Text:
        line = Text().append(f"{row:>{MARGIN - 1}} ", "dim")
        for col in piece:
            if col > piece.start and self.spec.box[1] > 1 and col % self.spec.box[1] == 0:
                line.append(" ")
            offset = int(self._shown[row, col])
            shown = f"{offset:>{wide}}" if wide else self._glyph(offset)
            line.append(shown if self._is_valid(row, col) else PADDING.rjust(wide), self._style(row, col))
        return line

    def _style(self, row: int, col: int) -> str:
        return self._colour(int(self._shown[row, col]) // self.across) if self._is_valid(row, col) else "dim"

    def _glyph(self, offset: int) -> str:
        return GLYPHS[offset // self.across % len(GLYPHS)]

    def _colour(self, line: int) -> str:
        """From the first line of memory, red, to the last, violet."""
        red, green, blue = colorsys.hls_to_rgb(0.8 * line / max(1, self.lines - 1), 0.68, 0.75)
        return f"#000000 on #{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"

    # --- physical order

    def _memory(self) -> Iterator[Text]:
        yield Text(f"memory, {BLOCK} bytes a line", style="bold")
        for number in range(min(self.lines, MOST_LINES)):
            first = number * self.across
            held = self.cells[first : first + self.across]
            line = Text().append(f"{self.address + first * self.spec.dtype.size:#06x} ", "dim")
            are_valid = (cell >= 0 and self._is_valid(*divmod(cell, self.spec.cols)) for cell in held.tolist())
            marks = "".join(self._glyph(first) if is_valid else PADDING for is_valid in are_valid)
            line.append(marks.ljust(self.across), self._colour(number) if marks.strip(PADDING) else "dim")
            line.append(f" {self._held(held[held >= 0])}", "")
            yield line
        if self.lines > MOST_LINES:
            yield Text(f"... {self.lines - MOST_LINES:,} lines more", style="dim")

    def _held(self, cells: Array) -> str:
        """`[3, 0:16]`: the elements of a line, as NumPy's subscripts."""
        if not cells.size:
            return "padding"
        rows, cols = (np.unique(each) for each in np.divmod(cells, self.spec.cols))
        if rows.size * cols.size == cells.size:
            return f"[{_slice(rows)}, {_slice(cols)}]"
        places = [divmod(int(cell), self.spec.cols) for cell in (cells[0], cells[-1])]
        return " .. ".join(f"[{row}, {col}]" for row, col in places)


def _slice(numbers: Array) -> str:
    first, last = int(numbers[0]), int(numbers[-1])
    return str(first) if first == last else f"{first}:{last + 1}"


def _pieces(cols: int, box: int, fitting: int) -> Iterator[range]:
    """Columns in pieces that fit, of whole boxes where one fits."""
    fitting = max(1, fitting)
    gaps = fitting // (box + 1) if box > 1 else 0
    step = gaps * box if gaps else fitting
    return (range(first, min(first + step, cols)) for first in range(0, cols, step))


def _beside(one: Text, left: int, other: Text) -> Text:
    return Text.assemble(one, " " * (left - one.cell_len + BETWEEN), other) if other.plain else one


def tile_rows(tiles: Sequence[tuple[str, TileSpec, Sequence[object]]]) -> list[tuple[str, ...]]:
    """A table of tiles: name, memory, type, shape, valid region, layout, bytes and addresses."""
    head = ("tile", "memory", "type", "shape", "valid", "layout", "bytes", "address")
    rows = [
        (
            name,
            spec.loc.text,
            str(spec.dtype),
            f"{spec.rows}x{spec.cols}",
            "x".join(map(str, spec.valid)),
            spec.format,
            f"{spec.nbytes:,}",
            ", ".join(f"{each:#x}" if isinstance(each, int) else str(each) for each in addresses) or "none",
        )
        for name, spec, addresses in tiles
    ]
    return [head, *rows]
