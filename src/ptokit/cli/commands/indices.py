"""Commands for index traces."""

from __future__ import annotations

from typing import Annotated

import typer

from ptokit.cli.parsing import generators, known_targets, replay_engines
from ptokit.cli.parsing import targets as target_names
from ptokit.cli.request import Json, Module, Words, output


def trace_indices(
    words: Annotated[
        Words,
        typer.Argument(metavar="-- FILE.py ARG", help="A Python file, or a module with -m, and its arguments."),
    ] = None,
    module: Module = False,
    out: Annotated[str | None, output("trace.npz")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Indices that are recorded, at most: 10,000,000.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Record N calls, drawn at random from all; without it the first calls."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Draws another sample.")] = 0,
    generate: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:PARAMETER=VALUE,...",
            autocompletion=generators,
            help="Make up a trace instead: zipf, moe_routing or paged_kv.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a Python program, and record the indices of its lookups, for `replay`.

    Recorded are pto.gather and pto.scatter, and torch's embedding, embedding_bag and index_select, in order. The
    program runs in a process of its own, unchanged; what it prints goes to standard error.
    """
    from ptokit.cli.files import destination
    from ptokit.cli.indices import trace_indices as record

    how = {"limit": limit, "sample": sample, "seed": seed}
    return record(words or (), destination(out, "trace.npz"), how, generate, module, as_json)


def replay(
    file: Annotated[str, typer.Argument(metavar="TRACE.npz", help="A trace that `trace-indices` wrote.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", callback=known_targets, autocompletion=target_names, help="Machine: the targets."
        ),
    ] = "a2a3,a5",
    engine: Annotated[str, typer.Option(autocompletion=replay_engines, help="machine, native or sharded.")] = "machine",
    lanes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Indices of each table that are replayed, the first ones.")
    ] = None,
    shards: Annotated[int, typer.Option(min=1, metavar="N", help="Sharded: the number of owners.")] = 2,
    as_json: Json = False,
) -> int:
    """Move the rows of a recorded trace once more, and show what they cost.

    The machine gives traffic, repeats, lanes outside and cycles of each target; the native engine its time against
    NumPy, torch and Numba; a sharded table the accesses of each owner.
    """
    from ptokit.cli.indices import replay_trace

    return replay_trace(file, target, engine, lanes, shards, as_json)
