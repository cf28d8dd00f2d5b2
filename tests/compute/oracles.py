"""An oracle for every instruction: a small call, and what it must lead to by plain Python, independent of the engine.

`ORACLES` has a function for each name. It makes calls and yields pairs: what ptokit found, and what is expected, as
nested lists of numbers. `check` compares them. A new instruction needs a line here; `test_oracles.py` says so.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import ptokit as pto
from tests.compute import exact

Pairs = Iterator[tuple[Any, Any]]
Oracle = Callable[[str], Pairs]
ORACLES: dict[str, Oracle] = {}

ROWS, COLS = 3, 8
A = [[-7.5, 3.0, 2.25, -0.5, 9.0, -6.0, 1.0, 4.75], [5.5, -2.0, 8.25, 0.25, -9.5, 7.0, -1.5, 6.0],
     [-3.25, 6.5, -4.0, 2.0, 0.75, -8.0, 3.5, -5.0]]  # fmt: skip
B = [[2.0, -1.5, 4.0, -3.0, 2.5, 7.0, -0.75, 5.0], [-4.5, 3.0, 1.25, -2.0, 6.0, -7.5, 0.5, -2.25],
     [1.5, 8.0, -2.5, 3.25, -0.25, 3.0, 9.0, 2.75]]  # fmt: skip
"""Floats of few bits: sums, products and quotients of most of them are exact."""
WHOLE = [[23, -7, 100, 5, -64, 31, 2, -1], [12, 9, -45, 77, 6, -3, 88, 14], [-19, 50, 33, -8, 121, 4, -90, 27]]
OTHER = [[5, 3, -6, 2, 7, 4, -9, 6], [-2, 5, 8, -3, 4, 1, 3, 7], [6, -4, 2, 9, 3, 5, -8, 1]]
COUNTS = [[k % 7 for k in range(row, row + COLS)] for row in range(ROWS)]
COLUMN = [[row[3]] for row in B]


def oracle(*names: str) -> Callable[[Oracle], Oracle]:
    """The oracle of these instructions."""

    def take(function: Oracle) -> Oracle:
        ORACLES.update(dict.fromkeys(names, function))
        return function

    return take


def check(name: str) -> None:
    """Compare an instruction with its oracle; raises AssertionError."""
    with pto.target("cpu"):
        for found, expected in ORACLES[name](name):
            a, b = np.asarray(found, dtype=object), np.asarray(expected, dtype=object)
            assert a.shape == b.shape, f"{name}: shape {a.shape} instead of {b.shape}"
            for at in np.ndindex(a.shape):
                assert is_same(a[at], b[at]), f"{name}{list(at)}: {a[at]} instead of {b[at]}"


def is_same(found: Any, expected: Any) -> bool:
    """Equal; a number that float32 does not have, within some ulp."""
    if isinstance(expected, float) and math.isnan(expected):
        return bool(math.isnan(found))
    if isinstance(expected, float) and float(np.float32(expected)) != expected:
        return math.isclose(found, expected, rel_tol=1e-6)
    return bool(found == expected)


def vec(kind: str, data: Any, **options: Any) -> pto.Tile:
    """A Vec tile of some numbers, in rows of whole blocks."""
    numbers = np.array(data)
    rows, cols = numbers.shape
    unit = pto.dtype(kind).c0
    if options.get("blayout") == "col_major":
        return pto.Tile("vec", kind, -(-rows // unit) * unit, cols, valid=(rows, cols), **options).write(numbers)
    return pto.Tile("vec", kind, rows, -(-cols // unit) * unit, valid=(rows, cols), **options).write(numbers)


def empty(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    return vec(kind, np.full((rows, cols), 99), **options)


def listed(tile: pto.Tile) -> list[list[Any]]:
    return tile.read().tolist()


def call(name: str, *operands: Any, **options: Any) -> None:
    getattr(pto, name)(*operands, **options)


def is_refused(name: str, *operands: Any, **options: Any) -> bool:
    """Whether a call with an index outside is refused."""
    try:
        call(name, *operands, **options)
    except pto.OutOfBoundsError:
        return True
    return False


def each(function: Callable[..., Any], *inputs: list[list[Any]]) -> list[list[Any]]:
    """Element by element."""
    return [[function(*values) for values in zip(*rows, strict=True)] for rows in zip(*inputs, strict=True)]


# --- element by element


def floored(a: Any, b: Any) -> Any:
    return a - math.floor(Fraction(a) / Fraction(b)) * b


def truncated(a: Any, b: Any) -> Any:
    return a - int(Fraction(a) / Fraction(b)) * b


def power(a: Any, b: Any) -> Any:
    return math.nan if a < 0 and not float(b).is_integer() else a**b


FLOATS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "rem": floored,
    "fmod": truncated, "pow": power, "max": max, "min": min, "prelu": lambda a, b: a if a > 0 else a * b,
}  # fmt: skip
INTEGERS = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": lambda a, b: exact.wrap(a << b, "int32"),
    "shr": operator.rshift, "div": lambda a, b: int(Fraction(a, b)),
}  # fmt: skip


def _operands(op: str) -> Iterator[tuple[str, Any, list[list[Any]], list[list[Any]]]]:
    """Element type, meaning and inputs."""
    if op in FLOATS:
        yield "float32", FLOATS[op], A, B
    if op in INTEGERS:
        yield "int32", INTEGERS[op], WHOLE, COUNTS if op in ("shl", "shr") else OTHER


@oracle(*(f"t{op}" for op in FLOATS | INTEGERS))
def with_tile(name: str) -> Pairs:
    for kind, meaning, a, b in _operands(name[1:]):
        dst = empty(kind, ROWS, COLS)
        call(name, dst, vec(kind, a), vec(kind, b))
        yield listed(dst), each(meaning, a, b)


@oracle(*(f"t{op}s" for op in FLOATS | INTEGERS if op != "prelu"), "tlrelu")
def with_scalar(name: str) -> Pairs:
    for kind, meaning, a, _ in _operands("prelu" if name == "tlrelu" else name[1:-1]):
        number = 3 if kind == "int32" else -2.5 if name != "tpows" else 3.0
        dst = empty(kind, ROWS, COLS)
        call(name, dst, vec(kind, a), number)
        yield listed(dst), each(lambda x, meaning=meaning, number=number: meaning(x, number), a)
        if name == "tdivs":
            call(name, dst, number, vec(kind, a))
            yield listed(dst), each(lambda x, meaning=meaning, number=number: meaning(number, x), a)


POSITIVE = each(abs, A)
UNARY = {
    "tabs": (abs, A), "tneg": (operator.neg, A), "texp": (math.exp, A), "tlog": (math.log, POSITIVE),
    "tsqrt": (math.sqrt, POSITIVE), "trecip": (lambda x: 1 / x, A), "trsqrt": (lambda x: 1 / math.sqrt(x), POSITIVE),
    "trelu": (lambda x: max(x, 0.0), A),
}  # fmt: skip


@oracle(*UNARY)
def with_one_tile(name: str) -> Pairs:
    meaning, data = UNARY[name]
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", data))
    yield listed(dst), each(meaning, data)


@oracle("tnot")
def inverted(name: str) -> Pairs:
    dst = empty("int32", ROWS, COLS)
    call(name, dst, vec("int32", WHOLE))
    yield listed(dst), each(lambda x: -x - 1, WHOLE)


@oracle("texpands")
def filled(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS)
    call(name, dst, -2.5)
    yield listed(dst), [[-2.5] * COLS] * ROWS


@oracle("tci")
def counted(name: str) -> Pairs:
    for descending in (False, True):
        dst = empty("int32", 1, COLS)
        call(name, dst, 5, descending=descending)
        yield listed(dst), [[5 + (-k if descending else k) for k in range(COLS)]]


@oracle("ttri")
def triangle(name: str) -> Pairs:
    for half, holds in (("lower", operator.le), ("upper", operator.ge)):
        dst = empty("int32", ROWS, COLS)
        call(name, dst, 2, half=half)
        yield listed(dst), [[int(holds(j, i + 2)) for j in range(COLS)] for i in range(ROWS)]


@oracle("taxpy")
def multiple(name: str) -> Pairs:
    dst = vec("float32", A)
    call(name, dst, vec("float32", B), -2.5)
    yield listed(dst), each(lambda a, b: a + b * -2.5, A, B)


FUSED = {
    "tmuladddst": lambda c, a, b: c + a * b, "tfusedmuladd": lambda c, a, b: a * c + b,
    "tfusedmuladdrelu": lambda c, a, b: max(a * c + b, 0), "tsubrelu": lambda _, a, b: max(a - b, 0),
}  # fmt: skip


@oracle(*FUSED)
def fused(name: str) -> Pairs:
    dst = vec("float32", SMALL)
    call(name, dst, vec("float32", A), vec("float32", B))
    yield listed(dst), each(FUSED[name], SMALL, A, B)


CARRIED = {"taddc": operator.add, "tsubc": operator.sub, "taddsc": operator.add, "tsubsc": operator.sub}


@oracle(*CARRIED)
def carried(name: str) -> Pairs:
    has_number, dst = name.endswith("sc"), empty("float32", ROWS, COLS)
    second = 3.0 if has_number else vec("float32", B)
    call(name, dst, vec("float32", A), second, vec("float32", SMALL))
    function = CARRIED[name]
    yield listed(dst), each(lambda a, b, c: function(a, 3.0 if has_number else b) + c, A, B, SMALL)


@oracle("tinterleave", "tdeinterleave")
def in_turn(name: str) -> Pairs:
    dsts = empty("float32", ROWS, COLS), empty("float32", ROWS, COLS)
    call(name, *dsts, vec("float32", A), vec("float32", B))
    half, expected = COLS // 2, ([], [])
    for a, b in zip(A, B, strict=True):
        if name == "tinterleave":
            rows = [[x for pair in zip(a[k : k + half], b[k : k + half], strict=True) for x in pair] for k in (0, half)]
        else:
            rows = [a[k::2] + b[k::2] for k in (0, 1)]
        for found, row in zip(expected, rows, strict=True):
            found.append(row)
    yield [listed(dst) for dst in dsts], list(expected)


RECTIFIED = {"taddreluconv": operator.add, "tsubreluconv": operator.sub, "tadddeqrelu": lambda a, b: (a + b) * 0.25}


@oracle(*RECTIFIED)
def rectified(name: str) -> Pairs:
    is_whole = name == "tadddeqrelu"
    a, b, more = (WHOLE, OTHER, (0.25,)) if is_whole else (A, B, ())
    dst = empty("float16", ROWS, COLS)
    call(name, dst, *(vec("int32" if is_whole else "float32", x) for x in (a, b)), *more)
    yield listed(dst), each(lambda x, y: max(RECTIFIED[name](x, y), 0), a, b)
    if not is_whole:
        narrow = empty("int8", ROWS, COLS)
        call(name, narrow, vec("float16", A), vec("float16", B))
        yield listed(narrow), each(lambda x, y: min(max(round(RECTIFIED[name](x, y)), 0), 127), A, B)


@oracle("tpairreducesum")
def paired(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", A))
    yield listed(dst), [[a + b for a, b in zip(row[::2], row[1::2], strict=True)] + [99.0] * 4 for row in A]


# --- comparisons, selections, conversions

MODES = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
         "ge": operator.ge}  # fmt: skip
EQUAL = [[b if k % 3 else a for k, (a, b) in enumerate(zip(*rows, strict=True))] for rows in zip(A, B, strict=True)]


def packed_bits(rows: list[list[bool]]) -> list[list[int]]:
    return [[sum(bit << k for k, bit in enumerate(row))] for row in rows]


@oracle("tcmp", "tcmps")
def compared(name: str) -> Pairs:
    for mode, meaning in MODES.items():
        mask = empty("uint8", ROWS, 1)
        other = vec("float32", EQUAL) if name == "tcmp" else 3.0
        call(name, mask, vec("float32", A), other, mode)
        yield listed(mask), packed_bits(each(meaning, A, EQUAL if name == "tcmp" else [[3.0] * COLS] * ROWS))


@oracle("tsel", "tsels")
def selected(name: str) -> Pairs:
    chosen = each(lambda a, b: a > b, A, B)
    other = B if name == "tsel" else [[0.5] * COLS] * ROWS
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("uint8", packed_bits(chosen)), vec("float32", A), vec("float32", B) if name == "tsel" else 0.5)
    yield listed(dst), each(lambda bit, a, b: a if bit else b, chosen, A, other)


@oracle("tcvt")
def converted(name: str) -> Pairs:
    halves = [[-2.5, -1.5, 0.5, 1.5, 2.25, -0.75, 3.5, 7e4]] * ROWS
    for mode in exact.ROUND:
        for saturation in ("on", "off"):
            dst = empty("int16", ROWS, COLS)
            call(name, dst, vec("float32", halves), mode, saturation)
            yield (
                listed(dst),
                each(lambda x, m=mode, s=saturation: exact.convert(x, "float32", "int16", m, s == "on"), halves),
            )


# --- rows and columns

BEST = {"max": max, "min": min, "sum": sum, "prod": math.prod,
        "argmax": lambda row: row.index(max(row)), "argmin": lambda row: row.index(min(row))}  # fmt: skip
SMALL = [[1.0, -2.0, 0.5, 4.0, -0.5, 2.0, -1.0, 3.0], [2.0, 1.5, -3.0, 0.25, 1.0, -1.0, 5.0, 2.0],
         [0.5, 6.0, 2.0, -1.0, 3.0, 0.25, 1.0, -4.0]]  # fmt: skip
"""Their products are exact."""
TURNED = [list(column) for column in zip(*SMALL, strict=True)]


@oracle(*(f"trow{op}" for op in BEST), *(f"tcol{op}" for op in BEST))
def reduced(name: str) -> Pairs:
    by_row, op = name.startswith("trow"), name[4:]
    kind = "uint32" if op.startswith("arg") else "float32"
    results = [BEST[op](row) for row in (SMALL if by_row else TURNED)]
    dst = empty(kind, ROWS, 1) if by_row else empty(kind, 1, COLS)
    call(name, dst, vec("float32", SMALL))
    yield listed(dst), [[each] for each in results] if by_row else [results]


@oracle("trowexpand", "tcolexpand")
def repeated(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS)
    by_row = name == "trowexpand"
    call(name, dst, vec("float32", COLUMN if by_row else B[:1]))
    yield listed(dst), [[COLUMN[i][0] if by_row else B[0][j] for j in range(COLS)] for i in range(ROWS)]


EXPANSIONS = {**{op: FLOATS[op] for op in ("add", "sub", "mul", "div", "max", "min")},
              "expdif": lambda a, b: math.exp(a - b)}  # fmt: skip


@oracle(*(f"trowexpand{op}" for op in EXPANSIONS), *(f"tcolexpand{op}" for op in EXPANSIONS))
def expanded(name: str) -> Pairs:
    by_row, meaning = name.startswith("trow"), EXPANSIONS[name[10:]]
    few = vec("float32", COLUMN, blayout="col_major") if by_row else vec("float32", B[:1])
    spread = [[COLUMN[i][0] if by_row else B[0][j] for j in range(COLS)] for i in range(ROWS)]
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", A), few)
    yield listed(dst), each(meaning, A, spread)
    call(name, dst, few, vec("float32", A))
    yield listed(dst), each(meaning, spread, A)


@oracle("ttrans")
def transposed(name: str) -> Pairs:
    dst = empty("float32", COLS, ROWS)
    call(name, dst, vec("float32", A))
    yield listed(dst), [list(column) for column in zip(*A, strict=True)]


# --- parts of tiles


@oracle("tpartadd", "tpartmul", "tpartmax", "tpartmin")
def partial(name: str) -> Pairs:
    meaning, small = FLOATS[name[5:]], [row[:5] for row in B[:2]]
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", A), vec("float32", small))
    yield (
        listed(dst),
        [[meaning(a, small[i][j]) if i < 2 and j < 5 else a for j, a in enumerate(row)] for i, row in enumerate(A)],
    )


@oracle("tpartargmax", "tpartargmin")
def partial_places(name: str) -> Pairs:
    is_better = operator.gt if name == "tpartargmax" else operator.lt
    small, far = [row[:5] for row in B[:2]], [[100 + j + i for j in range(5)] for i in range(2)]
    for swapped in (False, True):
        pairs = [(A, WHOLE), (small, far)][:: -1 if swapped else 1]
        dst, where = empty("float32", ROWS, COLS), empty("int32", ROWS, COLS)
        (a, own), (b, other) = pairs
        call(name, dst, vec("float32", a), vec("float32", b), where, vec("int32", own), vec("int32", other))
        best, place = [list(row) for row in A], [list(row) for row in WHOLE]
        for i, j in np.ndindex(2, 5):
            second = b[i][j], other[i][j]
            best[i][j], place[i][j] = second if is_better(b[i][j], a[i][j]) else (a[i][j], own[i][j])
        yield listed(dst), best
        yield listed(where), place


@oracle("tinsert")
def inserted(name: str) -> Pairs:
    dst = vec("float32", A)
    call(name, dst, vec("float32", [row[:3] for row in B[:2]]), 1, 0)
    yield listed(dst), [A[0], *([*B[i][:3], *A[i + 1][3:]] for i in range(2))]


@oracle("textract")
def extracted(name: str) -> Pairs:
    dst = empty("float32", 2, 5)
    call(name, dst, vec("float32", [row + row for row in A]), 1, 8)
    yield listed(dst), [row[:5] for row in A[1:]]


@oracle("tconcat")
def joined(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS + 3)
    call(name, dst, vec("float32", A), vec("float32", [row[:3] for row in B]))
    yield listed(dst), [a + b[:3] for a, b in zip(A, B, strict=True)]


@oracle("tfillpad", "tfillpad_inplace", "tfillpad_expand")
def padded(name: str) -> Pairs:
    width = 2 * COLS if name == "tfillpad_expand" else COLS
    dst = pto.Tile("vec", "float32", ROWS, width, pad="max")
    narrow = [row[:5] for row in A]
    src = pto.Tile("vec", "float32", ROWS, COLS, valid=(ROWS, 5), addr=0 if name == "tfillpad_inplace" else None)
    if name == "tfillpad_inplace":
        dst = pto.Tile("vec", "float32", ROWS, COLS, pad="max", addr=0)
    call(name, dst, src.write(np.array(narrow)))
    yield listed(dst), [row + [math.inf] * (width - 5) for row in narrow]


# --- gathering, sorting, merging


@oracle("tgather")
def gathered(name: str) -> Pairs:
    numbers = [[(5 * i + 3 * j) % (ROWS * COLS) for j in range(COLS)] for i in range(ROWS)]
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", A), vec("int32", numbers))
    yield listed(dst), each(lambda k: A[k // COLS][k % COLS], numbers)
    yield is_refused(name, dst, vec("float32", A), vec("int32", [[24] * COLS] * ROWS)), True


@oracle("tgatherb")
def gathered_blocks(name: str) -> Pairs:
    wide = [row + row[::-1] for row in A]
    stored = [x for row in wide for x in row]
    offsets = [[32, 4], [0, 160], [128, 64]]
    dst = empty("float32", ROWS, 2 * COLS)
    call(name, dst, vec("float32", wide), vec("uint32", offsets))
    yield listed(dst), [stored[a // 4 : a // 4 + 8] + stored[b // 4 : b // 4 + 8] for a, b in offsets]
    yield is_refused(name, dst, vec("float32", wide), vec("uint32", [[164, 0]] * ROWS)), True


@oracle("thistogram")
def counted_bytes(name: str) -> Pairs:
    for kind, size in (("uint16", 2), ("uint32", 4)):
        data = [[(7919 * (j + 40 * i) ** 2) % 256**2 % 3 * 257 + 65537 * (j % 2) for j in range(40)] for i in range(2)]
        data = [[x % 256**size for x in row] for row in data]
        for byte in range(size):
            above = [[0, 1][k % 2] for k in range(size - 1 - byte)]
            dst = empty("uint32", 2, 256)
            if size == 2:
                filters = vec("uint8", [[above[0] if above else 9], [2]], blayout="col_major")
            else:
                filters = vec("uint8", [[x] * 40 for x in above] or [[9] * 40])
            call(name, dst, vec(kind, data), filters, f"byte_{byte}")
            expected = []
            for i, row in enumerate(data):
                wanted = [[above[0], 2][i]] if size == 2 and above else above
                kept = [x for x in row if all(x >> 8 * (size - 1 - k) & 255 == w for k, w in enumerate(wanted))]
                expected.append([sum((x >> 8 * byte & 255) <= v for x in kept) for v in range(256)])
            yield listed(dst), expected


@oracle("tgather_mask")
def masked(name: str) -> Pairs:
    for pattern, first, step in (("p1010", 1, 2), ("p0101", 0, 2), ("p0100", 2, 4)):
        dst = empty("float32", ROWS, COLS)
        call(name, dst, vec("float32", A), pattern=pattern)
        kept = [value for row in A for value in row[first::step]]
        found = [value for row in listed(dst) for value in row]
        yield found[: len(kept)], kept
        yield found[len(kept) :], [99.0] * (ROWS * COLS - len(kept))


Pair = tuple[float, int]


def as_floats(pairs: list[Pair]) -> list[float]:
    """Pairs of a value and a number as float32 elements, by their bytes."""
    return list(struct.unpack(f"<{2 * len(pairs)}f", b"".join(struct.pack("<fI", *pair) for pair in pairs)))


def bits_of(tile: pto.Tile) -> list[list[int]]:
    return tile.read().view("uint32").tolist()


def bits(pairs: list[Pair]) -> list[int]:
    return list(struct.unpack(f"<{2 * len(pairs)}I", b"".join(struct.pack("<fI", *pair) for pair in pairs)))


def descending(pairs: list[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: -pair[0])


@oracle("tsort32")
def sorted_blocks(name: str) -> Pairs:
    values = [float((7 * k) % 13) for k in range(32)]
    numbers = [100 - k for k in range(32)]
    dst = empty("float32", 1, 64)
    call(name, dst, vec("float32", [values]), vec("uint32", [numbers]))
    order = sorted(range(32), key=lambda k: (-values[k], numbers[k]))
    yield bits_of(dst), [bits([(values[k], numbers[k]) for k in order])]


LISTS = [descending([(float((5 * k + 3 * each) % 17), 10 * each + k) for k in range(8)]) for each in range(4)]


def pairs_tile(pairs: list[Pair]) -> pto.Tile:
    made = empty("float32", 1, 2 * len(pairs))
    made.buffer.view("uint32")[: 2 * len(pairs)] = bits(pairs)
    return made


@oracle("tmrgsort")
def merged_blocks(name: str) -> Pairs:
    blocks = [descending([(float((5 * k + 3 * b) % 37), 10 * b + k) for k in range(32)]) for b in range(4)]
    dst = empty("float32", 1, 256)
    call(name, dst, pairs_tile([pair for block in blocks for pair in block]), 64)
    yield bits_of(dst), [bits(descending([pair for block in blocks for pair in block]))]


@oracle("tmrgsort2", "tmrgsort3", "tmrgsort4")
def merged_lists(name: str) -> Pairs:
    count = int(name[-1])
    every = descending([pair for pairs in LISTS[:count] for pair in pairs])
    for exhausted in (False, True):
        dst = empty("float32", 1, 16 * count)
        call(name, dst, *map(pairs_tile, LISTS[:count]), exhausted=exhausted)
        ends = [max(k for k, pair in enumerate(every) if pair in pairs) for pairs in LISTS[:count]]
        kept = bits(every[: min(ends) + 1] if exhausted else every)
        yield bits_of(dst), [kept + [0xFFFFFFFF] * (16 * count - len(kept))]


# --- quantisation


def rounded(value: float, low: int, high: int) -> int:
    return min(max(round(Fraction(value)), low), high)


SCALES, OFFSETS = [[0.5], [-1.5], [20.0]], [[3.0], [-0.25], [7.5]]


@oracle("tquant", "tquant_asym")
def quantised(name: str) -> Pairs:
    is_asymmetric = name == "tquant_asym"
    dst = empty("uint8" if is_asymmetric else "int8", ROWS, COLS)
    columns = [vec("float32", each, blayout="col_major") for each in (SCALES, OFFSETS)[: 1 + is_asymmetric]]
    call(name, dst, vec("float32", A), *columns)
    low, high = (0, 255) if is_asymmetric else (-128, 127)
    yield (
        listed(dst),
        [
            [rounded(x * SCALES[i][0] + is_asymmetric * OFFSETS[i][0], low, high) for x in row]
            for i, row in enumerate(A)
        ],
    )


@oracle("tdequant")
def dequantised(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS)
    columns = [vec("float32", each, blayout="col_major") for each in (SCALES, OFFSETS)]
    call(name, dst, vec("int8", WHOLE), *columns)
    yield listed(dst), [[(x - OFFSETS[i][0]) * SCALES[i][0] for x in row] for i, row in enumerate(WHOLE)]


# --- the cube


def product(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


def cube(loc: str, kind: str, shape: tuple[int, int], data: Any, **options: Any) -> pto.Tile:
    numbers = np.array(data)
    return pto.Tile(loc, kind, *shape, valid=numbers.shape, **options).write(numbers)


LEFT = [[float((3 * i + 5 * k) % 7 - 3) for k in range(64)] for i in range(3)]
RIGHT = [[float((2 * k + 3 * j) % 5 - 2) for j in range(4)] for k in range(64)]
SCALE_LEFT = [[2.0, 0.5], [1.0, 4.0], [0.25, 2.0]]
SCALE_RIGHT = [[1.0, 2.0, 0.5, 4.0], [0.5, 1.0, 2.0, 0.25]]
PRODUCTS = [f"{what}{end}" for what in ("tmatmul", "tgemv", "tmatmul_mx", "tgemv_mx") for end in ("", "_acc", "_bias")]


@oracle(*PRODUCTS)
def multiplied(name: str) -> Pairs:
    rows = 1 if name.startswith("tgemv") else 3
    is_mx, kind = "_mx" in name, "float8_e4m3" if "_mx" in name else "float16"
    height = 1 if rows == 1 and not is_mx else 16
    a = cube("left", kind, (height, 64), LEFT[:rows])
    b = cube("right", kind, (64, 32), RIGHT)
    dst = cube("acc", "float32", (16, 32), [[99.0] * 4] * rows)
    acc = cube("acc", "float32", (16, 32), [row[:4] for row in A[:rows]])
    bias = cube("bias", "float32", (1, 32), [B[0][:4]])
    factors = [a, b]
    left, right = LEFT[:rows], RIGHT
    if is_mx:
        scales = (cube("scale_left", "float8_e8m0", (16, 2), SCALE_LEFT[:rows]),
                  cube("scale_right", "float8_e8m0", (2, 32), SCALE_RIGHT))  # fmt: skip
        factors = [a, scales[0], b, scales[1]]
        left = [[x * SCALE_LEFT[i][k // 32] for k, x in enumerate(row)] for i, row in enumerate(left)]
        right = [[x * SCALE_RIGHT[k // 32][j] for j, x in enumerate(row)] for k, row in enumerate(right)]
    expected = product(left, right)
    if name.endswith("_acc"):
        call(name, dst, acc, *factors)
        expected = each(operator.add, expected, [row[:4] for row in A[:rows]])
    elif name.endswith("_bias"):
        call(name, dst, *factors, bias)
        expected = each(operator.add, expected, [B[0][:4]] * rows)
    else:
        call(name, dst, *factors)
    yield listed(dst), expected


FACTORS = [0.5, 2.0, -1.0, 4.0, 0.5, 1.0, 8.0, -0.5]
IGNORED = 1 + 2.0**-11
"""A factor of the fifth column, beyond the bits that count: the element there is 9, whose half is a tie."""


def word(factor: float) -> int:
    """A factor of the fixpipe, for a signed result."""
    return struct.unpack("<I", struct.pack("<f", factor))[0] | 1 << 46


@oracle("tmov_fp", "tstore_fp", "tinsert_fp", "textract_fp")
def with_factors(name: str) -> Pairs:
    acc = cube("acc", "float32", (16, 16), A)
    words = np.array([[word(x * IGNORED if k == 4 else x) for k, x in enumerate(FACTORS)]], "uint64")
    fp = pto.Tile("scaling", "uint64", 1, 16, valid=(1, COLS)).write(words)
    boxed = {"blayout": "col_major", "slayout": "row_major"}
    for relu in ("none", "relu"):
        expected = [[rounded(x * f, -128, 127) for x, f in zip(row, FACTORS, strict=True)] for row in A]
        if relu == "relu":
            expected = each(lambda x: max(x, 0), expected)
        with pto.target("a5"):
            if name == "tstore_fp":
                out = np.zeros((ROWS, COLS), "int8")
                call(name, pto.GlobalTensor(out), acc, fp, relu=relu)
                yield out.tolist(), expected
                continue
            mat = pto.Tile("mat", "int8", 16, 32, valid=(ROWS, COLS), **boxed)
            call(name, mat, acc, fp, *((0, 0) if name != "tmov_fp" else ()), relu=relu)
            yield listed(mat), expected


# --- moves


@oracle("tmov")
def moved(name: str) -> Pairs:
    dst = empty("float32", ROWS, COLS)
    call(name, dst, vec("float32", A))
    yield listed(dst), A


@oracle("tload")
def loaded(name: str) -> Pairs:
    for pad, filler in (("null", None), ("min", -math.inf)):
        dst = pto.Tile("vec", "float32", ROWS, 2 * COLS, valid=(ROWS, COLS), pad=pad)
        call(name, dst, pto.GlobalTensor(np.array(A, "float32")))
        yield listed(dst), A
        if filler is not None:
            yield dst.buffer.reshape(ROWS, -1)[:, COLS:].tolist(), [[filler] * COLS] * ROWS


@oracle("tstore")
def stored(name: str) -> Pairs:
    for atomic, meaning in (("none", lambda old, new: new), ("add", operator.add)):
        out = np.array(B, "float32")
        call(name, pto.GlobalTensor(out), vec("float32", A), atomic=atomic)
        yield out.tolist(), each(meaning, B, A)


@oracle("tassign")
def placed(name: str) -> Pairs:
    tile = pto.Tile("vec", "float32", 1, 8)
    call(name, tile, 0x100)
    yield [tile.spec.addr], [0x100]


OOB = {"clamp": lambda k, n: min(max(k, 0), n - 1) if k >= 0 else n - 1, "wrap": lambda k, n: k % n}
"""Indices as unsigned numbers of 32 bits: -1 is beyond the end."""
TABLE = [[float(10 * i + j) for j in range(COLS)] for i in range(5)]


@oracle("mgather")
def gathered_from_memory(name: str) -> Pairs:
    table = pto.GlobalTensor(np.array(TABLE, "float32"))
    for oob in ("undefined", "clamp", "wrap", "zero"):
        rows = [4, 1, 2] if oob == "undefined" else [4, 1, 7]
        dst = empty("float32", ROWS, COLS)
        call(name, dst, table, vec("int32", [rows]), coalesce="row", oob=oob)
        landed = [OOB[oob](k, 5) if oob in OOB else k for k in rows]
        yield listed(dst), [TABLE[k] if k < 5 else [0.0] * COLS for k in landed]
        cells = [
            [(7 * i + 3 * j) % 40 + (0 if oob == "undefined" else 9 * (j == 2)) for j in range(COLS)]
            for i in range(ROWS)
        ]
        call(name, dst, table, vec("int32", cells), coalesce="elem", oob=oob)
        land = OOB.get(oob, lambda k, n: k)
        yield (
            listed(dst),
            each(lambda k, land=land: TABLE[land(k, 40) // 8][land(k, 40) % 8] if land(k, 40) < 40 else 0.0, cells),
        )


@oracle("mscatter")
def scattered_to_memory(name: str) -> Pairs:
    atomics = {"none": lambda old, new: new, "add": operator.add, "max": max, "min": min}
    for oob in ("undefined", "skip", "clamp", "wrap"):
        for atomic, meaning in atomics.items():
            rows = [4, 1, 2] if oob == "undefined" else [4, 1, 7]
            land = OOB.get(oob, lambda k, n: k)
            out, expected = np.array(TABLE, "float32"), [list(row) for row in TABLE]
            call(
                name,
                pto.GlobalTensor(out),
                vec("float32", A),
                vec("int32", [rows]),
                coalesce="row",
                atomic=atomic,
                oob=oob,
            )
            for k, row in zip(rows, A, strict=True):
                if (at := land(k, 5)) < 5:
                    expected[at] = [meaning(old, new) for old, new in zip(expected[at], row, strict=True)]
            yield out.tolist(), expected
            cells = [
                [(7 * i + 3 * j) % 40 + (0 if oob == "undefined" else 9 * (j == 2)) for j in range(COLS)]
                for i in range(ROWS)
            ]
            out, flat = np.array(TABLE, "float32"), [x for row in TABLE for x in row]
            call(
                name,
                pto.GlobalTensor(out),
                vec("float32", A),
                vec("int32", cells),
                coalesce="elem",
                atomic=atomic,
                oob=oob,
            )
            for i, j in np.ndindex(ROWS, COLS):
                if (at := land(cells[i][j], 40)) < 40:
                    flat[at] = meaning(flat[at], A[i][j])
            yield out.ravel().tolist(), flat


@oracle("tscatter")
def scattered(name: str) -> Pairs:
    numbers = [[(i + j) % 4 for j in range(COLS)] for i in range(ROWS)]
    dst, expected = vec("float32", TABLE), [list(row) for row in TABLE]
    call(name, dst, vec("float32", A), vec("int32", numbers), index="row")
    for i, j in np.ndindex(ROWS, COLS):
        expected[numbers[i][j]][j] = A[i][j]
    yield listed(dst), expected
    offsets = [[(11 * (COLS * i + j)) % 40 for j in range(COLS)] for i in range(ROWS)]
    dst, flat = vec("float32", TABLE), [x for row in TABLE for x in row]
    call(name, dst, vec("float32", A), vec("int32", offsets), index="flat")
    for i, j in np.ndindex(ROWS, COLS):
        flat[offsets[i][j]] = A[i][j]
    yield dst.read().ravel().tolist(), flat
    for index, beyond in (("row", 5), ("flat", 40)):
        yield is_refused(name, dst, vec("float32", A), vec("int32", [[beyond] * COLS] * ROWS), index=index), True
