"""Every public module works in a process that has imported nothing else, and no module fills a table of another."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.sources import SOURCE, parsed

TEXT = """\
module {
  func.func @copy(%x: !pto.ptr<f32>) {
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %v = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf32>
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf32> -> \
!pto.partition_tensor_view<16x16xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 16x16xf32>
    pto.tload ins(%p : !pto.partition_tensor_view<16x16xf32>) outs(%t : !pto.tile_buf<vec, 16x16xf32>)
    return
  }
}
"""
KERNEL = """\
import numpy as np, ptokit as pto
@pto.kernel
def copy(x, out):
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tstore(out, t)
x = np.arange(64, dtype="float32").reshape(8, 8)
out = np.zeros_like(x)
"""
PROGRAM = "from ptokit.text.forms import read_program\np = read_program(open('k.pto').read(), 'k.pto')\n"
USES = {
    "a notebook shows a loaded program": """
import ptokit as pto
assert 'tload' in pto.load('k.pto').program._repr_html_()""",
    "a notebook shows a program": PROGRAM + "assert 'tload' in p._repr_html_()",
    "a notebook shows a traced program": KERNEL + """
assert 'tload' in copy[1](x, out, target='a5', engine='machine').program._repr_html_()""",
    "a notebook shows a tile": "import ptokit as pto\nassert '8' in pto.Tile('vec', 'float32', 8, 8)._repr_html_()",
    "a launch": KERNEL + "copy[1](x, out)\nassert (x == out).all()",
    "pto.check": KERNEL + "assert pto.check(copy, x, out).ok",
    "pto.sweep": KERNEL + """
assert pto.sweep(copy, x, out, params={'n': [1, 2]}, grid=lambda p: 1).best""",
    "pto.gather": "import ptokit as pto, numpy as np\nassert pto.gather(np.arange(9), np.array([3])).tolist() == [3]",
    "pto.record_indices": """
import ptokit as pto, numpy as np
with pto.record_indices() as trace: pto.gather(np.ones((8, 4)), np.array([3]))
assert sum(call.indices.size for call in trace.calls) == 1""",
    "ptokit.traces": """
from ptokit import traces
trace = traces.zipf(rows=64, lanes=32)
assert traces.replay(trace).rows""",
    "ptokit.text.forms": PROGRAM + """
from ptokit.text.forms import FORMS, convert, format_text, print_program
assert all(print_program(p, form) for form in FORMS)
assert format_text(open('k.pto').read(), 'k.pto')""",
    "ptokit.text.cpp": PROGRAM + """
from ptokit.target import profile
from ptokit.text.cpp import emit
assert 'TLOAD' in emit(p, profile('a5'))""",
    "ptokit.program.verify": PROGRAM + """
from ptokit.program.verify import verify
from ptokit.target import profile
assert not [each for each in verify(p, profile('a5')) if each.level == 'error']""",
    "ptokit.isa.table": "from ptokit.isa.table import PLAIN, revision_of\nassert revision_of('cpu@aicore') != PLAIN",
    "ptokit.spec": "from ptokit import spec\nassert spec.clauses() and spec.hazards() and spec.examples()",
    "ptokit.render.pages": "from ptokit.render.pages import instruction_page\nassert instruction_page('mgather')",
    "ptokit.report": KERNEL + """
copy[1](x, out, target='a5', engine='machine').to_html('page.html')
assert 'tload' in open('page.html').read()""",
    "ptokit.testing": KERNEL + """
from ptokit.testing import MachineFixture
MachineFixture().check(copy, 1, x, out)""",
    "ptokit.cli": """
import sys
from ptokit.cli import main
sys.argv = ['ptokit', 'check', 'k.pto', '--target', 'a5']
try: main()
except SystemExit as end: assert not end.code""",
}  # fmt: skip
"""Uses of public modules, each of which is a whole program."""


@pytest.mark.parametrize("use", USES)
def test_a_use_needs_no_other_import(use: str, tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text(TEXT, encoding="utf-8")
    (tmp_path / "use.py").write_text(USES[use], encoding="utf-8")
    command = [forked.python("numpy", "ml_dtypes"), "use.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CHANGES = ("append", "add", "update", "setdefault", "extend", "insert", "pop", "clear")


def changed_at_import(tree: ast.Module) -> Iterator[ast.expr]:
    """What statements of a module change outside of functions and classes."""
    for stmt in tree.body:
        if isinstance(stmt, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(stmt):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                yield node.func.value
            elif isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (each for each in targets if isinstance(each, ast.Attribute | ast.Subscript))


def root(node: ast.expr) -> str:
    """The name that an expression starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def fills(tree: ast.Module) -> list[str]:
    """Names that a module imports from ptokit and changes while it is imported."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import)]
    own = {
        (alias.asname or alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
        if (node.module if isinstance(node, ast.ImportFrom) else alias.name or "").startswith("ptokit")
    }
    return [name for name in map(root, changed_at_import(tree)) if name in own]


@pytest.mark.parametrize(
    "text", ["ir.LISTINGS.append(show)", "ir.LISTINGS += [show]", "ir.TABLE['show'] = show", "ir.show = show"]
)
def test_what_fills_a_table_of_another_module_is_seen(text: str) -> None:
    assert fills(ast.parse(f"from ptokit.program import ir\n{text}")) == ["ir"]


def test_no_module_fills_a_table_of_another() -> None:
    assert {path: found for path in SOURCE.rglob("*.py") if (found := fills(parsed(path)))} == {}
