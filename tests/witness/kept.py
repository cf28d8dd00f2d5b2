"""What runs of the comparison share: the changed headers, also precompiled, and our own sources, in folders that their
texts name.

A library is kept by the texts and the places of what it is made of; places that stay let a later run find it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ptokit.atomic import write_file
from ptokit.cxx.compile import RUNTIME, CompileOptions, _Compilation, _version_text, find_compiler, precompile
from ptokit.cxx.names import INCLUDE
from ptokit.witness.headers import Checkout
from ptokit.witness.record import PUBLIC, Witness, options_with
from tests.witness import emitted, forms
from tests.witness.forms import Form

FOLDER = Path(__file__).parents[2] / "build" / "witness"
"""Where it lies; `make clean` removes it."""
TOGETHER = 6
"""Instructions whose kernels are one source: most of the time to compile one goes to the headers."""


@dataclass(frozen=True)
class Kept:
    """Folders that processes share."""

    headers: Path
    """The changed headers."""
    first: tuple[Path, ...] = ()
    """Where those are precompiled; empty with compilers that take no precompiled headers of GCC."""
    own: tuple[Path, ...] = ()
    """Where those of ptokit are."""


def kept(checkout: Checkout, family: str) -> Kept:
    """The folders of a target. All files of its tests read the same headers first, for much of the time that it takes
    to compile them."""
    place = headers(checkout)
    shared, own = options_with(place, CompileOptions()), CompileOptions()
    return Kept(place, _precompiled(family, shared), _precompiled(family, own))


def _precompiled(family: str, options: CompileOptions) -> tuple[Path, ...]:
    """A folder of builtins, and behind them the public headers, as GCC has read them for each core; none with Clang."""
    compiler = find_compiler()
    command = _Compilation(RUNTIME, family, options, compiler, FOLDER, None).command("any")
    known_by = [_version_text(compiler.command), *command, _digest(INCLUDE)]
    place = FOLDER / f"{family}.{sha256(' '.join(known_by).encode()).hexdigest()[:16]}"
    if not place.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        own = FOLDER / f"{place.name}.{os.getpid()}"
        if not precompile(family, options, own, PUBLIC):
            return ()
        _moved(own, place)
    return (place,)


def headers(checkout: Checkout) -> Path:
    """The folder of the changed headers."""
    with Witness(checkout) as witness:
        place = FOLDER / _digest(witness.folder)[:16]
        if not place.exists():
            own = FOLDER / f"{place.name}.{os.getpid()}"
            shutil.copytree(witness.folder, own)
            _moved(own, place)
    return place


def _moved(own: Path, place: Path) -> None:
    with suppress(OSError):  # another run was faster
        own.rename(place)
    shutil.rmtree(own, ignore_errors=True)


def _digest(folder: Path) -> str:
    """Of the texts in a folder."""
    digest = sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def own_sources(names: Sequence[str], family: str) -> list[Path]:
    """Our own kernels of some instructions, some in each source."""
    groups = [names[first : first + TOGETHER] for first in range(0, len(names), TOGETHER)]
    return [_written(f"{group[0]}_{group[-1]}", emitted.source(group, family)) for group in groups]


def sources_of_forms(known: Sequence[Form]) -> list[tuple[Path, str]]:
    """Kernels of more overloads, those of a core in each source; and the core."""
    by_core = {core: [form for form in known if form.core == core] for core in ("vector", "cube", "")}
    return [(_written(f"forms_{core}", forms.source(some)), core) for core, some in by_core.items() if some]


def _written(about: str, text: str) -> Path:
    name = f"own_{about}_{sha256(text.encode()).hexdigest()[:8]}.cpp"
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_file(FOLDER / name, text.encode())
    return FOLDER / name
