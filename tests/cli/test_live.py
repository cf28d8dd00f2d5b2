"""`ptokit check file.py`: every launch of a Python file is checked, with the arrays of that launch."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang import check
from ptokit.lang.check import LaunchWatcher, WatchedLaunch
from ptokit.lang.live import Script
from tests.cli.shell import fine, misuse, process, ptokit_
from tests.snippet import KERNELS

HEAD = f"""\
import sys
import numpy as np
import ptokit as pto


{KERNELS}

X = np.arange(64, dtype="float32").reshape(8, 8)
OUT = np.zeros_like(X)
"""

NEGATIVE = """
@pto.kernel
def negative(table, ids, out):
    index, t = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)

negative[1](X, np.full(8, -1, "int32"), OUT, target="a5")
"""


def written(code: str, name: str = "script.py", head: str = HEAD) -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(f"{head}\n\n{code}\n", encoding="utf-8")
    return name


def main(code: str, name: str = "script.py", head: str = HEAD) -> str:
    """A file with a `__main__` block."""
    return written('if __name__ == "__main__":\n' + "\n".join(f"    {line}" for line in code.splitlines()), name, head)


def data(*words: object, status: int = 0) -> dict[str, Any]:
    """The JSON of a check."""
    result = ptokit_("check", *words, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def rules(report: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    """The rules of errors and hazards, by kernel and target."""
    return {
        (kernel["kernel"], target): [f["rule"] for f in result["findings"] if f["level"] != "note"]
        for kernel in report["kernels"]
        for target, result in kernel["targets"].items()
    }


def line_of(text: str, name: str = "script.py") -> int:
    """The number of the line with a text."""
    return next(k for k, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1) if text in line)


# --- which launches, with which arrays ---------------------------------------------------------------------------


def test_the_launches_of_a_main_block_are_checked_with_their_own_arrays() -> None:
    code = "racy[1](X, OUT, target='a5')\ncopy[1](X, OUT, target='a5')\nassert np.array_equal(X, OUT)"
    result = ptokit_("check", main(code))
    assert result.exit_code == 1
    assert result.stdout.startswith("racy: 1 launch over 1 block\nscript.py:10: error [KN-13] ")
    assert "\n    fix: pto.set_flag(" in result.stdout
    assert result.stdout.endswith("copy: 1 launch over 1 block\na5: accepted; UB 256 of 262,144 bytes\n")
    assert result.stderr == ""


@pytest.mark.parametrize(("largest", "found"), [(7, []), (8, ["MG-OOB-04"])])
def test_what_depends_on_data_is_found_in_the_data(largest: int, found: list[str]) -> None:
    code = f"""
ids = np.minimum(np.arange(8, dtype="int32") * 3, {largest})
try:
    pick[1](X, ids, OUT, target="a5")
except pto.OutOfBoundsError:
    pass
"""
    assert rules(data(main(code), status=1 if found else 0)) == {("pick", "a5"): found}


def test_the_script_sees_arrays_that_no_check_has_written() -> None:
    code = """
@pto.kernel
def add(x):
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tadd(t, t, t)
    pto.tstore(x, t)

values = X.copy()
for n in range(1, 4):
    add[1](values)
    assert np.array_equal(values, X * 2**n), n
"""
    (kernel,) = data(written(code))["kernels"]
    assert (kernel["launches"], [*kernel["targets"]]) == (3, ["cpu", "a2a3", "a5"])


def test_launches_of_helpers_and_other_modules_are_checked_too() -> None:
    Path("library").mkdir()
    written("def use(kernel, *arrays):\n    kernel[1](*arrays, target='a5')", "library/tools.py")
    code = "from library.tools import racy, use\nfrom library import tools\n"
    code += "def run(kernel):\n    use(kernel, tools.X, tools.OUT)\n\nrun(racy)\nrun(tools.copy)"
    report = data(written(code, head=""), status=1)
    assert rules(report) == {("racy", "a5"): ["KN-13"], ("copy", "a5"): []}
    (finding,) = report["kernels"][0]["targets"]["a5"]["findings"]
    assert finding["where"] == {"file": str(Path("library/tools.py")), "line": 10, "column": None}


def test_a_kernel_that_a_function_makes_is_one_kernel() -> None:
    code = """
def make(rows):
    @pto.kernel
    def copy(x, out):
        t = pto.Tile("vec", "float32", rows, 8)
        pto.tload(t, x[0:rows])
        pto.tstore(out[0:rows], t)
    return copy

for rows in (1, 2, 4):
    make(rows)[1](X, OUT)
"""
    (kernel,) = data(written(code))["kernels"]
    assert (kernel["kernel"], kernel["launches"]) == ("copy", 3)


def test_kernels_of_texts_are_checked() -> None:
    text = """\
.kernel histogram
.arg %bins : !pto.memref<1x16xi32>
.arg %counts : !pto.memref<1x64xi32>
.const %one = 1 : i32
%index = tload %bins : (!pto.memref<1x16xi32>) -> !pto.tile<1x16xi32>
%ones = texpands %one : (i32) -> !pto.tile<1x16xi32>
mscatter.elem.skip %counts, %ones, %index : (!pto.memref<1x64xi32>, !pto.tile<1x16xi32>, !pto.tile<1x16xi32>)
"""
    Path("h.ptoas").write_text(text, encoding="utf-8")
    code = "kernel = pto.load('h.ptoas')\nbins = np.zeros((1, 16), 'int32')\n"
    code += "kernel[1](bins, np.zeros((1, 64), 'int32'), target='a5')"
    report = data(written(code), status=1)
    kinds = [finding["kind"] for finding in report["kernels"][0]["targets"]["a5"]["findings"]]
    assert report["kernels"][0]["kernel"] == "histogram" and "H-14" in kinds


def test_launches_of_all_threads_are_checked() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda k: copy[1](X + k, OUT + k, target="a5"), range(12)))
"""
    assert data(written(code))["kernels"][0]["launches"] == 12


# --- targets and options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "options", "targets"),
    [
        ("copy[1](X, OUT)", (), ["cpu", "a2a3", "a5"]),
        ("copy[1](X, OUT, target='cpu')", (), ["cpu", "a2a3", "a5"]),
        ("copy[1](X, OUT, target='a2a3')", (), ["a2a3"]),
        ("with pto.target('a2a3'):\n    copy[1](X, OUT)", (), ["a2a3"]),
        ("copy[1](X, OUT, target='a2a3')", ("--target", "a5"), ["a5"]),
        ("copy[1](X, OUT, target='a2a3')", ("--target", "all"), ["cpu", "a2a3", "a5"]),
        ("copy[1](X, OUT, target='a5')\ncopy[1](X, OUT, target='a2a3')", (), ["a5", "a2a3"]),
    ],
)
def test_which_targets_check_a_launch(launch: str, options: tuple[str, ...], targets: list[str]) -> None:
    assert [*data(main(launch), *options)["kernels"][0]["targets"]] == targets


def test_a_sample_of_the_blocks_is_run() -> None:
    """Only block 2 has an index outside the table, which is known only in the data."""
    kernel = """
@pto.kernel
def each(table, ids, out):
    index, t = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
    b = pto.block_idx()
    pto.tload(index, ids[b * 8 : b * 8 + 8])
    pto.mgather(t, table, index)
    pto.tstore(out[b * 8 : b * 8 + 8], t)
"""
    code = "ids = np.zeros(32, 'int32')\nids[17] = 99\n"
    file = main(f"{code}each[4](X, ids, np.zeros((32, 8), 'float32'))", head=HEAD + kernel)
    found = {
        blocks: rules(data(file, "--target", "a5", *blocks, status=1))["each", "a5"]
        for blocks in [(), ("--blocks", "first,last"), ("--blocks", "2")]
    }  # the launch itself is refused: the status is 1
    assert [*found.values()] == [["MG-OOB-04"], [], ["MG-OOB-04"]]
    for words in (("--blocks", "some"), ("--costs", "none.json")):
        result = ptokit_("check", file, *words)
        assert result.exit_code == 2 and words[0] in result.output and "stopped" not in result.output


def test_options_of_the_machine_need_a_run() -> None:
    file = main("racy[1](X, OUT)")
    result = ptokit_("check", f"{file}:racy", "--blocks", "first", "--arg", "x=f32[8,8]", "--arg", "out=f32[8,8]")
    assert result.exit_code == 2 and "--run" in result.output


def test_options_of_the_command_and_of_the_launch_apply() -> None:
    name = written(NEGATIVE)
    plain = data(name, status=1)["kernels"][0]["targets"]["a5"]
    assert [f["level"] for f in plain["findings"] if f["kind"] == "H-13"] == ["hazard"] and not plain["refused"]
    assert data(name, "--strict", status=1)["kernels"][0]["targets"]["a5"]["refused"]
    fast = written(NEGATIVE.replace('target="a5"', 'target="a5", launch="function_pointer"'), "fast.py")
    kinds = [f["kind"] for f in data(fast, status=1)["kernels"][0]["targets"]["a5"]["findings"]]
    assert "H-23" in kinds


@pytest.mark.parametrize("option", [("--arg", "x=f32[8,8]"), ("--grid", "2"), ("--function", "f")])
def test_what_launches_decide_is_no_option(option: tuple[str, str]) -> None:
    name = written("open('ran', 'w').close()")
    assert f"{option[0]}: the launches of script.py decide" in misuse("check", name, *option)
    assert not Path("ran").exists()


@pytest.mark.parametrize("command", ["run", "show"])
def test_other_commands_need_the_name_of_a_kernel(command: str) -> None:
    assert "name the kernel in it, as in kernels.py:kernel" in misuse(command, "kernels.py")


def test_arguments_are_for_python_files() -> None:
    assert "takes no arguments of its own: 4" in misuse("check", "kernels:double", "--", "4")


# --- as python runs it -------------------------------------------------------------------------------------------


def test_a_file_runs_as_python_runs_it() -> None:
    written("VALUE = 3", "work/beside.py", "")
    code = """
import os
from pathlib import Path
from beside import VALUE
assert (__name__, VALUE, sys.argv[1:]) == ("__main__", 3, ["--size", "4"])
assert sys.modules["__main__"].__dict__ is globals()
assert Path(__file__).is_absolute() and sys.path[0] == str(Path(__file__).resolve().parent)
os.chdir("/")
copy[1](X, OUT, target="a5")
racy[1](X, OUT, target="a5")
"""
    name, before = main(code, "work/script.py"), (sys.argv, [*sys.path], os.getcwd(), sys.modules["__main__"])
    result = ptokit_("check", name, "--", "--size", "4")
    assert result.exit_code == 1 and f"{Path(name)}:10: error [KN-13]" in result.stdout
    assert (sys.argv, sys.path, os.getcwd(), sys.modules["__main__"]) == before


def test_a_module_runs_as_python_runs_it() -> None:
    Path("pack").mkdir()
    Path("pack/__init__.py").touch()
    written("", "pack/kernels.py")
    main("racy[1](X, OUT, target='a5')", "pack/tool.py", "from .kernels import *\n")
    assert "stopped: ImportError" in misuse("check", "pack/tool.py")
    assert rules(data("-m", "pack.tool", status=1)) == {("racy", "a5"): ["KN-13"]}
    Path("pack/__main__.py").write_text("from .kernels import *\ncopy[1](X, OUT)\n", encoding="utf-8")
    assert fine("check", "-m", "pack").startswith("copy: 1 launch over 1 block\n")
    assert "no.module" in misuse("check", "-m", "no.module")


def test_what_a_script_prints_goes_to_standard_error() -> None:
    name = main("print('hello')\nsys.stdout.write('there')\ncopy[1](X, OUT, target='a5')")
    done = process("check", name, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"], done.stderr) == (0, None, "hello\nthere")


def test_hazards_are_reported_and_not_warned_of() -> None:
    done = process("check", main(NEGATIVE))
    assert (done.returncode, done.stderr) == (1, "") and "hazard [" in done.stdout


# --- cases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head", ["@pto.cases", "import ptokit\n@ptokit.cases", "from ptokit import cases as tried\n@tried"]
)
def test_functions_that_are_marked_are_called_and_the_main_block_is_not_run(head: str) -> None:
    code = f"""
{head}
def some():
    assert __name__ == "script"
    copy[1](X, OUT, target="a5")

@pto.cases
def more():
    for target in ("a2a3", "a5"):
        yield racy[1](X, OUT, target=target)

def unmarked():
    1 / 0

if __name__ == "__main__":
    1 / 0
"""
    found = {("copy", "a5"): [], ("racy", "a2a3"): ["KN-13"], ("racy", "a5"): ["KN-13"]}
    assert rules(data(written(code), status=1)) == found


def test_cases_of_a_module() -> None:
    Path("pack").mkdir()
    written("@pto.cases\ndef some():\n    copy[1](X, OUT, target='a5')\n1 / (__name__ == 'pack.tool')", "pack/tool.py")
    assert rules(data("-m", "pack.tool")) == {("copy", "a5"): []}


def test_a_name_in_a_comment_or_of_another_module_marks_nothing() -> None:
    code = "import types\nother = types.SimpleNamespace(cases=lambda f: f)\n\n@other.cases\ndef some():\n    1 / 0\n\n"
    code += "# @pto.cases\ncopy[1](X, OUT, target='a5')"
    assert rules(data(written(code))) == {("copy", "a5"): []}


def test_only_functions_that_can_be_called_are_marked() -> None:
    def some() -> int:
        return 3

    async def later() -> None: ...

    assert pto.cases(some) is some and some() == 3
    for wrong, message in ((lambda x: x, "missing"), (later, "plain function"), (3, "plain function")):
        with pytest.raises(TypeError, match=message):
            pto.cases(wrong)  # type: ignore[arg-type]


# --- how a script ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "raise SystemExit"])
def test_an_exit_is_an_end(end: str) -> None:
    assert data(main(f"copy[1](X, OUT, target='a5')\n{end}\nracy[1](X, OUT, target='a5')"))["error"] is None


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("sys.exit('no match')", "SystemExit: no match"),
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("assert X.sum() == 0", "AssertionError: AssertionError"),
    ],
)
def test_a_failure_comes_with_what_was_found_before(end: str, message: str) -> None:
    name = main(f"copy[1](X, OUT, target='a5')\n{end}\nracy[1](X, OUT, target='a5')")
    result = ptokit_("check", name)
    assert result.exit_code == 1
    assert result.stdout == "copy: 1 launch over 1 block\na5: accepted; UB 256 of 262,144 bytes\n"
    assert result.stderr.splitlines()[0] == f"script.py:{line_of(end)}: script.py stopped: {message}"
    error = data(name, status=1)["error"]
    assert (error["message"], error["fix"]) == (f"script.py stopped: {message}", "")
    assert (error["where"]["file"], error["where"]["line"]) == ("script.py", line_of(end))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("sys.exit(3)", "stopped: SystemExit: 3"),
        ("raise KeyError('x')", "stopped: KeyError: 'x'"),
        ("import nowhere", "stopped: no module named nowhere"),
        ("x = (", "stopped: SyntaxError: '(' was never closed"),
        ("X.sum()", "script.py launches no kernel; its kernels: racy, copy, pick"),
    ],
)
def test_nothing_to_check_is_misuse(end: str, message: str) -> None:
    found = misuse("check", main(end), "--json")
    assert message in found
    assert found.startswith(
        f"ptokit: script.py:{line_of(end)}: script.py stopped: " if "stopped" in message else "ptokit: "
    )


def test_a_file_that_needs_arguments_says_how_to_give_them() -> None:
    code = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('n', type=int)\n"
    file = main(f"{code}n = parser.parse_args().n\ncopy[n](X, OUT)")
    result = ptokit_("check", file)
    assert result.exit_code == 2 and "arguments of script.py go after --" in result.stderr
    assert ptokit_("check", file, "--", "1").exit_code == 0


def test_files_that_are_not_there_and_files_without_kernels() -> None:
    assert misuse("check", "nowhere.py") == "ptokit: there is no file nowhere.py"
    assert misuse("check", written("print(1)", head="")).endswith("ptokit: script.py launches no kernel")


def test_a_definition_that_is_refused_is_a_finding() -> None:
    code = "@pto.kernel\ndef wrong(*arrays): ..."
    error = data(written(code), status=1)["error"]
    assert "VerifyError" in error["message"] and "variadic" in error["message"]
    result = ptokit_("check", "script.py")
    assert (result.exit_code, result.stdout) == (1, "") and "variadic" in result.stderr


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("pick[1](X, np.full(8, 99, 'int32'), OUT, target='a5')", "OutOfBoundsError"),
        ("copy[1](X[:5], OUT, target='a5')", "VerifyError"),
        ("copy[1](X, target='a5')", "TypeError: copy: missing a required argument: 'out'"),
        ("copy[1](X, OUT, target='a7')", "ValueError"),
    ],
)
def test_a_launch_that_raises_is_reported_with_the_others(launch: str, message: str) -> None:
    report = data(main(f"racy[1](X, OUT, target='a5')\n{launch}"), status=1)
    assert rules(report)["racy", "a5"] == ["KN-13"]
    assert message in report["error"]["message"] and report["error"]["where"]["line"] == line_of(launch)
    kernels = {kernel["kernel"]: kernel["targets"] for kernel in report["kernels"]}
    assert kernels.keys() == {"racy", launch.partition("[")[0]}
    refused = [result["accepted"] for name, targets in kernels.items() if name != "racy" for result in targets.values()]
    assert refused == ([False] if message in ("OutOfBoundsError", "VerifyError") else [])


def test_what_a_kernel_raises_is_a_finding_at_its_line() -> None:
    code = "@pto.kernel\ndef careless(x):\n    [][1]\n\ncareless[1](X, target='a5')"
    report = data(written(code), status=1)
    assert rules(report) == {("careless", "a5"): ["KN-20"]}
    assert report["kernels"][0]["targets"]["a5"]["findings"][0]["where"]["line"] == line_of("[][1]")


def test_an_interrupt_ends_the_command() -> None:
    result = ptokit_("check", main("copy[1](X, OUT)\nraise KeyboardInterrupt"))
    assert (result.exit_code, result.stderr) == (130, "ptokit: interrupted\n")


def check_with_defect(line: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a check whose machine fails with a line of its own."""
    exec(compile(f"def report(self):\n    {line}\n", check.__file__, "exec"), names := {})
    monkeypatch.setattr(WatchedLaunch, "report", names["report"])
    return ptokit_("check", main("copy[1](X, OUT)"))


def test_a_defect_of_the_machine_is_no_fault_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_with_defect("{}['defect']", monkeypatch)
    assert result.exit_code == 2 and "internal error in ptokit (KeyError: 'defect')" in result.stderr


@pytest.mark.parametrize("line", ["1 + len('defect') + 'defect'", "int('defect')"])
def test_no_error_of_the_machine_is_hidden(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that was not checked is not reported as checked, whatever the error is."""
    result = check_with_defect(line, monkeypatch)
    assert result.exit_code and any(name in result.output for name in ("TypeError", "ValueError"))


# --- repeats -----------------------------------------------------------------------------------------------------


def test_findings_of_several_launches_are_shown_once_with_a_count() -> None:
    code = "for n in range(6):\n    try:\n        pick[1](X, np.full(8, n % 3 * 4, 'int32'), OUT, target='a5')\n"
    code += "    except pto.OutOfBoundsError:\n        pass"
    name = main(code)
    result = ptokit_("check", name)
    assert result.stdout.count("[MG-OOB-04, H-10]") == 1 and "\n    in 2 of 6 launches\n" in result.stdout
    (finding,) = [f for f in data(name, status=1)["kernels"][0]["targets"]["a5"]["findings"] if f["kind"] == "H-10"]
    assert finding["launches"] == 2


def counted_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """The launches of a script, and how many of them were run on the machine."""
    runs, report = [], WatchedLaunch.report
    monkeypatch.setattr(WatchedLaunch, "report", lambda self: (runs.append(self), report(self))[1])
    return sum(kernel["launches"] for kernel in data(main(code))["kernels"]), len(runs)


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("for n in range(5):\n    copy[1](X, OUT, target='a5')", 2),  # OUT is changed by the first
        ("for n in range(5):\n    X[0, 0] = n\n    copy[1](X, OUT, target='a5')", 5),
        ("copy[1](X, X.copy(), target='a5')\ncopy[1](X, X.copy(), target='a5', strict=True)", 2),
        ("out = X.copy()\nfor n in range(5):\n    copy[n % 2](x=X, out=out, target='a5')", 2),
    ],
)
def test_equal_launches_run_once_on_the_machine(code: str, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launches, found = counted_runs(code, monkeypatch)
    assert launches >= 2 and found == runs


def test_a_changed_global_is_another_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
@pto.kernel
def some(x, out):
    t = pto.Tile("vec", "float32", ROWS, 8)
    pto.tload(t, x[0:ROWS])
    pto.tstore(out[0:ROWS], t)

out = X.copy()
for ROWS in (1, 2, 2, 1):
    some[1](X, out, target="a5")
"""
    assert counted_runs(code, monkeypatch) == (4, 3)  # a change is traced again


# --- the watcher -------------------------------------------------------------------------------------------------


@pto.kernel
def plus(x, out):
    t = pto.Tile("vec", "float32", 8, 8)
    pto.tload(t, x)
    pto.tadd(t, t, t)
    pto.tstore(out, t)


def test_a_watcher_sees_launches_of_other_threads_while_it_looks() -> None:
    x, seen = np.ones((8, 8), "float32"), []
    entered = threading.Event()

    def look(launch: WatchedLaunch) -> None:
        seen.append(launch.grid)
        if launch.grid == 1:
            entered.set()
            other.join(10)
        plus[7](x, np.zeros_like(x))  # a launch of its own

    other = threading.Thread(target=lambda: entered.wait(10) and plus[2](x, np.zeros_like(x)))
    with LaunchWatcher(look).watching():
        other.start()
        plus[1](x, np.zeros_like(x))
    plus[3](x, np.zeros_like(x))
    assert seen == [1, 2]


def test_a_script_returns_its_names(folder: Path) -> None:
    written("A = 3\n", "names.py", "")
    assert Script("names.py").run()["A"] == 3
