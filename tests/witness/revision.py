"""Writes what ptokit keeps of a revision of the public headers.

python -m tests.witness.revision PATH --name 2026.08 --commit 3186c381 --date 2026-08-21 [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ptokit.cli.headers import kernels, run_kernels
from ptokit.target import families_in_cpp
from ptokit.witness.headers import Checkout
from ptokit.witness.revision import FOLDER, HeaderFacts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    for name in ("name", "commit", "date"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    checkout, effects = Checkout.at(asked.path), {}
    for family in families_in_cpp():
        effects[family], problems = run_kernels(checkout, family, kernels(checkout, family, set()), asked.jobs)
        print(family, len(effects[family]), "kernels", *problems, sep="\n  ")
    found = {
        "commit": asked.commit,
        "date": asked.date,
        "facts": HeaderFacts(checkout).recorded(),
        "effects": {family: dict(sorted(own.items())) for family, own in effects.items()},
    }
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(found, indent=0, sort_keys=True)
    (FOLDER / f"{asked.name}.json").write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
