"""Places of findings are the user's: cells of notebooks, and modules in archives."""

from __future__ import annotations

import linecache
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import Where, shown_file
from ptokit.report.model import report_data

pytestmark = pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")  # of launches with a race
X = np.ones((8, 8), "float32")
HELPER = """\
import ptokit as pto
def load(t, x):
    pto.tload(t, x)
"""
KERNEL = """\
@pto.kernel(mode="manual")
def racy(x, out):
    t = pto.Tile("vec", "float32", 8, 8, addr=0)
    load(t, x)
    pto.tstore(out, t)
"""
NEGATIVE = 'pto.gather(table, ids, oob="clamp")\n'
LAUNCH = 'report = racy[1](x, out, target="a5", engine="machine")\n'
Cell = Callable[[int, str], None]


@pytest.fixture
def names() -> dict[str, Any]:
    ids = np.array([-1], "int32")
    return {"__name__": "__main__", "x": X, "out": X.copy(), "table": X, "ids": ids}


@pytest.fixture(params=["/tmp/ipykernel_31/{}77.py", "<ipython-input-{}-0123456789ab>"])
def cell(request: pytest.FixtureRequest, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Run a cell as IPython does, which a stand-in is for: it knows the cells by the file names of their code."""
    numbers: dict[str, int] = {}
    label = lambda file: ("Cell", f"In[{numbers[file]}]") if file in numbers else None  # noqa: E731
    compiler = SimpleNamespace(format_code_name=label)
    stand_in = ModuleType("IPython")
    stand_in.get_ipython = lambda: SimpleNamespace(compile=compiler)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", stand_in)

    def run(number: int, text: str) -> None:
        file = request.param.format(number)
        numbers[file] = number
        monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
        exec(compile(text, file, "exec"), names)

    return run


def test_findings_name_cells(cell: Cell, names: dict[str, Any]) -> None:
    cell(1, HELPER)
    cell(2, KERNEL)
    cell(3, LAUNCH)
    (finding,) = names["report"].findings
    first, *lines = str(finding).splitlines()
    assert first.startswith("In [2], line 5: error") and first.endswith("(In [1], line 3)")
    assert lines[-1].endswith("called from In [2], line 4")
    assert finding.as_dict()["where"] == "In [2], line 5"
    assert "In [2], line 5" in finding._repr_html_()


def test_a_cell_that_runs_again_has_its_new_number(cell: Cell, names: dict[str, Any]) -> None:
    cell(1, HELPER)
    cell(2, KERNEL)
    cell(3, LAUNCH)
    cell(4, KERNEL)
    cell(5, LAUNCH)
    assert str(names["report"].findings[0].where) == "In [4], line 5"


def test_errors_of_calls_name_cells(cell: Cell) -> None:
    cell(1, HELPER)
    with pytest.raises(pto.OutOfBoundsError, match=r"^In \[2\], line 2: error"):
        cell(2, "\npto.gather(table, [99])\n")


def test_warnings_name_cells_and_show_the_line(cell: Cell) -> None:
    cell(1, HELPER)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cell(2, NEGATIVE)
    (found,) = caught
    shown = warnings.formatwarning(found.message, found.category, found.filename, found.lineno)
    assert shown.startswith("In [2]:1: HazardWarning:") and shown.endswith(f"\n  {NEGATIVE}")


def test_reports_name_cells_and_show_them(cell: Cell, names: dict[str, Any]) -> None:
    cell(1, HELPER)
    cell(2, KERNEL)
    cell(3, LAUNCH)
    made = report_data([names["report"]])
    shown = {each["file"]: (each["language"], each["text"]) for each in made["sources"]}
    assert shown["In [2]"] == ("python", KERNEL.rstrip("\n")) and shown["In [1]"][0] == "python"


def test_places_in_files_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (None, ModuleType("IPython")):
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert str(Where("k.py", 3, 4)) == "k.py:3:4" and shown_file("k.py") == "k.py"


NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
if sys.argv[1] == "ipykernel":
    from ipykernel.compiler import XCachingCompiler
    shell.compile = XCachingCompiler()
for text in sys.argv[2:]:
    shell.run_cell(text, store_history=True).raise_error()
"""


@pytest.mark.parametrize("library", ["IPython", "ipykernel"])
def test_ipython_itself(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    uses = "import numpy as np\nx = np.ones((8, 8), 'float32')\nout = x.copy()\n"
    cells = [HELPER, KERNEL, uses + LAUNCH, "print(report.findings[0])"]
    command = [sys.executable, "-W", "ignore", "-c", NOTEBOOK, library, *cells]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("In [2], line 5: error") and "(In [1], line 3)\n" in done.stdout


def test_a_timed_cell_has_no_source(names: dict[str, Any]) -> None:
    exec(HELPER, names)
    exec(compile(KERNEL, "<timed exec>", "exec"), names)
    with pytest.raises(pto.VerifyError, match=r"no source of a cell with %%time\n    fix: .* without %%time"):
        exec(LAUNCH, names)


def test_kernels_of_a_module_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as archive:
        archive.writestr("zipped.py", HELPER + KERNEL)
    program = """
        import sys
        sys.path.insert(0, "kernels.zip")
        import linecache
        import numpy as np
        from zipped import racy
        x = np.ones((8, 8), "float32")
        linecache.clearcache()
        report = racy[1](x, x.copy(), target="a5", engine="machine")
        print(report.findings[0].where)
    """
    command = [sys.executable, "-W", "ignore", "-c", dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.replace("\\", "/").rstrip().endswith("kernels.zip/zipped.py:8")
