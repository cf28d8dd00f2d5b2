"""Python files in copies of a process that has loaded ptokit: they run as alone, without the time that imports take.

`python -m tests.forked` is that process: each line of its input asks for a run, and is answered with an exit status.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOADED = ("ptokit.lang.launch", "ptokit.lang.kernel", "ptokit.lang.instructions", "ptokit.machine.executable")
"""Modules that most programs load, beside those that they load."""


def run(file: str, folder: Path, environment: Mapping[str, str], warned: str = "ignore") -> Any:
    """Run a file in a folder, with a filter of warnings; what a process of its own would give."""
    with TemporaryDirectory() as place:
        out, errors = Path(place, "out"), Path(place, "errors")
        asked = {
            "file": str(file), "folder": str(folder), "environment": dict(environment), "warned": warned,
            "out": str(out), "errors": str(errors),
        }  # fmt: skip
        server = _server()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        texts = (path.read_text(encoding="utf-8") for path in (out, errors))
        return subprocess.CompletedProcess(file, status, *texts)


@cache
def _server() -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    made = subprocess.Popen(
        [sys.executable, "-m", "tests.forked"], stdin=-1, stdout=-1, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    atexit.register(made.communicate)
    return made


# --- The process -----------------------------------------------------------------------------------------------


def serve() -> None:
    for name in LOADED:
        import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(file: str, folder: str, environment: dict[str, str], warned: str, out: str, errors: str) -> None:
    """Run a file as Python does."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for place, number in ((os.devnull, 0), (out, 1), (errors, 2)):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT, 0o600), number)
    sys.argv, sys.path[0] = [file], folder
    warnings.resetwarnings()
    warnings.simplefilter(warned)  # type: ignore[arg-type]
    status = 0
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
