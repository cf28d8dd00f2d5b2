"""docs/revisions.md: how the revisions of the public repository differ from the plain targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ptokit.target import PROFILES, Profile

FILE = Path(__file__).resolve().parent.parent / "docs" / "revisions.md"
HEAD = """# Revisions

<!-- generated: `make generated` writes this page from src/ptokit/isa/public.py -->

A plain target (`a2a3`, `a5`) follows the documents. A revision such as `a5@2026.08` follows the public headers and
pages of that month where they differ; all else is that of the plain target (decision A-72). It is a target like any
other: in `target=`, `pto.target(...)`, `--target` and wherever a file names one. `all` does not include revisions.
`ptokit targets` names date and commit, and `ptokit explain mscatter --target a5@2026.08` lists the differences of the
instruction.

Programs are not bound to a target, so an argument that is left out has the default of the target that runs them:
`mscatter` without `coalesce=` takes its mode from the index shape on a plain target, and means rows on a revision.

Not modelled: TSCATTER with a mask, which the headers have and the documents do not.
"""


def sections() -> Iterator[str]:
    """A table for each revision."""
    for profile in PROFILES.values():
        if profile.revision.state:
            yield _section(profile)


def _section(profile: Profile) -> str:
    rows = "\n".join(f"| `{row.instruction}` | {row.text} | `{row.source}` |" for row in profile.revision.rows)
    head = f"## {profile.name}\n\nFrom `{profile.origin}`, by {profile.revision.state}.\n"
    return f"{head}\n| instruction | what differs | shown by |\n|---|---|---|\n{rows}\n"


def page() -> str:
    """The whole page."""
    return "\n".join((HEAD, *sections()))
