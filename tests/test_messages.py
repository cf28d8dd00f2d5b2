"""Messages are bounded: whatever is passed to a public function, an error is short, and a value is on one line."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import tracemalloc
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.brief import ITEMS, LONGEST, MOST, brief, elided, named
from ptokit.finding import Finding, VerifyError, Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.machine.report import MachineOptions
from ptokit.traces import generate, moe_routing, paged_kv, replay, zipf
from tests.cli.shell import ptokit_
from tests.loops import FULL
from tests.sources import SOURCE, parsed

BOUND = 2 * LONGEST + 100
"""Characters of an error: a message, its fix, and a place."""
HUGE, MANY = 100_000, 20_000


class Raising:
    """Everything that may be asked of it for a message raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __format__ = __repr__  # type: ignore[assignment]


class Long:
    """Its text is long, and takes long to make."""

    made = 0

    def __repr__(self) -> str:
        Long.made += 1
        return "x\n" * HUGE


class ListOfMany(list[int]):
    """A list with a text of its own."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class LongText(str):
    def __repr__(self) -> str:
        return "y" * HUGE

    __str__ = __repr__


Named = type("N" * HUGE, (), {})
Choice: Any = Enum("Choice", {"C" * HUGE: 1})
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
LOOP: list[Any] = []
LOOP.append(LOOP)

VALUES: dict[str, Any] = {
    "list": list(range(MANY)),
    "floats": [0.5] * MANY,
    "tuple": (7,) * MANY,
    "set": set(range(MANY)),
    "dict": {f"key{k}": k for k in range(MANY)},
    "deque": deque(range(MANY)),
    "text": "a" * HUGE,
    "lines": "a\nb\x00\x1b[31m" * MANY,
    "bytes": b"\xff" * HUGE,
    "integer": 1 << HUGE,
    "negative": -(1 << HUGE),
    "range": range(-(1 << HUGE), 1 << HUGE),
    "slice": slice("b" * HUGE, [1] * MANY),
    "array": np.zeros((1000, 1000)),
    "objects": np.array([Long()] * 10, object),
    "words": np.array(["w" * MANY] * 3),
    "many dims": np.zeros((1,) * 30, "float32"),
    "raising": Raising(),
    "long": Long(),
    "own list": ListOfMany(range(MANY)),
    "own text": LongText("float32"),
    "named": Named(),
    "class": Named,
    "member": next(iter(Choice)),
    "deep": DEEP,
    "loop": LOOP,
    "partial": partial(id, *range(MANY)),
    "keys": dict.fromkeys(range(MANY)).keys(),
    "method": [Long()].append,
    "path": Path("p" * HUGE),
    "names": SimpleNamespace(**{"n" * HUGE: Long()}),
}
TABLE = np.arange(24, dtype="float32").reshape(6, 4)
IDS = np.array([1, 2])


def problem_of(call: Callable[[], object]) -> str | None:
    """The whole text of an error; None if there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call()
    except Exception as problem:
        return "\n".join([str(problem), *getattr(problem, "__notes__", ())])
    return None


# --- The function that shows a value


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_short_and_on_one_line(kind: str) -> None:
    value, before = VALUES[kind], Long.made
    tracemalloc.start()
    try:
        for given in (value, [value], {"k": (value, value)}, {1: {2: value}}, slice(value)):
            shown = brief(given)
            assert 0 < len(shown) <= MOST and shown.isprintable()
        assert tracemalloc.get_traced_memory()[1] < HUGE or kind in ("named", "class", "member", "path")
    finally:
        tracemalloc.stop()
    assert Long.made == before  # the work is bounded


@pytest.mark.parametrize("value", [
    None, True, 1, -(1 << 80), 0.5, float("nan"), 2j, "a", "it's", 'a"b', "a\nb", b"\x00", bytearray(b"x"), [], (), {},
    set(), frozenset(), frozenset({1}), [1, "a"], (1,), (1, 2), {1: "a"}, {3}, deque([1]), [[1], (2, {3: [4]})],
    slice(1), slice(1, 2, None), range(1, 5, 2), np.float32(1.5), np.int64(3), np.dtype("int8"), len, int, os,
    np.array([1, 2]), PurePath("a/b"),
])  # fmt: skip
def test_small_values_are_shown_as_python_shows_them(value: Any) -> None:
    assert brief(value) == repr(value)


def test_long_values_keep_their_start() -> None:
    assert brief(list(range(1000))) == f"[{', '.join(map(str, range(ITEMS)))}, ...]"
    assert brief("a" * 1000).startswith("'aaaa") and brief("a" * 1000).endswith("...'")
    assert brief(1 << 1000) == "<an integer of 1,001 bits>"
    assert brief(np.zeros((40, 50))) == "<array of float64 (40, 50)>"
    assert brief(Long()) == "<Long object>"
    assert brief([[[[[1]]]]]) == "[[[[[...]]]]]"
    assert named("n" * 1000).startswith("nnn") and "..." in named("n" * 1000)
    assert named("a\x1bb") == r"a\x1bb"


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 5000])
def test_an_elided_text_has_its_ends(length: int) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(length))
    found = elided(text, 100)
    head, _, tail = found.partition("...")
    assert len(found) == min(length, 100) and text.startswith(head) and (text.endswith(tail) or found == text)


def test_findings_and_their_errors_are_bounded() -> None:
    long = "m" * HUGE
    finding = Finding("error", "KN-01", long, operand=long, expected=long, found=long, fix=long, where=Where("f.py", 1))
    assert len(str(finding)) <= BOUND
    many = VerifyError([Finding("error", "KN-01", "short")] * 5000)
    assert len(many.findings) == 5000 and len(str(many)) < BOUND and "and 4,980 more findings" in str(many)


QUOTED = {
    "clipped(self.source, 80)", "str(c.values[b].dtype)", "str(c.dst.dtype)", "REFERENCE", "MACHINE", "__name__",
    "step.index.remap.name.lower()", "str(self)", "self.name", "param.dtype.name", "param.name",
}  # fmt: skip
"""What is written with quotes: names of ptokit's own, and those in a `repr`."""
IR = ("engine/llvm", "engine/cuda", "engine/native")
"""Packages that write code, in which `!r` is a value with its type."""


def test_messages_show_values_by_one_function() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix().startswith(IR):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FormattedValue) and node.conversion == ord("r"):
                assert ast.unparse(node.value) in QUOTED, f"{path.name}: write brief({ast.unparse(node.value)})"


# --- Public calls


@pto.kernel
def copied(out, table, rows: pto.const = 2):
    tile = pto.Tile("vec", "float32", rows, 8)
    pto.tload(tile, table[0:rows])
    pto.tstore(out[0:rows], tile)


def tile() -> pto.Tile:
    return pto.Tile("vec", "float32", 8, 8)


def operands() -> tuple[Any, ...]:
    return np.zeros((8, 8), "float32"), np.zeros((8, 8), "float32")


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "gather": (pto.gather, {"table": TABLE, "indices": IDS}),
    "scatter": (pto.scatter, {"table": TABLE.copy(), "src": 1.0, "indices": IDS}),
    "gather_along": (pto.gather_along, {"table": TABLE, "indices": np.zeros((1, 4), int)}),
    "scatter_along": (pto.scatter_along, {"table": TABLE.copy(), "src": 1.0, "indices": np.zeros((1, 4), int)}),
    "gather_nd": (pto.gather_nd, {"table": TABLE, "indices": np.zeros((1, 1), int)}),
    "scatter_nd": (pto.scatter_nd, {"table": TABLE.copy(), "src": 1.0, "indices": np.zeros((1, 1), int)}),
    "Tile": (pto.Tile, {"loc": "vec", "dtype": "float32", "rows": 8, "cols": 8, "addr": None}),
    "Tile.write": (lambda values: tile().write(values), {"values": np.zeros((8, 8), "float32")}),
    "Tile[]": (lambda rows, cols: tile()[rows, cols], {"rows": slice(2), "cols": slice(2)}),
    "GlobalTensor": (pto.GlobalTensor, {"array": TABLE, "shape": None, "stride": None, "layout": None, "dtype": None}),
    "GlobalTensor[]": (lambda part: pto.GlobalTensor(TABLE)[part], {"part": slice(2)}),
    "dtype": (pto.dtype, {"value": "float32"}),
    "dyn": (pto.dyn, {"n": 8}),
    "target": (pto.target, {"name": "cpu", "header": False, "strict": False, "dyn_ub": None}),
    "kernel": (pto.kernel, {"function": copied.function if hasattr(copied, "function") else len}),
    "launch": (lambda grid, **given: copied[grid](*operands(), **given), {
        "grid": 1, "rows": 2, "target": None, "engine": "reference", "threads": None, "strict": None, "header": None,
        "dyn_ub": None, "launch": "standard", "options": None, "debug": False,
    }),
    "arguments": (lambda out, table: copied[1](out, table), {"out": operands()[0], "table": operands()[1]}),
    "check": (lambda kernel, out, **given: pto.check(kernel, out, TABLE, **given), {
        "kernel": copied, "out": operands()[0], "grid": 1, "target": "cpu",
    }),
    "show": (lambda kernel, **given: pto.show(kernel, *operands(), **given), {"kernel": copied, "target": "cpu"}),
    "load": (pto.load, {"path": "missing.pto"}),
    "sweep": (lambda kernel, **given: pto.sweep(kernel, **given), {
        "kernel": copied, "params": {"rows": [2]}, "grid": 1,
    }),
    "MachineOptions": (MachineOptions, {
        name: value.default for name, value in inspect.signature(MachineOptions).parameters.items()
    }),
    "set_flag": (pto.set_flag, {"src": "MTE2", "dst": "V", "id": 0}),
    "barrier": (pto.barrier, {"pipe": "ALL"}),
    "range": (pto.range, {"stop": 4}),
    "cdiv": (pto.cdiv, {"a": 4, "b": 2}),
    "min": (pto.min, {"a": 4, "b": 2}),
    "cases": (pto.cases, {"function": len}),
    "record_indices": (lambda **given: pto.record_indices(**given).__enter__(), {
        "limit": -1, "most_bytes": -1, "sample": -1, "seed": -1,
    }),
    "IndexTrace.load": (pto.IndexTrace.load, {"path": "missing.npz"}),
    "generate": (generate, {"text": "zipf:rows=-1"}),
    "zipf": (zipf, {"rows": -1, "lanes": 2, "calls": 1}),
    "moe_routing": (moe_routing, {"tokens": -1}),
    "paged_kv": (paged_kv, {"sequences": -1}),
    "replay": (replay, {"trace": None, "engine": "none", "targets": "a5"}),
    "ShardedTable.create": (pto.ShardedTable.create, {"array": TABLE, "shards": -1, "by": "none", "timeout": -1}),
    "ShardedTable.from_file": (pto.ShardedTable.from_file, {"path": "missing.npy", "shards": -1}),
    "ShardedTable.from_checkpoint": (pto.ShardedTable.from_checkpoint, {"path": "missing", "shards": -1}),
}  # fmt: skip
"""Public functions with arguments that are right, or wrong where a right one would start processes or files."""


def arguments() -> Iterator[tuple[str, str]]:
    for name, (_, given) in CALLS.items():
        for argument in (*given, "another"):
            yield name, argument


@pytest.mark.parametrize(("name", "argument"), [*arguments()])
@pytest.mark.filterwarnings("ignore")
def test_errors_of_public_calls_are_bounded(name: str, argument: str) -> None:
    """Every argument is replaced by each of the values, and one is added."""
    function, given = CALLS[name]
    for kind, value in VALUES.items():
        text = problem_of(lambda: function(**(given | {argument: value})))  # noqa: B023  (called at once)
        assert text is None or len(text) <= BOUND, f"{kind}: {len(text):,} characters: {text[:300]}"


@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_", "embedding_bag", "segment_reduce", "EmbeddingBag"])
@pytest.mark.filterwarnings("ignore")
def test_errors_of_torch_operators_are_bounded(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    import ptokit.torch as pt

    table, ids = torch.zeros(6, 4), torch.tensor([1, 2])
    given: dict[str, Any] = {
        "gather": {"table": table, "indices": ids},
        "scatter": {"table": table, "src": 1.0, "indices": ids},
        "scatter_": {"table": table, "src": 1.0, "indices": ids},
        "embedding_bag": {"input": ids, "weight": table, "offsets": torch.tensor([0])},
        "segment_reduce": {"data": table, "lengths": torch.tensor([6])},
        "EmbeddingBag": {"num_embeddings": 6, "embedding_dim": 4},
    }[name]
    function: Any = getattr(pt, name)
    names = inspect.signature(function).parameters
    for argument in [each for each in names if each not in ("kwargs", "args")] + ["another"]:
        for kind, value in VALUES.items():
            text = problem_of(lambda: function(**(given | {argument: value})))  # noqa: B023
            is_of_torch = text is not None and text.startswith("Could not infer dtype of")
            shown = f"{argument}, {kind}: {(text or '')[:300]}"
            assert text is None or len(text) <= BOUND or is_of_torch, shown


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_errors_of_instructions_are_bounded(name: str) -> None:
    function = getattr(pto, name)
    count = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
    for turn, (kind, value) in enumerate(VALUES.items()):
        for at in range(count) if FULL else [*range(count)][turn % max(1, count) :][:1]:
            given = [tile() for _ in range(count)]
            given[at] = value
            text = problem_of(lambda: function(*given))  # noqa: B023
            assert text is None or len(text) <= BOUND, f"{kind}: {len(text):,} characters: {text[:300]}"
        for word in [p.name for p in inspect.signature(function).parameters.values() if p.default is not p.empty]:
            text = problem_of(lambda: function(*[tile() for _ in range(count)], **{word: value}))  # noqa: B023
            assert text is None or len(text) <= BOUND, f"{word}, {kind}: {len(text):,} characters: {text[:300]}"


def test_errors_of_names_are_bounded() -> None:
    for owner in (pto, pto.instructions):
        text = problem_of(lambda: getattr(owner, "n" * HUGE))  # noqa: B023
        assert text is not None and len(text) <= BOUND


# --- Names in kernels, texts and commands

LONG_NAME = "n" * 20_000

KERNEL = """
import numpy as np, ptokit as pto

@pto.kernel(mode="manual")
def {name}(out, table):
    {name} = pto.Tile("vec", "float32", 8, 8, addr=0x1004)
    {name}2 = pto.Tile("vec", "float32", 8, 8, addr=0x1004)
    pto.tload({name}, table[0:8])
    pto.tadd({name}2, {name}, {name})
    pto.tstore(out[0:8], {name}2)
"""


def test_findings_on_long_names_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text(KERNEL.format(name=LONG_NAME), encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = scope[LONG_NAME][1](*operands(), engine="machine", target="a5")
    assert len(report.findings) > 1 and all(len(str(finding)) <= BOUND for finding in report.findings)


@pytest.mark.parametrize("text", [
    f"%{LONG_NAME} = pto.{LONG_NAME} %a : i32\n", f'"pto.{LONG_NAME}"() : () -> ()\n', f"func.func @{LONG_NAME}(",
    f"func.func @f(%a: !pto.{LONG_NAME}) {{ return }}\n", "%" * 20_000, f"#{LONG_NAME} = {LONG_NAME}\n",
])  # fmt: skip
@pytest.mark.parametrize("ending", ["pto", "ptoas"])
def test_errors_of_texts_are_bounded(text: str, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"long.{ending}"
    file.write_text(text, encoding="utf-8")
    found = problem_of(lambda: pto.load(file))
    assert found is not None
    assert all(len(line) <= LONGEST + len(str(file)) + 20 for line in found.splitlines()) and len(found) < 10 * BOUND


HEAD = 'extern "C" __global__ __aicore__ void'


@pytest.mark.parametrize("text", [
    f"#include <{LONG_NAME}.hpp>\n{HEAD} k(__gm__ float *a) {{}}\n", f"{HEAD} k(__gm__ {LONG_NAME} *a) {{}}\n",
    f"{HEAD} k(__gm__ float *a) {{ {LONG_NAME} x; }}\n",
])  # fmt: skip
def test_errors_of_cpp_kernels_are_bounded_findings(text: str, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(f"#include <pto/pto-inst.hpp>\n{text}", encoding="utf-8")
    with pytest.raises(VerifyError) as problem:
        pto.check(pto.load(tmp_path / "k.cpp"), np.zeros(8, "float32"), grid=1, target="a2a3")
    assert len(str(problem.value)) <= 3 * BOUND and all(len(str(each)) <= BOUND for each in problem.value.findings)


@pytest.mark.parametrize("words", [
    ["{}"], ["check", "{}.py"], ["check", "--target", "{}", "x.py"], ["run", "x.py", "--{}"], ["explain", "{}"],
    ["convert", "{}.pto", "--to", "{}"], ["sweep", "x.py", "--param", "{}"], ["trace-indices", "--generate", "{}"],
])  # fmt: skip
def test_errors_of_commands_are_bounded(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.py").write_text("import ptokit as pto\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = ptokit_(*(word.format(*[LONG_NAME] * 2) for word in words))
    assert done.exit_code and len(done.stderr) <= 3 * BOUND, done.stderr[:1000]


@pytest.mark.parametrize("variable", ["PTOKIT_ENGINE", "PTOKIT_THREADS", "PTOKIT_CACHE", "PTOKIT_CXX"])
def test_errors_of_variables_are_bounded(variable: str, tmp_path: Path) -> None:
    program = "import numpy as np, ptokit as pto; pto.gather(np.zeros((600000, 4)), np.arange(600000))"
    environment = os.environ | {variable: LONG_NAME}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert len(done.stderr) <= 2 * BOUND, done.stderr[:1000]
