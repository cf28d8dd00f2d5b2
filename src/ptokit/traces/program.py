"""The process of `ptokit trace-indices`: runs a program as `python` does, and writes its trace at the end.

python -m ptokit.traces.program FILE LIMIT EVERY script|module NAME [ARG...]
"""

from __future__ import annotations

import os
import runpy
import sys

from ptokit.traces.recording import record_indices


def main(words: list[str]) -> None:
    """Run the program; what it raises is raised, and its trace is written first."""
    file, limit, every, form, name, *args = words
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiled code calls no functions that could be seen
    first = os.getcwd() if form == "module" else os.path.dirname(os.path.realpath(name))
    sys.argv, sys.path[0] = [name, *args], first
    process = os.getpid()
    with record_indices(limit=int(limit), every=int(every), source=" ".join([name, *args])[:1000]) as trace:
        try:
            if form == "module":
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(os.path.abspath(name), run_name="__main__")
        finally:
            if os.getpid() == process:  # not in processes that the program has forked
                trace.save(file)


if __name__ == "__main__":
    main(sys.argv[1:])
