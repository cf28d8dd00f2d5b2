"""The examples in the documentation are correct."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
import subprocess
from pathlib import Path
from types import CodeType

import numpy as np
import pytest

import ptokit as pto
from ptokit.spec import clauses
from tests import forked
from tests.cli.shell import ENVIRONMENT, process
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
    "docs/prove.md",
    "docs/machine.md",
    "docs/time.md",
    "docs/sweep.md",
    "docs/report.md",
    "docs/traces.md",
    "docs/text.md",
    "docs/cpp.md",
)
"""The pages whose Python blocks are run; a `text` block right after one is what it prints or raises."""
BLOCK = re.compile(
    r"```python\n(?P<code>.*?)```(?:\n+```(?:text|console\n\$ python \w+\.py)\n(?P<shown>.*?)```)?", re.DOTALL
)
FILE = re.compile(r"```\w+\n(?P<text>(?:#|//) (?P<name>\w+\.\w+)\n.*?)```", re.DOTALL)
"""A block whose first line is the name of a file."""


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


def files_of(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    return {file["name"]: file["text"] for file in FILE.finditer(text_of(page))}


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a file in a process of its own."""
    return forked.run(name, folder, ENVIRONMENT)


def shown_by(done: subprocess.CompletedProcess[str]) -> str:
    """What a process prints; if it raises, its exception too, without the traceback."""
    raised = re.search(r"^\w.*Error: (?:.|\n)*", done.stderr, re.MULTILINE) if done.returncode else None
    lines = (done.stdout + (raised[0] if raised else done.stderr)).splitlines()
    return "\n".join(line.rstrip() for line in lines)


TEXTS = [
    *ROOT.glob("*.md"),
    *(path for part in ("docs", "examples", "benchmarks") for path in (ROOT / part).rglob("*.md")),
]
ALL_PAGES = sorted(path.relative_to(ROOT).as_posix() for path in TEXTS)


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page in ALL_PAGES for name in files_of(page) if name.endswith(".py")]
)
def test_a_file_of_a_page_runs_alone(page: str, name: str, tmp_path: Path) -> None:
    files = files_of(page)
    needed = (other for other in files if re.search(rf'^from {Path(other).stem} import|"{other}"', files[name], re.M))
    for file in (name, *needed):
        (tmp_path / file).write_text(files[file], encoding="utf-8")
    shown = next(block["shown"] for block in BLOCK.finditer(text_of(page)) if block["code"] == files[name])
    done = run(name, tmp_path)
    if shown or page in PAGES:
        assert shown_by(done) == (shown or "").rstrip()
    else:  # sessions of the page, which other tests run, show what it prints
        assert done.returncode == 0, done.stderr
    for command in re.findall(rf"`ptokit (check {name} --fix)`", text_of(page)):
        fixed = process(*command.split(), cwd=tmp_path)
        assert fixed.returncode == 0, fixed.stdout + fixed.stderr
        again = run(name, tmp_path)
        assert again.returncode == 0 and not again.stdout.strip(), again.stdout + again.stderr


def test_the_files_of_pages_are_found() -> None:
    assert {"racy.py", "first.py", "train.py"} <= {name for page in ALL_PAGES for name in files_of(page)}


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


def test_every_package_and_every_file_of_the_guide_is_there() -> None:
    page = text_of("docs/architecture.md")
    for path in (ROOT / "src/ptokit").iterdir():
        if (path / "__init__.py").exists():
            assert f"`{path.name}`" in page, path.name
    for name in re.findall(r"`(\w+/[\w/]+\.py)`", page):
        assert any((ROOT / base / name).exists() for base in ("src/ptokit", "tests", "")), name


@pytest.mark.parametrize(
    "folder",
    [
        *("text/mlir", "text/ptoas", "text/lower", "text/lift", "text/cpp"),
        *("engine/native", "engine/llvm/compute", "engine/native/whole", "engine/native/program", "torch"),
    ],
)
def test_every_file_of_a_folder_stands_in_its_table(folder: str) -> None:
    home = ROOT / "src/ptokit" / folder
    table = (home / "__init__.py").read_text(encoding="utf-8")
    assert {path.name for path in home.glob("[a-z]*.py")} == set(re.findall(r"`(\w+\.py)`", table))


def test_every_example_stands_in_their_page() -> None:
    for path in (ROOT / "examples").glob("[a-z]*.py"):
        assert f"[{path.name}]({path.name})" in text_of("examples/README.md"), path.name
