"""Imports go one way between packages, and importing ptokit loads little."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import ptokit
from tests.sources import SOURCE, parsed

LAYERS = {
    "_version": 0, "atomic": 0, "brief": 0, "cache": 0, "finding": 0, "garbage": 0, "lines": 0, "markup": 0,
    "progress": 0,
    "spec": 0, "isa": 1, "target": 2,
    "program": 3, "engine": 4, "text": 4, "cxx": 4, "machine": 5, "witness": 5, "engines": 6, "proof": 6,
    "report": 6, "lang": 7,
    "conformance": 8, "ops": 8, "sharded": 8, "sweeps": 8, "traces": 8, "ptokit": 9, "torch": 10, "render": 10,
    "demo": 11, "testing": 11, "cli": 12,
    "__main__": 13,
}  # fmt: skip
"""The layer of each package: a package imports from its own layer and below. `ptokit` is `ptokit/__init__.py`."""


def imported(path: Path) -> set[str]:
    """Packages that a file imports from, or names in a string such as "ptokit.package.module:attribute"."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "ptokit" else [f"ptokit.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = re.findall(r"ptokit\.[\w.]+(?=:\w)", node.value)
        found |= {name.removeprefix("ptokit.").split(".")[0] for name in names if name.split(".")[0] == "ptokit"}
    return found


def package_of(path: Path) -> str:
    """The key of a file in `LAYERS`."""
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "ptokit" if name == "__init__" else name


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("import ptokit", "ptokit"),
        ("def f():\n    import ptokit as pto", "ptokit"),
        ("import ptokit.lang.tile", "lang"),
        ("from ptokit import spec", "spec"),
        ("from ptokit.isa.move import Move", "isa"),
        ("LATER = 'ptokit.machine.executable:MachineExecutable'", "machine"),
    ],
)
def test_what_is_imported_is_seen(text: str, package: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(text, encoding="utf-8")
    assert imported(tmp_path / "file.py") == {package}


def test_imports_go_one_way() -> None:
    for path in SOURCE.rglob("*.py"):
        package = package_of(path)
        for other in imported(path):
            assert other in LAYERS, f"{path.name} imports {other}, which has no layer"
            assert LAYERS[other] <= LAYERS[package], f"{path.relative_to(SOURCE)} must not import {other}"


def test_modules_do_not_import_in_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("ptokit", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        tree = parsed(path)
        found = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module and n.level == 0]
        graph[name] = {other for n in found for other in (n.module, *(f"{n.module}.{part.name}" for part in n.names))}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"cycle: {' > '.join((*trail, name))}"
        if name in done or name not in graph:
            return
        for other in graph[name]:
            if other != "ptokit":
                visit(other, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_engines_share_llvm_only() -> None:
    """The CPU's engine and that of GPUs stand side by side on `engine/llvm`, which knows neither."""
    forbidden = {"llvm": ("native", "cuda"), "native": ("cuda",), "cuda": ("native",)}
    for name, others in forbidden.items():
        for path in (SOURCE / "engine" / name).rglob("*.py"):
            for node in ast.walk(parsed(path)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
                if isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{each}" for each in names]
                for other in others:
                    package = f"ptokit.engine.{other}"
                    assert not any(f"{each}.".startswith(f"{package}.") for each in names), f"{path} imports {package}"


def modules_after(code: str) -> set[str]:
    """Top-level modules loaded by a fresh interpreter that runs `code`."""
    report = f"import sys; {code}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_ptokit_loads_numpy_and_ml_dtypes_only() -> None:
    loaded = modules_after("import ptokit") - modules_after("pass")
    assert {name for name in loaded if name not in sys.stdlib_module_names} == {"ptokit", "numpy", "ml_dtypes"}


def test_every_public_name_is_documented() -> None:
    for name in ptokit.__all__:
        assert getattr(ptokit, name).__doc__, name


def test_no_two_classes_share_a_name() -> None:
    files = {path: ast.walk(parsed(path)) for path in SOURCE.rglob("*.py")}
    found = [
        (node.name, path.name) for path, nodes in files.items() for node in nodes if isinstance(node, ast.ClassDef)
    ]
    times = Counter(name for name, _ in found)
    assert [each for each in found if times[each[0]] > 1] == []
