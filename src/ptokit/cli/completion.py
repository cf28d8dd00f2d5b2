"""Completion of kernels after `file.py:` and of functions of texts and sources. No file is imported or run."""

from __future__ import annotations

import ast
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

VARIABLE = "_PTOKIT_COMPLETE"
"""The variable in which a shell asks for completion."""
LARGEST = 4 << 20
"""Bytes of a file that is read."""
TEXT_FUNCTIONS = re.compile(r"\bfunc\.func\s+(?:\w+\s+)?@([\w$.-]+)")
WHOLE = re.compile("[0-9]{1,6}")
CPP_FUNCTIONS = re.compile(r"\b__global__\b[^;{}()]*?\b(\w+)\s*\(")


def programs(incomplete: str) -> Iterator[str]:
    """`file.py:kernel` for each kernel of a Python file that is named; nothing for other words."""
    name, colon, start = incomplete.partition(":") if not incomplete.endswith(".py") else (incomplete, ":", "")
    file = name if name.endswith(".py") else _module_file(name)
    if colon and file:
        yield from (f"{name}:{kernel}" for kernel in kernels_in(_text(file)) if kernel.startswith(start))


def functions(word: str | None, incomplete: str) -> Iterator[str]:
    """The functions of a text or of a C++ source."""
    if word and not word.endswith(".py"):
        from ptokit.cxx.source_text import masked
        from ptokit.lang.sources import is_cpp

        found = CPP_FUNCTIONS.findall(masked(_text(word))) if is_cpp(word) else TEXT_FUNCTIONS.findall(_text(word))
        yield from (name for name in dict.fromkeys(found) if name.startswith(incomplete))


def _module_file(name: str) -> str:
    """The file of `package.module`, looked up from the current directory."""
    path = os.path.join(*name.split(".")) if re.fullmatch(r"\w+(?:\.\w+)*", name) else ""
    files = (f"{path}.py", os.path.join(path, "__init__.py")) if path else ()
    return next(filter(os.path.isfile, files), "")


def _text(file: str) -> str:
    """A file; nothing if it is no plain file, or too large."""
    try:
        if not os.path.isfile(file) or os.path.getsize(file) > LARGEST:
            return ""
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def kernels_in(source: str) -> list[str]:
    """Functions of a module with a decorator `kernel`: `@pto.kernel`, `@pto.kernel(...)`, `@kernel`."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    made = (node for node in body if isinstance(node, ast.FunctionDef))
    return [node.name for node in made if any(map(_is_kernel, node.decorator_list))]


def _is_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name == "kernel"


@contextmanager
def whole_words() -> Iterator[None]:
    """Around completion in Bash, which takes `file.py:kernel` for three words: one word is completed, and what is
    printed is the part after the colon."""
    if os.environ.get(VARIABLE) != "complete_bash":
        yield
        return
    given, place = os.environ.get("COMP_WORDS", "").split(), os.environ.get("COMP_CWORD", "")
    place = int(place) if WHOLE.fullmatch(place) else len(given)
    words, number = _joined(given, place)
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(number)}
    known = words[number].rpartition(":")[0] if number < len(words) else ""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        cut = f"{known}:" if known else ""
        sys.stdout.write("".join(f"{line.removeprefix(cut)}\n" for line in printed.getvalue().splitlines()))


def _joined(words: list[str], number: int) -> tuple[list[str], int]:
    """The words, with `a:b` joined to one, and the new position of the word at `number`."""
    found: list[str] = []
    place = number
    for k, word in enumerate(words):
        is_same = found and (word.startswith(":") or found[-1].endswith(":"))
        found = [*found[:-1], found[-1] + word] if is_same else [*found, word]
        if k == number:
            place = len(found) - 1
    return found, place if number < len(words) else len(found)
