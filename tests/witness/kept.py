"""What runs of the comparison share: the changed headers and our own sources, in folders that their texts name.

A library is kept by the texts and the places of what it is made of; places that stay let a later run find it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ptokit.atomic import write_file
from ptokit.witness.headers import Checkout
from ptokit.witness.record import Witness
from tests.witness import emitted

FOLDER = Path(__file__).parents[2] / "build" / "witness"
"""Where it lies; `make clean` removes it."""
TOGETHER = 6
"""Instructions whose kernels are one source: most of the time to compile one goes to the headers."""


def headers(checkout: Checkout) -> Path:
    """The folder of the changed headers."""
    with Witness(checkout) as witness:
        digest = sha256()
        for file in sorted(path for path in witness.folder.rglob("*") if path.is_file()):
            digest.update(file.relative_to(witness.folder).as_posix().encode() + file.read_bytes())
        place = FOLDER / digest.hexdigest()[:16]
        if not place.exists():
            own = FOLDER / f"{place.name}.{os.getpid()}"
            shutil.copytree(witness.folder, own)
            with suppress(OSError):  # another run was faster
                own.rename(place)
            shutil.rmtree(own, ignore_errors=True)
    return place


def own_sources(names: Sequence[str], family: str) -> list[Path]:
    """Our own kernels of some instructions, some in each source."""
    groups = [names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER)]
    return [_written(group, emitted.source(group, family)) for group in groups]


def _written(group: Sequence[str], text: str) -> Path:
    name = f"own_{group[0]}_{group[-1]}_{sha256(text.encode()).hexdigest()[:8]}.cpp"
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_file(FOLDER / name, text.encode())
    return FOLDER / name
