"""Names that options and arguments take: completion in the shell, and validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import typer

ALL = "all"


def targets(incomplete: str) -> Iterator[str]:
    """Names of targets."""
    from ptokit.target import PROFILES

    return _starting(incomplete, PROFILES)


def targets_or_all(incomplete: str) -> Iterator[str]:
    """Names of targets, and `all`."""
    from ptokit.target import PROFILES

    return _starting(incomplete, (ALL, *PROFILES))


def engines(incomplete: str) -> Iterator[str]:
    """Names of engines."""
    from ptokit.engines import names

    return _starting(incomplete, names(models=True))


def explained(incomplete: str) -> Iterator[str]:
    """Everything that can be explained: instructions, clauses, decisions and hazards."""
    from ptokit.cli.explain import PAGES

    return (name for names in PAGES for name in _starting(incomplete, names()))


def _starting(start: str, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith(start))


def known_target(name: str | None) -> str | None:
    """The name of a target or `all`; others are refused."""
    from ptokit.target import profile

    try:
        return name if name in (None, ALL) else profile(name).name
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
