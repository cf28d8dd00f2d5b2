"""Test vectors as files: programs, inputs, and the bytes or the refusal that the reference engine gives."""

from __future__ import annotations

import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptokit import spec
from ptokit._version import __version__
from ptokit.brief import brief
from ptokit.conformance.cases import Bits, CaseProgram, Data, programs
from ptokit.engine.runnable import REFERENCE
from ptokit.finding import HazardWarning, VerifyError
from ptokit.lang.check import check
from ptokit.lang.loaded import TextKernel, from_text
from ptokit.program.instr_calls import written_arguments
from ptokit.progress import task
from ptokit.target import PROFILES, Profile, profile
from ptokit.text.cpp import emit_unchecked
from ptokit.text.forms import print_program

FORMAT, KIND = 1, "ptokit conformance"
INDEX, PROGRAMS = "index.json", "programs"
"""What an export consists of."""


class Unwritable(Exception):
    """A folder that an export cannot be written to, or an export of nothing."""


def targets() -> tuple[str, ...]:
    """The targets that have documents, with their revisions."""
    return tuple(name for name, each in PROFILES.items() if each.headers)


def export(folder: str | os.PathLike[str], chosen: Sequence[str] = (), only: str = "") -> dict[str, Any]:
    """Write the cases of some targets; returns the index. `only` chooses programs by the beginning of their names.

    The folder appears whole or not at all. An older export there is replaced, anything else is not.
    """
    final = Path(folder).absolute()
    _check(final)
    made = [program for program in programs() if program.name.startswith(only)]
    if not made:
        raise Unwritable(f"no program has a name that begins with {brief(only)}; one is {next(programs()).name}")
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".ptokit-conformance-") as temporary:
        whole, old = Path(temporary, "new"), Path(temporary, "old")
        (whole / PROGRAMS).mkdir(parents=True)
        with task("export cases:", len(made), "programs") as work:
            written = [_write(program, chosen or targets(), whole) for program in work.track(made)]
        index = {
            "format": FORMAT, "kind": KIND, "ptokit": __version__, "targets": [*(chosen or targets())],
            "programs": [entry for entry, _ in written], "cases": [case for _, cases in written for case in cases],
        }  # fmt: skip
        (whole / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        _check(final)
        if final.exists():
            os.rename(final, old)
        os.rename(whole, final)
    return index


def _check(folder: Path) -> None:
    """Refuse what is no folder, and a folder with other things than an export."""
    if not folder.parent.is_dir():
        raise Unwritable(f"there is no folder {folder.parent}")
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise Unwritable(f"{folder} is no folder")
    content = {each.name for each in folder.iterdir()}
    if not content:
        return
    try:
        is_ours = content == {INDEX, PROGRAMS} and read_index(folder)["kind"] == KIND
    except (OSError, ValueError):
        is_ours = False
    if not is_ours:
        raise Unwritable(f"{folder} has other files than an export: choose a new folder")


def read_index(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The index of an export; raises ValueError for what is none."""
    try:
        index = json.loads(Path(folder, INDEX).read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(index, dict) or index.get("kind") != KIND or index.get("format") != FORMAT:
        raise ValueError(f"it is no export of format {FORMAT}")
    return index


def _write(program: CaseProgram, names: Iterable[str], folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The files of one program; its entry in the index, and those of its cases."""
    home = folder / PROGRAMS / program.name
    home.mkdir()
    text = print_program(from_text(program.text, program.name).program)
    kernel = from_text(text, f"{program.name}.pto")
    (home / "program.pto").write_text(text, encoding="utf-8")
    tensors = kernel.program.tensors
    stored: dict[str, Bits] = {name: np.stack([each.data[name] for each in program.sets]) for name in program.arrays}
    entry: dict[str, Any] = {
        "name": program.name, "folder": f"{PROGRAMS}/{program.name}", "kernel": kernel.name, "grid": program.grid,
        "arrays": {name: {"type": kind.name, "elements": count} for name, (kind, count) in program.arrays.items()},
        "outputs": sorted({tensors[name].array for name in written_arguments(kernel.program)}), "cpp": {},
        "expected": {},
    }  # fmt: skip
    cases: list[dict[str, Any]] = []
    results: dict[str, Data] = {}
    for target in (name for name in names if spec.is_one_of(name, program.families)):
        machine = profile(target)
        cpp = _cpp(kernel, machine)
        entry["cpp"][target] = cpp and f"{target}.cpp"
        if cpp:
            (home / f"{target}.cpp").write_text(cpp, encoding="utf-8")
        if refused := _errors(kernel, target):
            expect = {"kind": "refusal", "level": "error", "clauses": refused}
            cases.append({**_case(program, 0, target, refused), "expect": expect})
            continue
        results[target] = found = _results(program, kernel, machine, entry["outputs"])
        same = next(name for name, each in results.items() if _equal(each, found))
        entry["expected"][target] = same
        stored |= {f"{same}/{name}": each for name, each in found.items()}
        for k, each in enumerate(program.sets):
            clauses = [id for id in f"{each.clauses} {program.clauses}".split() if spec.holds(id, target)]
            cases.append({**_case(program, k, target, dict.fromkeys(clauses)), "expect": {"kind": "bytes"}})
    if not results:  # it never runs
        stored = {name: bits[:1] for name, bits in stored.items()}
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **stored)  # type: ignore[arg-type]  (the names are no options)
    (home / "data.npz").write_bytes(content.getvalue())
    return entry, cases


def _case(program: CaseProgram, k: int, target: str, clauses: Iterable[str]) -> dict[str, Any]:
    return {
        "id": f"{program.name}.{k}@{target}", "program": program.name, "set": k, "target": target,
        "clauses": [*clauses],
    }  # fmt: skip


def _errors(kernel: TextKernel, target: str) -> list[str]:
    """The clauses with which a target refuses a program."""
    found = check(kernel, target=target).targets[target].findings
    return sorted({finding.rule for finding in found if finding.level == "error"})


def _cpp(kernel: TextKernel, machine: Profile) -> str | None:
    """The program as C++; as it stands, if the target or its headers refuse it."""
    try:
        return emit_unchecked(kernel.program, machine)
    except (VerifyError, ValueError):
        return None


def _results(program: CaseProgram, kernel: TextKernel, machine: Profile, outs: Sequence[str]) -> Data:
    """The outputs of all sets, by array; a second permitted result as `array/or`, what is compared as `array/mask`."""
    found: dict[str, list[Bits]] = {}
    for each in program.sets:
        after = launch(kernel, program.arrays, each.data, program.grid, machine.name)
        other = after
        if program.turned and (machine.pipes or program.name.startswith("place")):
            other = launch(kernel, program.arrays, program.turned(each.data), program.grid, machine.name)
        for name in outs:
            found.setdefault(name, []).append(after[name])
            found.setdefault(f"{name}/or", []).append(other[name])
    stacked = {name: np.stack(each) for name, each in found.items()}
    for name in outs:
        if np.array_equal(stacked[name], stacked[f"{name}/or"]):
            del stacked[f"{name}/or"]
        if spec.family_of(machine.name) in program.masks:
            stacked[f"{name}/mask"] = program.masks[spec.family_of(machine.name)]
    return stacked


def launch(
    kernel: TextKernel, arrays: Iterable[str], data: Data, grid: int, target: str, engine: str = REFERENCE
) -> Data:
    """The arrays after a launch. Raises what the launch does."""
    copies = {name: data[name].copy() for name in arrays}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HazardWarning)
        given = [copies[name].view(kernel.program.tensors[name].dtype.numpy) for name in kernel.parameters]
        kernel[grid](*given, target=target, engine=engine)
    return copies


def _equal(one: Data, other: Data) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
