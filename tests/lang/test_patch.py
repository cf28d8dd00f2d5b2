"""Repairs in the Python source of a kernel: where they go, what stays, and what is refused."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import sys
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.patch import with_text
from ptokit.lang.source import tree_of
from ptokit.lines import line_of

HEAD = "import numpy as np\nimport ptokit as pto\n\n\n"


def module_of(path: Path, text: str, encoding: str = "utf-8") -> ModuleType:
    """A module of a text, with its line ends."""
    path.write_bytes(text.encode(encoding))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    linecache.clearcache()
    spec.loader.exec_module(module)
    return module


def launch(kernel: Any, **more: Any) -> Any:
    """Launch a kernel of `x` and `out` on the machine."""
    x, out = np.arange(1024, dtype="float32").reshape(64, 16), np.zeros((64, 16), "float32")
    return kernel[1](x=x, out=out, **more, target="a5", engine="machine")


def repaired(path: Path, text: str, name: str = "k", encoding: str = "utf-8", **more: Any) -> str:
    """The text of a module after the repair of its kernel, which a fresh import finds clean."""
    (repair,) = launch(getattr(module_of(path, text, encoding), name), **more).repairs
    assert not repair.patch.refusal, f"{repair.patch.refusal}\n{repair}"
    (after,) = repair.patch.after.values()
    report = launch(getattr(module_of(path, after, encoding), name), **more)
    assert report.ok, report
    return after


def kernel(body: str, parameters: str = "x, out", before: str = "") -> str:
    """The text of a module with one kernel."""
    lines = indent(dedent(body).strip("\n"), "    ")
    return f'{HEAD}{dedent(before)}@pto.kernel(mode="manual")\ndef k({parameters}):\n{lines}\n'


COPY = """
tile = pto.Tile("vec", "float32", 8, 16, addr=0)
pto.tload(tile, x[0:8])  # in
pto.tstore(out[0:8], tile)  # out
"""
LOOP = """
tile = pto.Tile("vec", "float32", 8, 16, addr=0)
for i in pto.range(8):
    pto.tload(tile, x[i * 8 : i * 8 + 8])
    pto.tstore(out[i * 8 : i * 8 + 8], tile)
"""
SET, WAIT = 'pto.set_flag("MTE2", "MTE3", 0)', 'pto.wait_flag("MTE2", "MTE3", 0)'


def test_lines_are_inserted_and_everything_else_stays(tmp_path: Path) -> None:
    text = kernel(COPY)
    after = repaired(tmp_path / "plain.py", text)
    lines = after.splitlines()
    at = next(k for k, line in enumerate(lines) if line.endswith("# in"))
    assert lines[at + 1 : at + 3] == [f"    {SET}", f"    {WAIT}"]
    assert [line for line in lines if line.strip() not in (SET, WAIT)] == text.splitlines()


def test_line_ends_stay(tmp_path: Path) -> None:
    after = repaired(tmp_path / "dos.py", kernel(COPY).replace("\n", "\r\n"))
    assert after.count("\r\n") == after.count("\n") == kernel(COPY).count("\n") + 2


def test_a_last_line_without_an_end(tmp_path: Path) -> None:
    after = repaired(tmp_path / "open.py", kernel(LOOP).rstrip("\n"))
    assert after.endswith('\n    pto.wait_flag("MTE3", "MTE2", 0)')


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    mark = "# coding: latin-1\n" if encoding == "latin-1" else ""
    text = mark + kernel(COPY.replace("# in", "# é → in" if encoding != "latin-1" else "# é"))
    assert SET in repaired(tmp_path / f"coded_{encoding.replace('-', '_')}.py", text, encoding=encoding)


def test_statements_that_share_a_line(tmp_path: Path) -> None:
    body = COPY.replace("  # in\n", '; é = "é"; ').replace("  # out", "; pass")
    after = repaired(tmp_path / "shared.py", kernel(body))
    assert f'pto.tload(tile, x[0:8]); {SET}; é = "é"; {WAIT}; pto.tstore(out[0:8], tile); pass' in after


def test_one_line_loops_and_statements_over_several_lines(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for i in pto.range(4): pto.tload(
        tile,
        x[0:8],
    ); pto.tstore(out[i * 8 : i * 8 + 8], tile)
    """
    after = repaired(tmp_path / "compact.py", kernel(body))
    assert after.count("set_flag") == after.count("wait_flag") == 3  # forward, carried, priming; draining


BUFFERED = """
pto.set_flag("MTE3", "MTE2", 0)
pto.set_flag("MTE3", "MTE2", 1)
for step in pto.range(2, 18, 2):
    tile = pto.Tile("vec", "float32", 8, 16, addr=(step // 2 + 1) % 2 * 512)
    pto.wait_flag("MTE3", "MTE2", (step // 2 + 1) % 2)
    pto.tload(tile, x[step * 2 : step * 2 + 8])
    pto.tstore(out[step * 2 : step * 2 + 8], tile)
    pto.set_flag("MTE3", "MTE2", (step // 2 + 1) % 2)
pto.wait_flag("MTE3", "MTE2", 0)
pto.wait_flag("MTE3", "MTE2", 1)
"""


def test_two_buffers_get_two_ids(tmp_path: Path) -> None:
    """The id is an expression of the author's loop variable."""
    after = repaired(tmp_path / "buffered.py", kernel(BUFFERED))
    assert 'pto.set_flag("MTE2", "MTE3", (step - 2) // 2 % 2)' in after


def test_names_that_were_imported_alone(tmp_path: Path) -> None:
    text = kernel(COPY).replace(
        "import ptokit as pto", "from ptokit import Tile, kernel, set_flag, tload, tstore, wait_flag"
    )
    after = repaired(tmp_path / "named.py", text.replace("pto.", ""))
    assert SET.replace("pto.", "") in after


def test_without_a_name_for_the_flags_the_edits_are_text(tmp_path: Path) -> None:
    text = kernel(COPY).replace("import ptokit as pto", "from ptokit import Tile, kernel, tload, tstore")
    (repair,) = launch(module_of(tmp_path / "nameless.py", text.replace("pto.", "")).k).repairs
    assert not repair.diff and "no name for ptokit" in repair.patch.refusal and SET in str(repair)


# --- functions that the kernel calls

HELPER = '''
def part(tile, x, out, first):
    """A copy of eight rows."""
    pto.wait_flag("MTE3", "MTE2", 0)
    pto.tload(tile, x[first : first + 8])
    pto.tstore(out[first : first + 8], tile)
    pto.set_flag("MTE3", "MTE2", 0)


def load(tile, x):
    pto.tload(tile, x[0:8])


'''


def test_edits_go_around_a_call_that_needs_none_inside(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    load(tile, x)
    pto.tstore(out[0:8], tile)
    """
    text = kernel(body, before=HELPER)
    after = repaired(tmp_path / "around.py", text)
    assert f"    load(tile, x)\n    {SET}\n    {WAIT}\n    pto.tstore" in after


def test_edits_go_into_a_function_if_all_calls_need_them(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.set_flag("MTE3", "MTE2", 0)
    part(tile, x, out, 0)
    part(tile, x, out, 8)
    pto.wait_flag("MTE3", "MTE2", 0)
    """
    after = repaired(tmp_path / "inside.py", kernel(body, before=HELPER))
    assert after.count(SET) == 1 and after.index(SET) < after.index("def load")


def test_calls_with_different_needs_are_refused(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    other = pto.Tile("vec", "float32", 8, 16, addr=512)
    pto.tload(other, x[0:8])
    moved(tile, x, out, False)
    pto.set_flag("MTE2", "MTE3", 1)
    pto.wait_flag("MTE2", "MTE3", 1)
    moved(other, x, out, True)
    """
    before = """
    def moved(tile, x, out, loaded):
        if not loaded:
            pto.tload(tile, x[0:8])
        other = 8 if loaded else 0
        pto.tstore(out[other : other + 8], tile)


    """
    (repair,) = launch(module_of(tmp_path / "differ.py", kernel(body, before=before)).k).repairs
    assert repair.diff == "" or "if not loaded" in repair.diff
    again = repair.patch.kernel
    assert again is None or launch(again).ok


def test_a_function_in_another_file_is_not_changed(tmp_path: Path) -> None:
    module_of(tmp_path / "elsewhere.py", HEAD + HELPER)
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.set_flag("MTE3", "MTE2", 0)
    part(tile, x, out, 0)
    pto.wait_flag("MTE3", "MTE2", 0)
    """
    text = kernel(body).replace("import numpy", "from elsewhere import part\nimport numpy")
    (repair,) = launch(module_of(tmp_path / "caller.py", text).k).repairs
    assert not repair.diff and repair.patch.refusal and SET in str(repair)


def test_loops_that_python_unrolls(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.set_flag("MTE3", "MTE2", 0)
    for k in range(3):
        pto.wait_flag("MTE3", "MTE2", 0)
        pto.tload(tile, x[k * 8 : k * 8 + 8])
        pto.tstore(out[k * 8 : k * 8 + 8], tile)
        pto.set_flag("MTE3", "MTE2", 0)
    pto.wait_flag("MTE3", "MTE2", 0)
    """
    after = repaired(tmp_path / "unrolled.py", kernel(body))
    assert after.count(SET) == after.count(WAIT) == 1


def test_what_an_unrolled_loop_cannot_express_is_refused(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for k in range(3):
        pto.tload(tile, x[k * 8 : k * 8 + 8])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(out[k * 8 : k * 8 + 8], tile)
    """
    (repair,) = launch(module_of(tmp_path / "carried.py", kernel(body)).k).repairs
    assert not repair.diff and "different needs" in repair.patch.refusal
    assert str(repair).count('set_flag("MTE3", "MTE2"') == 2


# --- branches


def test_after_a_branch_means_after_both_arms(tmp_path: Path) -> None:
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    with pto.when(n > 0):
        pto.tload(tile, x[0:8])
    with pto.otherwise():
        pto.tload(tile, x[8:16])
    pto.tstore(out[0:8], tile)
    """
    after = repaired(tmp_path / "branch.py", kernel(body, "x, out, n"), n=1)
    lines = after.splitlines()
    assert lines[-3:-1] == [f"    {SET}", f"    {WAIT}"]


# --- removals and changes


def test_removals(tmp_path: Path) -> None:
    body = f"""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    {SET}; {WAIT}
    if True:
        pto.wait_flag("V", "MTE3", 3)  # never set
    pto.tstore(out[0:8], tile)
    """
    after = repaired(tmp_path / "removed.py", kernel(body))
    assert after == kernel(body).replace('pto.wait_flag("V", "MTE3", 3)', "pass")


def test_the_call_of_a_function_goes_if_all_it_makes_goes(tmp_path: Path) -> None:
    before = """
    def flag(src, dst, event=0):
        pto.set_flag(src, dst, event)
        pto.wait_flag(src, dst, event)


    """
    body = """
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    flag("MTE2", "MTE3")
    flag("MTE2", "V", 1)  # for nothing
    pto.tstore(out[0:8], tile)
    """
    text = kernel(body, before=before)
    report = launch(module_of(tmp_path / "helper.py", text).k)
    (repair,) = report.repairs
    (after,) = repair.patch.after.values()
    assert (repair.kind, after) == ("needless", text.replace('    flag("MTE2", "V", 1)  # for nothing\n', ""))


def test_ids_are_changed_in_place(tmp_path: Path) -> None:
    body = """
    pto.set_flag("V", "MTE2", 0)
    pto.set_flag("V", "MTE2", 1)
    for i in pto.range(8):
        tile = pto.Tile("vec", "float32", 8, 16, addr=i % 2 * 512)
        pto.wait_flag("V", "MTE2", i % 2)
        pto.tload(tile, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "V", i % 2)
        pto.wait_flag("MTE2", "V", 0)  # one id
        pto.tmuls(tile, tile, 2)
        pto.set_flag("V", "MTE2", i % 2)
    pto.wait_flag("V", "MTE2", 0)
    pto.wait_flag("V", "MTE2", 1)
    """
    after = repaired(tmp_path / "ids.py", kernel(body))
    assert '        pto.set_flag("MTE2", "V", i % 2)\n        pto.wait_flag("MTE2", "V", i % 2)  # one id\n' in after


# --- kernels without a file


def test_a_kernel_that_exec_made_has_no_diff(tmp_path: Path) -> None:
    name = "<typed 7>"
    text = kernel(COPY)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "typed"}
    exec(compile(text, name, "exec"), names)
    (repair,) = launch(names["k"]).repairs
    assert not repair.diff and repair.patch.refusal == "the source of k is no file" and WAIT in str(repair)


def test_a_file_that_changed_since_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    made = module_of(path, kernel(COPY)).k
    report = launch(made)
    path.write_text(kernel(COPY.replace("0:8", "8:16")))
    (repair,) = report.repairs
    assert not repair.diff and "has changed since it was imported" in repair.patch.refusal


FACTORY = """
def make(guard):
    @pto.kernel(mode="manual")
    def k(x, out):
        tile = pto.Tile("vec", "float32", 8, 16, addr=0)
        pto.tload(tile, x[0:8])
        if guard:
            pto.set_flag("MTE2", "MTE3", 0)
            pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(out[0:8], tile)

    return k


"""


def test_a_kernel_that_a_function_makes(tmp_path: Path) -> None:
    after = repaired(tmp_path / "made.py", f"{HEAD}{FACTORY}k = make(False)\n")
    assert after.count("set_flag") == 2


def test_kernels_of_one_source_with_different_needs_are_refused(tmp_path: Path) -> None:
    text = f"{HEAD}{FACTORY}k, other = make(False), make(True)\n"
    (repair,) = launch(module_of(tmp_path / "two.py", text).k).repairs
    assert not repair.diff and "other" in repair.patch.refusal


def test_the_diff_applies(tmp_path: Path) -> None:
    """A unified diff, with the file's own name."""
    path = tmp_path / "diffed.py"
    (repair,) = launch(module_of(path, kernel(COPY)).k).repairs
    assert repair.diff.splitlines()[:2] == [f"--- {path}", f"+++ {path}"]
    added = [line for line in repair.diff.splitlines()[2:] if line.startswith("+")]
    assert added == [f"+    {SET}", f"+    {WAIT}"]


def test_repairs_of_a_repaired_kernel(tmp_path: Path) -> None:
    """Each patch is of the file's text so far."""
    body = COPY + 'pto.barrier("ALL")\npto.barrier("ALL")\n'
    (repair,) = launch(module_of(tmp_path / "twice.py", kernel(body)).k).repairs
    first, second = launch(repair.patch.kernel).repairs
    assert {first.kind, second.kind} == {"needless"}
    (after,) = first.patch.after.values()
    assert SET in after and after.count("barrier") == 1 and pto.Finding


def test_a_changed_text_outlives_the_cache_of_lines(tmp_path: Path) -> None:
    path, text = tmp_path / "cleared.py", kernel(COPY.replace("# in", "# in \x0c \u2028"))
    made = with_text(module_of(path, text).k.function, {str(path): text.replace("0:8", "8:16")})
    linecache.clearcache()
    assert ast.unparse(tree_of(made.__code__)).count("8:16") == 2
    assert line_of(made.__code__.co_filename, made.__code__.co_firstlineno + 4).endswith("# out\n")
