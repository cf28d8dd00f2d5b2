"""`ptokit check --fix`: repairs in the user's own file, or as a diff."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ptokit_ as call

KERNELS = '''\
import ptokit as pto


@pto.kernel(mode="manual")
def double(x, out):
    """Two buffers; nothing makes V wait for the load."""
    for b in range(2):
        pto.set_flag("V", "MTE2", b)
        pto.set_flag("MTE3", "V", b)
    for i in pto.range(8):
        got = pto.Tile("vec", "float32", 8, 16, addr=i % 2 * 512)
        made = pto.Tile("vec", "float32", 8, 16, addr=4096 + i % 2 * 512)
        pto.wait_flag("V", "MTE2", i % 2)
        pto.tload(got, x[i * 8 : i * 8 + 8])
        pto.wait_flag("MTE3", "V", i % 2)
        pto.tmuls(made, got, 2)
        pto.set_flag("V", "MTE2", i % 2)
        pto.set_flag("V", "MTE3", i % 2)
        pto.wait_flag("V", "MTE3", i % 2)
        pto.tstore(out[i * 8 : i * 8 + 8], made)
        pto.set_flag("MTE3", "V", i % 2)
    for b in range(2):
        pto.wait_flag("V", "MTE2", b)
        pto.wait_flag("MTE3", "V", b)


@pto.kernel(mode="manual")
def slow(x, out):
    """A barrier for nothing."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.barrier("ALL")
    pto.tstore(out[0:8], tile)


@pto.kernel(mode="manual")
def unrolled(x, out):
    """A loop of Python cannot express the first wait."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for k in range(3):
        pto.tload(tile, x[k * 8 : k * 8 + 8])
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
        pto.tstore(out[k * 8 : k * 8 + 8], tile)


@pto.kernel(mode="manual")
def unwritten(x, out):
    """What no flag can repair."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tstore(out[0:8], tile)


@pto.kernel
def automatic(x, out):
    tile = pto.Tile("vec", "float32", 8, 16)
    pto.tload(tile, x[0:8])
    pto.tstore(out[0:8], tile)
'''
ARRAYS = "--arg", "x=f32[64,16]", "--arg", "out=f32[64,16]"
ADDED = ['+        pto.set_flag("MTE2", "V", i % 2)', '+        pto.wait_flag("MTE2", "V", i % 2)']


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernels in a file of the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"kernels_{abs(hash(tmp_path)) % 10**9}.py"
    path.write_text(KERNELS)
    return path


def check(file: Path, kernel: str, *options: str) -> Any:
    """The result of `ptokit check`."""
    return call("check", f"{file.name}:{kernel}", *ARRAYS, *options)


def test_a_diff_repairs_double_buffering(file: Path) -> None:
    """The whole way: a missing flag, its diff, the diff applied by another program, a clean run."""
    assert check(file, "double", "--run").exit_code == 1
    result = check(file, "double", "--fix", "--diff")
    assert result.exit_code == 1 and file.read_text() == KERNELS
    lines = result.stdout.splitlines()
    assert lines[:2] == [f"--- {file.name}", f"+++ {file.name}"]
    assert [line for line in lines[2:] if line[:1] in "+-"] == ADDED
    subprocess.run(["patch", "-p0"], input=result.stdout, text=True, check=True, cwd=file.parent)
    assert file.read_text().count("\n") == KERNELS.count("\n") + 2
    assert check(file, "double", "--run").exit_code == 0


def test_fix_writes_the_file_and_checks_it(file: Path) -> None:
    os.chmod(file, 0o640)
    file.write_bytes(KERNELS.replace("\n", "\r\n").encode())
    result = check(file, "double", "--fix")
    assert result.exit_code == 0, result.output
    assert "2 edits" in result.stdout and "a5: accepted" in result.stdout
    text = file.read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n") == KERNELS.count("\n") + 2
    assert file.stat().st_mode & 0o777 == 0o640
    assert not list(file.parent.glob(".ptokit*"))
    assert "nothing to repair" in check(file, "double", "--fix").stdout
    assert file.read_bytes() == text


def test_one_target_is_enough(file: Path) -> None:
    result = check(file, "double", "--fix", "--target", "a2a3")
    assert result.exit_code == 0 and "a5" not in result.stdout


def test_needless_flags_go_only_if_asked(file: Path) -> None:
    result = check(file, "slow", "--fix")
    assert result.exit_code == 0 and file.read_text() == KERNELS
    assert 'remove pto.barrier("ALL")' in result.stdout and "--fix --needless" in result.stdout
    assert check(file, "slow", "--fix", "--diff").stdout == ""
    shown = check(file, "slow", "--fix", "--needless", "--diff")
    assert [line for line in shown.stdout.splitlines()[2:] if line[:1] in "+-"] == ['-    pto.barrier("ALL")']
    assert shown.exit_code == 0
    assert check(file, "slow", "--fix", "--needless").exit_code == 0
    assert file.read_text() == KERNELS.replace('    pto.barrier("ALL")\n', "")


def test_what_the_source_cannot_express_is_text(file: Path) -> None:
    result = check(file, "unrolled", "--fix")
    assert result.exit_code == 1 and file.read_text() == KERNELS
    assert "the source cannot be changed" in result.stdout and "different needs" in result.stdout
    assert 'pto.set_flag("MTE3", "MTE2", 0)' in result.stdout
    shown = check(file, "unrolled", "--fix", "--diff")
    assert shown.exit_code == 1 and shown.stdout == "" and "by hand" in shown.stderr


def test_other_findings_stay(file: Path) -> None:
    result = check(file, "unwritten", "--fix")
    assert result.exit_code == 1 and file.read_text() == KERNELS
    assert "no flag can repair" in result.stdout and "H-36" in result.stdout


def test_auto_mode_has_nothing_to_repair(file: Path) -> None:
    assert "nothing to repair" in check(file, "automatic", "--fix").stdout


def test_a_text_is_repaired(file: Path) -> None:
    text = file.parent / "copy.ptoas"
    text.write_text(
        ".kernel copy\n.arg %x : !pto.memref<8x16xf32>\n.arg %out : !pto.memref<8x16xf32>\n"
        "pto.tassign %t, @tile(0x0)\n"
        "tload %t, %x[0, 0] : (!pto.tile<8x16xf32>, !pto.memref<8x16xf32>)\ntstore %t, %out\n"
    )
    arrays = "--arg", "x=f32[8,16]", "--arg", "out=f32[8,16]"
    shown = call("check", "copy.ptoas", *arrays, "--fix", "--diff")
    assert "+set_flag[PIPE_MTE2, PIPE_MTE3, EVENT_ID0]" in shown.stdout.splitlines()
    assert call("check", "copy.ptoas", *arrays, "--fix").exit_code == 0
    assert call("check", "copy.ptoas", *arrays, "--run").exit_code == 0
    assert text.read_text().count("_flag[") == 2


SCRIPT = """\
import sys
import numpy as np
import ptokit as pto
from other import fetch

ROWS = 8


def load(tile, part):
    pto.tload(tile, part)


@pto.kernel(mode="manual")
def first(x, out):
    tile = pto.Tile("vec", "float32", ROWS, 16, addr=0)
    load(tile, x[0:ROWS])
    pto.tstore(out[0:ROWS], tile)


@pto.kernel(mode="manual")
def second(x, out, n):
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for i in pto.range(n):
        load(tile, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "V", 0)
        pto.wait_flag("MTE2", "V", 0)
        pto.tmuls(tile, tile, 2)
        pto.set_flag("V", "MTE3", 0)
        pto.wait_flag("V", "MTE3", 0)
        pto.tstore(out[i * 8 : i * 8 + 8], tile)


if __name__ == "__main__":
    x = np.ones((32, 16), "float32")
    first[1](x, np.zeros_like(x))
    ROWS = 16
    first[1](x, np.zeros_like(x), target="a5")
    for n in (1, 1, 4):
        second[1](x, np.zeros_like(x), n)
    fetch[1](x, np.zeros_like(x))
    ROWS = "gone"
    print("ended")
    sys.exit(0)
"""
OTHER = """\
import ptokit as pto


@pto.kernel(mode="manual")
def fetch(x, out):
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    pto.tstore(out[0:8], tile)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that launches three kernels, one of them of another file, which all lack flags."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("other", "script"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "other.py").write_text(OTHER)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def added(diff: str) -> list[str]:
    """The lines that a diff adds or removes."""
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_all_kernels_of_a_python_file_are_repaired(script: Path) -> None:
    """One diff of all files, from one run, with the globals of each launch; another program applies it."""
    result = call("check", script.name, "--fix", "--diff")
    assert result.exit_code == 1 and script.read_text() == SCRIPT
    assert result.stderr.count("ended") == 1
    heads = [line for line in result.stdout.splitlines() if line[:3] in ("---", "+++")]
    assert heads == ["--- script.py", "+++ script.py", "--- other.py", "+++ other.py"]
    assert len(added(result.stdout)) == 2 + 4 + 2
    subprocess.run(["patch", "-p0"], input=result.stdout, text=True, check=True, cwd=script.parent)
    for name in ("script", "other"):
        sys.modules.pop(name, None)
    assert call("check", script.name).exit_code == 0
    assert call("check", script.name, "--fix", "--diff").stdout == ""


def test_fix_of_a_python_file_writes_and_checks_without_another_run(script: Path) -> None:
    diff = call("check", script.name, "--fix", "--diff").stdout
    sys.modules.pop("other", None)
    result = call("check", script.name, "--fix")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("ended") == 1
    assert "script.py: first, order on" in result.stdout and "other.py: fetch, order on" in result.stdout
    assert "first: 2 launches" in result.stdout and "second: " in result.stdout
    new = script.read_text(), (script.parent / "other.py").read_text()
    assert [text.count("_flag") for text in new] == [4 + 6, 2]
    script.write_text(SCRIPT)
    (script.parent / "other.py").write_text(OTHER)
    subprocess.run(["patch", "-p0"], input=diff, text=True, check=True, cwd=script.parent)
    assert (script.read_text(), (script.parent / "other.py").read_text()) == new


def test_json_of_a_python_file(script: Path) -> None:
    data = json.loads(call("check", script.name, "--fix", "--diff", "--json").stdout)
    assert (data["file"], data["error"]) == ("script.py", None)
    assert {repair["kernel"] for repair in data["repairs"]} == {"first", "second", "fetch"}
    assert len(added(data["diff"])) == 8


NEEDED = """\
import numpy as np
import ptokit as pto


@pto.kernel(mode="manual")
def two(x, out, shift: pto.const):
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    b = pto.Tile("vec", "float32", 8, 16, addr=shift)
    pto.tload(a, x)
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out, a)
    pto.set_flag("MTE3", "MTE2", 0)
    pto.wait_flag("MTE3", "MTE2", 0)
    pto.tload(b, x)


x = np.ones((8, 16), "float32")
for shift in SHIFTS:
    two[1](x, np.zeros_like(x), shift, target="a5")
"""


@pytest.mark.parametrize(("shifts", "removed"), [("(4096, 0)", 0), ("(0, 4096)", 0), ("(4096,)", 2)])
def test_a_flag_that_one_launch_needs_stays(script: Path, shifts: str, removed: int) -> None:
    """Where the tiles lie apart, nothing needs the flag back."""
    script.write_text(NEEDED.replace("SHIFTS", shifts))
    result = call("check", script.name, "--fix", "--needless", "--diff")
    assert result.exit_code == 0 and len(added(result.stdout)) == removed, result.output
    assert ("--needless removes it" in call("check", script.name, "--fix").stdout) == bool(removed)


SHARED = """\
import numpy as np
import ptokit as pto


def store(out, tile, ordered):
    if ordered:
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out, tile)


@pto.kernel(mode="manual")
def copy(x, out, ordered: pto.const):
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x)
    store(out, tile, ordered)


@pto.cases
def both():
    x = np.ones((8, 16), "float32")
    for ordered in (True, False):
        copy[1](x, np.zeros_like(x), ordered, target="a5")
"""


def test_what_other_launches_need_is_not_broken(script: Path) -> None:
    """Lines of a repair are those of other launches, too."""
    script.write_text(SHARED)
    assert call("check", script.name).exit_code == 1
    result = call("check", script.name, "--fix")
    assert result.exit_code == 0, result.output
    sys.modules.pop("script", None)
    assert call("check", script.name).exit_code == 0


def test_a_refused_launch_is_repaired_too(script: Path) -> None:
    """A race between the cores is refused by every engine; the file stops there."""
    script.write_text(
        "import numpy as np\nimport ptokit as pto\n\n\n@pto.kernel(mode='manual')\ndef cores(x, out):\n"
        "    ub = pto.Tile('vec', 'float32', 16, 64, addr=0)\n"
        "    l1 = pto.Tile('mat', 'float32', 16, 64, addr=0, blayout='col_major', slayout='row_major')\n"
        "    pto.tload(ub, x)\n    pto.set_flag('MTE2', 'MTE3', 0)\n    pto.wait_flag('MTE2', 'MTE3', 0)\n"
        "    pto.tstore(out, ub)\n    pto.tload(l1, out)\n\n\n"
        "x = np.ones((16, 64), 'float32')\ncores[1](x, np.zeros_like(x), target='a5')\nprint('ended')\n"
    )
    result = call("check", script.name, "--fix")
    assert result.exit_code == 1 and "a5: accepted" in result.stdout
    assert "script.py:17" in result.stderr and "later ones were not checked" in result.stderr
    assert "    cores[1](x" in result.stderr  # the line as it was when it was run
    again = call("check", script.name)
    assert again.exit_code == 0 and "ended" in again.stderr


def test_json(file: Path) -> None:
    data = json.loads(check(file, "double", "--fix", "--diff", "--json").stdout)
    (repair,) = data["repairs"]
    assert (data["command"], data["kernel"], repair["kind"], repair["in_source"]) == ("check", "double", "order", True)
    assert len(repair["edits"]) == 2 and data["diff"].startswith("--- ") and file.read_text() == KERNELS


def test_costs_of_a_file_count(file: Path) -> None:
    """A flag that takes long makes the repair take longer, on the target of the costs."""
    (file.parent / "costs.json").write_text('{"format": 1, "target": "a5", "costs": {"flag cycles": 9000}}')
    shown = [
        check(file, "double", "--fix", "--diff", "--json", "--target", "a5", *options).stdout
        for options in ((), ("--costs", "costs.json"))
    ]
    default, slow = (json.loads(text)["repairs"][0]["cycles"] for text in shown)
    assert slow > default + 8000
    assert check(file, "double", "--fix", "--costs", "costs.json").exit_code == 0  # a2a3 keeps its own
    assert check(file, "double", "--run", "--target", "a2a3", "--costs", "costs.json").exit_code == 2


@pytest.mark.parametrize("option", ["--diff", "--needless"])
def test_options_that_need_fix(file: Path, option: str) -> None:
    result = check(file, "double", option)
    assert result.exit_code == 2 and "belongs to --fix" in result.output


def test_standard_input_cannot_be_written() -> None:
    result = call("check", "-", "--fix")
    assert result.exit_code == 2 and "--diff" in result.output


EARLY = """

@pto.kernel(mode="manual")
def early(x, out):
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    pto.tload(tile, x[0:8])
    for _ in range(2):
        pto.set_flag("MTE2", "MTE3", 0)
        pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out[0:8], tile)


if __name__ == "__main__":
    early[1](np.ones((8, 16), "float32"), np.ones((8, 16), "float32"), target="a5")
"""


def test_the_status_of_a_diff_is_that_of_the_check(file: Path) -> None:
    """A note of a run on the machine, of a kernel that is named and of a file."""
    file.write_text("import numpy as np\n" + KERNELS + EARLY)
    for level, status in (("hazard", 0), ("note", 1)):
        assert check(file, "early", "--run", "--fail-on", level).exit_code == status
        assert check(file, "early", "--fix", "--diff", "--fail-on", level).exit_code == status
        assert call("check", file.name, "--fix", "--diff", "--fail-on", level).exit_code == status
