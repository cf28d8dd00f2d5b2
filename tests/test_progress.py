"""The progress bar: when it appears, what it shows, and that nothing of it remains."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ptokit as pto
from ptokit import progress
from ptokit.machine.session import Session
from ptokit.progress import BAR, ERASE, PATIENCE, ProgressLine, Task, hidden, is_wanted, shown, task, tick
from tests import forked
from tests.bar import Bar

SOURCE = str(Path(pto.__file__).parent.parent)
SETTINGS = {
    name: value
    for name, value in os.environ.items()
    if name not in ("CI", "TERM", "PTOKIT_PROGRESS", "PYTEST_CURRENT_TEST", "PYTHONPATH")
}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        """What the line shows now."""
        return self.getvalue().rpartition(ERASE)[2]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Terminal:
    """Standard error is a terminal with a clock of the test's, and only `tick` draws."""
    stream, line = Terminal(), ProgressLine
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "ProgressLine", lambda stream: line(stream, clock))
    monkeypatch.setattr(line, "start", lambda self: None)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "IN_TEST", "ANOTHER")  # pytest sets its own for every phase of a test
    for name in ("CI", "PTOKIT_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    return stream


# --- when it appears ---------------------------------------------------------------------------------------------


def test_a_line_appears_after_two_seconds_and_is_removed(terminal: Terminal, clock: Clock) -> None:
    with task("work", 10, "things") as work:
        clock.now += PATIENCE - 0.01
        tick()
        assert terminal.getvalue() == ""
        work.done, clock.now = 4, clock.now + 63
        tick()
        assert terminal.line == f"work [{'=' * 8}{' ' * 12}] 40 %, 4 of 10 things 1:04"
    assert terminal.getvalue().endswith(ERASE) and terminal.line == ""
    assert progress.current() is None


def test_a_short_task_writes_nothing(terminal: Terminal, clock: Clock) -> None:
    with task("work"):
        clock.now += 1
        tick()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("PTOKIT_PROGRESS", "off", False),
        ("PTOKIT_PROGRESS", "0", False),
        ("PTOKIT_PROGRESS", "", False),
        ("PTOKIT_PROGRESS", "on", True),
        ("CI", "true", False),
        ("CI", "1", False),
        ("CI", "false", True),
        ("CI", "", True),
        ("TERM", "dumb", False),
        ("TERM", "vt100", True),
        ("ANOTHER", "test (call)", False),
    ],
)
def test_the_environment_decides(
    name: str, value: str, wanted: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert is_wanted(terminal) is wanted


def test_only_terminals_are_wanted(terminal: Terminal) -> None:
    closed = Terminal()
    closed.close()
    closed.isatty = io.StringIO.isatty.__get__(closed)  # type: ignore[method-assign]
    assert is_wanted(terminal)
    assert not any(is_wanted(stream) for stream in (None, io.StringIO(), closed))


def test_nothing_is_drawn_under_pytest() -> None:
    with task("work"):
        assert progress.current() is None


def test_a_task_can_be_switched_off(terminal: Terminal) -> None:
    with task("work", enabled=False) as work:
        assert progress.current() is None and [*work.track("abc")] == ["a", "b", "c"] and work.done == 3


# --- what it shows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1, 3, 7, 20, 1000])
def test_the_bar_is_as_long_as_the_share_that_is_done(total: int) -> None:
    work = Task("t", total, "x")
    for _ in work.track(range(total)):
        filled = str(work).partition("[")[2].partition("]")[0]
        assert len(filled) == BAR and filled.count("=") == BAR * work.done // total
    assert f"[{'=' * BAR}] 100 %, {total:,} of {total:,} x" in str(work)


def test_tasks_nest_and_the_innermost_bar_is_shown(terminal: Terminal, clock: Clock) -> None:
    with task("all", 5, "files"):
        clock.now += 3
        with task("one", 4, "blocks") as inner:
            inner.done = 1
            tick()
            assert terminal.line == f"all one [{'=' * 5}{' ' * 15}] 25 %, 1 of 4 blocks 0:03"
            with task("of unknown length"):
                tick()
                assert terminal.line.startswith("all one [") and terminal.line.endswith("of unknown length 0:03")
        tick()
        assert terminal.line == f"all [{' ' * BAR}] 0 %, 0 of 5 files 0:03"


def test_a_line_fits_and_moves_no_cursor(terminal: Terminal, clock: Clock) -> None:
    with task("a\x1b[2J\r\nb" + "c" * 200):
        clock.now += 3
        tick()
    drawn = terminal.getvalue().removeprefix(ERASE).removesuffix(ERASE)
    assert drawn == ("a?[2J??b" + "c" * 200)[:74] + " 0:03"  # the time is always there


def test_long_runs_of_tests_have_a_bar(terminal: Terminal, clock: Clock) -> None:
    bar = Bar()
    bar.pytest_sessionstart()
    clock.now += 61
    tick()
    assert terminal.line == "tests 1:01"  # their number is not known yet
    bar.pytest_xdist_node_collection_finished(["a", "b", "c", "d"])
    bar.pytest_runtest_logfinish()
    tick()
    assert terminal.line == f"tests [{'=' * 5}{' ' * 15}] 25 %, 1 of 4 tests 1:01"
    bar.pytest_sessionfinish()
    assert terminal.line == ""


def test_fuzz_runs_have_the_bar() -> None:
    text = (Path(__file__).resolve().parent.parent / "Makefile").read_text(encoding="utf-8")
    runs = [line for line in text.partition("\nfuzz:")[2].partition("\n\n")[0].splitlines() if "pytest" in line]
    assert runs and all("-p tests.bar" in line for line in runs)


def test_a_hidden_line_is_away_and_its_time_does_not_count(terminal: Terminal, clock: Clock) -> None:
    with task("work"):
        clock.now += 3
        tick()
        with hidden():
            assert terminal.line == ""
            tick()
            clock.now += 60
            assert terminal.line == ""
            with shown():
                clock.now += 1
                tick()
                assert terminal.line == "work 0:04"
            assert terminal.line == ""
        tick()
        assert terminal.line == "work 0:04"


def test_hiding_without_a_line_does_nothing() -> None:
    with hidden(), shown():
        tick()


def test_an_exception_removes_the_line(terminal: Terminal, clock: Clock) -> None:
    def fail() -> None:
        with task("work"):
            clock.now += 3
            tick()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.line == "" and progress.current() is None


def test_one_thread_has_the_line(terminal: Terminal) -> None:
    lines: list[object] = []

    def other() -> None:
        with task("other"):
            lines.append(progress.current())

    with task("work"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        line = progress.current()
        assert lines == [None] and line is not None and [each.title for each in line.tasks] == ["work"]


def test_a_terminal_that_is_gone_is_no_error(terminal: Terminal, clock: Clock) -> None:
    with task("work"):
        clock.now += 3
        terminal.close()
        tick()


def test_a_thread_draws_until_the_end(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    stream, drawn = Terminal(), threading.Event()
    line = ProgressLine(stream, clock)
    line.tasks.append(Task("work"))
    clock.now += 3
    draw = line.draw
    monkeypatch.setattr(line, "draw", lambda: (draw(), drawn.set()))
    line.start()
    assert drawn.wait(60)
    line.stop()
    assert stream.getvalue().startswith(f"{ERASE}work 0:03") and stream.line == ""
    assert not any(thread.name == "ptokit progress" for thread in threading.enumerate())


# --- where it is used --------------------------------------------------------------------------------------------


@pto.kernel
def copy(x, out):
    """out = x, a row for each block."""
    n = pto.block_idx()
    t = pto.Tile("vec", "float32", 1, 8)
    pto.tload(t, x[n : n + 1])
    pto.tstore(out[n : n + 1], t)


X = np.arange(64, dtype="float32").reshape(8, 8)


@pytest.fixture
def lines(terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines before every block, each of which takes a second."""
    from ptokit.machine.executable import MachineExecutable

    found: list[str] = []
    run: Callable[..., None] = MachineExecutable._run_block

    def run_block(*arguments: object) -> None:
        clock.now += 1
        tick()
        found.append(terminal.line)
        run(*arguments)

    monkeypatch.setattr(MachineExecutable, "_run_block", run_block)
    return found


def test_a_launch_on_the_machine_shows_its_blocks(lines: list[str], terminal: Terminal) -> None:
    copy[8](X, np.zeros_like(X), target="a5", engine="machine")
    assert lines[0] == "" and [line.partition("[")[0] for line in lines[1:]] == ["copy on a5 "] * 7
    assert [line.partition("%, ")[2] for line in lines[1:]] == [f"{n} of 8 blocks 0:0{n + 1}" for n in range(1, 8)]
    assert terminal.getvalue().endswith(ERASE)


def test_a_launch_that_stops_leaves_no_line(
    lines: list[str], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Session.begin

    def interrupt(session: Session, block: int) -> None:
        if len(lines) == 4:
            raise KeyboardInterrupt
        begin(session, block)

    monkeypatch.setattr(Session, "begin", interrupt)
    with pytest.raises(KeyboardInterrupt):
        copy[8](X, np.zeros_like(X), target="a5", engine="machine")
    assert len(lines) == 4 and lines[-1] and terminal.line == "" and progress.current() is None


def test_an_option_of_the_machine_switches_the_bar_off(lines: list[str], terminal: Terminal) -> None:
    options = pto.MachineOptions(progress=False, seed=1)
    copy[8](X, np.zeros_like(X), target="a5", engine="machine", options=options)
    assert {*lines} == {""} and terminal.getvalue() == ""


SCRIPT = """\
import sys
import ptokit.cli
from ptokit import progress
from ptokit.machine.executable import MachineExecutable

def tick(self, *arguments, run=MachineExecutable._run_block):
    progress.tick()
    run(self, *arguments)

MachineExecutable._run_block = tick
progress.ProgressLine.start = lambda self: None
progress.PATIENCE = 0
ptokit.cli.main()
"""
LAUNCHES = """\
import sys
import numpy as np
import ptokit as pto

@pto.kernel
def copy(x, out):
    n = pto.block_idx()
    t = pto.Tile("vec", "float32", 1, 8)
    pto.tload(t, x[n : n + 1])
    pto.tstore(out[n : n + 1], t)

x = np.ones((4, 8), "float32")
if __name__ == "__main__":
    copy[4](x, np.zeros_like(x), target="a5")
    print("between")
    copy[4](x + 1, np.zeros_like(x), target="a5")
"""


def on_terminal(folder: Path, *words: str, stdout: int | None = None, **more: str) -> str:
    """What a command writes on a terminal, in which drawing does not depend on time."""
    (folder / "launches.py").write_text(LAUNCHES, encoding="utf-8")
    parent, child = pty.openpty()
    settings = {**SETTINGS, "TERM": "xterm", "PYTHONPATH": SOURCE, **more}
    command = [forked.python(), "-c", SCRIPT, *words]
    running = subprocess.Popen(command, stdout=stdout or child, stderr=child, env=settings, cwd=folder)
    os.close(child)
    found = b""
    try:
        while part := os.read(parent, 4096):
            found += part
    except OSError:  # the end of a terminal
        pass
    finally:
        os.close(parent)
    assert running.wait() == 0
    return found.decode()


ARRAYS = ("--arg", "x=f32[4,8]", "--arg", "out=f32[4,8]", "--grid", "4", "--target", "a5")


def test_a_check_with_a_run_shows_a_bar_on_a_terminal(tmp_path: Path) -> None:
    found = on_terminal(tmp_path, "check", "launches.py:copy", *ARRAYS, "--run")
    *bars, result = found.split(ERASE)
    assert bars[0] == "" and len(bars) == 5
    assert [bar.partition("%, ")[2].rpartition(" ")[0] for bar in bars[1:]] == [f"{n} of 4 blocks" for n in range(4)]
    assert all(bar.startswith("check copy: copy on a5 [") for bar in bars[1:])
    assert result.splitlines()[0] == "copy over 4 blocks"


def test_a_check_of_a_file_shows_a_bar_only_while_the_machine_runs(tmp_path: Path) -> None:
    *bars, result = on_terminal(tmp_path, "check", "launches.py").split(ERASE)
    starts = [bar.partition(" [")[0] for bar in bars]
    one, two = ["launches.py, launch 1: copy on a5"] * 4, ["launches.py, launch 2: copy on a5"] * 4
    assert starts == ["", *one, "between\r\n", *two]
    assert result.splitlines()[0] == "copy: 2 launches over 4 blocks"


@pytest.mark.parametrize("settings", [{"PTOKIT_PROGRESS": "off"}, {"CI": "true"}, {"TERM": "dumb"}])
def test_settings_of_a_process_switch_the_bar_off(settings: dict[str, str], tmp_path: Path) -> None:
    assert ERASE not in on_terminal(tmp_path, "check", "launches.py:copy", *ARRAYS, "--run", **settings)


def test_a_pipe_gets_no_bar(tmp_path: Path) -> None:
    (tmp_path / "launches.py").write_text(LAUNCHES, encoding="utf-8")
    command = [forked.python(), "-c", SCRIPT, "check", "launches.py:copy", *ARRAYS, "--run"]
    settings = {**SETTINGS, "TERM": "xterm", "PYTHONPATH": SOURCE}
    done = subprocess.run(command, env=settings, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout.startswith("copy over 4 blocks\n")


def test_results_in_a_pipe_and_messages_on_a_terminal(tmp_path: Path) -> None:
    with open(tmp_path / "result", "wb") as result:
        found = on_terminal(tmp_path, "check", "launches.py:copy", *ARRAYS, "--run", stdout=result.fileno())
    assert found.endswith(ERASE) and "4 blocks" in found
    assert ERASE not in (tmp_path / "result").read_text(encoding="utf-8")


def test_a_forked_process_has_no_line(tmp_path: Path) -> None:
    code = "import os\nfrom ptokit import progress\nwith progress.task('w', in_thread=False):\n"
    code += "    here = progress.current() is not None\n    child = os.fork()\n"
    code += "    if not child:\n        os._exit(progress.current() is not None)\n"
    code += "    assert here and os.waitpid(child, 0)[1] == 0\n"
    parent, child = pty.openpty()
    settings = {**SETTINGS, "TERM": "xterm", "PYTHONPATH": SOURCE}
    assert subprocess.run([sys.executable, "-c", code], env=settings, stderr=child, check=False).returncode == 0
    os.close(child)
    os.close(parent)
