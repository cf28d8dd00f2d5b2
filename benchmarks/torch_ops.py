"""ptokit.torch beside PyTorch's own operators, forward and backward, on the CPU and, if there is one, on a GPU.

    python benchmarks/torch_ops.py [--quick] [--case PATTERN] [--device cpu|cuda] [--threads N] [--out FOLDER]

Milliseconds are medians of interleaved rounds, and the ratio is the median of the ratios within rounds: how many times
as long the fastest of PyTorch's forms takes. Asked is not more than 5 % behind it, and ahead of it in deterministic
mode (`torch.use_deterministic_algorithms(True)`), where PyTorch's operators that have no such form do not count. Small
calls show the cost of a call, and nothing is asked. "backward" is forward and backward; "step" is that and an update of
the table by SGD, beside PyTorch's `sparse=True`, with indices that differ from step to step, and "varied" says that
their number does, too. Results are compared first. The
table goes to `torch-DEVICE.md`; the status is 1 if a figure is missed or a result wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from _measure import FLOOR, interleaved, median, ratio
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import ptokit.torch as pt

Call = Callable[[], Tensor]
ROUNDS, ATTEMPTS, LOOPS = 7, 3, 200
OURS = "ptokit"
HEAD = ("case", "ptokit ms", "PyTorch ms", "its form", "ratio", "asked", "")


@dataclass(frozen=True)
class Case:
    """One operation: our call, and PyTorch's forms of it."""

    name: str
    ours: Call
    theirs: dict[str, Call]
    deterministic: bool = False
    small: bool = False
    least: float | None = None
    """The ratio that is asked, if it is not that of the others."""

    @property
    def asked(self) -> float | None:
        return None if self.small else self.least or (1.0 if self.deterministic else FLOOR.at_least)


@dataclass
class Data:
    """Operands of one size."""

    rows: int
    width: int
    lanes: int
    device: str
    kind: torch.dtype = torch.float32
    bag: int = 20
    table: Tensor = field(init=False)

    def __post_init__(self) -> None:
        made = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=made).to(self.kind).to(self.device)

        self.table, self.src = normal(self.rows, self.width), normal(self.lanes, self.width)
        self.uniform = torch.randint(0, self.rows, (self.lanes,), generator=made).to(self.device)
        self.skewed = (torch.rand(self.lanes, generator=made).pow(4) * self.rows).long().to(self.device)
        self.offsets = torch.arange(0, self.lanes, self.bag).to(self.device)
        self.lengths = torch.full((len(self.offsets),), self.bag).to(self.device)
        self.weights = torch.rand(self.lanes, generator=made).to(self.kind).to(self.device)
        self.of_bags = normal(len(self.offsets), self.width)
        self.leaf = self.table.clone().requires_grad_()

    def backward(self, call: Callable[[Tensor], Tensor]) -> Call:
        """Forward and backward of a call over the table."""

        def run() -> Tensor:
            self.leaf.grad = None
            made = call(self.leaf)
            made.backward({each.shape: each for each in (self.src, self.of_bags, self.table)}[made.shape])
            assert self.leaf.grad is not None
            return self.leaf.grad

        return run


def cases(quick: bool, device: str) -> Iterator[Case]:
    scale = (4 if device == "cuda" else 1) * (1 if quick else 4)
    big, small = Data(125_000 * scale, 64, 25_000 * scale, device), Data(1000, 16, 64, device, bag=8)
    yield from _gathers("rows of 256 B", big)
    yield from _scatters("rows of 256 B", big)
    yield from _bags("rows of 256 B", big)
    yield from _segments("rows of 256 B", big)
    half = Data(125_000 * scale, 64, 25_000 * scale, device, torch.bfloat16)
    yield from (each for each in _bags("bfloat16", half) if "max" not in each.name)
    for group in (_gathers, _scatters, _bags):
        yield from group("rows of 256 B", big, deterministic=True)
    yield from _steps(quick, device)
    yield from _click_model(quick, device)
    for each in (*_gathers("small call", small), *_scatters("small call", small), *_bags("small call", small)):
        yield Case(each.name, each.ours, each.theirs, small=True)


def _gathers(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    table, lanes = d.table, d.uniform
    if not deterministic:
        theirs = {"index_select": lambda: table.index_select(0, lanes), "embedding": lambda: F.embedding(lanes, table)}
        yield Case(f"gather, {what}", lambda: pt.gather(table, lanes), theirs)
    for name, skew in (("uniform", d.uniform), ("skewed", d.skewed)):
        ours = d.backward(lambda t, skew=skew: pt.gather(t, skew))
        peers = {
            "index_select": d.backward(lambda t, skew=skew: t.index_select(0, skew)),
            "embedding": d.backward(lambda t, skew=skew: F.embedding(skew, t)),
        }
        yield Case(f"gather, {what}, {name}, backward", ours, peers, deterministic)


def _scatters(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    src = d.src
    wide = d.uniform[:, None].expand_as(src)
    for name, lanes in (("uniform", d.uniform), ("skewed", d.skewed)):
        full = lanes[:, None].expand_as(src)
        mine, theirs, other = d.table.clone(), d.table.clone(), d.table.clone()
        adds = {
            "index_add_": lambda lanes=lanes, t=theirs: t.index_add_(0, lanes, src),
            "scatter_add_": lambda full=full, t=other: t.scatter_add_(0, full, src),
        }
        ours = lambda lanes=lanes, t=mine: pt.scatter_(t, src, lanes, atomic="add")  # noqa: E731
        yield Case(f"scatter add, {what}, {name}", ours, adds, deterministic)
    if deterministic:
        return
    mine, theirs, other = d.table.clone(), d.table.clone(), d.table.clone()
    most = {
        "index_reduce_": lambda: theirs.index_reduce_(0, d.uniform, src, "amax"),
        "scatter_reduce_": lambda: other.scatter_reduce_(0, wide, src, "amax"),
    }
    yield Case(f"scatter max, {what}", lambda: pt.scatter_(mine, src, d.uniform, atomic="max"), most)
    both = d.backward(lambda t: t.index_add(0, d.uniform, src))
    ours = d.backward(lambda t: pt.scatter(t, src, d.uniform, atomic="add"))
    yield Case(f"scatter add to a copy, {what}, backward", ours, {"index_add": both})


def _bags(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    for mode, weights in (("sum", None), ("sum", d.weights), ("mean", None), ("max", None)):
        given: dict[str, Any] = {"mode": mode, "per_sample_weights": weights}
        name = f"bag {mode}{', weights' if weights is not None else ''}, {what}"

        def ours(table: Tensor, given: dict[str, Any] = given) -> Tensor:
            return pt.embedding_bag(d.uniform, table, d.offsets, **given)

        def peer(table: Tensor, given: dict[str, Any] = given) -> Tensor:
            return F.embedding_bag(d.uniform, table, d.offsets, **given)

        if not deterministic:
            peers = {"embedding_bag": lambda peer=peer: peer(d.table)}
            yield Case(name, lambda ours=ours: ours(d.table), peers)
        yield Case(f"{name}, backward", d.backward(ours), {"embedding_bag": d.backward(peer)}, deterministic)


def _segments(what: str, d: Data) -> Iterator[Case]:
    src, lengths = d.src, d.lengths
    ids = torch.arange(len(lengths), device=src.device).repeat_interleave(lengths)
    full, zeros = ids[:, None].expand_as(src), src.new_zeros(len(lengths), d.width)
    for reduce, theirs in (("sum", "sum"), ("max", "amax")):
        peers = {
            "segment_reduce": lambda reduce=reduce: torch.segment_reduce(src, reduce, lengths=lengths),
            "scatter_reduce": lambda theirs=theirs: zeros.scatter_reduce(0, full, src, theirs, include_self=False),
        }
        ours = lambda reduce=reduce: pt.segment_reduce(src, reduce, lengths=lengths)  # noqa: E731
        yield Case(f"segment {reduce} by lengths, {what}", ours, peers)
    peers = {"index_add": lambda: zeros.index_add(0, ids, src)}
    ours_by_ids = lambda: pt.segment_sum(src, segment_ids=ids, num_segments=len(lengths))  # noqa: E731
    yield Case(f"segment sum by ids, {what}", ours_by_ids, peers)


ITEMS, BAG, STEPS = 4_000_000, 20, 8
VARIED = (2048, 512, 4096, 96, 1500, 3000, 257, 2500)
"""Bags of one step after the other."""


def _steps(quick: bool, device: str) -> Iterator[Case]:
    """Steps of SGD on a large table."""
    rows, width = ITEMS // (8 if quick else 1), 32
    made = torch.Generator().manual_seed(0)
    weight = torch.randn(rows, width, generator=made).to(device)
    for name, sizes in (("2,048 bags of 20", (2048,) * STEPS), ("2,048 bags of 20, varied", VARIED)):
        given = [torch.randint(0, rows, (size, BAG), generator=made).to(device) for size in sizes]
        above = {size: torch.randn(size, width, generator=made).to(device) for size in set(sizes)}
        for kind, least in (("sparse", 1.0), ("fused", 2.0)):
            own: dict[str, Any] = {"sparse": True} if kind == "sparse" else {"optimizer": "sgd", "lr": RATE}
            module = pt.EmbeddingBag(rows, width, mode="sum", _weight=weight.clone(), **own)
            peer = torch.nn.EmbeddingBag(rows, width, mode="sum", sparse=True, _weight=weight.clone())
            ours, theirs = (_stepping(each, given, above) for each in (module, peer))  # in step with each other
            yield Case(f"step, {kind}, {name}", ours, {"nn.EmbeddingBag": theirs}, least=least)


RATE = 0.01


def _stepping(module: Any, given: Sequence[Tensor], above: dict[int, Tensor]) -> Call:
    """Steps of one module, with one input after the other."""
    rule, numbers = _sgd(module), cycle(range(len(given)))

    def run() -> Tensor:
        lanes = given[next(numbers)]
        rule.zero_grad()
        module(lanes).backward(above[len(lanes)])
        rule.step()
        return module.weight[:1000]

    return run


def _sgd(module: torch.nn.Module) -> Any:
    """PyTorch's rule, also for a module that has no gradients; then it does nothing."""
    return torch.optim.SGD(module.parameters(), lr=RATE)


def _click_model(quick: bool, device: str) -> Iterator[Case]:
    """Steps of 26 tables: 1,000 to 2 million rows, 16 to 128 columns, 1 to 20 indices in a bag."""
    numbers = random.Random(0)
    most = 2000 // (16 if quick else 1)
    shapes = [(int(1000 * most ** numbers.random()), numbers.choice((16, 32, 64, 128))) for _ in range(26)]
    lengths = [numbers.randint(1, 20) for _ in shapes]
    made = torch.Generator().manual_seed(0)
    weights = [torch.randn(shape, generator=made) for shape in shapes]
    for name, sizes in (("2,048 bags", (2048,) * 4), ("2,048 bags, varied", VARIED)):
        batches = [_clicks(size, shapes, lengths, made, device) for size in sizes]
        above = {
            size: [torch.randn(size, width, generator=made).to(device) for _, width in shapes] for size in set(sizes)
        }
        peers = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(*shape, mode="sum", sparse=True, include_last_offset=True, _weight=weight.clone())
            for shape, weight in zip(shapes, weights, strict=True)
        ).to(device)
        tables = pt.EmbeddingBags(shapes, optimizer="sgd", lr=RATE, device=device)
        for own, weight in zip(tables.weights, weights, strict=True):
            own.data.copy_(weight)
        calls = _clicking(tables, tables.weights, batches, above), _clicking(peers, None, batches, above)
        least = 3.0 if device == "cuda" else 1.5
        yield Case(f"step, 26 tables, fused, {name}", calls[0], {"26 nn.EmbeddingBag": calls[1]}, least=least)


Clicks = tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]
"""Indices and offsets of all tables, and those of each."""


def _clicks(size: int, shapes: Any, lengths: Sequence[int], made: torch.Generator, device: str) -> Clicks:
    each = [torch.randint(0, rows, (size * n,), generator=made) for (rows, _), n in zip(shapes, lengths, strict=True)]
    parts = [
        (lanes.to(device), torch.arange(0, size * n + 1, n).to(device)) for lanes, n in zip(each, lengths, strict=True)
    ]
    sizes = torch.tensor([n for n in lengths for _ in range(size)])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)]).to(device)
    return torch.cat(each).to(device), offsets, parts


def _clicking(module: Any, tables: Any, batches: Sequence[Clicks], above: dict[int, list[Tensor]]) -> Call:
    rule, numbers = _sgd(module), cycle(range(len(batches)))

    def run() -> Tensor:
        values, offsets, parts = batches[next(numbers)]
        rule.zero_grad()
        if tables is not None:
            found = list(module(values, offsets))
        else:
            found = [each(*given) for each, given in zip(module, parts, strict=True)]
        torch.autograd.backward(found, above[len(found[0])])
        rule.step()
        return (module[0].weight if tables is None else tables[0])[:1000]

    return run


# --- measuring


def measured(case: Case, device: str) -> list[str]:
    """Cells of a row."""
    torch.use_deterministic_algorithms(case.deterministic)
    try:
        calls, is_right = _able(case)
        timed = {name: _waiting(call, device) for name, call in calls.items()}
        times: dict[str, list[float]] = {name: [] for name in timed}
        for _ in range(ATTEMPTS):
            for name, found in interleaved(timed, ROUNDS, loops=LOOPS if case.small else 1, patience=2.0).items():
                times[name] += found
            peers = [name for name in times if name != OURS]
            best = min(peers, key=lambda name: median(times[name]), default=None)
            found = ratio(times[best], times[OURS]) if best else float("inf")
            if case.asked is None or found >= case.asked:
                break
    finally:
        torch.use_deterministic_algorithms(False)
    verdict = "" if case.asked is None else "met" if found >= case.asked else "MISSED"
    cells = [f"{1e3 * median(times[OURS]):.3f}", f"{1e3 * median(times[best]):.3f}" if best else "–", best or "none"]
    name = f"{case.name}, deterministic" if case.deterministic else case.name
    asked = "–" if case.asked is None else f"{case.asked:.2f}"
    return [name, *cells, f"{found:.2f}", asked, verdict if is_right else "WRONG"]


def _able(case: Case) -> tuple[dict[str, Call], bool]:
    """The calls that PyTorch has a form of, and whether ours gives their result but for rounding."""
    calls, is_right = {OURS: case.ours}, True
    ours = case.ours().detach().clone().float()
    for name, call in case.theirs.items():
        try:
            theirs = call().detach().float()
        except (RuntimeError, NotImplementedError):  # no deterministic form, or none for this type
            continue
        calls[name] = call
        is_right &= torch.allclose(ours, theirs, rtol=2e-2, atol=2e-2 * float(theirs.abs().max()))
    return calls, is_right


def _waiting(call: Call, device: str) -> Callable[[], object]:
    if device != "cuda":
        return call

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def table_of(device: str, quick: bool, pattern: str) -> Iterator[list[str]]:
    for case in cases(quick, device):
        name = f"{case.name}, deterministic" if case.deterministic else case.name
        if pattern in name:
            yield measured(case, device)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="a quarter of the data")
    options.add_argument("--case", default="", metavar="PATTERN", help="only cases whose name contains this")
    options.add_argument("--device", choices=("cpu", "cuda"), help="only this device")
    options.add_argument("--threads", type=int, help="of PyTorch; ptokit's are PTOKIT_THREADS")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    given = options.parse_args()
    warnings.simplefilter("ignore")  # PyTorch calls some of its reductions experimental
    if given.threads:
        torch.set_num_threads(given.threads)
    devices = [given.device] if given.device else ["cpu", *["cuda"] * torch.cuda.is_available()]
    missed = 0
    for device in devices:
        lines: list[str] = []

        def say(line: str, lines: list[str] = lines) -> None:
            print(line, flush=True)
            lines.append(line)

        where = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
        say(f"# PyTorch {torch.__version__}, {device}: {where}\n")
        say(_line(HEAD))
        say(_line(["---", "---:", "---:", "---", "---:", "---:", "---"]))
        for row in table_of(device, given.quick, given.case):
            say(_line(row))
            missed += row[-1] in ("MISSED", "WRONG")
        if not given.case:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"torch-{device}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(missed > 0)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
