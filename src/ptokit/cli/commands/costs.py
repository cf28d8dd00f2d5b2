"""Commands for measured costs and for compiled code."""

from __future__ import annotations

from typing import Annotated

import typer

from ptokit.cli.request import Costs, Json, Target, Words, output


def calibrate(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Measured times: JSON, or a CSV file of msprof.")],
    kernel: Annotated[
        Words,
        typer.Option("--kernel", metavar="FILE|MODULE:KERNEL", help="A kernel that the trace names, once for each."),
    ] = None,
    target: Target = None,
    costs: Costs = None,
    out: Annotated[str | None, output("costs.json")] = None,
    as_json: Json = False,
) -> int:
    """Fit the cost table of a target to measured times, and write it for --costs."""
    from ptokit.cli.calibrate import calibrate_costs
    from ptokit.cli.files import destination

    return calibrate_costs(trace, kernel or (), target, costs, destination(out, "costs.json"), as_json)


def cache_show(as_json: Json = False) -> int:
    """Show where compiled code is cached, and how much there is."""
    from ptokit.cli.cache import show_cache

    return show_cache(as_json)


def cache_clear(as_json: Json = False) -> int:
    """Remove all cached code. It is compiled again when needed."""
    from ptokit.cli.cache import clear_cache

    return clear_cache(as_json)
