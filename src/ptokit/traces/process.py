"""The process of `ptokit trace-indices`: runs a program as `python` does, and writes its trace at the end.

python -m ptokit.traces.process FILE HOW script|module NAME [ARG...]

HOW is a JSON object: the `limit`, `sample` and `seed` of `record_indices`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

from ptokit.traces.recording import record_indices


def main(words: list[str]) -> None:
    """Run the program; what it raises is raised, and its trace is written first."""
    file, how, form, name, *args = words
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiled code calls no functions that could be seen
    first = os.getcwd() if form == "module" else os.path.dirname(os.path.realpath(name))
    sys.argv, sys.path[0] = [name, *args], first
    process = os.getpid()
    source = " ".join([name, *args])[:1000]
    trace = None
    try:
        with record_indices(**json.loads(how), source=source) as trace:
            if form == "module":
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(os.path.abspath(name), run_name="__main__")
    finally:
        if trace is not None and os.getpid() == process:  # not in processes that the program has forked
            trace.save(file)


if __name__ == "__main__":
    main(sys.argv[1:])
