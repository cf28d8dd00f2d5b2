"""The CPU simulator of the public repository as an implementation that `ptokit conformance run` can judge.

    python -m tests.conformance.vendor_simulator build CHECKOUT EXPORT BUILD
    ptokit conformance run EXPORT --target cpu --batch 100 \
        --command "python -m tests.conformance.vendor_simulator answer BUILD {case} {out}"

`build` compiles the programs of an export against the headers of a checkout, many in one executable. A program that
does not compile is refused by the simulator. So is one that ends in an assertion.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.conformance.export import read_index
from ptokit.conformance.judge import RAN, REFUSED
from ptokit.isa.dtype import dtype

TARGET = "cpu"
FLAGS = ("-std=c++20", "-O0", "-w", "-D__CPU_SIM", "-pthread")
TOGETHER = 24
"""Programs of one executable."""
BROKEN = "static_assert(false"
"""What GCC before 13 refuses in a branch that is not compiled."""
INDEX = "programs.json"

MAIN = """
#include <cstdio>
#include <cstring>
#include <vector>
int main(int count, char** words) {
    std::vector<void*> p;
    for (int k = 2; k < count; ++k) {
        std::FILE* file = std::fopen(words[k], "rb");
        std::fseek(file, 0, SEEK_END);
        const long size = std::ftell(file);
        std::rewind(file);
        p.push_back(std::calloc(size + 65536, 1));
        if (std::fread(p.back(), 1, size, file) != size_t(size)) return 1;
        std::fclose(file);
    }
CALLS
    for (int k = 2; k < count; ++k) {
        std::FILE* file = std::fopen(words[k], "r+b");
        std::fseek(file, 0, SEEK_END);
        const long size = std::ftell(file);
        std::rewind(file);
        if (std::fwrite(p[k - 2], 1, size, file) != size_t(size)) return 1;
        std::fclose(file);
    }
    return 0;
}
"""
"""Reads the arrays, runs the kernel that is named first, and writes the arrays back."""


def build(checkout: Path, export: Path, folder: Path, jobs: int) -> int:
    """Compile the programs of an export; what each became is in `INDEX`."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in read_index(export)["programs"] if entry["cpp"].get(TARGET)]
    include = _headers(checkout, folder)
    groups = [entries[k : k + TOGETHER] for k in range(0, len(entries), TOGETHER)]
    with ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda pair: _together(export, folder, include, *pair), enumerate(groups))
        programs = {name: made for group in found for name, made in group.items()}
    (folder / INDEX).write_text(json.dumps(programs, indent=1), encoding="utf-8")
    refused = sum("refused" in made for made in programs.values())
    print(f"{len(programs) - refused} of {len(programs)} programs compile")
    return 0


def _headers(checkout: Path, folder: Path) -> list[str]:
    """The options that find the headers; those that this compiler refuses are in a changed copy in front."""
    for file in (checkout / "include" / "pto" / "cpu").glob("*.hpp"):
        text = file.read_text(encoding="utf-8")
        if BROKEN in text:
            copy = folder / "include" / "pto" / "cpu" / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text.replace(BROKEN, "static_assert(sizeof(DType) == 0"), encoding="utf-8")
    options = [f"-I{folder / 'include'}", f"-I{checkout / 'include'}"]
    head = folder / "all.hpp"
    head.write_text("#include <cstdint>\n#include <cstdlib>\n#include <pto/pto-inst.hpp>\n", encoding="utf-8")
    subprocess.run(["g++", *FLAGS, *options, "-x", "c++-header", str(head), "-o", f"{head}.gch"], check=True)
    return [*options, "-include", str(head)]


def _together(
    export: Path, folder: Path, include: Sequence[str], number: int, entries: Sequence[dict[str, Any]]
) -> dict[str, dict[str, str]]:
    """Compile some programs into one executable, without those that the compiler names in its errors."""
    made: dict[str, dict[str, str]] = {}
    left, program = {entry["name"]: entry for entry in entries}, folder / f"programs{number}"
    while left:
        source = folder / f"programs{number}.cpp"
        source.write_text(_source(export, left.values()), encoding="utf-8")
        done = subprocess.run(
            ["g++", *FLAGS, "-fmax-errors=0", *include, str(source), "-o", str(program)], capture_output=True, text=True
        )
        if done.returncode == 0:
            break
        named = {name for name in re.findall(r"programs/(\w+)/", done.stderr) if name in left}
        assert named, done.stderr
        made |= {name: {"refused": _reason(done.stderr, name)} for name in named}
        left = {name: entry for name, entry in left.items() if name not in named}
    return made | {name: {"program": str(program)} for name in left}


def _reason(errors: str, name: str) -> str:
    """The first error after a line that names a program."""
    after = errors[errors.index(f"programs/{name}/") :]
    return next((line for line in after.splitlines() if "error:" in line), "it does not compile")


def _source(export: Path, entries: Any) -> str:
    """A source with several kernels, and a choice among them."""
    lines, calls = [], []
    for entry in entries:
        lines.append(f'#include "{(export / entry["folder"] / entry["cpp"][TARGET]).absolute()}"')
        kinds = [dtype(array["type"]).cpp for array in entry["arrays"].values()]
        given = ", ".join(f"({kind}*)p[{k}]" for k, kind in enumerate(kinds))
        blocks = f"for (int b = 0; b < {entry['grid']}; ++b)"
        call = f"{{ cpu_sim::set_execution_context(b, 0, 1); {entry['kernel']}({given}); }}"
        calls.append(f'    if (!std::strcmp(words[1], "{entry["kernel"]}")) {blocks} {call}')
    return "\n".join((*lines, MAIN.replace("CALLS", "\n".join(calls))))


def answer(folder: Path, case: Path, out: Path) -> int:
    """Run a case, or all cases of a list."""
    programs, described = json.loads((folder / INDEX).read_text("utf-8")), json.loads(case.read_text("utf-8"))
    if "cases" not in described:
        return _one(programs, described, out)
    for pair in described["cases"]:
        _one(programs, json.loads(Path(pair["case"]).read_text("utf-8")), Path(pair["out"]))
    return RAN


def _one(programs: dict[str, Any], case: dict[str, Any], out: Path) -> int:
    made = programs.get(case["kernel"], {"refused": "there is no C++"})
    if "refused" in made:
        return _refuse(out, made["refused"])
    files = [out / f"{array['name']}.bin" for array in case["arrays"]]
    for array, file in zip(case["arrays"], files, strict=True):
        file.write_bytes(np.load(array["file"], allow_pickle=False).tobytes())
    done = subprocess.run([made["program"], case["kernel"], *map(str, files)], capture_output=True, text=True)
    if "Assertion" in done.stderr:
        return _refuse(out, done.stderr)
    if done.returncode:
        return 1
    for array, file in zip(case["arrays"], files, strict=True):
        if array["write"]:
            np.save(out / f"{array['name']}.npy", np.fromfile(file, f"<u{dtype(array['type']).size}"))
    return RAN


def _refuse(out: Path, reason: str) -> int:
    (out / "refused").write_text(reason, encoding="utf-8")
    return REFUSED


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    places = [Path(path).absolute() for path in paths]
    sys.exit(build(*places, jobs=os.cpu_count() or 1) if command == "build" else answer(*places))
