"""The command as a process: pipes, terminals, completion, and how little its help loads."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ptokit
from ptokit.cli import app
from ptokit.cli.completion import functions, programs, whole_words
from ptokit.cxx.confine import summary
from tests import forked
from tests.cli.shell import ENVIRONMENT, process, ptokit_

COLOUR = re.compile(r"\x1b\[[\d;]*3\d[\d;]*m")
SHAPES = ("--arg", "x=f32[10,16]", "--arg", "out=f32[10,16]")
COLUMN = ("kernels:column", "--arg", "table=f32[9,16]", "--arg", "ids=i32[8,1]", "--arg", "out=f32[8,16]")


def test_the_module_is_the_same_program() -> None:
    script = [sys.executable, "-c", "from ptokit.cli import main; main()", "--help"]
    entry = subprocess.run(script, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert process("--help", starting=True).stdout == entry.stdout != ""
    assert process("--version").stdout == f"ptokit {ptokit.__version__}\nC++ sources: {summary()}\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("check", "kernels:double", *SHAPES), 0),
        (("check", *COLUMN), 1),
    ],
)
def test_the_exit_status_of_a_process(words: tuple[str, ...], status: int) -> None:
    assert process(*words, starting=True).returncode == status


@pytest.mark.parametrize("words", [("--help",), ("check", *COLUMN)])
def test_a_closed_pipe_ends_quietly(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = process(*words, starting=True, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert done.stderr == ""


def test_a_full_disk_is_said_in_a_line() -> None:
    with open("/dev/full", "w") as full:
        given = {"capture_output": False, "stdout": full, "stderr": subprocess.PIPE}
        done = process("check", "kernels:double", *SHAPES, starting=True, **given)
    assert (done.returncode, done.stderr) == (2, "ptokit: cannot write the output: No space left on device\n")


def test_results_may_be_thrown_away() -> None:
    command = f"'{sys.executable}' -m ptokit check kernels:double --arg x='f32[9,16]' --arg out='f32[9,16]' >&-"
    done = subprocess.run(["/bin/sh", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def terminal(words: tuple[str, ...], **environment: str) -> str:
    """What a command shows on a terminal."""
    parent, child = pty.openpty()
    command = [forked.python(), "-m", "ptokit", *words]
    settings = {**ENVIRONMENT, "TERM": "xterm-256color", **environment}
    running = subprocess.Popen(command, stdout=child, stderr=child, env=settings)
    os.close(child)
    shown = b""
    try:
        while part := os.read(parent, 4096):
            shown += part
    except OSError:  # the end of a terminal
        pass
    running.wait()
    os.close(parent)
    return shown.decode("utf-8")


def test_colours_only_on_a_terminal() -> None:
    """`test_no_color_means_no_escape_codes` shows the same command on a terminal without colours."""
    assert COLOUR.search(terminal(("check", *COLUMN)))
    assert "\x1b[" not in process("check", *COLUMN).stdout


@pytest.mark.parametrize("words", [("check", *COLUMN), ("explain", "mgather"), ("--help",), ("nonsense",)])
def test_no_color_means_no_escape_codes(words: tuple[str, ...]) -> None:
    """Nor bold or underlined words, links, or those that `FORCE_COLOR` asks for."""
    plain = terminal(words, NO_COLOR="1", FORCE_COLOR="1", PTOKIT_PROGRESS="on")
    assert plain and "\x1b" not in plain


def test_an_empty_no_color_means_nothing() -> None:
    assert terminal(("targets",), NO_COLOR="") == terminal(("targets",))


def test_all_consoles_are_made_in_one_place() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in Path(ptokit.__file__).parent.rglob("*.py")}
    made = [path.name for path, text in sources.items() if re.search(r"\bConsole\(", text)]
    assert made == ["document.py"]
    assert [path.name for path, text in sources.items() if "\\x1b" in text or "\\033" in text] == ["progress.py"]


def test_nothing_in_a_text_reaches_a_terminal_as_a_command(folder: Path) -> None:
    (folder / "x\x1b[31m.pto").write_text("\x1b[2J\u202e nonsense", encoding="utf-8")
    for command in ("check", "show", "fmt"):
        result = ptokit_(command, "x\x1b[31m.pto")
        assert result.exit_code == 1
        assert not {*"\x1b\u202e"} & {*result.output}


def modules_after(*words: str) -> set[str]:
    """Modules that a command has loaded when it ends, but for those that typer and ptokit load themselves."""
    code = "import typer, ptokit, atexit, sys; known = {*sys.modules}; from ptokit.cli import main"
    code += "; atexit.register(lambda: print(*{*sys.modules} - known, file=sys.stderr)); main()"
    command = [sys.executable, "-c", code, *words]
    return {*subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False).stderr.split()}


def test_help_loads_little() -> None:
    for words in ((), ("--help",), ("--version",), ("run", "--help")):
        loaded = modules_after(*words)
        assert "ptokit.cli.commands" in loaded
        assert not loaded & {"rich", "ptokit.spec", "ptokit.render", "ptokit.lang.kernel", "ptokit.text.forms"}


def test_kernels_of_modules_need_no_mlir() -> None:
    assert "ptokit.text.mlir" not in modules_after("check", "kernels:double", *SHAPES)


# --- completion ------------------------------------------------------------------------------------------------


def offered(*words: str) -> set[str]:
    """What a shell offers for the last word."""
    asked = {"_PTOKIT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("ptokit", *words))}
    done = CliRunner().invoke(app, [], env={**asked, "COMP_CWORD": str(len(words))}, prog_name="ptokit")
    return {*done.stdout.split()}


@pytest.mark.parametrize(
    ("words", "among"),
    [
        (("ch",), {"check"}),
        (("check", "x.pto", "--target", "a"), {"all", "a2a3", "a5"}),
        (("run", "x.pto", "--target", "a"), {"a2a3", "a5"}),
        (("run", "x.pto", "--engine", "r"), {"reference"}),
        (("convert", "x.pto", "--to", "l"), {"l1", "l2"}),
        (("convert", "x.pto", "--to", "c"), {"cpp"}),
        (("convert", "x.pto", "--pto-version", "0"), {"0.27"}),
        (("explain", "MG-OOB-0"), {f"MG-OOB-0{n}" for n in range(1, 9)}),
        (("explain", "mscat"), {"mscatter"}),
        (("explain", "H-0"), {"H-01", "H-09"}),
        (("view", "layout", "n"), {"nd", "nz", "nn"}),
    ],
)
def test_completion(words: tuple[str, ...], among: set[str]) -> None:
    found = offered(*words)
    assert among <= found
    assert all(name.startswith(words[-1]) for name in found)


@pytest.mark.parametrize("place", ["x", "-5", "", "99", "9" * 5000, "1.5"])
def test_completion_survives_any_environment(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_PTOKIT_COMPLETE": "complete_bash", "COMP_WORDS": "ptokit\nch", "COMP_CWORD": place}.items():
        monkeypatch.setenv(name, value)
    with whole_words():
        assert os.environ["COMP_CWORD"] == "2"  # a word after the last


SHELLS = {
    "fish": 'source script; complete -C "ptokit run kernels.py:dou"',
    "zsh": """compdef() { : }; _arguments() { print -r -- "$@" }; source script
words=(ptokit run kernels.py:dou); CURRENT=3; _ptokit_completion""",
}
"""Completes the name of a kernel."""


@pytest.mark.parametrize("shell", [*SHELLS])
def test_completion_in_a_real_shell(shell: str, folder: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (folder / "ptokit").write_text(f'#!/bin/sh\nexec "{forked.python()}" -m ptokit "$@"\n', encoding="utf-8")
    (folder / "ptokit").chmod(0o755)
    own = {**ENVIRONMENT, "HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    script = process(env={**own, "_PTOKIT_COMPLETE": f"source_{shell}"}).stdout
    (folder / "script").write_text(script, encoding="utf-8")
    settings = {"env": own, "cwd": folder, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run([shell, *(("-f",) if shell == "zsh" else ()), "-c", SHELLS[shell]], check=False, **settings)
    (offered_there,) = done.stdout.replace("\\", "").splitlines()
    assert "kernels.py:double" in offered_there and "column" not in offered_there


RAISING = """\
import ptokit as pto
raise SystemExit("this file must not be imported")

@pto.kernel
def first(x): ...

@pto.kernel(mode="manual")
def second(x): ...

@cache
def third(x): ...
"""


def test_kernels_are_offered_without_importing_their_file(folder: Path) -> None:
    (folder / "raising.py").write_text(RAISING, encoding="utf-8")
    # Bash takes a colon for a word of its own, and replaces what follows it
    words = {"_PTOKIT_COMPLETE": "complete_bash", "COMP_WORDS": "ptokit\nrun\nraising\n:\nfi", "COMP_CWORD": "4"}
    assert process(env={**ENVIRONMENT, **words}).stdout == "first\n"
    assert offered("check", "raising.py:") == {"raising.py:first", "raising.py:second"}
    assert [*programs("raising.py")] == ["raising.py:first", "raising.py:second"]
    assert [*programs("raising.py:se")] == ["raising.py:second"]
    assert not [*programs("missing.py:"), *programs("raising"), *programs("C:"), *programs("..:")]


def test_functions_are_offered(folder: Path) -> None:
    (folder / "two.pto").write_text(
        "func.func @one() { return }\nfunc.func private @two() { return }", encoding="utf-8"
    )
    source = "// __global__ void no()\nextern __global__ AICORE void copy(int *a) {}"
    (folder / "k.cpp").write_text(source, encoding="utf-8")
    assert offered("check", "two.pto", "--function", "o") == {"one"}
    assert [*functions("two.pto", "")] == ["one", "two"]
    assert [*functions("k.cpp", "")] == ["copy"]
    assert not [*functions("kernels.py", ""), *functions(None, ""), *functions("missing.pto", "")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_installed(shell: str, folder: Path) -> None:
    home = {**ENVIRONMENT, "HOME": str(folder), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_PTOKIT_COMPLETE" in process("--show-completion", shell, env=home).stdout
    assert process("--install-completion", shell, env=home).returncode == 0
    assert [path for path in folder.rglob("*ptokit*") if path.is_file()]
