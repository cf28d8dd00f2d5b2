"""Writes `slow.json`, the seconds of test functions whose cases take long, from a record of all tests.

    .venv/bin/pytest -n 2 --junitxml build/tests.xml
    .venv/bin/python tests/check/slow.py build/tests.xml

`make check` runs these after quick tests that are as likely to notice a change. What is not in the file takes a second.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from xml.etree import ElementTree

TABLE = Path(__file__).with_name("slow.json")
LEAST = 1.5


def main() -> None:
    cases: dict[str, list[float]] = defaultdict(list)
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        file, name = case.attrib["classname"].replace(".", "/"), case.attrib["name"].partition("[")[0]
        cases[f"{file}.py::{name}"].append(float(case.attrib["time"]))
    slow = {name: round(mean(seconds), 1) for name, seconds in sorted(cases.items()) if mean(seconds) >= LEAST}
    TABLE.write_text(json.dumps(slow, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
