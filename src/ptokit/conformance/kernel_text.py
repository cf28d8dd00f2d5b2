"""Operand forms of the cases as a table, and the text of their kernels."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ptokit.isa.dtype import DType
from ptokit.isa.operand import FORMS

LAYOUTS = {form: (blayout.text, slayout.text) for (blayout, slayout), form in FORMS.items()}


class TileForm(NamedTuple):
    """A tile; without `valid` the whole tile is valid."""

    rows: int
    cols: int
    valid: tuple[int, int] | None = None
    form: str = "nd"
    loc: str = "vec"
    pad: str = "null"
    fractal: int = 512

    @property
    def extents(self) -> tuple[int, int]:
        return self.valid or (self.rows, self.cols)

    def text(self, dtype: DType) -> str:
        """Its type in PTO-AS."""
        words = (self.loc, dtype.mlir, self.rows, self.cols, *LAYOUTS[self.form], self.fractal, self.pad)
        return f"!pto.tile<{', '.join(map(str, words))}, valid={self.extents[0]}x{self.extents[1]}>"


class ViewForm(NamedTuple):
    """A view of global memory; without `stride` it is packed."""

    shape: tuple[int, ...]
    stride: tuple[int, ...] = ()
    layout: str = "nd"

    @property
    def steps(self) -> tuple[int, ...]:
        packed = tuple(prod(self.shape[k + 1 :]) for k in range(len(self.shape)))
        return self.stride or ((*packed[:-2], 1, self.shape[-2]) if self.layout == "dn" else packed)

    @property
    def size(self) -> int:
        """The elements of memory from its first to its last one."""
        return 1 + sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))


def view_of(tile: TileForm, c0: int) -> ViewForm:
    """Memory for the valid part of a tile, in its layout."""
    rows, cols = tile.extents
    if tile.form == "nz":
        return ViewForm((1, -(-cols // c0), -(-rows // 16), 16, c0), (), "nz")
    return ViewForm((rows, cols), (), tile.form)


class KernelText:
    """A kernel in PTO-AS, written line by line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrays: dict[str, tuple[DType, int]] = {}
        """The element type and the elements of each argument."""
        self._types: dict[str, str] = {}
        self._lines: list[str] = []

    def view(self, name: str, dtype: DType, form: ViewForm) -> None:
        """An argument, and the only view of it."""
        self.arrays[name] = dtype, form.size
        self._types[f"{name}_view"] = f"!pto.memref<{'x'.join(map(str, form.shape))}x{dtype.mlir}>"
        self._lines.append(
            f"%{name}_view = make_tensor_view %{name}, shape = {[*form.shape]}, strides = {[*form.steps]} "
            f"{{layout = {form.layout}}} : {self._types[f'{name}_view']}"
        )

    def tile(self, name: str, dtype: DType, form: TileForm, address: int | None = None) -> None:
        """A tile, at an address in manual mode."""
        self._types[name] = form.text(dtype)
        self._lines.append(f"%{name} = alloc_tile : {self._types[name]}")
        if address is not None:
            self._lines.append(f"tassign %{name}, @tile({address:#x})")

    def do(self, op: str, *names: str, attributes: str = "") -> None:
        """An instruction."""
        operands = [f"{name}_view" if name in self.arrays else name for name in names]
        types = ", ".join(self._types[name] for name in operands)
        self._lines.append(f"{op} {', '.join(f'%{name}' for name in operands)}{attributes} : ({types})")

    def line(self, text: str) -> None:
        """A line, unchanged."""
        self._lines.append(text)

    def __str__(self) -> str:
        arguments = [f".arg %{name} : !pto.ptr<{dtype.mlir}>" for name, (dtype, _) in self.arrays.items()]
        return "\n".join([f".kernel {self.name}", *arguments, "", *self._lines, ""])
