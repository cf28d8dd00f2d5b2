"""Imports go one way between packages, and importing ptokit loads little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ptokit

SOURCE = Path(ptokit.__file__).parent
LAYERS = {
    "finding": 0, "spec": 0, "isa": 1, "target": 2, "program": 3, "engine": 4, "text": 4, "machine": 5, "lang": 6,
    "ops": 7, "render": 8, "demo": 9, "testing": 9, "cli": 10,
}  # fmt: skip
"""The layer of each package: a package imports from its own layer and below."""
TOP = ("__init__", "__main__")


def imported(path: Path) -> set[str]:
    """Packages that a file imports from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "ptokit" else [f"ptokit.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("ptokit.")}
    return found


def test_imports_go_one_way() -> None:
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if package in TOP:
            continue
        for other in imported(path):
            assert other in LAYERS, f"{path.name} imports {other}, which has no layer"
            assert LAYERS[other] <= LAYERS[package], f"{path.relative_to(SOURCE)} must not import {other}"


def test_modules_do_not_import_in_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(("ptokit", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
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
