"""Random legal calls, as plain data: what each target accepts, with adversarial data and indices."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.property.naive import NUMPY, SIZE, box_of, tile_offset

FUZZ = os.environ.get("PTOKIT_FUZZ")
MUTANTS = os.environ.get("PTOKIT_MUTANTS")
"""Set by tests/mutation: a failing example is not made smaller."""
EXAMPLES = 40 if FUZZ else 15
"""How many there are of a property."""


def fuzz(share: float = 1.0) -> settings:
    """How long a property is searched: the same examples every time, unless PTOKIT_FUZZ asks for more."""
    return settings(
        max_examples=max(1, int(EXAMPLES * share * float(FUZZ or "1"))),
        deadline=None,
        derandomize=FUZZ is None,
        database=None,
        phases=(Phase.explicit, Phase.generate, *(() if MUTANTS else (Phase.shrink,))),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )


# --- Calls as plain data ---------------------------------------------------------------------------------------


class Brief:
    """Shows what differs from the defaults, without the data."""

    def __repr__(self) -> str:
        shown = [(f.name, getattr(self, f.name)) for f in fields(self) if f.repr]  # type: ignore[arg-type]
        default = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in shown if v != default[n])})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class TileArg(Brief):
    """A tile and the bytes of its storage."""

    loc: str
    dtype: str
    rows: int
    cols: int
    valid: tuple[int, int]
    form: str = "nd"
    fractal: int = 512
    pad: str = "null"
    dynamic: tuple[bool, bool] = (False, False)
    addr: int | None = None
    """Where it lies in the case's arena, or None for a tile with separate memory."""
    data: bytes = field(default=b"", repr=False)

    def offset(self, r: int, c: int) -> int:
        return tile_offset(self.form, self.rows, self.cols, self.fractal, SIZE[self.dtype], r, c)

    @property
    def nbytes(self) -> int:
        return self.rows * self.cols * SIZE[self.dtype]


@dataclass(frozen=True, repr=False)
class TensorArg(Brief):
    """A tensor inside a larger memory: `data` is all of it, guards included."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    layout: str = "nd"
    before: int = 0
    """Bytes of the memory in front of the tensor."""
    room: int = 0
    """Elements of the array that the tensor is made over."""
    native: bool = False
    """Made from a strided NumPy array instead of shape= and stride=."""
    retyped: bool = False
    """The array holds unsigned integers of the same width."""
    dynamic: tuple[bool, ...] = (False,) * 10
    data: bytes = field(default=b"", repr=False)

    @property
    def span(self) -> int:
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))


Arg = TileArg | TensorArg


@dataclass(frozen=True, repr=False)
class Case(Brief):
    """One call: operands by name in call order, keywords, and the on-chip memory that placed tiles share."""

    target: str
    op: str
    args: dict[str, Arg]
    keywords: dict[str, Any] = field(default_factory=dict)
    mode: str = ""
    """Row or elem: the mode of the call, explicit or default."""
    arena: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def family(self) -> str:
        return self.target.partition("@")[0]


# --- Element types ---------------------------------------------------------------------------------------------

BASE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32")
FLOAT8 = ("float8_e4m3", "float8_e5m2")
WIDE = ("int64", "uint64", "float64")
ODD = ("bool", "complex64", "complex128", "int4", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e8m0fnu")
"""Types that only the host moves, by their width."""
ARITHMETIC = (*BASE, *FLOAT8, *WIDE)
SMALL_FLOATS = ("float8_e3m4", "float8_e4m3b11fnuz", "float8_e8m0fnu")
"""Formats of ml_dtypes that the host computes with as well; some have one NaN, no -0 or no sign."""

GATHER_TYPES = {
    "cpu": BASE,
    "cpu@aicore": (*BASE, *FLOAT8),
    "a2a3": BASE,
    "a5": (*BASE, *FLOAT8, "hifloat8"),
    "host": (*BASE, *FLOAT8, "hifloat8", *WIDE, *ODD),
}
SCATTER_TYPES = {**GATHER_TYPES, "a5": (*BASE, *FLOAT8)}
MOVE_TYPES = {**dict.fromkeys(GATHER_TYPES, (*BASE, *FLOAT8, "hifloat8")), "host": GATHER_TYPES["host"]}
ATOMIC_TYPES = {
    "add": ("int32", "uint32", "float32", "float16"),
    "max": ("int32", "float32"),
    "min": ("int32", "float32"),
}
STORE_ADD_TYPES = ("int8", "int16", "int32", "float16", "bfloat16", "float32")
INDEX_TYPES = {"host": ("int32", "uint32", "int64")}
TARGETS = ("cpu", "cpu@aicore", "a2a3", "a5", "host")

SPECIAL = {  # +0 -0 +inf -inf, quiet and signalling NaNs with payloads, the smallest and largest numbers, 1 and -1
    "float32": (
        0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFA12345,
        1, 0x7F7FFFFF, 0x3F800000, 0xBF800000,
    ),
    "float16": (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFD23, 1, 0x7BFF, 0x3C00, 0xBC00),
    "bfloat16": (0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFA3, 1, 0x7F7F, 0x3F80, 0xBF80),
    "float64": (
        0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8000000000001, 0x7FF0000000000001,
        0xFFF4000000000123, 1, 0x7FEFFFFFFFFFFFFF, 0x3FF << 52, 0xBFF << 52,
    ),
    "float8_e4m3": (0, 0x80, 0x7F, 0xFF, 0x7E, 0xFE, 1, 0x81, 0x38, 0xB8),
    "float8_e3m4": (0, 0x80, 0x70, 0xF0, 0x71, 0x78, 0xFF, 1, 0x6F, 0xEF, 0x30, 0xB0),
    "float8_e4m3b11fnuz": (0, 0x80, 0x7F, 0xFF, 1, 0x81, 0x58, 0xD8),
    "float8_e8m0fnu": (0, 1, 0x7E, 0x7F, 0x80, 0xFE, 0xFF),
    "float8_e5m2": (0, 0x80, 0x7C, 0xFC, 0x7D, 0x7E, 0x7F, 0xFD, 0xFF, 1, 0x7B, 0x3C, 0xBC),
}  # fmt: skip


def family(target: str) -> str:
    return target.partition("@")[0]


def c0(dtype: str) -> int:
    return max(1, 32 // SIZE[dtype])


def up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


class Maker:
    """One example in the making."""

    def __init__(self, draw: Callable[[Any], Any], target: str) -> None:
        self.draw, self.target, self.family = draw, target, family(target)
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.placed: bool = draw(st.booleans())

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def upto(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def mark(self) -> bool:
        """Whether an extent is dynamic."""
        return self.draw(st.integers(0, 4)) == 0

    def dtype(self, types: dict[str, tuple[str, ...]]) -> str:
        return self.one_of(*types[self.target])

    # --- data

    def values(self, dtype: str, n: int) -> bytes:
        """Bits of `n` elements: raw noise, plain numbers, or the special values of the type."""
        noise = np.frombuffer(self.rng.bytes(n * SIZE[dtype]), np.uint8).copy()
        mood = str(self.rng.choice(["noise", "numbers", "special"]))
        if mood == "numbers" and dtype in ARITHMETIC:
            small = self.rng.integers(0, 5, n) if dtype.startswith("u") else self.rng.integers(-4, 5, n)
            with np.errstate(all="ignore"):
                scaled = (
                    small if dtype in NUMPY and "int" in dtype else small * 2.0 ** self.rng.integers(-14, 14, n) / 3
                )
                return np.asarray(scaled).astype(NUMPY[dtype]).tobytes()
        if mood == "special" and dtype in SPECIAL:
            bits = noise.view(f"u{SIZE[dtype]}")
            chosen = self.rng.choice(np.array(SPECIAL[dtype], np.uint64), n).astype(bits.dtype)
            return np.where(self.rng.random(n) < 0.7, chosen, bits).astype(bits.dtype).tobytes()
        return noise.tobytes()

    def noise(self, n: int) -> bytes:
        return self.rng.bytes(n)

    def indices(self, n: int, capacity: int, dtype: str, policy: str) -> list[int]:
        """Bits of `n` indices: repeated, in range, just outside, far outside, negative."""
        width = 8 * SIZE[dtype]
        signed = not dtype.startswith("u")
        top = min(capacity, 1 << (width - signed))
        moods = ("inside", "few", "one bad") if policy == "undefined" else ("inside", "few", "mixed", "wild")
        mood = str(self.rng.choice(moods))
        few = self.rng.integers(0, top, 3)
        found = [int(k) for k in (self.rng.integers(0, top, n) if mood == "inside" else self.rng.choice(few, n))]
        near = [capacity, capacity + 1, 2 * capacity, 2 * capacity - 1, 7 * capacity + 3]
        far = [-1, -2, -capacity, -capacity - 1, (1 << (width - 1)) - 1, -(1 << (width - 1)), (1 << width) - 1]
        far += [(1 << 32) + 1, -(1 << 32), 1 << 32] if width == 64 else [int(self.rng.integers(0, 1 << width))]
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        bad = [v for v in (*near, *far) if low <= v <= high] + ([] if signed else [high])
        if mood == "one bad":
            found[int(self.rng.integers(n))] = bad[int(self.rng.integers(len(bad)))]
        elif mood in ("mixed", "wild"):
            share = 0.3 if mood == "mixed" else 0.9
            found = [bad[int(self.rng.integers(len(bad)))] if self.rng.random() < share else v for v in found]
        return [v % (1 << width) for v in found]

    # --- operands

    def tile(self, dtype: str, rows: int, cols: int, valid: tuple[int, int], **more: Any) -> TileArg:
        arg = TileArg(more.pop("loc", "vec"), dtype, rows, cols, valid, **more)
        return replace(arg, dynamic=(self.mark(), self.mark()), data=self.values(dtype, rows * cols))

    def index_tile(self, arg: TileArg, bits: list[int], lanes: list[tuple[int, int]]) -> TileArg:
        """Noise, and the indices at the lanes' places."""
        size = SIZE[arg.dtype]
        data = bytearray(self.noise(arg.nbytes))
        for value, (r, c) in zip(bits, lanes, strict=True):
            at = arg.offset(r, c) * size
            data[at : at + size] = value.to_bytes(size, "little")
        return replace(arg, data=bytes(data))

    def tensor(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], layout: str = "nd") -> TensorArg:
        """Noise all around, values inside."""
        size = SIZE[dtype]
        arg = TensorArg(dtype, shape, stride, layout)
        before, after = size * self.upto(0, 9), size * self.upto(1, 9)
        native = self.one_of(True, False)
        return replace(
            arg,
            before=before,
            room=arg.span + (0 if native else self.one_of(0, 0, 3)),
            native=native,
            retyped=dtype != "hifloat8" and size <= 8 and self.one_of(True, False),
            dynamic=(False,) * 10 if native else tuple(self.mark() for _ in range(10)),
            data=self.noise(before) + self.values(dtype, arg.span) + self.noise(after + 3 * size),
        )

    def index_tensor(self, arg: TensorArg, bits: list[int], places: list[int]) -> TensorArg:
        size = SIZE[arg.dtype]
        data = bytearray(arg.data)
        for value, place in zip(bits, places, strict=True):
            at = arg.before + place * size
            data[at : at + size] = value.to_bytes(size, "little")
        return replace(arg, data=bytes(data))

    def packed(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Dense strides; the stride of a dim of extent 1 does not matter (A-62)."""
        dense = [prod(shape[k + 1 :]) for k in range(5)]
        return tuple(self.idle() if n == 1 else s for n, s in zip(shape, dense, strict=True))

    def gapped(self, shape: tuple[int, ...], order: tuple[int, ...] = (4, 3, 2, 1, 0)) -> tuple[int, ...]:
        """Strides with gaps between the elements; dims from the fastest to the slowest in `order`."""
        stride, reach = [0] * 5, 1
        for k in order:
            stride[k] = self.idle() if shape[k] == 1 else reach + self.one_of(0, 0, 0, 1, 3)
            reach += stride[k] * (shape[k] - 1) if shape[k] > 1 else 0
        return tuple(stride)

    def idle(self) -> int:
        return self.one_of(1, 1, 0, 7, 1000)

    def outer(self) -> tuple[int, int, int]:
        return self.one_of((1, 1, 1), (1, 1, 1), (1, 1, 2), (2, 1, 3), (2, 2, 2), (3, 1, 1))

    def row_table(self, width: int, rule: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and stride of a table of rows, under the target's rule: `packed`, `free` or `strided`."""
        rows = self.upto(1, 9)
        if rule == "strided":  # Shape[0..3] are the rows, Stride[3] apart
            shape = (*self.outer(), rows, width)
            step = self.one_of(width, width, width + 1, width + 5, max(1, width - 1), 1, 0)
            return shape, self.evenly(shape, step)
        # Shape[3] are the rows, packed; `free` lets the outer dims be anything
        shape = (*(self.outer() if rule == "free" else (1, 1, 1)), rows, width)
        steps = [self.upto(0, 40), self.upto(0, 40), self.upto(0, 40), width]
        stride = [self.idle() if n == 1 else s for n, s in zip(shape[:4], steps, strict=True)]
        return shape, (*stride, self.idle() if width == 1 else 1)

    def evenly(self, shape: tuple[int, ...], step: int) -> tuple[int, ...]:
        """Strides of rows in dims 0..3 that lie `step` elements apart."""
        steps = [step * prod(shape[k + 1 : 4]) for k in range(4)]
        free = [shape[k] == 1 and (k < 3 or prod(shape[:4]) == 1) for k in range(4)]
        stride = [self.idle() if idle else s for idle, s in zip(free, steps, strict=True)]
        return (*stride, self.idle() if shape[4] == 1 else 1)

    def elem_table(self, fives: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and stride of a table of elements: packed, with gaps, or with dims that do not move at all."""
        shape = (*(self.outer() if fives else (1, 1, 1)), self.upto(1, 6), self.upto(1, 11))
        kind = self.one_of("packed", "packed", "packed", "gapped", "broadcast")
        if kind == "packed":
            return shape, self.packed(shape)
        stride = list(self.gapped(shape))
        if kind == "broadcast":
            stride[self.upto(0, 4)] = 0
        return shape, tuple(stride)

    # --- the whole call

    def case(self, op: str, args: dict[str, Arg], keywords: dict[str, Any], mode: str = "") -> Case:
        arena: dict[str, bytes] = {}
        if self.placed:
            args, arena = self._place(args)
        return Case(self.target, op, args, keywords, mode, arena)

    def _place(self, args: dict[str, Arg]) -> tuple[dict[str, Arg], dict[str, bytes]]:
        placed: dict[str, Arg] = dict(args)
        memory: dict[str, bytearray] = {}
        names = [name for name, arg in args.items() if isinstance(arg, TileArg)]
        for name in self.draw(st.permutations(names)):
            arg = args[name]
            assert isinstance(arg, TileArg)
            here = memory.setdefault(arg.loc, bytearray(self.noise(self.one_of(0, 32, 96))))
            here += self.noise(self.one_of(0, 0, 32, SIZE[arg.dtype]))
            here += self.noise(-len(here) % SIZE[arg.dtype])
            placed[name] = replace(arg, addr=len(here))
            here += arg.data
        return placed, {loc: bytes(here + self.noise(64)) for loc, here in memory.items()}

    def extents(self, most: int = 7) -> tuple[int, int]:
        """A valid region, now and then a larger one."""
        many = self.draw(st.integers(0, 9)) == 0
        return self.upto(1, 24 if many else most), self.upto(1, 40 if many else most)

    def pad(self, n: int, multiple: int = 1) -> int:
        return up(n, multiple) + multiple * self.one_of(0, 0, 1, 2)

    def boxed(self, dtype: str, valid: tuple[int, int], form: str, fractal: int = 512) -> tuple[int, int]:
        """Padded extents of whole boxes."""
        height, width = box_of(form, fractal, SIZE[dtype])
        return self.pad(valid[0], height), self.pad(valid[1], width)

    def plain(self, dtype: str, valid: tuple[int, int], form: str, bursts: bool) -> tuple[int, int]:
        """Padded extents of an unboxed tile; with `bursts` the contiguous one is whole 32-byte blocks."""
        block = c0(dtype) if bursts else 1
        rows, cols = (1, block) if form == "nd" else (block, 1)
        return self.pad(valid[0], rows), self.pad(valid[1], cols)

    def any_tile(self, dtype: str, valid: tuple[int, int], *, bursts: bool = False, loc: str = "vec") -> TileArg:
        """A tile of any of the six forms."""
        form = self.one_of("nd", "dn", "nz", "zn", "zz", "nn")
        if form in ("nd", "dn") or SIZE[dtype] > 4:
            form = form if form in ("nd", "dn") else "nd"
            return self.tile(dtype, *self.plain(dtype, valid, form, bursts), valid, form=form, loc=loc)
        fractal = self.one_of(512, 512, 1024)
        return self.tile(dtype, *self.boxed(dtype, valid, form, fractal), valid, form=form, fractal=fractal, loc=loc)


def grid(valid: tuple[int, int]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(valid[0]) for j in range(valid[1])]


# --- MGATHER ---------------------------------------------------------------------------------------------------

GATHER_OOB = ("undefined", "clamp", "wrap", "zero")
SCATTER_OOB = ("undefined", "skip", "clamp", "wrap")
ROW_RULE = {"cpu": "packed", "a5": "free", "a2a3": "strided", "host": "strided"}
ROW_CAPACITY = {"cpu": lambda shape: shape[3], "a5": lambda shape: shape[3]}


def row_words(make: Maker, oob: str) -> dict[str, Any]:
    """Row is the default: explicit or omitted."""
    words: dict[str, Any] = {"oob": oob}
    if make.one_of(True, False):
        words["coalesce"] = "row"
    return words


def gather_dst(make: Maker, dtype: str, valid: tuple[int, int]) -> TileArg:
    """A destination in UB as the target requires it."""
    if make.family == "host":
        return make.any_tile(dtype, valid)
    form = make.one_of("nd", "dn") if make.family == "a5" else "nd"
    return make.tile(dtype, *make.plain(dtype, valid, form, bursts=True), valid, form=form)


def row_index(make: Maker, n: int, bits: list[int], dtype: str) -> TileArg:
    """A tile of one index for each of `n` rows, in a shape and layout that the target takes."""
    forms = {
        "a2a3": ("1R nd",),
        "a5": ("1R nd", "R1 dn", "R1 nd thin", "1R dn thin"),
        "cpu": ("1R nd", "R1 nd", "R1 dn thin"),
        "host": ("1R nd", "R1 nd", "1R dn", "R1 dn", "R1 any", "1R any"),
    }
    kind, form, *thin = make.one_of(*forms[make.family]).split()
    valid = (1, n) if kind == "1R" else (n, 1)
    if form == "any":
        arg = make.any_tile(dtype, valid)
    else:
        rows, cols = make.pad(valid[0]), make.pad(valid[1])
        if thin:
            rows, cols = (1, cols) if kind == "1R" else (rows, 1)
        arg = make.tile(dtype, rows, cols, valid, form=form)
    lanes = [(0, r) if kind == "1R" else (r, 0) for r in range(n)]
    return make.index_tile(arg, bits, lanes)


@st.composite
def gather_rows(draw: Callable[[Any], Any], target: str, types: tuple[str, ...] = ()) -> Case:
    make = Maker(draw, target)
    dtype, oob = make.one_of(*(types or GATHER_TYPES[target])), make.one_of(*GATHER_OOB)
    valid = make.extents()
    width = valid[1] if make.family == "a5" else valid[1] + make.one_of(0, 0, 1, 5)
    shape, stride = make.row_table(width, ROW_RULE[make.family])
    capacity = ROW_CAPACITY.get(make.family, lambda dims: prod(dims[:4]))(shape)
    kind = make.one_of(*INDEX_TYPES.get(make.family, ("int32", "uint32")))
    idx = row_index(make, valid[0], make.indices(valid[0], capacity, kind, oob), kind)
    args = {"dst": gather_dst(make, dtype, valid), "table": make.tensor(dtype, shape, stride), "idx": idx}
    return make.case("mgather", args, row_words(make, oob), "row")


@st.composite
def gather_elements(draw: Callable[[Any], Any], target: str, types: tuple[str, ...] = ()) -> Case:
    make = Maker(draw, target)
    dtype, oob = make.one_of(*(types or GATHER_TYPES[target])), make.one_of(*GATHER_OOB)
    valid = make.extents()
    shape, stride = make.elem_table(fives=make.family != "cpu")
    kind = make.one_of(*INDEX_TYPES.get(make.family, ("int32", "uint32")))
    if make.family == "host":
        idx = make.any_tile(kind, valid)
    else:
        form = make.one_of("nd", "dn") if make.family == "a5" else "nd"
        idx = make.tile(kind, *make.plain(kind, valid, form, bursts=False), valid, form=form)
    idx = make.index_tile(idx, make.indices(prod(valid), prod(shape), kind, oob), grid(valid))
    args = {"dst": gather_dst(make, dtype, valid), "table": make.tensor(dtype, shape, stride), "idx": idx}
    return make.case("mgather", args, {"oob": oob, "coalesce": "elem"}, "elem")


@st.composite
def gather_nz(draw: Callable[[Any], Any], mode: str) -> Case:
    """A2/A3: an NZ table into an NZ tile."""
    make = Maker(draw, "a2a3")
    dtype, oob = make.one_of(*BASE), make.one_of(*GATHER_OOB)
    kc0 = c0(dtype)
    shape = (make.one_of(1, 1, 2, 3), make.upto(1, 3), make.upto(1, 2), 16, kc0)
    order = make.one_of((4, 3, 2, 1, 0), (4, 3, 2, 1, 0), (4, 2, 3, 0, 1))
    stride = make.packed(shape) if make.one_of(True, False) else make.gapped(shape, order)
    if mode == "row":
        stride = (*stride[:4], 1)  # a burst is 32 contiguous bytes
    logical = (shape[2] * 16, shape[0] * shape[1] * kc0)
    if mode == "row":
        valid = (make.upto(1, 20), make.upto(1, min(logical[1], 40)))
        rows, cols = make.pad(valid[0], 16), logical[1] + kc0 * make.one_of(0, 0, 1)
    else:
        valid = (make.upto(1, 20), make.upto(1, 2 * kc0))
        rows, cols = make.pad(valid[0], 16), make.pad(valid[1], kc0)
    kind = make.one_of("int32", "uint32")
    dst = make.tile(dtype, rows, cols, valid, form="nz")
    table = make.tensor(dtype, shape, stride, "nz")
    if mode == "row":
        idx = row_index(make, valid[0], make.indices(valid[0], logical[0], kind, oob), kind)
        words = row_words(make, oob)
    else:
        idx = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
        idx = make.index_tile(idx, make.indices(prod(valid), prod(logical), kind, oob), grid(valid))
        words = {"oob": oob, "coalesce": "elem"}
    return make.case("mgather", {"dst": dst, "table": table, "idx": idx}, words, mode)


@st.composite
def gather_into_l1(draw: Callable[[Any], Any], target: str, mode: str) -> Case:
    """A Mat destination in NZ form, the index in global memory."""
    make = Maker(draw, target)
    dtype, oob = make.dtype(GATHER_TYPES), make.one_of(*GATHER_OOB)
    kc0 = c0(dtype)
    valid = (make.upto(1, 20), make.upto(1, min(2 * kc0, 40)))
    dst = make.tile(dtype, make.pad(valid[0], 16), make.pad(valid[1], kc0), valid, form="nz", loc="mat")
    kind = make.one_of("int32", "uint32")
    if mode == "row":
        shape, stride = make.row_table(valid[1] + make.one_of(0, 0, 1, 5), "strided")
        many = valid[0] + make.one_of(0, 0, 3)
        dims = make.one_of((1, 1, 1, 1, many), (1, 1, 1, many, 1), (1, many, 1, 1, 1), (1, 1, 2, 1, many))
        idx = make.tensor(kind, dims, make.packed(dims))
        bits = make.indices(valid[0], prod(shape[:4]), kind, oob)
        idx = make.index_tensor(idx, bits, list(range(valid[0])))
        args: dict[str, Arg] = {"dst": dst, "table": make.tensor(dtype, shape, stride), "idx": idx}
        return make.case("mgather", args, row_words(make, oob), "row")
    shape, stride = make.elem_table(fives=True)
    dims = (1, 1, 1, *valid)
    steps = make.one_of(make.packed(dims), make.gapped(dims), make.gapped(dims, (3, 4, 2, 1, 0)))
    idx = make.tensor(kind, dims, steps)
    bits = make.indices(prod(valid), prod(shape), kind, oob)
    idx = make.index_tensor(idx, bits, [i * steps[3] + j * steps[4] for i, j in grid(valid)])
    area = dst.rows * dst.cols
    room = make.one_of((1, 1, 1, 1, area), (1, 1, 1, dst.rows, dst.cols), (1, 1, 1, 1, area + 5), (2, 1, 1, 1, area))
    scratch = make.tensor(dtype, room, make.packed(room))
    words: dict[str, Any] = {"oob": oob}
    if make.one_of(True, False):
        words["coalesce"] = "elem"
    executor = make.one_of(None, "scalar", "simt") if target == "a5" else make.one_of(None, "scalar")
    if executor:
        words["executor"] = executor
    args = {"dst": dst, "table": make.tensor(dtype, shape, stride), "idx": idx, "scratch": scratch}
    return make.case("mgather", args, words, "elem")


# --- MSCATTER --------------------------------------------------------------------------------------------------


def atomic_of(make: Maker, dtype: str) -> str:
    if make.family == "host":
        return make.one_of("none", "add", "max", "min") if dtype in (*ARITHMETIC, *SMALL_FLOATS) else "none"
    return make.one_of("none", *(op for op, types in ATOMIC_TYPES.items() if dtype in types))


def scatter_dtype(make: Maker) -> str:
    """Types with atomics come more often."""
    return make.one_of(*SCATTER_TYPES[make.target], *("int32", "float32", "float16") * 3)


def scatter_words(make: Maker, dtype: str) -> dict[str, Any]:
    return {
        "oob": make.one_of(*SCATTER_OOB),
        "atomic": atomic_of(make, dtype),
        "conflict": make.one_of("default", "last"),
    }


@st.composite
def scatter_rows(draw: Callable[[Any], Any], target: str, types: tuple[str, ...] = ()) -> Case:
    make = Maker(draw, target)
    dtype = make.one_of(*types) if types else scatter_dtype(make)
    words = scatter_words(make, dtype)
    valid = make.extents()
    if make.family == "host":
        src = make.any_tile(dtype, valid)
    else:
        src = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid)
    outer = make.outer() if make.family == "host" else (1, 1, 1)
    shape = (*outer, make.upto(1, 9), valid[1])
    step = valid[1] + (0 if make.family == "a5" else make.one_of(0, 0, 1, 5))
    table = make.tensor(dtype, shape, make.evenly(shape, step))
    kind = make.one_of(*INDEX_TYPES.get(make.family, ("int32", "uint32")))
    bits = make.indices(valid[0], prod(shape[:4]), kind, words["oob"])
    if make.one_of(True, False, False):
        idx = make.tile(kind, 1, make.pad(valid[0]), (1, valid[0]))
        idx = make.index_tile(idx, bits, [(0, r) for r in range(valid[0])])
        words["coalesce"] = "row"
    else:
        idx = make.tile(kind, src.rows, 1, (valid[0], 1), form=make.one_of("nd", "dn"))
        idx = make.index_tile(idx, bits, [(r, 0) for r in range(valid[0])])
        if make.one_of(True, False):
            words["coalesce"] = "row"
    return make.case("mscatter", {"table": table, "src": src, "idx": idx}, words, "row")


@st.composite
def scatter_elements(draw: Callable[[Any], Any], target: str, types: tuple[str, ...] = ()) -> Case:
    make = Maker(draw, target)
    dtype = make.one_of(*types) if types else scatter_dtype(make)
    words = scatter_words(make, dtype)
    valid = make.extents()
    shape = (*(make.outer() if make.family == "host" else (1, 1, 1)), make.upto(1, 6), make.upto(1, 11))
    kind = make.one_of(*INDEX_TYPES.get(make.family, ("int32", "uint32")))
    if make.family == "host":
        src = make.any_tile(dtype, valid)
        src = src if src.cols > 1 else make.tile(dtype, valid[0], 4, valid)
        form = make.one_of("nd", "dn")
    else:
        src = make.tile(dtype, *make.plain(dtype, valid, "nd", bursts=True), valid)
        form = "nd"
    idx = make.tile(kind, src.rows, src.cols, valid, form=form)
    idx = make.index_tile(idx, make.indices(prod(valid), prod(shape), kind, words["oob"]), grid(valid))
    if make.one_of(True, False):
        words["coalesce"] = "elem"
    table = make.tensor(dtype, shape, make.packed(shape))
    return make.case("mscatter", {"table": table, "src": src, "idx": idx}, words, "elem")


# --- TSCATTER --------------------------------------------------------------------------------------------------


def scatter_index_types(make: Maker, dtype: str) -> tuple[str, ...]:
    if make.family == "host":
        return "int8", "uint8", "int16", "uint16", "int32", "uint32"
    return ("int32", "uint32") if SIZE[dtype] == 4 else ("int16", "uint16")


@st.composite
def scatter_in_ub(draw: Callable[[Any], Any], target: str, reading: str, forms: bool = False, index: str = "") -> Case:
    """`forms`: tiles of any layout, which the host takes, as it does an `index` of any type."""
    make = Maker(draw, target)
    dtype = make.one_of(*(GATHER_TYPES["host"] if make.family == "host" else BASE))
    valid = make.extents()
    room = make.extents()
    if reading == "row":
        room = (room[0], max(room[1], valid[1]))
    kind = index or make.one_of(*scatter_index_types(make, dtype))
    if forms:
        dst, src, idx = make.any_tile(dtype, room), make.any_tile(dtype, valid), make.any_tile(kind, valid)
    else:
        dst = make.tile(dtype, make.pad(room[0]), make.pad(room[1]), room)
        src = make.tile(dtype, make.pad(valid[0]), make.pad(valid[1]), valid)
        idx = make.tile(kind, make.pad(valid[0]), make.pad(valid[1]), valid)
    capacity = dst.rows if reading == "row" else dst.rows * dst.cols
    idx = make.index_tile(idx, make.indices(prod(valid), capacity, kind, "undefined"), grid(valid))
    words = {"index": reading} if reading == "flat" or make.one_of(True, False) else {}
    return make.case("tscatter", {"dst": dst, "src": src, "idx": idx}, words, reading)


# --- TLOAD, TSTORE, TMOV ---------------------------------------------------------------------------------------


def block(
    make: Maker, layout: str, dtype: str, valid: tuple[int, int], written: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and stride of a tensor that holds a region of `valid` extents."""
    if layout == "nz":
        kc0 = c0(dtype)
        blocks = -(-valid[1] // kc0)
        batch = make.one_of(1, 1, 2)
        shape = (batch, -(-blocks // batch) + make.one_of(0, 0, 1), -(-valid[0] // 16) + make.one_of(0, 0, 1), 16, kc0)
    else:
        outer = make.outer()
        row, col = (3, 4) if layout == "nd" else (4, 3)
        dims = [*outer, 0, 0]
        cut, whole = (valid[0], valid[1]) if layout == "nd" else (valid[1], valid[0])
        dims[row] = -(-cut // prod(outer)) + make.one_of(0, 0, 1)
        dims[col] = whole + make.one_of(0, 0, 1, 3)
        shape = tuple(dims)
    order = make.one_of((4, 3, 2, 1, 0), (3, 4, 2, 1, 0), (2, 4, 0, 3, 1)) if layout == "nd" else (3, 4, 2, 1, 0)
    stride = make.packed(shape) if make.one_of(True, False) else make.gapped(shape, order)
    if not written and make.one_of(True, False, False, False):
        stride = tuple(0 if k == make.rng.integers(5) else s for k, s in enumerate(stride))
    return shape, stride


@st.composite
def loads(draw: Callable[[Any], Any], target: str) -> Case:
    make = Maker(draw, target)
    dtype = make.dtype(MOVE_TYPES)
    loc, layout, form = make.one_of(
        ("vec", "nd", "nd"),
        ("vec", "dn", "dn"),
        ("vec", "nz", "nz"),
        ("mat", "nd", "nz"),
        ("mat", "nz", "nz"),
        ("mat", "nd", "nd"),
    )
    if SIZE[dtype] > 4:
        loc, layout, form = "vec", "nd", "nd"
    valid = make.extents()
    if form == "nz":  # with 512-byte fractals (CO-LAY-02)
        rows, cols = make.boxed(dtype, valid, form, 512)
    else:
        rows, cols = make.plain(dtype, valid, form, bursts=make.family in ("a2a3", "a5"))
    shape, stride = block(make, layout, dtype, valid, written=False)
    if (layout, form) == ("nd", "nz"):
        shape = (1, 1, 1, prod(shape[:4]), shape[4])
        stride = make.gapped(shape)
    pads = ("null", "null", "zero", "max", "min") if dtype in ARITHMETIC else ("null", "zero")
    dst = make.tile(dtype, rows, cols, valid, form=form, loc=loc, pad=make.one_of(*pads))
    return make.case("tload", {"dst": dst, "src": make.tensor(dtype, shape, stride, layout)}, {})


@st.composite
def stores(draw: Callable[[Any], Any], target: str) -> Case:
    make = Maker(draw, target)
    bursts = make.family in ("a2a3", "a5")
    dtype = make.one_of(*MOVE_TYPES[make.target], *STORE_ADD_TYPES)
    addable = (*ARITHMETIC, *SMALL_FLOATS) if make.family == "host" else STORE_ADD_TYPES
    atomic = make.one_of("none", "add") if dtype in addable else "none"
    valid = make.extents()
    kind = make.one_of("block", "block", "burst", "acc") if bursts else make.one_of("block", "block", "burst")
    if kind == "acc" and SIZE[dtype] <= 4:
        layout = make.one_of("nd", "nz")
        fractal = make.one_of(512, 1024)
        rows, cols = make.boxed(dtype, valid, "nz", fractal)
        src = make.tile(dtype, rows, cols, valid, form="nz", fractal=fractal, loc="acc")
    elif kind == "burst":
        form = make.one_of("nd", "dn")
        n = make.upto(1, 40)
        long = make.pad(n, c0(dtype) if bursts else 1)
        rows, cols = (1, long) if form == "nd" else (long, 1)
        src = make.tile(dtype, rows, cols, (1, n) if form == "nd" else (n, 1), form=form)
        layout = "dn" if form == "nd" else "nd"
        shape = (1, 1, 1, 1, n + make.one_of(0, 2)) if layout == "nd" else (1, 1, 1, 1, n)
        if layout == "nd":
            shape = make.one_of(shape, (1, 1, 1, n, 1), (1, 1, n, 2, 1))
        table = make.tensor(dtype, shape, make.packed(shape), layout)
        return make.case("tstore", {"dst": table, "src": src}, {"atomic": atomic})
    else:
        layout = make.one_of("nd", "dn", "nz") if SIZE[dtype] <= 4 else make.one_of("nd", "dn")
        rows, cols = make.boxed(dtype, valid, "nz") if layout == "nz" else make.plain(dtype, valid, layout, bursts)
        src = make.tile(dtype, rows, cols, valid, form=layout)
    shape, stride = block(make, layout, dtype, valid, written=True)
    words = {"atomic": atomic} if atomic != "none" or make.one_of(True, False) else {}
    return make.case("tstore", {"dst": make.tensor(dtype, shape, stride, layout), "src": src}, words)


A2A3_PATHS = (("vec", "vec"), ("mat", "left"), ("mat", "right"), ("mat", "bias"), ("acc", "mat"))
A5_PATHS = (*A2A3_PATHS, ("acc", "vec"), ("vec", "mat"), ("mat", "vec"))
PATHS = {"cpu": A5_PATHS, "host": (("vec", "vec"),), "a2a3": A2A3_PATHS, "a5": A5_PATHS}
"""TV-01; cpu takes every pair that some target takes."""


@st.composite
def moves(draw: Callable[[Any], Any], target: str) -> Case:
    make = Maker(draw, target)
    dtype = make.dtype(MOVE_TYPES)
    valid = make.extents()
    source, destination = make.one_of(*PATHS[make.family])
    dst, src = make.any_tile(dtype, valid, loc=destination), make.any_tile(dtype, valid, loc=source)
    return make.case("tmov", {"dst": dst, "src": src}, {})
