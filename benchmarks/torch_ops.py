"""ptokit.torch beside PyTorch's own operators, forward and backward, on the CPU and, if there is one, on a GPU.

    python benchmarks/torch_ops.py [--quick] [--case PATTERN] [--device cpu|cuda] [--threads N] [--out FOLDER]

A case is a list of calls that differ in the number of indices, log-uniform, and alternate between two tables. Times are
milliseconds of one call on average: medians of interleaved rounds. The ratio is the median of the ratios within rounds:
how many times as long the fastest of PyTorch's forms takes. "varied" is how many times as long our calls take as calls
of one size that do the same work. Asked is not more than 5 % behind PyTorch, and ahead of it in deterministic mode
(`torch.use_deterministic_algorithms(True)`), where PyTorch's operators that have no such form do not count; less where
the cost of a call is most of its time. "backward" is forward and backward; "step" is that and an update of the table by
SGD, beside PyTorch's `sparse=True`. Results are compared first. The table goes to `torch-DEVICE.md`; the status is 1 if
a figure is missed or a result wrong.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from _lengths import LONG, SHORT, TINY, drawn, in_turn
from _measure import FLOOR, interleaved, median, ratio
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import ptokit.torch as pt

ROUNDS, ATTEMPTS = 7, 3
OURS, SAME = "ptokit", "one size"
VARYING = 1.15
"""How many times as long calls of varied sizes may take as calls of one size."""
HEAD = ("case", "ptokit ms", "PyTorch ms", "its form", "ratio", "asked", "varied", "asked", "")


@dataclass(frozen=True)
class Input:
    """The operands of one call; those that do not differ are shared."""

    number: int
    leaf: Tensor
    """A table with a gradient."""
    src: Tensor
    uniform: Tensor
    skewed: Tensor
    offsets: Tensor
    weights: Tensor
    of_bags: Tensor

    @cached_property
    def table(self) -> Tensor:
        return self.leaf.detach()

    @cached_property
    def above(self) -> dict[torch.Size, Tensor]:
        """Gradients of results, by their shapes."""
        return {each.shape: each for each in (self.src, self.of_bags, self.table)}


Call = Callable[[Input], Tensor]
Over = Callable[[Input, Tensor], Tensor]
"""A call over a table that is given."""


@dataclass
class Data:
    """Inputs of many sizes, and inputs of one size for each table with as many lanes in all."""

    shapes: Sequence[tuple[int, int]]
    lanes: Sequence[int]
    device: str
    kind: torch.dtype = torch.float32
    bag: int = 20

    def __post_init__(self) -> None:
        self._made = torch.Generator().manual_seed(0)
        most, number = max(self.lanes), len(self.shapes)
        self._leaves = [self._normal(*shape).requires_grad_() for shape in self.shapes]
        self._rows = [self._normal(most, width) for _, width in self.shapes]
        self._bags = [self._normal(-(-most // self.bag), width) for _, width in self.shapes]
        self._weights = torch.rand(most, generator=self._made).to(self.kind).to(self.device)
        means = [sum(self.lanes[table::number]) // len(self.lanes[table::number]) for table in range(number)]
        self.varied = [self._input(at % number, count) for at, count in enumerate(self.lanes)]
        self.same = [self._input(at % number, means[at % number]) for at in range(len(self.lanes))]

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._made).to(self.kind).to(self.device)

    def _input(self, table: int, lanes: int) -> Input:
        rows, made = self.shapes[table][0], self._made
        uniform = torch.randint(0, rows, (lanes,), generator=made).to(self.device)
        skewed = (torch.rand(lanes, generator=made).pow(4) * rows).long().to(self.device)
        offsets = torch.arange(0, lanes, self.bag).to(self.device)
        parts = self._rows[table][:lanes], uniform, skewed, offsets, self._weights[:lanes]
        return Input(table, self._leaves[table], *parts, self._bags[table][: len(offsets)])

    def forward(self, call: Over) -> Call:
        return lambda given: call(given, given.table)

    def backward(self, call: Over) -> Call:
        """Forward and backward."""

        def run(given: Input) -> Tensor:
            leaf = given.leaf
            leaf.grad = None
            made = call(given, leaf)
            made.backward(given.above[made.shape])
            assert leaf.grad is not None
            return leaf.grad

        return run

    def in_place(self, call: Over) -> Call:
        """On tables of its own."""
        own = [leaf.detach().clone() for leaf in self._leaves]
        return lambda given: call(given, own[given.number])

    def in_turn(self, *calls: Call) -> Call:
        """One call for one input, the next for the next."""
        turns = {id(each): at % len(calls) for inputs in (self.varied, self.same) for at, each in enumerate(inputs)}
        return lambda given: calls[turns[id(given)]](given)


@dataclass(frozen=True)
class Case:
    """Our call, and PyTorch's forms of it, on one input after the other."""

    name: str
    ours: Any
    theirs: dict[str, Any]
    data: Data | None = None
    """Without any, calls take no input."""
    deterministic: bool = False
    least: float | None = None
    """The ratio that is asked, if it is not that of the others."""

    @property
    def title(self) -> str:
        return f"{self.name}, deterministic" if self.deterministic else self.name

    @property
    def asked(self) -> float:
        return self.least or (1.0 if self.deterministic else FLOOR.at_least)


SMALL = {("cpu", False): 0.8, ("cpu", True): 0.7, ("cuda", False): 0.7, ("cuda", True): 0.7}
"""What is asked of calls of about 64 indices, by device, forward and with backward."""
SHORT_CALLS = {"cpu": 0.9, "cuda": 0.5}
UNORDERED = {"cpu": 0.9, "cuda": 0.8}
"""What is asked of calls of 32 to 4,096 indices: with order and checks, and without."""


def cases(quick: bool, device: str) -> Iterator[Case]:
    scale, count = (4 if device == "cuda" else 1) * (1 if quick else 4), 40 if quick else 300
    shapes = (125_000 * scale, 64), (60_000 * scale, 32)
    lanes = drawn(LONG, 4, 100_000 if quick else None)
    big, half = Data(shapes, lanes, device), Data(shapes, lanes, device, torch.bfloat16)
    for group in (_gathers, _scatters, _bags, _segments):
        yield from group(LONG, big)
    yield _kinds(LONG, big)
    yield from (each for each in _bags(f"bfloat16, {LONG}", half) if "max" not in each.name)
    for group in (_gathers, _scatters, _bags):
        yield from group(LONG, big, deterministic=True)
    del big, half
    yield from _steps(quick, device)
    yield from _click_model(quick, device)
    few = Data(((20_000, 64), (5_000, 32)), drawn(SHORT, count), device)
    for each in (*_gathers(SHORT, few), *_scatters(SHORT, few), *_bags(SHORT, few), _kinds(SHORT, few)):
        if "backward" not in each.name:
            yield replace(each, least=SHORT_CALLS[device])
    yield from (replace(each, least=UNORDERED[device]) for each in _unordered(SHORT, few))
    small = Data(((1000, 16), (500, 32)), drawn(TINY, 90), device, bag=8)
    for each in (*_gathers(TINY, small), *_scatters(TINY, small), *_bags(TINY, small), _kinds(TINY, small)):
        yield replace(each, least=SMALL[device, "backward" in each.name])


def _gathers(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    if not deterministic:
        theirs = {
            "index_select": d.forward(lambda g, t: t.index_select(0, g.uniform)),
            "embedding": d.forward(lambda g, t: F.embedding(g.uniform, t)),
        }
        yield Case(f"gather, {what}", d.forward(lambda g, t: pt.gather(t, g.uniform)), theirs, d)
    for name in ("uniform", "skewed"):
        ours = d.backward(lambda g, t, name=name: pt.gather(t, getattr(g, name)))
        peers = {
            "index_select": d.backward(lambda g, t, name=name: t.index_select(0, getattr(g, name))),
            "embedding": d.backward(lambda g, t, name=name: F.embedding(getattr(g, name), t)),
        }
        yield Case(f"gather, {what}, {name}, backward", ours, peers, d, deterministic)


def _wide(given: Input, lanes: Tensor) -> Tensor:
    return lanes[:, None].expand_as(given.src)


def _scatters(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    for name in ("uniform", "skewed"):

        def scatter(g: Input, t: Tensor, name: str = name) -> Tensor:
            return t.scatter_add_(0, _wide(g, getattr(g, name)), g.src)

        adds = {
            "index_add_": d.in_place(lambda g, t, name=name: t.index_add_(0, getattr(g, name), g.src)),
            "scatter_add_": d.in_place(scatter),
        }
        ours = d.in_place(lambda g, t, name=name: pt.scatter_(t, g.src, getattr(g, name), atomic="add"))
        yield Case(f"scatter add, {what}, {name}", ours, adds, d, deterministic)
    if deterministic:
        return
    most = {
        "index_reduce_": d.in_place(lambda g, t: t.index_reduce_(0, g.uniform, g.src, "amax")),
        "scatter_reduce_": d.in_place(lambda g, t: t.scatter_reduce_(0, _wide(g, g.uniform), g.src, "amax")),
    }
    ours = d.in_place(lambda g, t: pt.scatter_(t, g.src, g.uniform, atomic="max"))
    yield Case(f"scatter max, {what}", ours, most, d)
    both = d.backward(lambda g, t: t.index_add(0, g.uniform, g.src))
    ours = d.backward(lambda g, t: pt.scatter(t, g.src, g.uniform, atomic="add"))
    yield Case(f"scatter add to a copy, {what}, backward", ours, {"index_add": both}, d)


def _unordered(what: str, d: Data) -> Iterator[Case]:
    """Without a check of indices, and sums in any order."""
    theirs = {"index_select": d.forward(lambda g, t: t.index_select(0, g.uniform))}
    yield Case(f"gather, clamped, {what}", d.forward(lambda g, t: pt.gather(t, g.uniform, oob="clamp")), theirs, d)
    theirs = {"index_add_": d.in_place(lambda g, t: t.index_add_(0, g.uniform, g.src))}
    how: dict[str, Any] = {"atomic": "add", "conflict": "any", "oob": "skip"}
    ours = d.in_place(lambda g, t: pt.scatter_(t, g.src, g.uniform, **how))
    yield Case(f"scatter add, any order, {what}", ours, theirs, d)


def _bags(what: str, d: Data, *, deterministic: bool = False) -> Iterator[Case]:
    for mode, is_weighted in (("sum", False), ("sum", True), ("mean", False), ("max", False)):
        name = f"bag {mode}{', weights' * is_weighted}, {what}"

        def bag(function: Any, g: Input, table: Tensor, mode: str = mode, is_weighted: bool = is_weighted) -> Tensor:
            return function(
                g.uniform, table, g.offsets, mode=mode, per_sample_weights=g.weights if is_weighted else None
            )

        ours, peer = partial(bag, pt.embedding_bag), partial(bag, F.embedding_bag)
        if not deterministic:
            yield Case(name, d.forward(ours), {"embedding_bag": d.forward(peer)}, d)
        yield Case(f"{name}, backward", d.backward(ours), {"embedding_bag": d.backward(peer)}, d, deterministic)


def _kinds(what: str, d: Data) -> Case:
    """A gather, a sum into a table and sums of bags in turn."""
    gather, add, bag = next(_gathers(what, d)), next(_scatters(what, d)), next(_bags(what, d))
    peers = [next(iter(each.theirs.values())) for each in (gather, add, bag)]
    return Case(
        f"gather, scatter add and bag in turn, {what}",
        d.in_turn(gather.ours, add.ours, bag.ours),
        {"index_select, index_add_, embedding_bag": d.in_turn(*peers)},
        d,
    )


def _segments(what: str, d: Data) -> Iterator[Case]:
    lengths = {id(g): g.offsets.diff(append=g.offsets.new_tensor([len(g.uniform)])) for g in (*d.varied, *d.same)}
    ids = {key: torch.arange(len(each), device=each.device).repeat_interleave(each) for key, each in lengths.items()}
    for reduce, theirs in (("sum", "sum"), ("max", "amax")):

        def peer(g: Input, reduce: str = theirs) -> Tensor:
            zeros = torch.zeros_like(g.of_bags)
            return zeros.scatter_reduce_(0, _wide(g, ids[id(g)]), g.src, reduce, include_self=False)

        peers = {
            "segment_reduce": lambda g, reduce=reduce: torch.segment_reduce(g.src, reduce, lengths=lengths[id(g)]),
            "scatter_reduce": peer,
        }
        ours = lambda g, reduce=reduce: pt.segment_reduce(g.src, reduce, lengths=lengths[id(g)])  # noqa: E731
        yield Case(f"segment {reduce} by lengths, {what}", ours, peers, d)

    def added(g: Input) -> Tensor:
        return torch.zeros_like(g.of_bags).index_add_(0, ids[id(g)], g.src)

    by_ids = lambda g: pt.segment_sum(g.src, segment_ids=ids[id(g)], num_segments=len(g.of_bags))  # noqa: E731
    yield Case(f"segment sum by ids, {what}", by_ids, {"index_add": added}, d)


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
Step = Callable[[], Tensor]


def _stepping(module: Any, given: Sequence[Tensor], above: dict[int, Tensor]) -> Step:
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


def _clicking(module: Any, tables: Any, batches: Sequence[Clicks], above: dict[int, list[Tensor]]) -> Step:
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
        forms, is_right = _able(case)
        timed = {name: _waiting(_passes(call, case.data and case.data.varied), device) for name, call in forms.items()}
        if case.data:
            timed[SAME] = _waiting(_passes(case.ours, case.data.same), device)
        times: dict[str, list[float]] = {name: [] for name in timed}
        for _ in range(ATTEMPTS):
            for name, more in interleaved(timed, ROUNDS, patience=2.0).items():
                times[name] += more
            best = min(forms.keys() - {OURS}, key=lambda name: median(times[name]), default=None)
            found = ratio(times[best], times[OURS]) if best else math.inf
            varied = ratio(times[OURS], times[SAME]) if case.data else 1.0
            if is_met := found >= case.asked and varied <= VARYING:
                break
    finally:
        torch.use_deterministic_algorithms(False)
    calls = len(case.data.varied) if case.data else 1
    ours, theirs = (f"{1e3 * median(times[name]) / calls:.3f}" if name else "–" for name in (OURS, best))
    about = [f"{varied:.2f}", f"{VARYING}"] if case.data else ["–", "–"]
    verdict = "WRONG" if not is_right else "met" if is_met else "MISSED"
    return [case.title, ours, theirs, best or "none", f"{found:.2f}", f"{case.asked:.2f}", *about, verdict]


def _passes(call: Any, inputs: Sequence[Input] | None) -> Callable[[], object]:
    """The call with every input, or once if it takes none."""
    return call if inputs is None else in_turn([partial(call, given) for given in inputs])


def _able(case: Case) -> tuple[dict[str, Any], bool]:
    """The calls that PyTorch has a form of, and whether ours gives their results but for rounding."""
    calls, is_right = {OURS: case.ours}, True
    inputs = [(given,) for given in case.data.varied[:6]] if case.data else [()]
    ours = [case.ours(*given).detach().clone().float() for given in inputs]
    for name, call in case.theirs.items():
        try:
            pairs = [(mine, call(*given).detach().clone().float()) for mine, given in zip(ours, inputs, strict=True)]
        except (RuntimeError, NotImplementedError):  # no deterministic form, or none for this type
            continue
        calls[name] = call
        is_right &= all(torch.allclose(a, b, rtol=2e-2, atol=2e-2 * float(b.abs().max())) for a, b in pairs)
    return calls, is_right


def _waiting(call: Callable[[], object], device: str) -> Callable[[], object]:
    if device != "cuda":
        return call

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def table_of(device: str, quick: bool, pattern: str) -> Iterator[list[str]]:
    for case in cases(quick, device):
        if pattern in case.title:
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
        say(_line(["---", "---:", "---:", "---", *["---:"] * 4, "---"]))
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
