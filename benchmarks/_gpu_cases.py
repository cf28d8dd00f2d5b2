"""What `gpu.py` measures: calls over large arrays on a GPU, with the figures that are required of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from _kernels import COLS, ROWS, gather_tiles
from _lengths import LONG, SHORT, drawn
from torch_ops import SHORT_CALLS, UNORDERED, Case, Data, Input

import ptokit as pto

GIB = 1 << 30
PAYLOAD, TABLE = GIB, 4 * GIB
"""Bytes of the rows that are moved, and of the table."""
CELLS = 4096
SIDE = 4096
"""Rows, columns and depth of the matrix product."""
ROW = 512
CHECKED = 1 << 22
"""Rows whose sums are checked."""
OURS, ANY, UNCHECKED, TORCH, TRITON, GATHER = "ptokit", "any order", "unchecked", "PyTorch", "Triton", "pto.gather"
NZ = {"blayout": "col_major", "slayout": "row_major"}

Call = Callable[[], object]


@dataclass
class GpuCase:
    """A call, and the same in other ways and by other libraries: the fastest of each list counts."""

    name: str
    payload: float
    """Bytes, or operations."""
    calls: dict[str, list[Call]]
    check: Callable[[Call], bool]
    """Whether a call gives the right result."""
    asked: float
    against: str = ""
    """Whose rate `asked` is a share of; without one, it is in TB/s."""
    moves: bool = True
    """Whether the payload is bytes."""


@cache
def buffer(name: str, nbytes: int) -> torch.Tensor:
    return torch.zeros(nbytes // 4, dtype=torch.float32, device="cuda")


def rows(name: str, nbytes: int, width: int, kind: torch.dtype) -> torch.Tensor:
    """An array of rows of so many bytes, in memory that cases share."""
    found = buffer(name, nbytes).view(kind)
    return found.view(-1, width // found.element_size())


def draw(count: int, stop: int) -> torch.Tensor:
    return torch.randint(0, stop, (count,), device="cuda", dtype=torch.int32)


def on_host(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy()


def fill(table: torch.Tensor) -> None:
    """Values by which rows and columns differ."""
    part = table.view(torch.int16).view(-1)
    step = torch.arange(1 << 24, device="cuda", dtype=torch.int32)
    for at in range(0, part.numel(), 1 << 24):
        part[at : at + (1 << 24)] = ((step + at // 3) * 40503 % 15361).to(torch.int16)  # as floats, below 1.0


# --- gathers


def gathers() -> Iterator[GpuCase]:
    for width, asked in ((128, 1.9), (512, 2.0), (4096, 2.0)):
        table, out = rows("table", TABLE, width, torch.float16), rows("payload", PAYLOAD, width, torch.float16)
        indices = draw(len(out), len(table))
        calls: dict[str, list[Call]] = {
            OURS: [partial(pto.gather, table, indices)],
            UNCHECKED: [partial(pto.gather, table, indices, out=out, oob="clamp")],
            TORCH: _index_select(table, indices, out),
            TRITON: _triton(table, indices, out),
        }
        yield GpuCase(f"row gather {width} B", PAYLOAD, calls, partial(_gathered, table, indices, out), asked)
    table, out = rows("table", TABLE, 4, torch.float32), rows("payload", PAYLOAD // 4, 4, torch.float32)
    indices = draw(len(out), len(table))
    calls = {
        OURS: [partial(pto.gather, table[:, 0], indices, coalesce="elem")],
        UNCHECKED: [partial(pto.gather, table[:, 0], indices, out=out[:, 0], coalesce="elem", oob="clamp")],
        TORCH: _index_select(table[:, 0], indices, out[:, 0]),
    }
    check = partial(_gathered, table[:, 0], indices, out[:, 0])
    yield GpuCase("element gather", PAYLOAD // 4, calls, check, 1.0, TORCH)


def _index_select(table: torch.Tensor, indices: torch.Tensor, out: torch.Tensor) -> list[Call]:
    """Into a new tensor, and into one that is there."""
    select = partial(torch.index_select, table, 0, indices)
    return [select, partial(select, out=out)]


def _triton(table: torch.Tensor, indices: torch.Tensor, out: torch.Tensor) -> list[Call]:
    try:
        from _triton import gather_rows
    except ImportError:
        return []
    count, width = out.shape
    options = [(4096, 4), (8192, 8)]
    return [
        partial(gather_rows[(count * width // most,)], table, indices, out, width, most // width, num_warps=warps)
        for most, warps in options
    ]


def _gathered(table: torch.Tensor, indices: torch.Tensor, out: torch.Tensor, call: Call) -> bool:
    """Whether rows are those of the table: some of them on the host. A call returns them, or writes them to `out`."""
    out.zero_()
    made = call()
    out = made if isinstance(made, torch.Tensor) else out
    sample = torch.randint(0, len(out), (1 << 12,), device="cuda")
    few = np.stack([on_host(table[int(i)]) for i in on_host(indices[sample[:64]])])
    return torch.equal(out[sample], table[indices[sample]]) and np.array_equal(on_host(out[sample[:64]]), few)


# --- scatters


def scatters() -> Iterator[GpuCase]:
    table, src = rows("table", TABLE, ROW, torch.float32), rows("payload", PAYLOAD, ROW, torch.float32)
    unique = torch.randperm(len(table), device="cuda")[: len(src)].int()
    repeats = draw(len(src), len(table))
    for name, indices, asked, against in (
        ("row store, unique rows", unique, 1.67, ""),
        ("row store, last writer", repeats, 0.8, ANY),
    ):
        wide = indices.long()
        how = {"conflict": "any"} if indices is unique else {}
        calls: dict[str, list[Call]] = {
            OURS: [partial(pto.scatter, table, src, indices, **how)],
            UNCHECKED: [partial(pto.scatter, table, src, indices, oob="skip", **how)],
            ANY: [partial(pto.scatter, table, src, indices, conflict="any")],
            TORCH: [partial(table.index_copy_, 0, wide, src), partial(table.__setitem__, wide, src)],
        }
        yield GpuCase(name, PAYLOAD, calls, partial(_stored, table, src, indices), asked, against)
    for kind, asked in ((torch.float32, 1.15), (torch.float16, 1.05), (torch.bfloat16, 1.14)):
        table, src = rows("table", TABLE, ROW, kind), rows("payload", PAYLOAD, ROW, kind)
        calls = {
            OURS: [partial(pto.scatter, table, src, repeats, atomic="add", conflict="any")],
            UNCHECKED: [partial(pto.scatter, table, src, repeats, atomic="add", conflict="any", oob="skip")],
            TORCH: [partial(table.index_add_, 0, repeats, src)],
        }
        check = partial(_added, table, src, repeats, False)
        yield GpuCase(f"row add, any order, {str(kind)[6:]}", PAYLOAD, calls, check, asked)


def ordered() -> Iterator[GpuCase]:
    table, src = rows("table", TABLE, ROW, torch.float32), rows("payload", PAYLOAD, ROW, torch.float32)
    count, capacity = len(src), len(table)
    uniform = draw(count, capacity)
    heavy = np.minimum(np.random.default_rng(1).pareto(0.6, count) * 5, capacity - 1).astype(np.int32)
    third = torch.where(torch.rand(count, device="cuda") < 1 / 3, torch.full_like(uniform, 12345), uniform)
    drawn = {"uniform": (uniform, 0.85), "Pareto": (torch.from_numpy(heavy).cuda(), 0.45), "a third": (third, 0.2)}
    for name, (indices, asked) in drawn.items():
        wide = indices.long()
        calls: dict[str, list[Call]] = {
            OURS: [partial(pto.scatter, table, src, indices, atomic="add")],
            UNCHECKED: [partial(pto.scatter, table, src, indices, atomic="add", oob="skip")],
            TORCH: [partial(table.index_put_, (wide,), src, accumulate=True)],
        }
        check = partial(_added, table, src, indices, True)
        yield GpuCase(f"row add, in order, {name}", PAYLOAD, calls, check, asked)


def elements() -> Iterator[GpuCase]:
    for cells, count, names in (
        (TABLE // 4, PAYLOAD // 16, {"": (1.0, TORCH)}),
        (CELLS, PAYLOAD // 4, {", 4,096 cells, uniform": (1.1, ""), ", 4,096 cells, a third": (0.1, "")}),
    ):
        table, src = buffer("table", TABLE)[:cells], buffer("payload", PAYLOAD)[:count]
        for name, (asked, against) in names.items():
            indices = draw(count, cells)
            if name.endswith("third"):
                indices[torch.rand(count, device="cuda") < 1 / 3] = 77
            wide = indices.long()
            calls: dict[str, list[Call]] = {
                OURS: [partial(pto.scatter, table, src, indices, coalesce="elem", atomic="add", conflict="any")],
                UNCHECKED: [
                    partial(pto.scatter, table, src, indices, coalesce="elem", atomic="add", conflict="any", oob="skip")
                ],
                TORCH: [partial(table.scatter_add_, 0, wide, src), partial(table.index_add_, 0, indices, src)],
            }
            check = partial(_added, table[:, None], src[:, None], indices, False)
            yield GpuCase(f"element add, any order{name}", 4 * count, calls, check, asked, against)


def _stored(table: torch.Tensor, src: torch.Tensor, indices: torch.Tensor, call: Call) -> bool:
    """Whether each row has the values of its last writer, in one column."""
    column, values = on_host(table[:, 5]), on_host(src[:, 5])
    call()
    column[on_host(indices)] = values
    return np.array_equal(on_host(table[:, 5]).view("u4"), column.view("u4"))


def _added(table: torch.Tensor, src: torch.Tensor, indices: torch.Tensor, exact: bool, call: Call) -> bool:
    """Whether the sums of one column are right in the first rows: NumPy's bits, or about those of float64."""
    column, limit = min(5, table.shape[1] - 1), min(len(table), CHECKED)
    table.zero_()
    call()
    near = indices < limit
    found, lanes, values = table[:limit, column], indices[near], src[:, column][near]
    if exact:
        wanted = np.zeros(limit, np.float32)
        np.add.at(wanted, on_host(lanes), on_host(values))
        return np.array_equal(on_host(found).view("u4"), wanted.view("u4"))
    sums = torch.zeros(limit, dtype=torch.float64, device="cuda").index_add_(0, lanes, values.double())
    share = 1e-2 if table.element_size() == 4 else 5e-2
    return torch.allclose(found.double(), sums, rtol=share, atol=share)


# --- kernels in the language


@pto.kernel
def gathered_product(table, ids, weights, out, m: pto.const = 256, n: pto.const = 128, depth: pto.const = 64):
    """`out = table[ids] @ weights`; each block makes a part of `m` rows and `n` columns."""
    block, across = pto.block_idx(), out.shape[1] // n
    top, left_col = block // across * m, block % across * n
    product = pto.Tile("acc", "float32", m, n)
    for k in pto.range(0, table.shape[1], depth):
        left_matrix = pto.Tile("mat", table.dtype, m, depth, **NZ)
        right_matrix = pto.Tile("mat", table.dtype, depth, n, **NZ)
        left = pto.Tile("left", table.dtype, m, depth)
        right = pto.Tile("right", table.dtype, depth, n)
        pto.mgather(left_matrix, table[:, k : k + depth], ids[top : top + m])
        pto.tload(right_matrix, weights[k : k + depth, left_col : left_col + n])
        pto.textract(left, left_matrix, 0, 0)
        pto.textract(right, right_matrix, 0, 0)
        with pto.when(k == 0):
            pto.tmatmul(product, left, right)
        with pto.otherwise():
            pto.tmatmul_acc(product, product, left, right)
    pto.tstore(out[top : top + m, left_col : left_col + n], product)


def kernels() -> Iterator[GpuCase]:
    table = rows("table", TABLE, 4 * COLS, torch.float32)
    out = rows("payload", PAYLOAD, 4 * COLS, torch.float32)
    indices = draw(len(out), len(table))
    launch = gather_tiles[len(out) // ROWS]
    calls: dict[str, list[Call]] = {
        OURS: [partial(launch, table=table, indices=indices, out=out, target="a5")],
        GATHER: [partial(pto.gather, table, indices)],
        TORCH: _index_select(table, indices, out),
    }
    check = partial(_gathered, table, indices, out)
    yield GpuCase("kernel: gather of 64 x 256 tiles", PAYLOAD, calls, check, 0.85, GATHER)
    size = SIDE, SIDE
    values, weights = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ids, result = draw(SIDE, SIDE), torch.zeros(size, device="cuda")
    grid = SIDE // 256 * (SIDE // 128)
    arrays = {"table": values, "ids": ids, "weights": weights, "out": result}
    calls = {
        OURS: [partial(gathered_product[grid], **arrays, target="a5")],
        TORCH: [lambda: torch.index_select(values, 0, ids) @ weights],
    }

    def near(call: Call) -> bool:
        result.zero_()
        call()
        wanted = values[ids.long()].float() @ weights.float()
        return bool(((result - wanted).abs() < 0.5).all())

    yield GpuCase("kernel: gathered matmul bf16", 2.0 * SIDE**3, calls, near, 1 / 1.5, TORCH, moves=False)


# --- calls of many sizes, with the time of the host


def varied(device: str = "cuda") -> Iterator[Case]:
    """Whole-array calls on tensors, alternating between two tables, and kinds of calls in turn."""
    shapes = (200_000, 64), (50_000, 32)
    for about, count, asked, unordered in (
        (SHORT, 1500, SHORT_CALLS[device], UNORDERED[device]),
        (LONG, 8, 0.95, 0.95),
    ):
        data = Data(shapes, drawn(about, count), device)

        def add(given: Input, table: torch.Tensor, **how: str) -> torch.Tensor:
            pto.scatter(table, given.src, given.uniform, atomic="add", **how)
            return table

        def index_add(given: Input, table: torch.Tensor) -> torch.Tensor:
            return table.index_add_(0, given.uniform, given.src)

        select = data.forward(lambda g, t: t.index_select(0, g.uniform))
        gather = data.forward(lambda g, t: pto.gather(t, g.uniform))
        yield Case(f"pto.gather, {about}", gather, {"index_select": select}, data, least=asked)
        clamped = data.forward(lambda g, t: pto.gather(t, g.uniform, oob="clamp"))
        yield Case(f"pto.gather, clamped, {about}", clamped, {"index_select": select}, data, least=unordered)
        calls = [(", any order", {"conflict": "any", "oob": "skip"}, unordered), ("", {}, asked)]
        for name, how, least in calls:
            ours, theirs = data.in_place(partial(add, **how)), {"index_add_": data.in_place(index_add)}
            yield Case(f"pto.scatter add{name}, {about}", ours, theirs, data, least=least)
        ours = data.in_turn(gather, data.in_place(add), clamped)
        theirs = {"index_select, index_add_": data.in_turn(select, data.in_place(index_add), select)}
        yield Case(f"pto.gather and scatter add in turn, {about}", ours, theirs, data, least=asked)
