"""Python programs in copies of a process that has loaded ptokit: they run as alone, without the time that imports take.

`python()` is a program that takes `-W ACTION`, then `-m MODULE`, `-c CODE` or a file, and arguments, as Python does. It
hands them to the process that has loaded ptokit, with its folder, environment, input and outputs, and ends as the copy
does; the copy is killed when it is. A test of how Python starts or ends needs a real process.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOADED = (
    *("ptokit.lang.launch", "ptokit.lang.kernel", "ptokit.lang.instructions", "ptokit.machine.executable"),
    *("ptokit.cli.commands", "ptokit.cli.arguments", "ptokit.cli.report", "ptokit.cli.explain"),
    *("ptokit.text.mlir", "typer.testing", "typer._adapters", "rich.console", "rich.table"),
)
"""Modules that most programs load, beside those that they load."""
CLIENT = """\
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    asked = json.dumps({"words": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    socket.send_fds(server, [len(asked).to_bytes(8)], [0, 1, 2])
    server.sendall(asked)
    status = int(server.recv(64) or 1)
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


def run(file: str, folder: Path, environment: Mapping[str, str], warned: str = "ignore") -> Any:
    """Run a file in a folder, with a filter of warnings; what a process of its own would give."""
    command = [python(), "-W", warned, str(file)]
    settings = {"cwd": folder, "env": dict(environment), "stdin": subprocess.DEVNULL}
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


@cache
def python(*loaded: str) -> str:
    """The program that runs others in copies of a process, which has loaded some modules."""
    folder = tempfile.mkdtemp(prefix="ptokit-tests-")
    client, program, place = (Path(folder, name) for name in ("client.py", "python", "socket"))
    client.write_text(CLIENT, encoding="utf-8")
    start = shlex.join([sys.executable, "-IS", str(client), str(place)])
    program.write_text(f'#!/bin/sh\nexec {start} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.forked", str(place), *(loaded or LOADED)]
    server = subprocess.Popen(command, stdin=-1, stdout=-1, env={**os.environ, "PYTHONPATH": path})
    assert server.stdout is not None and server.stdout.readline() == b"listening\n"
    atexit.register(server.communicate)
    return str(program)


# --- The process -----------------------------------------------------------------------------------------------


def serve(place: str, *loaded: str) -> None:
    """Answer requests until standard input ends; then remove the folder of the program."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    library = [each for each in sys.path if each not in given]
    for name in loaded:
        import_module(name)
    running = 0
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        print("listening", flush=True)
        while sys.stdin.fileno() not in select.select([server, sys.stdin.fileno()], [], [])[0]:
            connection, _ = server.accept()
            with connection:
                if not os.fork():
                    server.close()
                    _answer(connection, library)
            running += 1
            while running and os.waitpid(-1, os.WNOHANG)[0]:
                running -= 1
    shutil.rmtree(Path(place).parent)


def _answer(connection: socket.socket, library: list[str]) -> None:
    """Run what is asked for in a process of its own, and send its status."""
    length, given, _, _ = socket.recv_fds(connection, 8, 3)
    asked = b""
    while len(asked) < int.from_bytes(length):
        asked += connection.recv(1 << 16)
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending)
    child = os.fork()
    if not child:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.close()
        for number, stream in enumerate(given):
            os.dup2(stream, number)
        os.closerange(3, max(*given, ended, ending) + 1)
        _become(library, **json.loads(asked))
    for each in (0, 1, *given):
        os.close(each)  # those who read what the child writes wait for its end alone
    if connection in select.select([connection, ended], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):  # of a client that was killed
        connection.sendall(str(status).encode())
    os._exit(0)


def _become(library: list[str], words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run a program as Python does."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        terminal = os.isatty(number)
        stream = open(  # noqa: SIM115
            number, "w" if number else "r", 1 if terminal or number == 2 else -1, encoding="utf-8", closefd=False,
            errors="backslashreplace" if number == 2 else "strict",
        )  # fmt: skip
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    while words[0] == "-W":
        warnings.resetwarnings()
        warnings.simplefilter(words[1])  # type: ignore[arg-type]
        del words[:2]
    kind = words.pop(0) if words[0] in ("-m", "-c") else ""
    here = folder if kind == "-m" else "" if kind else str(Path(words[0]).resolve().parent)
    sys.path[:] = [here, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *library]
    status = 0
    try:
        _run(kind, words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as problem:
        sys.excepthook(type(problem), problem, problem.__traceback__)
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _run(kind: str, words: list[str]) -> None:
    if kind == "-m":
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *words[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), vars(main))
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve(*sys.argv[1:])
