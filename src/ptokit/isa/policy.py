"""The enums of the instruction set, with the numbers the documents give and no others (A-64)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import Self, TypeVar

from ptokit.brief import brief
from ptokit.finding import suggestion


class PtoEnum(Enum):
    """An enum that is also written as a lower-case string: `GatherOOB.Clamp` or `"clamp"`."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is Python code on the hot path

    @cached_property
    def text(self) -> str:
        """The snake_case spelling of the member."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the member that `value` is or spells. Numbers and other enums do not convert (A-30)."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            for member in cls:
                if value == member.text:
                    return member
            hint = suggestion(value, (member.text for member in cls))
            raise ValueError(f"unknown value {brief(value)}; {cls.choices()}{hint}")
        shown = str(value) if isinstance(value, Enum) else brief(value)
        raise TypeError(f"{shown} does not convert to {cls.__name__}; {cls.choices()}")

    @classmethod
    def choices(cls) -> str:
        """The accepted spellings, for messages."""
        return "expected one of " + ", ".join(repr(member.text) for member in cls)

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


E = TypeVar("E", bound=PtoEnum)


def choose(enum: type[E], value: object, name: str) -> E:
    """The member that the argument `name` is or spells."""
    try:
        return enum.parse(value)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{name}: {problem}") from None


class Coalesce(PtoEnum):
    """What one index moves (MG-API-04)."""

    Row = 0
    Elem = 1


class GatherOOB(PtoEnum):
    """What a gather does with an index outside the table (MG-OOB-01)."""

    Undefined = 0
    Clamp = 1
    Wrap = 2
    Zero = 3


class GatherExec(PtoEnum):
    """The unit that collects the elements of an A5 gather into L1 (MG-SIMT-11)."""

    Scalar = 0
    Simt = 1


class ScatterOOB(PtoEnum):
    """What a scatter does with an index outside the table (MS-OOB-01). Numbered unlike `GatherOOB`."""

    Undefined = 0
    Skip = 1
    Clamp = 2
    Wrap = 3


class ScatterAtomicOp(PtoEnum):
    """How a scattered element is combined with its cell (MS-ATOM-01)."""

    NONE = 0
    Add = 1
    Max = 2
    Min = 3


class ScatterConflict(PtoEnum):
    """Which of several writes to one cell remains. Tools number these differently, so names are the values."""

    Default = "default"
    Last = "last"


class ScatterIndex(PtoEnum):
    """How `tscatter` reads its index: a row of the destination (the documents) or a flat offset (the headers)."""

    Row = "row"
    Flat = "flat"


class StoreAtomic(PtoEnum):
    """How `tstore` combines elements with the cells it writes."""

    NONE = "none"
    Add = "add"


class TileType(PtoEnum):
    """Where a tile lives (CO-LOC-01, and the cube core's own memories)."""

    Vec = "vec"
    Mat = "mat"
    Left = "left"
    Right = "right"
    Acc = "acc"
    Bias = "bias"
    Scaling = "scaling"
    ScaleLeft = "scale_left"
    """Scales of MX operands in Left and Right."""
    ScaleRight = "scale_right"


class BLayout(PtoEnum):
    """Order of a tile's rows and columns, or of its boxes when it has any (CO-LAY-01)."""

    RowMajor = "row_major"
    ColMajor = "col_major"


class SLayout(PtoEnum):
    """Order inside a box, or that there are no boxes (CO-LAY-01)."""

    NoneBox = "none_box"
    RowMajor = "row_major"
    ColMajor = "col_major"


class GlobalLayout(PtoEnum):
    """How a five-dimensional tensor in global memory is read; `Layout` in C++ (CO-LAY-03)."""

    ND = "nd"
    DN = "dn"
    NZ = "nz"
    MX_A_ZZ = "mx_a_zz"
    """Scales of MX operands, in pairs along K: of the left matrix (A) and of the right one (B)."""
    MX_A_ND = "mx_a_nd"
    MX_A_DN = "mx_a_dn"
    MX_B_NN = "mx_b_nn"
    MX_B_ND = "mx_b_nd"
    MX_B_DN = "mx_b_dn"


class Pad(PtoEnum):
    """What `tload` writes into a tile's padding."""

    Null = "null"
    Zero = "zero"
    Max = "max"
    Min = "min"


class RoundMode(PtoEnum):
    """How `tcvt` turns a fraction into an integer."""

    NONE = 0
    """As a C cast: towards zero."""
    Rint = 1
    """To the nearest; ties to even."""
    Round = 2
    """To the nearest; ties away from zero."""
    Floor = 3
    Ceil = 4
    Trunc = 5
    Odd = 6
    """To the odd neighbour, unless exact (von Neumann)."""


class Saturation(PtoEnum):
    """Whether `tcvt` clamps to the destination type's finite range, or wraps."""

    On = 0
    Off = 1


class CmpMode(PtoEnum):
    """How `tcmp` and `tcmps` compare."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


class IotaOrder(PtoEnum):
    """Whether `tci` counts up or down."""

    Ascending = "ascending"
    Descending = "descending"


class Triangle(PtoEnum):
    """Which half of a tile `ttri` fills with ones."""

    Lower = 0
    Upper = 1


class ReluMode(PtoEnum):
    """What the way out of an accumulator does to numbers below zero; `ReluPreMode` in C++."""

    NONE = "none"
    Relu = "relu"


class AccToVec(PtoEnum):
    """Which vector cores get what leaves an accumulator for UB; `AccToVecMode` in C++."""

    Vec0 = "vec0"
    Vec1 = "vec1"
    SplitM = "split_m"
    SplitN = "split_n"

    @property
    def parts(self) -> tuple[int, int]:
        """Into how many parts rows and columns are divided, one for each vector core."""
        return 1 + (self is AccToVec.SplitM), 1 + (self is AccToVec.SplitN)

    @property
    def vectors(self) -> tuple[int, ...]:
        """The vector cores that get it."""
        return (0, 1) if self.parts != (1, 1) else (int(self is AccToVec.Vec1),)


def division(modifiers: Sequence[object]) -> AccToVec:
    """The mode among modifiers or their texts; the default if there is none."""
    return next((each for each in AccToVec if each in modifiers or each.text in modifiers), AccToVec.Vec0)


class Dividend(PtoEnum):
    """Which operand of `tdivs` is divided: the tile, or the scalar."""

    Tile = "tile"
    Scalar = "scalar"


class HistByte(PtoEnum):
    """Which byte of its elements `thistogram` counts: byte_0 is the lowest."""

    BYTE_0 = 0
    BYTE_1 = 1
    BYTE_2 = 2
    BYTE_3 = 3


class MaskPattern(PtoEnum):
    """Which elements of each four `tgather_mask` keeps: the last digit stands for the first element."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7

    @property
    def step(self) -> int:
        """The distance of kept elements."""
        return 4 // self.name.count("1")

    @property
    def first(self) -> int:
        """The first kept element."""
        return self.name[::-1].index("1")


class MergeEnd(PtoEnum):
    """When a merge of lists ends."""

    Merged = "merged"
    """When all lists are merged."""
    Exhausted = "exhausted"
    """When the first list has no more elements."""


class Symmetric(PtoEnum):
    """The kind of quantisation without an offset."""

    INT8_SYM = "int8_sym"


class Asymmetric(PtoEnum):
    """The kind of quantisation with an offset."""

    INT8_ASYM = "int8_asym"


IN_CPP: dict[type[PtoEnum], tuple[str, str]] = {
    RoundMode: ("RoundMode", "CAST_{upper}"),
    Saturation: ("SaturationMode", "{upper}"),
    GlobalLayout: ("Layout", "{name}"),
    Pad: ("PadValue", "{name}"),
    StoreAtomic: ("AtomicType", "Atomic{name}"),
}
"""Enums whose name or enumerators differ in C++."""


def enumerator(member: PtoEnum) -> str:
    """`GatherOOB::Clamp`."""
    name = member.name if member.name != "NONE" else "None"
    enum, form = IN_CPP.get(type(member), (type(member).__name__, "{name}"))
    return f"{enum}::{form.format(name=name, upper=name.upper())}"
