"""The examples in the documentation are correct."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
from pathlib import Path
from types import CodeType

import numpy as np
import pytest

import ptokit as pto
from ptokit.spec import clauses
from tests.pictures import latest_on_gpu, rows_of

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/findings.md",
    "docs/model.md",
    "docs/add-an-instruction.md",
    "docs/kernels.md",
    "docs/arrays.md",
    "docs/ordering.md",
    "docs/machine.md",
    "docs/time.md",
    "docs/sweep.md",
    "docs/report.md",
    "docs/traces.md",
    "docs/text.md",
    "docs/cpp.md",
)
"""The pages whose Python blocks are run; a `text` block right after one is what it prints or raises."""
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n+```text\n(?P<shown>.*?)```)?", re.DOTALL)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def compiled(code: str) -> CodeType:
    """A block as a separate file, which its first line may name; `inspect` finds its lines."""
    named = re.match(r"# (\w+\.py)\n", code)
    file = named[1] if named else "example.py"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    return compile(code, file, "exec")


def outcome(code: str, names: dict[str, object]) -> str:
    """What a block prints; if it raises, its exception too."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compiled(code), names)
        except Exception as error:
            print(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_does_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCK.finditer(text_of(page)):
        assert outcome(block["code"], names) == (block["shown"] or "").rstrip()


def test_the_kernel_of_the_readme_gathers() -> None:
    names: dict[str, object] = {}
    outcome(next(BLOCK.finditer(text_of("README.md")))["code"], names)
    table, tokens, out = (names[name] for name in ("table", "tokens", "out"))
    assert isinstance(table, np.ndarray) and table.shape == (1000, 64)
    assert np.array_equal(out, table[tokens])


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= 150


RATIOS = {
    "gather rows of 128 B": ("gather 128 B rows", "row gather 128 B"),
    "gather rows of 4 KB": ("gather 4 KB rows", "row gather 4096 B"),
    "gather elements": ("gather elements", "element gather"),
    "store rows of 1 KB, random": ("store 1 KB rows, random / unique", "row store, last writer"),
    "add rows, float32": ("add 1 KB rows, float32", "row add, any order, float32"),
}
"""Cases of the README, of the table for CPUs and of that for GPUs."""


def test_the_ratios_of_the_readme_are_those_of_the_benchmarks() -> None:
    found = {row[0]: row[1:] for row in rows_of(text_of("README.md"), "case")}
    cpu = {row[0]: row for row in rows_of(text_of("benchmarks/README.md"), "case")}
    gpu = {row[0]: row for row in rows_of(latest_on_gpu().read_text(encoding="utf-8"), "case")}
    assert set(found) == set(RATIOS)
    for name, (on_cpu, on_gpu) in RATIOS.items():
        ratios = [re.search(r"[\d.]+(?= x)", cpu[on_cpu][column]) for column in (2, 4)]
        rates = [f"{float(gpu[on_gpu][column]):.2f}" for column in (1, 4)]
        assert found[name] == [" / ".join(ratio[0] for ratio in ratios if ratio), " / ".join(rates)], name


def test_the_package_docstring_runs() -> None:
    assert doctest.testmod(pto).failed == 0


def test_every_public_call_is_in_the_table_of_calls() -> None:
    for name in (
        *("mgather", "mscatter", "tscatter", "tload", "tstore", "tmov", "tassign"),
        *("Tile", "GlobalTensor", "dyn", "kernel", "block_idx", "block_num", "range", "when", "otherwise"),
        *("load_scalar", "min", "max", "cdiv", "set_flag", "wait_flag", "barrier", "check", "show"),
    ):
        assert re.search(rf"`[^`\n]*\b{name}\(", text_of("docs/calls.md")), name


def test_every_clause_of_the_kernel_language_stands_in_its_page() -> None:
    for rule in clauses():
        assert not rule.startswith("KN-") or rule in text_of("docs/kernels.md"), rule


def test_every_file_stands_in_the_architecture() -> None:
    page = text_of("docs/architecture.md")
    for package in ("program", "engine", "text", "cxx", "lang", "report", "cli", "render"):
        for path in (ROOT / "src/ptokit" / package).glob("[a-z]*.py"):
            assert re.search(rf"`(?:\w+/)?{path.name}`", page), path.name


@pytest.mark.parametrize(
    "folder",
    [
        *("text/mlir", "text/ptoas", "text/lower", "text/lift", "text/cpp"),
        *("engine/native", "engine/llvm/compute", "engine/native/whole", "engine/native/program", "torch"),
        "cli/commands",
    ],
)
def test_every_file_of_a_folder_stands_in_its_table(folder: str) -> None:
    home = ROOT / "src/ptokit" / folder
    table = (home / "__init__.py").read_text(encoding="utf-8")
    assert {path.name for path in home.glob("[a-z]*.py")} == set(re.findall(r"`(\w+\.py)`", table))


def test_every_example_stands_in_their_page() -> None:
    for path in (ROOT / "examples").glob("[a-z]*.py"):
        assert f"[{path.name}]({path.name})" in text_of("examples/README.md"), path.name
