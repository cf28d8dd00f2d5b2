"""The source of a kernel: found for unchanged code, however it was compiled, and for no other code."""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import os
import pty
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest
from _pytest.assertion.rewrite import rewrite_asserts

import ptokit as pto
from ptokit.lang.source import Unreadable, tree_of

PROMPT_IS_KEPT = sys.version_info >= (3, 13)


def whole(text: str, file: str) -> list[CodeType]:
    """As a module is imported."""
    return [compile(text, file, "exec", dont_inherit=True)]


def apart(text: str, file: str) -> list[CodeType]:
    """As a notebook and a prompt do it: each statement on its own, so that none knows the imports of the others."""
    first, *others = ast.parse(text).body
    is_future = isinstance(first, ast.ImportFrom) and first.module == "__future__"
    units = [[first, stmt] for stmt in others] if is_future else [[stmt] for stmt in (first, *others)]
    return [compile(ast.Module(unit, []), file, "exec", dont_inherit=True) for unit in units]


def rewritten(text: str, file: str) -> list[CodeType]:
    """As pytest imports a test module."""
    module = ast.parse(text)
    rewrite_asserts(module, text.encode(), file, None)
    return [compile(module, file, "exec", dont_inherit=True)]


def optimised(text: str, file: str) -> list[CodeType]:
    """As `python -O` does it."""
    return [compile(text, file, "exec", dont_inherit=True, optimize=1)]


WAYS = (whole, apart, rewritten, optimised)
Way = Callable[[str, str], list[CodeType]]


def keep(file: str, text: str) -> str:
    """Let Python find the lines of a file that is not there."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def functions_in(code: CodeType) -> Iterator[CodeType]:
    for inner in (const for const in code.co_consts if isinstance(const, CodeType)):
        is_function = inner.co_flags & inspect.CO_NEWLOCALS and inner.co_name.isidentifier()
        if is_function and inner.co_name != "__annotate__":
            yield inner
        yield from functions_in(inner)


KERNELS = {
    "keywords": """
import ptokit as pto
@pto.kernel
def k(out):
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    pto.texpands(tile, pto.min(3, 4))
    pto.tstore(out, tile, atomic=None)
""",
    "keywords over several lines": """
import ptokit as pto
@pto.kernel
def k(out):
    tile = (pto
        .Tile(
            "vec", "float32", 1, 8,
            valid=(
                1,
                8,
            ),
        )
    )
    pto.texpands(tile,
        3)
    (pto.
        tstore)(out, tile, atomic=
            None)
""",
    "a submodule": """
import ptokit.lang.tile
import ptokit
@ptokit.kernel
def k(out):
    tile = ptokit.Tile(loc="vec", dtype="float32", rows=1, cols=8)
    ptokit.texpands(tile, 3)
    ptokit.tstore(dst=out, src=tile)
""",
    "names of an import": """
from ptokit import Tile, kernel, texpands, tstore, when, block_idx
@kernel
def k(out):
    tile = Tile("vec", "float32", 1, 8, valid=(1, 8))
    with when(block_idx() == 0):
        texpands(tile, 3)
    tstore(out, tile, atomic=None)
""",
    "a local import": """
def made():
    import ptokit as pto
    @pto.kernel
    def k(out):
        import ptokit as inner
        tile = inner.Tile("vec", "float32", 1, 8, valid=(1, 8))
        inner.texpands(tile, 3)
        pto.tstore(out, tile, atomic=None)
    return k
k = made()
""",
    "a parameter with the name of an import": """
import ptokit as pto, sys as out
def lifted(pto):
    @pto.kernel
    def k(out):
        tile = pto.Tile("vec", out.dtype, 1, out.shape[1], valid=(1, 8))
        pto.texpands(tile, 3)
        pto.tstore(out, tile, atomic=None)
    return k
k = lifted(pto)
""",
    "a method that names its class": """
import ptokit as pto
class Of:
    __value = 3
    @staticmethod
    def k(out):
        tiles = [pto.Tile("vec", "float32", 1, 8, valid=(1, Of.columns(8))) for _ in range(Of.columns(1))]
        pto.texpands(tiles[0], Of.__value)
        pto.tstore(out, tiles[0], atomic=None)
    @staticmethod
    def columns(count):
        return count
k = pto.kernel(Of.k)
""",
    "a class in a function that names itself": """
import ptokit as pto
def made():
    class Of:
        __value = 3
        @staticmethod
        def k(out):
            tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
            pto.texpands(tile, [Of.__value for _ in range(2)][0])
            pto.tstore(out, tile, atomic=None)
    return Of.k
k = pto.kernel(made())
""",
    "decorators with arguments": """
import ptokit as pto
def named(*names, key, when):
    return lambda function: function
@named("a", ("b", ")"), key=(1, 2), when=lambda k: (k, 2))
@pto.kernel
@named(
    key=[1,
      2],
    when=None)
def k(out):
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    pto.texpands(tile, 3)
    pto.tstore(out, tile, atomic=None)
""",
    "functions, lambdas and classes inside": """
from __future__ import annotations
import ptokit as pto
@pto.kernel
def k(out: unknown):
    class Value:
        number: unknown = 3
        def __init__(self):
            self.one = self.two = self.three = 1
        def get(self, *, times: unknown = 1):
            return self.number * times
    def value(of: unknown, *rest, key=lambda value: value, **more):
        return key(of.get(times=1))
    tile: unknown = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    pto.texpands(tile, value(Value()))
    pto.tstore(out, tile, atomic=None)
""",
    "assertions": """
import ptokit as pto
@pto.kernel
def k(out):
    a, b, c, d, e, f, g, h, i, j, l, m, n, o = range(14)
    for p in range(2):
        assert p in {0, 1} and out.shape[1] == 8, f"p is {p}"
        if p:
            continue
        assert [q for q in range(3) if q == p]
    if a:
        assert False, "never"
        d = e
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    values = max(a, b), min(d, e)
    pto.texpands(tile, values[1]); assert values
    pto.tstore(out, tile, atomic=None)
""",
    "a text that Python warns of": r"""
import ptokit as pto
@pto.kernel
def k(out):
    "A \d in a text, and `is` with a number."
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    pto.texpands(tile, 3 if out is not 1 else 4)
    pto.tstore(out, tile, atomic=None)
""",
    "lines inside that begin further out": """
import ptokit as pto
def make():
    @pto.kernel
    @(lambda function:
  function)
    def k(
  out,
):
        tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
  # a comment
        name = '''
def text():
    pass
''' """
    + '"""'
    + "\nline" * 20
    + '"""'
    + """
        pto.texpands(tile, 1 + \\
2)
# another one
        pto.tstore(out, tile, atomic=None)
    return k
k = make()
""",
}
if sys.version_info >= (3, 12):
    KERNELS["a parameter of a type"] = """
import ptokit as pto
@pto.kernel
def k[T: int](out: T):
    tile: T = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    kept = lambda: T
    pto.texpands(tile, 3)
    pto.tstore(out, tile, atomic=None)
"""


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_runs_however_it_was_compiled(kernel: str, way: Way, debug: bool) -> None:
    text, out = KERNELS[kernel], np.zeros((1, 8), "float32")
    names: dict[str, Any] = {"__name__": "module"}
    with warnings.catch_warnings(action="ignore"):
        codes = way(text, keep(f"<{kernel} {way.__name__} {debug}>", text))
    for code in codes:
        exec(code, names)
    names["k"][1](out, debug=debug)
    assert (out == 3).all()


MODULES = ("random", "statistics", "contextlib", "asyncio.streams", "enum", "ast", "numpy.testing._private.utils")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module", MODULES)
def test_the_source_of_every_function_of_a_module_is_found(module: str, way: Way) -> None:
    file = inspect.getsourcefile(importlib.import_module(module))
    assert file
    text = Path(file).read_text(encoding="utf-8")
    functions = [function for code in way(text, file) for function in functions_in(code)]
    assert len(functions) > 20
    for function in functions:
        tree = tree_of(function)
        assert tree.name == function.co_name
        assert min(node.lineno for node in (tree, *tree.decorator_list)) == function.co_firstlineno


CHANGES = {
    "the order of parameters": ("def k(x, y)", "def k(y, x)"),
    "a parameter by name": ("def k(x, y)", "def k(x,*y)"),
    "a parameter by position": ("def k(x, y)", "def k(x,/,y)"),
    "a keyword": ("f(x, one=1)", "f(x, two=1)"),
    "keywords": ("f(one=x, two=y)", "f(two=x, one=y)"),
    "the order of arguments": ("f(x, y, x)", "f(x, x, y)"),
    "a function": ("f(x)", "g(x)"),
    "an attribute": ("x.one(y)", "x.two(y)"),
    "a call as an element": ("f(x)", "f[x]"),
    "a sign": ("-x", "~x"),
    "a comparison": ("x in y", "x is y"),
    "a comparison that is not": ("not x", "  - x"),
    "an operator": ("x + y", "x - y"),
    "an operator in place": ("x += y", "x -= y"),
    "a zero": ("z = - 0.0", "z = + 0.0"),
    "a type of number": ("z = (1, 0   )", "z = (1, 0.0 )"),
    "a slice": ("x[1:2]", "x[1,2]"),
    "a list": ("z = [x, y]", "z = (x, y)"),
    "a text": ("z = 'one'", "z = 'two'"),
    "a text with a value": ("f'{x!r}'", "f'{x!s}'"),
    "another name": ("z = x", "w = x"),
    "nothing": ("f(x)", "pass"),
    "a comment": ("f(x)", "# f(x)\n    pass"),
    "a line": ("f(x)", "f(x); g(y)"),
    "leaving a loop": ("for _ in x:\n        if y: break\n        f(y)", "for _ in x:\n        if y: continue\n        f(y)"),  # noqa: E501
    "a body": ("if x:\n        f(x)\n        g(y)", "if x:\n        f(x)\n    g(y)"),
    "a branch": ("if x:\n        f(x)\n    else:\n        g(y)", "if x:\n        f(x)\n    if y :\n        g(y)"),
    "a function inside": ("z = lambda x, y: x", "z = lambda y, x: x"),
    "a class inside": ("class Z:\n        one = x", "class Z:\n        two = x"),
    "a line above": ("def k(x, y)", "\ndef k(x, y)"),
    "what is returned": ("return 1", "return 2"),
    "a generator": ("f(x)", "(yield x)"),
    "a line beside an assertion": ("assert x\n    f(x)", "assert x\n    g(x)"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change: str, way: Way) -> None:
    old, new = CHANGES[change]
    head = "def k(x, y)"
    before = f"import f\n{head}:\n    {'f(x)' if head in old else old}\n"
    after = before.replace(old, new) if head in old else f"import f\n{head}:\n    {new}\n"
    (function,) = (inner for code in way(before, "<changing>") for inner in functions_in(code) if inner.co_name == "k")
    assert tree_of(function.replace(co_filename=keep(f"<{change} {way.__name__} before>", before))).name == "k"
    with pytest.raises(Unreadable, match="the source of k has changed since it was imported"):
        tree_of(function.replace(co_filename=keep(f"<{change} {way.__name__} after>", after)))


@pytest.mark.parametrize("ways", [[["-O"]], [["-X", "no_debug_ranges"], []]], ids=["-O", "no ranges"])
def test_code_that_another_python_compiled_is_read(ways: list[list[str]], tmp_path: Path) -> None:
    file, text = tmp_path / "module.py", KERNELS["keywords over several lines"]
    file.write_text(text)
    run = "import numpy as np, module; out = np.zeros((1, 8), 'float32'); module.k[1](out); print(out.sum())"
    for options in ways:
        done = subprocess.run(
            [sys.executable, *options, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("24.0\n", "")


TYPED = """\
import ptokit as pto, numpy as np
@pto.kernel
def k(out, n):
    tile = pto.Tile("vec", "float32", 1, 8, valid=(1, 8))
    with pto.when(n > 0):
        pto.texpands(tile, n)
    pto.tstore(out, tile)
"""
USED = """\
out = np.zeros((1, 8), "float32")
k[1](out, 3); k[1](out, 4, debug=True); print("sum", out.sum())
"""


def at_a_prompt(typed: str) -> str:
    """What a Python that is used from a terminal prints: without an editor, which would redraw what is typed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "PYTHONSTARTUP": ""}
    with subprocess.Popen([sys.executable, "-i", "-q"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # Linux: the other end is closed
            pass
    os.close(ours)
    return shown.decode().replace("\r", "")


def piped(typed: str, *options: str) -> str:
    done = subprocess.run([sys.executable, *options], input=typed, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def assert_is_reported(shown: str, file: str, fix: str) -> None:
    message = re.escape("error [KN-15] the source of k cannot be read, so it cannot be checked: Python keeps ")
    assert re.search(rf"{file}:\d+: {message}", shown)
    assert fix in shown
    assert "sum" not in shown.replace(USED.splitlines()[-1], "")


FIX = "or use a notebook, IPython, or the prompt of Python 3.13 or newer"


def test_a_kernel_typed_at_a_prompt() -> None:
    shown = at_a_prompt(f"{TYPED}\n{USED}exit()\n")
    if PROMPT_IS_KEPT:
        assert "sum 32.0" in shown
    else:
        assert_is_reported(shown, "<stdin>", FIX)


def test_a_kernel_for_an_interactive_python_without_a_terminal() -> None:
    shown = piped(f"{TYPED}\n{USED}", "-i", "-q")
    if PROMPT_IS_KEPT:
        assert "sum 32.0" in shown
    else:
        assert_is_reported(shown, "<stdin>", FIX)


def test_a_kernel_on_the_command_line() -> None:
    shown = piped("", "-c", TYPED + USED)
    if PROMPT_IS_KEPT:
        assert "sum 32.0" in shown
    else:
        assert_is_reported(shown, "<string>", "write it into a file and import it")


def test_a_kernel_that_is_piped_into_python() -> None:
    assert_is_reported(piped(TYPED + USED, "-"), "<stdin>", FIX)


def test_a_kernel_in_a_text_for_exec() -> None:
    names: dict[str, Any] = {}
    exec(TYPED, names)
    with pytest.raises(pto.VerifyError, match="never what `exec` is given") as refusal:
        names["k"][1](np.zeros((1, 8), "float32"), 3)
    assert refusal.value.findings[0].rule == "KN-15"
    assert refusal.value.findings[0].fix == "write it into a file and import it"


def test_a_text_for_exec_is_not_taken_for_the_command_line() -> None:
    text = f"text = {TYPED + USED!r}\ndef k(out, n):\n    pass\nexec(text)"
    assert_is_reported(piped("", "-c", text), "<string>", "write it into a file and import it")


def test_a_lambda_has_no_source_of_its_own() -> None:
    function = FunctionType(compile("lambda x: x", __file__, "eval").co_consts[0], {})
    with pytest.raises(Unreadable, match="the source of a lambda cannot be read") as problem:
        tree_of(function.__code__)
    assert problem.value.fix == "write it with `def`"
