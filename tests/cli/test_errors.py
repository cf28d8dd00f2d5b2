"""Mistakes on the command line and in a kernel are reported with the line and the nearest valid name."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from ptokit import engines
from ptokit.lang import tracer
from tests.cli.shell import misuse, ptokit_

GIVEN = ("--arg", "x=f32[8,8]", "--arg", "out=f32[8,8]")
COMMANDS = {
    "check": ("--target", "a5"),
    "run": (),
    "run on the machine": ("--engine", "machine", "--target", "a5"),
    "show": ("--target", "a5"),
    "convert": ("--to", "l2"),
    "convert to cpp": ("--to", "cpp", "--target", "a5"),
}
LINES = {
    "pto.taad(t, t, t)": "AttributeError: module 'ptokit' has no attribute 'taad'; did you mean tadd?",
    "unknown + 1": "NameError: name 'unknown' is not defined",
    "pto.mgather(t, x, t, obb=1)": "TypeError: mgather() got an unexpected keyword argument 'obb'. Did you mean 'oob'?",
    "1 / 0": "ZeroDivisionError: division by zero",
    "{}['key']": "KeyError: 'key'",
    "assert t is None, 'odd'": "AssertionError: odd",
    "again(t)": "RecursionError: maximum recursion depth exceeded",
    "raise SystemExit(0)": "SystemExit: 0",
    "raise BaseException('rare')": "BaseException: rare",
}


def bad(folder: Path, line: str) -> str:
    text = f"""\
        import ptokit as pto


        def again(tile):
            return again(tile)


        @pto.kernel
        def k(x, out):
            t = pto.Tile("vec", "float32", 8, 8)
            pto.tload(t, x)
            {line}
            pto.tstore(out, t)
    """
    (folder / "bad.py").write_text(dedent(text), encoding="utf-8")
    return "bad.py:k"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("line", LINES)
def test_what_a_kernel_raises_is_a_finding_at_its_line(folder: Path, command: str, line: str) -> None:
    result = ptokit_(command.split(maxsplit=1)[0], bad(folder, line), *GIVEN, *COMMANDS[command])
    assert result.exit_code == 1
    at, shown = (5, "return again(tile)") if "again" in line else (12, line)
    is_reported = command == "check" and "BaseException" not in line
    printed = result.stdout if is_reported else result.stderr
    assert f"bad.py:{at}: error [KN-20] {LINES[line]}" in printed
    assert f"\n        {shown}\n        " in printed and "^\n    fix: " in printed
    assert "report it" not in result.output


def test_json_of_a_run_and_a_check_has_the_finding(folder: Path) -> None:
    word = bad(folder, "pto.taad(t, t, t)")
    checked = json.loads(ptokit_("check", word, *GIVEN, "--target", "a5", "--json").stdout)
    run = json.loads(ptokit_("run", word, *GIVEN, "--json").stdout)
    for finding in (checked["targets"]["a5"]["findings"][0], run["findings"][0]):
        assert (finding["rule"], finding["where"]["file"], finding["where"]["line"]) == ("KN-20", "bad.py", 12)
        assert "did you mean tadd" in finding["message"]
    assert not run["ok"] and run["outputs"] == {}


def test_an_interruption_stays_one(folder: Path) -> None:
    assert ptokit_("check", bad(folder, "raise KeyboardInterrupt"), *GIVEN).exit_code == 130


def test_a_defect_of_ptokit_is_still_called_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer.Tracer, "record", lambda *_: {}["lost"])  # type: ignore[index]
    monkeypatch.setattr("ptokit.lang.faults.is_own", lambda file: file.endswith("test_errors.py") or "ptokit" in file)
    for command in ("check", "show"):
        assert "internal error in ptokit (KeyError: 'lost')" in misuse(command, bad(folder, "pass"), *GIVEN)


@pytest.mark.parametrize("variable", [False, True])
def test_an_engine_that_is_not_installed_is_no_defect(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda module: module != "cupy")
    engines.chosen.cache_clear()
    if variable:
        monkeypatch.setenv(engines.VARIABLE, "cuda")
    said = misuse("run", bad(folder, "pass"), *GIVEN, *(() if variable else ("--engine", "cuda")))
    engines.chosen.cache_clear()
    asked = engines.VARIABLE if variable else "engine"
    assert f"{asked}=cuda: the cuda engine needs cupy: pip install 'ptokit[cuda]'; auto takes an" in said
    assert "internal error" not in said


def test_help_names_every_engine() -> None:
    assert set(engines.names(models=True)) <= {*re.findall(r"\w+", ptokit_("run", "--help").stdout)}


MODULES = {
    "def kernel(:\n": ("1: cannot import module.py: SyntaxError", "def kernel(:"),
    "def f():\n    1 / 0\nf()\n": ("2: cannot import module.py: ZeroDivisionError: division by zero", "1 / 0"),
    "import sys\nsys.exit(3)\n": ("2: cannot import module.py: SystemExit: 3", "sys.exit(3)"),
    "import os\nimport not_there\n": ("2: cannot import module.py: no module named not_there", "import not_there"),
    "from os import nothing_like_it\n": ("1: cannot import module.py: ImportError", "from os import nothing_like_it"),
    "import ptokit as pto\npto.taad\n": ("2: cannot import module.py: AttributeError", "pto.taad"),
    "def __getattr__(k):\n    raise RuntimeError(k)\n": ("2: cannot take k from module.py: RuntimeError: k", "raise"),
}  # fmt: skip


@pytest.mark.parametrize("text", MODULES)
def test_a_module_that_cannot_be_imported_is_reported_with_the_line(folder: Path, text: str) -> None:
    (folder / "module.py").write_text(text, encoding="utf-8")
    place, line = MODULES[text]
    for command in ("check", "run", "show"):
        shown = misuse(command, "module.py:k")
        assert f"ptokit: module.py:{place}" in shown and line in shown and "^" in shown


def test_a_kernel_that_is_refused_where_it_is_defined_is_a_finding(folder: Path) -> None:
    (folder / "module.py").write_text("import ptokit as pto\n@pto.kernel\ndef k(x, target):\n    pass\n", "utf-8")
    result = ptokit_("check", "module.py:k")
    assert result.exit_code == 1 and "module.py:2: error [KN-17] `target` is an option" in result.stderr
    result = ptokit_("check", "module.py:k", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["where"] == {"file": "module.py", "line": 2, "column": None}


# --- missing arguments -------------------------------------------------------------------------------------------

NEEDY = '''\
import ptokit as pto


@pto.kernel
def rows(table, ids, n, out, kind: pto.const, oob: pto.const, tile: pto.const = 8):
    """out = rows of table, from the n-th id on."""
    first = pto.block_idx() * tile
    index = pto.Tile("vec", ids.dtype, 1, tile)
    t = pto.Tile("vec", kind, tile, table.shape[1])
    pto.tload(index, ids[first : first + tile])
    pto.mgather(t, table, index, oob=oob)
    for i in pto.range(n):
        pto.tadd(t, t, t)
    pto.tstore(out[first : first + tile], t)


@pto.kernel
def lengths(values, counts, out):
    """The first of the values, as a 3-D array."""
    n = pto.load_scalar(counts, 0)
    t = pto.Tile("vec", "float32", 16, 32)
    pto.tload(t, values)
    with pto.when(n > 0):
        pto.tstore(out[0:1, 0:16, 0:32], t)
'''


def example(command: str, word: str, *words: str) -> list[str]:
    """The command that is offered."""
    result = ptokit_(command, word, *words)
    assert result.exit_code == 2
    *_, line = result.stderr.strip().splitlines()
    program, *offered = shlex.split(line)
    assert program == "ptokit" and offered[: 2 + len(words)] == [command, word, *words]
    return offered


def test_all_missing_arguments_are_named_with_a_command_that_works(folder: Path) -> None:
    (folder / "needy.py").write_text(NEEDY, encoding="utf-8")
    printed = misuse("check", "needy.py:rows")
    assert "rows: missing required arguments: 'table', 'ids', 'n', 'out', 'kind' and 'oob'; for example:" in printed
    offered = example("check", "needy.py:rows")
    assert offered[2:] == [
        "--arg", "table=float32[64,64]", "--arg", "ids=int32[64]", "--arg", "n=8", "--arg", "out=float32[64,64]",
        "--arg", "kind=float32", "--arg", "oob=undefined",
    ]  # fmt: skip
    assert ptokit_(*offered).exit_code == 0
    offered = example("run", "needy.py:rows", "--grid", "4", "--arg", "oob=wrap", "--arg", "n=2")
    assert "oob=undefined" not in offered and "n=8" not in offered
    assert ptokit_(*offered).exit_code == 0
    offered = example("check", "needy.py:lengths")
    assert offered[2:] == [
        "--arg", "values=float32[64,64]", "--arg", "counts=int32[64]", "--arg", "out=float32[64,64,64]",
    ]  # fmt: skip
    assert ptokit_(*offered).exit_code == 0


def test_what_is_written_is_among_the_missing_arguments(folder: Path) -> None:
    offered = example("run", "kernels:double", "--out", "out=y.npy")
    assert [word.partition("=")[0] for word in offered[5::2]] == ["x", "out"]
    assert ptokit_(*offered).exit_code == 0 and (folder / "y.npy").exists()


def test_a_text_offers_its_own_types(folder: Path) -> None:
    text = """
        func.func @twice(%a: !pto.ptr<f16>, %n: index) {
          %c1 = arith.constant 1 : index
          %c16 = arith.constant 16 : index
          %v = pto.make_tensor_view %a, shape = [%n, %c16], strides = [%c16, %c1] : !pto.tensor_view<?x?xf16>
          return
        }
    """
    (folder / "twice.pto").write_text(text, encoding="utf-8")
    offered = example("run", "twice.pto")
    assert [word for word in offered if "=" in word] == ["a=float16[8,16]", "n=8"]
    assert ptokit_(*offered).exit_code == 0


def test_a_misspelt_argument_gets_the_near_one() -> None:
    assert "no parameter otu; it has x, out, rows, oob; did you mean out?" in misuse(
        "check", "kernels:double", "--arg", "otu=f32[4]"
    )


# --- unknown words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("check", "kernels:double", "--taget", "a5"), "No such option: --taget; did you mean --target?"),
        (("run", "kernels:double", "--egnine", "native"), "No such option: --egnine; did you mean --engine?"),
        (("run", "kernels:double", "--thread=2"), "No such option: --thread; did you mean --threads?"),
        (("convert", "kernels:double", "--ouput", "x"), "No such option: --ouput; did you mean --output?"),
        (("cache", "show", "--jsn"), "No such option: --jsn; did you mean --json?"),
        (("--verison",), "No such option: --verison; did you mean --version?"),
        (("chekc",), "No such command 'chekc'; did you mean check?"),
        (("cache", "claer"), "No such command 'claer'; did you mean clear?"),
        (("run", "kernels:double", "--engine", "natvie", *("--arg", "x=f32[4,16]", "--arg", "out=f32[4,16]")),
         "engine is one of auto, reference, native, cuda, machine; got 'natvie'; did you mean native?"),
    ],
)  # fmt: skip
def test_an_unknown_word_gets_the_nearest_one(words: tuple[str, ...], printed: str) -> None:
    assert printed in misuse(*words)


def test_a_word_that_is_near_nothing_gets_no_guess() -> None:
    assert misuse("check", "kernels:double", "--colour").endswith("No such option: --colour")
    assert misuse("sweep", "kernels:double", "--plot", "a.svg").endswith("No such option: --plot")
    assert misuse("view", "tile", "kernels:double", "--tile", "t").endswith("No such option: --tile")
    assert "did you mean" not in misuse("zzzz")
