"""`ptokit trace-indices` and `ptokit replay`: which entries of tables a program accesses, and what that costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ptokit.cli.files import check_destination
from ptokit.cli.problems import FINE, FOUND, INTERRUPTED, Misuse, misused, print_error
from ptokit.cli.programs import library_call
from ptokit.cli.report import print_answer
from ptokit.traces.file import IndexTrace
from ptokit.traces.generate import generate
from ptokit.traces.recording import limits_of
from ptokit.traces.replay import replay

RECORDER = "ptokit.traces.process"
"""The module that runs a program and records its indices."""
NOTHING = "{} makes no call that is recorded: pto.gather, pto.scatter, torch's embedding, embedding_bag or index_select"


def trace_indices(
    words: Sequence[str], out: str, limits: Mapping[str, int | None], made: str | None, is_module: bool, as_json: bool
) -> int:
    """Run a program, or generate indices, and write the trace; `limits` has `limit`, `sample` and `seed`."""
    check_destination(out)
    if bool(made) == bool(words):
        raise Misuse("trace-indices takes a program after --, or --generate NAME:PARAMETER=VALUE,...")
    status, interrupted = 0, False
    if made:
        with misused(ValueError):
            trace = generate(made)
    else:
        trace, status, interrupted = _recorded(words, limits, is_module)
    if words and not trace.calls and not status:
        raise Misuse(NOTHING.format(words[0]))
    with misused(OSError, by=f"cannot write {out}: "), misused(ValueError, by=f"{out}: "):
        trace.save(out)
    print_answer("trace-indices", as_json, str(trace), file=out, status=status, **trace.as_dict())
    if status:
        print_error(f"{words[0]} ended with status {status}; what it did until then is in {out}")
    return INTERRUPTED if interrupted else FOUND if status else FINE


def _recorded(words: Sequence[str], limits: Mapping[str, int | None], is_module: bool) -> tuple[IndexTrace, int, bool]:
    """Run a program in a process of its own: its trace, its status, and whether it was interrupted. What it prints goes
    to standard error."""
    name = words[0]
    if not is_module and not os.path.isfile(name):
        raise Misuse(f"there is no file {name}")
    with tempfile.TemporaryDirectory(prefix="ptokit-") as folder:
        file = os.path.join(folder, "trace.npz")
        given = {name: value for name, value in limits.items() if value is not None}
        with misused(ValueError):
            limits_of(**given)
        command = [sys.executable, "-m", RECORDER, file, json.dumps(given), "module" if is_module else "script", *words]
        process = subprocess.Popen(command, stdout=_standard_error())  # noqa: S603  (the user's own program)
        interrupted = False
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the program gets it as well, and writes what it has
            status, interrupted = process.wait(), True
        if not os.path.exists(file):
            raise Misuse(f"{name} ended with status {status} and left no trace")
        with misused(ValueError):
            return IndexTrace.load(file), status, interrupted


def _standard_error() -> Any:
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return subprocess.DEVNULL


def replay_trace(file: str, targets: str, engine: str, lanes: int | None, shards: int, as_json: bool) -> int:
    """Replay a trace, and print what it takes."""
    with misused(OSError, by=f"cannot read {file}: "), misused(ValueError):
        trace = IndexTrace.load(file)
    with library_call(), misused(ValueError):
        result = replay(trace, engine=engine, targets=targets, lanes=lanes, shards=shards)
    return print_answer("replay", as_json, f"{trace.heading()}\n{result}", file=file, **result.as_dict())
