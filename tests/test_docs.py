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

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/kernels.md",
    "docs/arrays.md",
    "docs/ordering.md",
    "docs/machine.md",
    "docs/time.md",
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


def test_the_first_gather_of_the_readme_gathers() -> None:
    names: dict[str, object] = {}
    outcome(next(BLOCK.finditer(text_of("README.md")))["code"], names)
    table = names["table"]
    assert isinstance(table, pto.GlobalTensor)
    assert np.array_equal(names["rows"], table.array[np.minimum(np.arange(16) * 70, 999)])


def test_the_package_docstring_runs() -> None:
    assert doctest.testmod(pto).failed == 0


def test_the_refusal_of_the_readme_is_what_a_user_sees() -> None:
    table, dst = pto.GlobalTensor(np.zeros((10, 64), "float32")), pto.Tile("vec", "float32", 16, 64)
    idx = pto.Tile("vec", "int32", 16, 1).write(0)
    with pto.target("a2a3"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    assert str(refusal.value).replace(str(refusal.value.findings[0].where), "<stdin>:2") in text_of("README.md")


def test_every_public_call_is_in_the_readme() -> None:
    for name in (
        *("mgather", "mscatter", "tscatter", "tload", "tstore", "tmov", "tassign"),
        *("Tile", "GlobalTensor", "dyn", "kernel", "block_idx", "block_num", "range", "when", "otherwise"),
        *("load_scalar", "min", "max", "cdiv", "set_flag", "wait_flag", "barrier", "check", "show"),
    ):
        assert re.search(rf"`[^`\n]*\b{name}\(", text_of("README.md")), name


def test_every_clause_of_the_kernel_language_stands_in_its_page() -> None:
    for rule in clauses():
        assert not rule.startswith("KN-") or rule in text_of("docs/kernels.md"), rule


def test_every_file_stands_in_the_architecture() -> None:
    page = text_of("docs/architecture.md")
    for package in ("program", "engine", "text", "cxx", "lang", "cli"):
        for path in (ROOT / "src/ptokit" / package).glob("[a-z]*.py"):
            assert re.search(rf"`(?:\w+/)?{path.name}`", page), path.name


@pytest.mark.parametrize(
    "folder",
    [
        *("text/mlir", "text/ptoas", "text/lower", "text/lift", "text/cpp"),
        *("engine/native", "engine/llvm/compute", "engine/native/whole", "engine/native/program"),
    ],
)
def test_every_file_of_a_folder_stands_in_its_table(folder: str) -> None:
    home = ROOT / "src/ptokit" / folder
    table = (home / "__init__.py").read_text(encoding="utf-8")
    assert {path.name for path in home.glob("[a-z]*.py")} == set(re.findall(r"`(\w+\.py)`", table))


def test_every_example_stands_in_their_page() -> None:
    for path in (ROOT / "examples").glob("[a-z]*.py"):
        assert f"[{path.name}]({path.name})" in text_of("examples/README.md"), path.name
