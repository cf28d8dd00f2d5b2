"""Commands that explain: the reference, the targets, the tour."""

from __future__ import annotations

from typing import Annotated

import typer

from ptokit.cli.parsing import explained
from ptokit.cli.problems import FINE
from ptokit.cli.request import Json, Target


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=explained,
            help="A clause (MG-OOB-08), decision (A-05), hazard (H-24), instruction, or group (MG-OOB, A, H).",
        ),
    ] = None,
    target: Target = None,
    as_json: Json = False,
) -> int:
    """Show a clause, a decision, a hazard, or the whole contract of an instruction; without a name, list them."""
    from ptokit.cli.explain import explain as show_page

    return show_page(name, target, as_json=as_json)


def targets(as_json: Json = False) -> int:
    """Show the target profiles side by side."""
    if as_json:
        from ptokit.cli.report import print_json
        from ptokit.render.data import targets_data

        print_json("targets", targets=targets_data())
        return FINE

    from ptokit.render import pages
    from ptokit.render.document import new_console

    new_console().print(pages.targets_table())
    return FINE


def demo() -> int:
    """Show what ptokit does."""
    from ptokit import demo as acts

    acts.main()
    return FINE
