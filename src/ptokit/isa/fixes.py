"""Pieces of fixes that speak of modifiers, of options of tiles, and of types of tiles and arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptokit.finding.fix import CodePart, Fix, OpName, Wording, called, is_cpp
from ptokit.isa.dtype import DType
from ptokit.isa.policy import IN_CPP, BLayout, GlobalLayout, PtoEnum, ScatterOOB, SLayout, enumerator
from ptokit.isa.spelling import Attribute

if TYPE_CHECKING:
    from ptokit.isa.instruction import Modifier

TEXT_ATTRIBUTES: dict[tuple[str, type[PtoEnum]], Attribute] = {}
"""How text writes the modifiers of the catalogue."""


def add_attributes(modifiers: Iterable[Modifier]) -> None:
    """State how text writes the modifiers of an instruction of the catalogue, whose definitions have fixes."""
    TEXT_ATTRIBUTES.update({(each.name, each.enum): each.text for each in modifiers if each.text and each.text.key})


@dataclass(frozen=True)
class Option(CodePart):
    """A modifier of an instruction, or an option of a tile, with values to choose from; without one, only its name."""

    name: str
    enum: type[PtoEnum]
    members: tuple[PtoEnum, ...] = ()

    def written(self, form: str) -> str:
        """`oob="clamp" or "wrap"`, `GatherOOB::Clamp or Wrap`, `gatherOob = #pto<gather_oob clamp> or wrap`."""
        attribute = TEXT_ATTRIBUTES.get((self.name, self.enum)) if form and not is_cpp(form) else None
        if not self.members:
            return (
                IN_CPP.get(self.enum, (self.enum.__name__,))[0]
                if is_cpp(form)
                else attribute.key
                if attribute
                else f"{self.name}="
            )
        first, *others = self.members
        if is_cpp(form):
            start, words = enumerator(first), [enumerator(each).rpartition(":")[2] for each in others]
        elif form:
            start = attribute.literal(first) if attribute else f"{self.name}={first.text}"
            words = [each.text for each in others]
        else:
            start, words = f'{self.name}="{first.text}"', [f'"{each.text}"' for each in others]
        return ", ".join([start, *words[:-1]]) + (f" or {words[-1]}" if words else "")


def option(name: str, *members: PtoEnum) -> Option:
    """A modifier, or an option of a tile, and what to choose for it."""
    return Option(name, type(members[0]), members)


@dataclass(frozen=True)
class VecTile(CodePart):
    """A declaration of a tile in UB."""

    dtype: DType
    rows: int
    cols: int
    valid: tuple[int, int]

    def written(self, form: str) -> str:
        rows, cols, valid = self.rows, self.cols, self.valid
        is_part = valid != (rows, cols)
        if is_cpp(form):
            part = f", BLayout::RowMajor, {valid[0]}, {valid[1]}" if is_part else ""
            return f"Tile<TileType::Vec, {self.dtype.cpp}, {rows}, {cols}{part}>"
        if not form:
            return f'Tile("vec", "{self.dtype}", {rows}, {cols}{f", valid={valid}" if is_part else ""})'
        name, loc = ("tile", "") if form == "as" else ("tile_buf", "vec, ")
        part = f", valid={valid[0]}x{valid[1]}" if is_part else ""
        return f"!pto.{name}<{loc}{rows}x{cols}x{self.dtype.mlir}{part}>"


BLAYOUT, SLAYOUT = Option("blayout", BLayout), Option("slayout", SLayout)
VALID = Wording("valid=", "valid=", "valid extents")
FRACTAL = Wording("fractal=", "fractal=", "SFractalSize ")
ARRAY_VIEW = Wording("pto.GlobalTensor(array)", "make_tensor_view", "GlobalTensor")


def tensor_of(array: str, content: str) -> Wording:
    """An array as an operand."""
    return Wording(f"pto.GlobalTensor({array})", f"a tensor of {content}", f"a GlobalTensor of {content}")


def cast_of(array: str, kind: object) -> Wording:
    """An array as another type."""
    return Wording(f": {array}.astype('{kind}')", "", "")


# Fixes that several instructions share.
CONVERT = Fix(OpName("tcvt"), " converts between types")
BRING = Fix(OpName("tload"), " brings memory into a tile")
TAKE = Fix(OpName("tstore"), " takes a tile to memory")
LOAD_INDEX = Fix(OpName("tload"), " the indices into a Vec tile")
LOAD_INDEX_FIRST = Fix(LOAD_INDEX, " first")
BY_DMA = Fix("use ", called("tload"))
SKIP_OUTSIDE = Fix("skip indices outside the table with ", option("oob", ScatterOOB.Skip))
COPY_SLICE = Fix("copy the slice into a tile of its own first: ", called("tmov"))
PAD_TILE = Fix("pad the tile and give ", VALID)
COL_MAJOR = option("blayout", BLayout.ColMajor)
AS_COLUMN = Fix("make it N x 1 with ", COL_MAJOR)
PACKED = Fix(
    "use a packed array",
    Wording(": p = np.ascontiguousarray(array); after a scatter, copy p back", "", ""),
)
PLAIN_TILE = Fix("make the tile without ", BLAYOUT, " and ", SLAYOUT, ": row-major is the default")
NZ_TILE = Fix(
    "make the tile with ", COL_MAJOR, ", ", option("slayout", SLayout.RowMajor), ", ",
    Wording("fractal=512", "fractal=512", "fractals of 512 bytes"),
)  # fmt: skip
NZ_PAD = Fix("pad the tile to whole fractals, 16 rows by 32 bytes, and give ", VALID)
NZ_SHAPE = "an NZ tensor has the shape (B, BCols, BRows, 16, 32 // element bytes)"
ND_TABLE = Fix("repack the data row by row and pass it with ", option("layout", GlobalLayout.ND))
FLATTEN = Fix("pass the array in two dims", Wording(": array.reshape(-1, width)", "", ""))
WRAP = Fix(
    Wording(
        "wrap the array: pto.GlobalTensor(array)", "pass a view: make_tensor_view", "pass a GlobalTensor of the array"
    )
)
SHRINK = Fix("shrink ", VALID, " or enlarge the tile")
BELOW = "keep indices below the capacity, or choose "


def write_first(tile: str) -> Fix:
    """Instructions that write a tile before it is read."""
    return Fix("write it first: ", called("tload"), ", ", called("texpands", tile, "0"), ", ...")
