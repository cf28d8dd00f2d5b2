"""Prints the lines of code of each package of ptokit; fails if there are more than pyproject.toml allows.

A line counts if it has a token of code: blank lines, comments and docstrings do not.
"""

from __future__ import annotations

import ast
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ptokit"
NO_CODE = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    )
)


def lines_of_code(file: Path) -> int:
    """The lines of a file that have code."""
    with file.open("rb") as opened:
        tokens = [token for token in tokenize.tokenize(opened.readline) if token.type not in NO_CODE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(file.read_bytes())):
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                lines -= {*range(child.lineno, (child.end_lineno or child.lineno) + 1)}
    return len(lines)


def by_package() -> Counter[str]:
    """The lines of each package; those of modules beside them are under the empty name."""
    found = Counter[str]()
    for file in sorted(SOURCE.rglob("*.py")):
        found[file.relative_to(SOURCE).parts[0] if file.parent != SOURCE else ""] += lines_of_code(file)
    return found


def main() -> int:
    found = by_package()
    most = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ptokit"]["lines-of-code"]
    for name, lines in found.most_common():
        print(f"{lines:7,} {name or 'modules'}")
    total = found.total()
    print(f"{total:7,} of {most:,} lines of code")
    if total > most:
        print(f"there are {total - most:,} too many: remove some, or state why not in pyproject.toml", file=sys.stderr)
    return int(total > most)


if __name__ == "__main__":
    sys.exit(main())
