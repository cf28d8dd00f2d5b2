"""Mistakes in kernels: each is refused at its line, with a message that gives the fix."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from tests import snippet

HERE = "# <- here"


@dataclass(frozen=True)
class Mistake:
    """A kernel, its launch, and the expected message at the marked line."""

    rule: str
    """The clause or decision; empty for a plain Python error."""
    words: str
    code: str
    error: type[Exception] = pto.VerifyError

    @property
    def line(self) -> int:
        (line,) = [number for number, text in enumerate(self.code.split("\n"), 1) if HERE in text]
        return line


def code(rule: str, words: str, text: str, error: type[Exception] = pto.VerifyError) -> Mistake:
    """A mistake of its own making."""
    return Mistake(rule, words, dedent(text).strip("\n"), error)


def body(
    rule: str,
    words: str,
    text: str,
    *,
    launch: str = "k[1](x, out, idx)",
    given: str = "x, out, idx",
    mode: str = "auto",
    error: type[Exception] = pto.VerifyError,
) -> Mistake:
    """A mistake inside a kernel."""
    inside = indent(dedent(text).strip("\n"), "    ")
    return Mistake(rule, words, f"@pto.kernel(mode={mode!r})\ndef k({given}):\n{inside}\n{launch}", error)


def launch(rule: str, words: str, text: str, error: type[Exception] = pto.VerifyError) -> Mistake:
    """A mistake at the launch of a kernel that is right."""
    head = "@pto.kernel\ndef k(x, n, rows: pto.const = 8):\n    pass\n"
    return Mistake(rule, words, f"{head}{text}  {HERE}", error)


def arrays() -> dict[str, Any]:
    """What every kernel here works on; `idx` has one index outside `x`."""
    x, idx = np.arange(4096, dtype="float32").reshape(64, 64), np.arange(64, dtype="int32")
    idx[21] = 64
    lens = np.array([0, 1, 4, 65], "int32")
    return {"np": np, "pto": pto, "x": x, "out": np.zeros_like(x), "idx": idx, "lens": lens}


OUTSIDE_A_KERNEL = {
    "a block outside a kernel": code("KN-01", "no block outside a kernel", "n = pto.block_idx()  # <- here"),
    "when outside a kernel": code("KN-01", "pto.when works inside a kernel", """
        with pto.when(True):  # <- here
            pass
    """),
}  # fmt: skip

DECIDED_BY_PYTHON = {
    "if": body("KN-02", "whether block_idx == 0 holds is known only when the kernel runs", """
        if pto.block_idx() == 0:  # <- here
            pass
    """),
    "while": body("KN-02", "`while`", """
        b = pto.block_idx()
        while b < 3:  # <- here
            pass
    """),
    "and": body("KN-02", "`and`", """
        b = pto.block_idx()
        with pto.when(b > 0 and b < 3):  # <- here
            pass
    """),
    "a chain of comparisons": body("KN-02", "whether block_idx > 0 holds", """
        b = pto.block_idx()
        with pto.when(0 < b < 3):  # <- here
            pass
    """),
    "not": body("KN-02", "`not`", """
        with pto.when(not pto.block_idx()):  # <- here
            pass
    """),
    "a conditional expression": body("KN-02", "whether block_idx > 2 holds", """
        n = 3 if pto.block_idx() > 2 else 4  # <- here
    """),
    "in": body("KN-02", "whether block_idx == 1 holds", """
        with pto.when(pto.block_idx() in (1, 2)):  # <- here
            pass
    """),
    "match": body("KN-02", "whether block_idx == 0 holds", """
        match pto.block_idx():
            case 0:  # <- here
                pass
    """),
    "assert": body("KN-02", "`assert`", "assert pto.block_idx() < 3  # <- here"),
    "min of Python": body("KN-02", "`min`", "n = min(8, 64 - pto.block_idx() * 8)  # <- here"),
    "int": body("KN-02", "Python needs its value here", "n = int(pto.block_idx())  # <- here"),
    "range of Python": body("KN-02", "Python needs its value here", """
        for i in range(pto.block_idx()):  # <- here
            pass
    """),
    "an index of a list": body("KN-02", "Python needs its value here", "n = [1, 2][pto.block_idx()]  # <- here"),
    "a key": body("KN-02", "cannot be a key", "n = {0: 1}[pto.block_idx()]  # <- here"),
    "unpacking": body("KN-02", "Python needs its value here", "a, b = pto.block_idx()  # <- here"),
    "a number for NumPy": body("KN-02", "known only when the kernel runs", "n = np.arange(pto.block_idx())  # <- here"),
    "rows of a tile": body("KN-02", "rows must be a constant; found n", """
        tile = pto.Tile("vec", "float32", n, 64)  # <- here
    """, given="x, n", launch="k[1](x, 8)"),
    "buffers": body("KN-02", "buffers must be a constant; found n", """
        for i in pto.range(8, buffers=n):  # <- here
            pass
    """, given="x, n", launch="k[1](x, 2)"),
    "true division": body("KN-02", "`/` is not supported", "half = pto.block_idx() / 2  # <- here"),
    "a power": body("KN-02", "`**` is not supported", "n = pto.block_idx() ** 2  # <- here"),
    "bits the other way round": body("KN-02", "`~` is not supported", "n = ~(pto.block_idx() == 2)  # <- here"),
    "a float in an expression": body("KN-02", "takes a whole number, got 0.5", "n = pto.block_idx() * 0.5  # <- here"),
    "a float to count to": body("KN-02", "pto.range takes a whole number, got 2.5", """
        for i in pto.range(2.5):  # <- here
            pass
    """),
    "a condition that is none": body("KN-02", "pto.when takes a whole number, got 'yes'", """
        with pto.when("yes"):  # <- here
            pass
    """),
    "half a condition": body("KN-02", "pto.when takes a whole number, got 0.5", """
        with pto.when(0.5):  # <- here
            pass
    """),
    "an attribute of a number": body("KN-02", "has no `shape`", "n = pto.block_idx().shape  # <- here"),
    "an unrolled chain": body("KN-02", "more than 200 operations", """
        n = pto.block_idx()
        for j in range(200):
            n = n * 2 + j  # <- here
    """),
}  # fmt: skip

CHANGED_INSIDE_A_BODY = {
    "rebinding": body("KN-03", "`total` is bound before this pto.range body, at line 3", """
        total = 0
        for i in pto.range(4):
            total = total + i  # <- here
    """),
    "augmented assignment": body("KN-03", "`total` is bound before this pto.when body", """
        total = 0
        with pto.when(pto.block_idx() == 0):
            total += 1  # <- here
    """),
    "an argument rebound": body("KN-03", "`x` is bound before", """
        with pto.when(pto.block_idx() == 0):
            x = x[0:8]  # <- here
    """),
    "a walrus": body("KN-03", "`n` is bound before", """
        n = 3
        for i in pto.range(4):
            print((n := 5))  # <- here
    """),
    "a walrus in a comprehension": body("KN-03", "`n` is bound before", """
        n = 0
        for i in pto.range(4):
            numbers = [n := n + 1 for _ in (0,)]  # <- here
    """),
    "a walrus in a condition": body("KN-03", "`n` is bound before this pto.range body", """
        n = 0
        for i in pto.range(4):
            with pto.when((n := i) > 1):  # <- here
                pass
    """),
    "a walrus in a sum": body("KN-03", "`n` is bound before", """
        n = 0
        for i in pto.range(4):
            total = 0
            total += (n := 3)  # <- here
    """),
    "a plain loop's variable": body("KN-03", "`j` is bound before", """
        j = 3
        for i in pto.range(4):
            for j in range(4):  # <- here
                pass
    """),
    "the name of an exception": body("KN-03", "`problem` is bound before", """
        problem = None
        for i in pto.range(4):
            try:
                pass
            except ValueError as problem:  # <- here
                pass
    """),
    "the name of a pattern": body("KN-03", "`size` is bound before", """
        size = 3
        for i in pto.range(4):
            match x.shape:
                case (size, _):  # <- here
                    pass
    """),
    "del": body("KN-03", "`n` is bound before", """
        n = 3
        with pto.when(pto.block_idx() == 0):
            del n  # <- here
    """),
    "an element of a list": body("KN-03", "`totals[0]` is changed inside a pto.range body", """
        totals = [0]
        for i in pto.range(4):
            totals[0] = i  # <- here
    """),
    "a list that grows": body("KN-03", "totals", """
        totals = []
        for i in pto.range(4):
            totals.append(i)  # <- here
    """),
    "a list that shrinks on the way": body("KN-03", "`sizes` is changed", """
        sizes = [1, 2]
        for i in pto.range(2):
            match i:
                case _ if sizes.pop():  # <- here
                    pass
    """),
    "a method with underscores": body("KN-03", "`totals` is changed", """
        totals = [0]
        for i in pto.range(4):
            totals.__setitem__(0, i)  # <- here
    """),
    "an element as a loop variable": body("KN-03", "`totals[0]` is changed", """
        totals = [0]
        for totals[0] in pto.range(4):  # <- here
            pass
    """),
    "an iterator": body("KN-03", "`sizes` is changed inside a pto.range body", """
        sizes = iter([1, 2, 3, 4])
        for i in pto.range(4):
            n = next(sizes)  # <- here
    """),
    "setattr": body("KN-03", "`x` is changed", """
        for i in pto.range(4):
            setattr(x, "n", i)  # <- here
    """),
    "delattr": body("KN-03", "`x` is changed", """
        with pto.when(pto.block_idx() == 0):
            delattr(x, "n")  # <- here
    """),
    "a function that changes a list": body("KN-03", "`totals[0]` is changed inside a pto.range body (from line 8)", """
        totals = [0]
        def count():
            totals[0] += 1  # <- here
        count()
        for i in pto.range(4):
            count()
    """),
    "a function that calls one": body("KN-03", "`totals` is changed inside a pto.range body", """
        totals = []
        def count():
            totals.append(1)  # <- here
        def twice():
            count()
            count()
        for i in pto.range(4):
            twice()
    """),
    "a function of the body": body("KN-03", "`totals` is changed inside a pto.range body", """
        totals = []
        for i in pto.range(4):
            def count():
                totals.append(1)  # <- here
            count()
    """),
    "a lambda that changes a list": body("KN-03", "`totals` is changed inside a pto.range body (from line 6)", """
        totals = []
        count = lambda: totals.append(1)  # <- here
        for i in pto.range(4):
            count()
    """),
    "a class that changes a list": body("KN-03", "`totals` is changed inside a pto.range body", """
        totals = []
        for i in pto.range(4):
            class Counter:
                totals.append(1)  # <- here
    """),
    "a default that changes a list": body("KN-03", "`totals` is changed inside a pto.range body", """
        totals = [1]
        for i in pto.range(4):
            def last(n=totals.pop()):  # <- here
                pass
    """),
    "an attribute": code("KN-03", "`counter.n` is changed", """
        class Counter:
            n = 0

        @pto.kernel
        def k(x):
            counter = Counter()
            for i in pto.range(4):
                counter.n = i  # <- here

        k[1](x)
    """),
    "a global": body("KN-03", "cannot set seen outside it", """
        global seen  # <- here
        seen = x
    """),
    "a nonlocal": body("KN-03", "total", """
        total = 0
        def count():
            nonlocal total  # <- here
            total += 1
        for i in pto.range(4):
            count()
    """),
    "rebinding in a helper": code("KN-03", "`total` is bound before this pto.range body", """
        def repeat(n):
            total = 0
            for i in pto.range(n):
                total += 1  # <- here

        @pto.kernel
        def k(x):
            repeat(4)

        k[1](x)
    """),
}  # fmt: skip

USED_AFTER_A_BODY = {
    "a loop variable": body("KN-04", "`i` was bound inside a traced body, at line 3", """
        for i in pto.range(4):
            pass
        n = i + 1  # <- here
    """),
    "a name of both arms": body("KN-04", "`n` was bound inside a traced body", """
        with pto.when(pto.block_idx() == 0):
            n = 1
        with pto.otherwise():
            n = 2
        for i in pto.range(n):  # <- here
            pass
    """),
    "a name in a comprehension": body("KN-04", "`n` was bound inside a traced body", """
        with pto.when(pto.block_idx() == 0):
            n = 1
        numbers = [n + j for j in range(2)]  # <- here
    """),
    "a name that grows": body("KN-04", "`n` was bound inside a traced body", """
        with pto.when(pto.block_idx() == 0):
            n = 1
        n += 1  # <- here
    """),
    "a name in a function": body("KN-04", "`n` was bound inside a traced body", """
        def size():
            return n * 2  # <- here
        for i in pto.range(4):
            n = i
        m = size()
    """),
    "a tile of a loop": body("KN-04", "`tile` was bound inside", """
        for i in pto.range(4):
            tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[0:8])  # <- here
    """),
    "a tile of a loop in a helper": code("KN-04", "`tile` was bound inside", """
        def loaded(x):
            for i in pto.range(4):
                tile = pto.Tile("vec", "float32", 8, 64)
                pto.tload(tile, x[0:8])
            return tile  # <- here

        @pto.kernel
        def k(x, out):
            pto.tstore(out[0:8], loaded(x))

        k[1](x, out)
    """),
    "a number that got out": code("KN-04", "i", """
        kept = {}
        def keep(i):
            kept[0] = i

        @pto.kernel
        def k(x):
            tile = pto.Tile("vec", "float32", 8, 64)
            for i in pto.range(4):
                keep(i)
            pto.texpands(tile, kept[0])  # <- here

        k[1](x)
    """),
    "a scalar that got out": code("KN-04", "n", """
        kept = {}
        def keep(n):
            kept[0] = n

        @pto.kernel
        def k(lens):
            tile = pto.Tile("vec", "float32", 8, 64)
            with pto.when(pto.block_idx() == 7):
                n = pto.load_scalar(lens, 0)
                keep(n)
            pto.texpands(tile, kept[0])  # <- here

        k[1](lens)
    """),
}  # fmt: skip

LEAVING_A_BODY = {
    "break": body("KN-05", "`break` cannot leave a pto.range body", """
        for i in pto.range(4):
            break  # <- here
    """),
    "continue": body("KN-05", "`continue` cannot leave a pto.when body", """
        for i in pto.range(4):
            with pto.when(i == 2):
                continue  # <- here
    """),
    "break of a plain loop": body("KN-05", "`break` cannot leave a pto.when body", """
        for j in range(4):
            with pto.when(pto.block_idx() == j):
                break  # <- here
    """),
    "return": body("KN-05", "`return` cannot leave a pto.when body", """
        with pto.when(pto.block_idx() > 3):
            return  # <- here
    """),
    "a result": body("KN-05", "a kernel returns nothing", "return x  # <- here"),
    "yield of a helper": code("KN-05", "yield", """
        def doubled(n):
            for i in pto.range(n):
                yield i * 2  # <- here

        @pto.kernel
        def k(x):
            total = 0
            for i in doubled(4):
                total += 1

        k[1](x)
    """),
    "yield of a context": code("KN-05", "yield", """
        from contextlib import contextmanager

        @contextmanager
        def unless(condition):
            with pto.when(condition == 0):
                yield  # <- here

        @pto.kernel
        def k(x):
            total = 0
            with unless(pto.block_idx()):
                total += 1

        k[1](x)
    """),
    "yield": code("KN-05", "without yield and async", """
        @pto.kernel  # <- here
        def k(x):
            yield x

        k[1](x)
    """),
    "a coroutine": code("KN-05", "without yield and async", """
        @pto.kernel  # <- here
        async def k(x):
            pass

        k[1](x)
    """),
}  # fmt: skip

BODIES_OUT_OF_PLACE = {
    "a comprehension": body("KN-06", "pto.range opens a body", "numbers = [i for i in pto.range(4)]  # <- here"),
    "range kept for later": body("KN-06", "pto.range opens a body", """
        numbers = pto.range(4)  # <- here
        for i in numbers:
            pass
    """),
    "range inside enumerate": body("KN-06", "pto.range opens a body", """
        for i, j in enumerate(pto.range(4)):  # <- here
            pass
    """),
    "range under another name": body("KN-06", "pto.range", """
        repeat, total = pto.range, 0
        for i in repeat(4):  # <- here
            total += 1
    """),
    "range imported inside": body("KN-06", "pto.range", """
        from ptokit import range as repeat
        total = 0
        for i in repeat(4):  # <- here
            total += 1
    """),
    "when as an expression": body("KN-06", "pto.when opens a body", "pto.when(pto.block_idx() == 0)  # <- here"),
    "two whens in one with": body("KN-06", "must be the only item of its `with`", """
        b = pto.block_idx()
        with pto.when(b > 0), pto.when(b < 3):  # <- here
            pass
    """),
    "when with a name": body("KN-06", "must be the only item of its `with`", """
        with pto.when(pto.block_idx() > 0) as taken:  # <- here
            pass
    """),
    "when behind another": body("KN-06", "must be the only item of its `with`", """
        with open(__file__), pto.when(pto.block_idx() > 0):  # <- here
            pass
    """),
    "when by keyword": body("KN-06", "pto.when takes one condition", """
        with pto.when(condition=pto.block_idx() > 0):  # <- here
            pass
    """),
    "when with a star": body("KN-06", "pto.when takes one condition", """
        conditions = [pto.block_idx() > 0]
        with pto.when(*conditions):  # <- here
            pass
    """),
    "when without a condition": body("KN-06", "pto.when takes one condition", """
        with pto.when():  # <- here
            pass
    """),
    "otherwise with a condition": body("KN-06", "pto.otherwise takes nothing", """
        with pto.when(pto.block_idx() > 0):
            pass
        with pto.otherwise(pto.block_idx() < 0):  # <- here
            pass
    """),
    "when under another name": body("KN-06", "a name that ptokit cannot resolve", """
        unless = pto.when
        with unless(pto.block_idx() > 0):  # <- here
            pass
    """),
    "when under another name and debug": body("KN-06", "debug=True cannot rewrite this pto.when", """
        unless = pto.when
        with unless(pto.block_idx() > 0):  # <- here
            pass
    """, launch="k[1](x, out, idx, debug=True)"),
    "otherwise alone": body("KN-06", "must follow a pto.when body directly", """
        with pto.otherwise():  # <- here
            pass
    """),
    "otherwise too late": body("KN-06", "must follow a pto.when body directly", """
        with pto.when(pto.block_idx() > 0):
            pass
        n = 3
        with pto.otherwise():  # <- here
            pass
    """),
    "otherwise twice": body("KN-06", "must follow a pto.when body directly", """
        with pto.when(pto.block_idx() > 0):
            pass
        with pto.otherwise():
            pass
        with pto.otherwise():  # <- here
            pass
    """),
    "a step of zero": body("KN-06", "the step of pto.range is 0", """
        for i in pto.range(0, 4, 0):  # <- here
            pass
    """),
    "a step of zero at run time": body("KN-", "step", """
        for i in pto.range(0, 4, n):  # <- here
            pass
    """, given="x, n", launch="k[1](x, 0)"),
    "nothing to count": body("KN-06", "one to three numbers, got 0", """
        for i in pto.range():  # <- here
            pass
    """),
    "no buffers": body("KN-06", "buffers must be 1 to 8; found 0", """
        for i in pto.range(4, buffers=0):  # <- here
            pass
    """),
}  # fmt: skip

NOTHING_TO_SEE = {
    "reading a tile": body("KN-07", "tile has no content while the kernel is traced", """
        tile = pto.Tile("vec", "float32", 8, 64)
        print(tile.read())  # <- here
    """),
    "filling a tile": body("KN-07", "use tload, texpands or tci", """
        tile = pto.Tile("vec", "float32", 8, 64).write(0)  # <- here
    """),
    "a tile's buffer": body("KN-07", "tile has no content", """
        tile = pto.Tile("vec", "float32", 8, 64)
        tile.buffer[:] = 0  # <- here
    """),
    "an argument as an array": body("KN-07", "GlobalTensor x is no array", "np.asarray(x)  # <- here"),
    "an argument's array": body("KN-07", "x has no values", "print(x.array[0])  # <- here"),
    "a sum by NumPy": body("KN-07", "np.sum cannot see its elements", "total = np.sum(x)  # <- here"),
    "rows one by one": body("KN-", "x has no values", """
        for row in x:  # <- here
            pass
    """),
}  # fmt: skip

TWO_TILES = """
    t, u = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "float32", 8, 64)
    pto.tload(t, x[0:8])
"""
OPERATORS = {
    text: body("KN-07", words, f"{dedent(TWO_TILES)}{text}{'' if HERE in text else f'  {HERE}'}")
    for text, words in {
        f"with pto.when(t == 0):  {HERE}\n    pto.tstore(out[0:8], t)": "compare elements with pto.tcmp or pto.tcmps",
        f"if t:  {HERE}\n    pto.tstore(out[0:8], t)": "Tile t has no truth value",
        f"while t:  {HERE}\n    break": "Tile t has no truth value",
        f"if x == 0:  {HERE}\n    pto.tstore(out[0:8], t)": "GlobalTensor x has no operator `==`",
        f"if pto.tmuls(u, t, 0):  {HERE}\n    pto.tstore(out[0:8], t)": "Event has no truth value",
        f"match t:\n    case 0:  {HERE}\n        pass": "Tile t has no operator `==`",
        "n = 1 if t else 2": "Tile t has no truth value",
        "n = not t": "Tile t has no truth value",
        "n = t and u": "Tile t has no truth value",
        "n = t or u": "Tile t has no truth value",
        "assert t": "Tile t has no truth value",
        "n = any([t, u])": "Tile t has no truth value",
        "n = t != 0": "Tile t has no operator `!=`",
        "n = t == u": "objects with `is`",
        "n = t[0:1] == 0": "Tile t has no operator `==`",
        "n = x[0:8] == x[0:8]": "GlobalTensor x has no operator `==`",
        "n = t in (u, 3)": "Tile u has no operator `==`",
        "n = [u].index(t)": "Tile u has no operator `==`",
        "n = 0 < t < 1": "Tile t has no operator `>`",
        "n = t <= u": "Tile t has no operator `<=`",
        "n = max(t, u)": "Tile u has no operator `>`",
        "n = sorted([t, u])": "Tile u has no operator `<`",
        "n = pto.tload(t, x[0:8]) == 0": "Event has no operator `==`",
        "n = np.ones(3) == t": "Tile t has no operator `==`",
        "n = np.float32(2) * t": "use pto.tmul or pto.tmuls",
        "n = t + u": "use pto.tadd or pto.tadds",
        "n = 2 - t": "use pto.tsub or pto.tsubs",
        "n = -t": "use pto.tneg",
        "n = abs(t)": "use pto.tabs",
        "n = x @ x": "use pto.tmatmul",
        "t += 1": "use pto.tadd or pto.tadds",
        "n = np.array_equal(t, np.zeros((8, 64)))": "np.array_equal cannot see its elements",
        "n = np.where(t, 1, 2)": "np.where cannot see its elements",
        "n = np.asarray(t)": "Tile t is no array",
    }.items()
}  # fmt: skip
"""Python's operators on tiles, arrays and events."""

NOT_FOLLOWED = {
    "an iterator outside": code("KN-21", "`once` reads the state of a list_iterator", """
        once = iter([1, 2])
        @pto.kernel
        def k(out):
            tile = pto.Tile("vec", "float32", 8, 64)
            pto.texpands(tile, next(once))  # <- here
            pto.tstore(out, tile)
        k[1](out)
    """),
    "a random generator of a helper": code("KN-21", "`rng.random` reads the state of a Generator", """
        rng = np.random.default_rng(0)
        def noise(tile):
            pto.texpands(tile, rng.random())  # <- here
        @pto.kernel
        def k(out):
            tile = pto.Tile("vec", "float32", 8, 64)
            noise(tile)
            pto.tstore(out, tile)
        k[1](out)
    """),
}  # fmt: skip
"""What ptokit cannot compare at the next launch."""

MADE_OUTSIDE = {
    "a tile from outside": code("KN-08", "dst is a Tile that was made outside this kernel", """
        tile = pto.Tile("vec", "float32", 8, 64)

        @pto.kernel
        def k(x):
            pto.tload(tile, x[0:8])  # <- here

        k[1](x)
    """),
    "an array from outside": body("KN-08", "src is a ndarray that was made outside this kernel", """
        tile = pto.Tile("vec", "int32", 1, 4)
        pto.tload(tile, lens)  # <- here
    """),
    "a tensor from outside": body("KN-08", "a kernel's arrays are its arguments", """
        tile = pto.Tile("vec", "int32", 1, 4)
        pto.tload(tile, pto.GlobalTensor(lens))  # <- here
    """),
    "a scalar from outside": body("KN-08", "a kernel's arrays are its arguments", """
        n = pto.load_scalar(pto.GlobalTensor(lens), 1)  # <- here
    """),
    "a tile of another kernel": code("KN-08", "made outside this kernel", """
        kept = []

        @pto.kernel
        def first(x):
            kept.append(pto.Tile("vec", "float32", 8, 64))

        @pto.kernel
        def k(x):
            pto.tload(kept[0], x[0:8])  # <- here

        first[1](x)
        k[1](x)
    """),
    "a number of another kernel": code("KN-", "n", """
        kept = []

        @pto.kernel
        def first(lens):
            n = pto.load_scalar(lens, 0)
            kept.append(n)

        @pto.kernel
        def k(x):
            tile = pto.Tile("vec", "float32", 8, 64)
            pto.texpands(tile, kept[0])  # <- here

        first[1](lens)
        k[1](x)
    """),
    "a kernel inside a kernel": code("KN-17", "a launch is not allowed inside a kernel", """
        @pto.kernel
        def inner(x):
            pass

        @pto.kernel
        def k(x):
            inner[1](x)  # <- here

        k[1](x)
    """),
    "a target inside a kernel": body("KN-", "target", """
        with pto.target("a5"):  # <- here
            tile = pto.Tile("vec", "float32", 8, 64)
            pto.tload(tile, x[0:8])
    """),
}  # fmt: skip

MANUAL = {
    "no address, beside one that the block computes": body("KN-09", "tile has no address", """
        other = pto.Tile("vec", "float32", 8, 64, addr=pto.block_idx() * 2048)
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[0:8])  # <- here
        pto.tload(other, x[0:8])
    """, mode="manual"),
    "an address that comes too late": body("KN-09", "tile has no address", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[0:8])  # <- here
        pto.tassign(tile, 0)
    """, mode="manual"),
    "an address of one arm": body("KN-09", "tile has no address", """
        tile = pto.Tile("vec", "float32", 8, 64)
        with pto.when(pto.block_idx() == 1):
            pto.tassign(tile, 0)
        pto.tload(tile, x[0:8])  # <- here
    """, mode="manual"),
    "an address below zero": body("CO-API-05", "from 0 up", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tassign(tile, pto.block_idx() - 32)  # <- here
        pto.tload(tile, x[0:8])
    """, mode="manual"),
    "addresses that overlap": body("A-38", "b must be apart from a while both are in use", """
        a = pto.Tile("vec", "float32", 8, 64, addr=0)
        b = pto.Tile("vec", "float32", 8, 64, addr=64)  # <- here
        pto.tload(a, x[0:8])
        pto.tadds(b, a, 1)
    """, mode="manual"),
    "an address in use": body("A-38", "b must be apart from a while both are in use", """
        a = pto.Tile("vec", "float32", 8, 64, addr=0)
        b = pto.Tile("vec", "float32", 8, 64, addr=64)  # <- here
        pto.tload(a, x[0:8])
        pto.tload(b, x[8:16])
        pto.tstore(out[0:8], a)
    """, mode="manual"),
    "addresses that overlap in a block": body("A-38", "must be apart from", """
        a = pto.Tile("vec", "float32", 8, 64, addr=0)
        b = pto.Tile("vec", "float32", 8, 64, addr=64 * (pto.block_idx() + 1))  # <- here
        pto.tload(a, x[0:8])
        pto.tadds(b, a, 1)
    """, mode="manual"),
    "addr in auto mode": body("KN-13", "addr= belongs to manual mode", """
        tile = pto.Tile("vec", "float32", 8, 64, addr=0)  # <- here
    """),
    "tassign in auto mode": body("KN-13", "tassign belongs to manual mode", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tassign(tile, 0)  # <- here
    """),
    "a flag in auto mode": body("KN-13", "pto.set_flag belongs to manual mode", """
        pto.set_flag("MTE2", "V", 0)  # <- here
    """),
    "a wait in auto mode for a list of words": body("KN-13", "an event or a list of events; got ['MTE2']", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[0:8], wait=["MTE2"])  # <- here
    """),
    "a wait for a word in an eager call": code("KN-13", "an event or a list of events; got 'nonsense'", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[0:8], wait="nonsense")  # <- here
    """),
    "a wait for a tile in an eager call": code("KN-13", "an event or a list of events; got", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.texpands(tile, 1, wait=[pto.texpands(tile, 0), tile])  # <- here
    """),
    "a barrier in auto mode": body("KN-13", "pto.barrier belongs to manual mode", "pto.barrier()  # <- here"),
    "an unknown pipe": body("KN-13", "'MTE9' is no pipe", 'pto.set_flag("MTE9", "V", 0)  # <- here', mode="manual"),
    "a pipe of no core": body("KN-13", "'AIX.S', 'V': no core", """
        pto.set_flag("AIX.S", "V", 0)  # <- here
    """, mode="manual"),
    "a pipe that waits for itself": body("KN-13", "one pipe run in order", """
        pto.set_flag("V", "V", 0)  # <- here
    """, mode="manual"),
    "event id 8": body("KN-13", "event ids are 0 to 7; found 8", """
        pto.set_flag("MTE2", "V", 8)  # <- here
    """, mode="manual"),
    "event id 8 in a block": body("KN-13", "event ids are 0 to 7; found 8", """
        pto.set_flag("MTE2", "V", pto.block_idx())  # <- here
        pto.wait_flag("MTE2", "V", pto.block_idx())
    """, mode="manual", launch='k[9](x, out, idx, target="a5")'),
    "a wait for a word": body("KN-13", "wait= takes what earlier calls returned, an event or a list of events", """
        tile = pto.Tile("vec", "float32", 8, 64, addr=0)
        pto.tload(tile, x[0:8], wait="MTE2")  # <- here
    """, mode="manual"),
    "a wait for a number": body("KN-13", "wait= takes what earlier calls returned, an event or a list of events", """
        tile = pto.Tile("vec", "float32", 8, 64, addr=0)
        pto.tload(tile, x[0:8], wait=3)  # <- here
    """, mode="manual"),
    "a wait for another kernel": code("KN-13", "wait= takes what earlier calls of this kernel returned", """
        kept = []

        @pto.kernel(mode="manual")
        def first(x):
            tile = pto.Tile("vec", "float32", 8, 64, addr=0)
            kept.append(pto.tload(tile, x[0:8]))

        @pto.kernel(mode="manual")
        def k(x):
            tile = pto.Tile("vec", "float32", 8, 64, addr=0)
            pto.tload(tile, x[0:8], wait=kept)  # <- here

        first[1](x)
        k[1](x)
    """),
}  # fmt: skip

OUT_OF_RANGE = {
    "a slice that is too long": body("KN-10", "the slice 0:65 of x does not lie within 0:64", "y = x[0:65]  # <- here"),
    "a slice of a slice": body("KN-10", "the slice 0:9 of x", "y = x[0:8][0:9]  # <- here"),
    "counting from the end": body("KN-10", "the slice -8:64 of x", "y = x[-8:]  # <- here"),
    "a step": body("KN-10", "got a step of 2", "y = x[0:8:2]  # <- here"),
    "a row by its number": body("KN-10", "x is sliced as x[start:stop], got block_idx", """
        row = x[pto.block_idx()]  # <- here
    """),
    "too many slices": body("KN-10", "3 slices for x, which has 2 dims", "y = x[0:8, 0:8, 0:8]  # <- here"),
    "a block too many": body("KN-10", "the slice x[64:72] does not lie within 0:64 in block 8", """
        tile, r = pto.Tile("vec", "float32", 8, 64), pto.block_idx() * 8
        pto.tload(tile, x[r : r + 8])  # <- here
    """, launch="k[9](x, out, idx)"),
    "an iteration too many": body("KN-10", "in block 0 with i = 8", """
        tile = pto.Tile("vec", "float32", 8, 64)
        for i in pto.range(9):
            pto.tload(tile, x[i * 8 : i * 8 + 8])  # <- here
    """),
    "columns too many": body("KN-10", "x[:, 48:80] does not lie within 0:64", """
        tile = pto.Tile("vec", "float32", 8, 32)
        for i in pto.range(0, 64, 48):
            pto.tload(tile, x[0:8, i : i + 32])  # <- here
    """),
    "a block too many behind a guard for fewer": body("KN-10", "in block 8", """
        tile, r = pto.Tile("vec", "float32", 8, 64), pto.block_idx() * 8
        with pto.when(r < 64):
            pto.tload(tile, x[r : r + 8])
        pto.tload(tile, x[r : r + 8])  # <- here
    """, launch="k[9](x, out, idx)"),
    "a start from the launch": body("KN-10", "the slice x[60:68] does not lie within 0:64 in block 0", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tload(tile, x[start : start + 8])  # <- here
    """, given="x, start", launch="k[1](x, 60)", error=pto.OutOfBoundsError),
    "a start from memory": body("KN-10", "the slice x[65:73] does not lie within 0:64 in block 3", """
        tile, r = pto.Tile("vec", "float32", 8, 64), pto.load_scalar(lens, pto.block_idx())
        pto.tload(tile, x[r : r + 8])  # <- here
    """, given="x, lens", launch="k[4](x, lens)", error=pto.OutOfBoundsError),
    "a start from memory under debug": body("KN-10", "the slice 65:73 does not lie within 0:64", """
        tile, r = pto.Tile("vec", "float32", 8, 64), pto.load_scalar(lens, pto.block_idx())
        pto.tload(tile, x[r : r + 8])  # <- here
    """, given="x, lens", launch="k[4](x, lens, debug=True)", error=pto.OutOfBoundsError),
    "a scalar of no block": body("KN-10", "in block 4", """
        n = pto.load_scalar(lens, pto.block_idx())  # <- here
    """, given="lens", launch="k[5](lens)"),
    "an index outside": body("MG-OOB-04", "in block 2", """
        b = pto.block_idx()
        rows, tile = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 64)
        pto.tload(rows, idx[b * 8 : b * 8 + 8])
        pto.mgather(tile, x, rows)  # <- here
    """, launch="k[8](x, out, idx)", error=pto.OutOfBoundsError),
    "a slice of a tensor with a layout": body("KN-10", "a kernel can slice only plain arrays", """
        y = x[0:8]  # <- here
    """, launch='k[1](pto.GlobalTensor(x.ravel(), shape=(1, 8, 4, 16, 8), layout="nz"), out, idx)'),
    "storing by assignment": body("KN-", "use pto.tstore(out[...], tile)", "out[0:8] = x[0:8]  # <- here"),
}  # fmt: skip

NO_VALUE = {
    "a division by zero": body("KN-11", "// 0 has no value", "n = pto.block_idx() // 0  # <- here"),
    "a division by zero at run time": body("KN-11", "8 // 0 has no value", """
        tile, n = pto.Tile("vec", "float32", 8, 64), pto.load_scalar(lens, 0)
        pto.texpands(tile, 8 // n)  # <- here
    """, given="lens", launch="k[1](lens)"),
    "a division by zero in a loop's end": body("KN-11", "64 // 0 has no value, in block 0", """
        for i in pto.range(64 // n):  # <- here
            pass
    """, given="n", launch="k[1](0)"),
    "a shift below zero": body("KN-11", "a shift by -1: counts are 0 to 63", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.texpands(tile, 1 << (pto.block_idx() - 1))  # <- here
    """),
    "a constant shift below zero": body("KN-11", "a shift by -1", "y = x[pto.block_idx() << -1 : 64]  # <- here"),
    "a number too large for its type": body("KN-11", "32768 is not representable in int16", """
        tile = pto.Tile("vec", "int16", 1, 16)
        pto.texpands(tile, pto.block_idx() + 32767)  # <- here
    """, launch="k[2](x, out, idx)"),
    "a constant too large for its type": body("", "32768) is not representable in int16", """
        tile = pto.Tile("vec", "int16", 1, 16)
        pto.texpands(tile, 32768)  # <- here
    """, error=ValueError),
    "a window below zero": body("CP-EXT-01", "found -16 in block 0", """
        l1 = pto.Tile("mat", "float32", 64, 64, blayout="col_major", slayout="row_major")
        l0 = pto.Tile("left", "float32", 16, 16)
        pto.tload(l1, x)
        pto.textract(l0, l1, pto.block_idx() * 16 - 16, 0)  # <- here
    """),
    "a window that leaves its tile": body("CP-EXT-01", "at (64, 0)", """
        l1 = pto.Tile("mat", "float32", 64, 64, blayout="col_major", slayout="row_major")
        l0 = pto.Tile("left", "float32", 16, 16)
        pto.tload(l1, x)
        pto.textract(l0, l1, pto.block_idx() * 16, 0)  # <- here
    """, launch="k[5](x, out, idx)"),
}  # fmt: skip

EXTENTS = {
    "valid set after use": body("KN-12", "tile.valid changes after the tile was used in the same loop", """
        tile = pto.Tile("vec", "float32", 8, 64)
        for i in pto.range(1, 8):
            pto.tload(tile, x[0:8])
            tile.valid = (i, 64)  # <- here
    """),
    "valid set in one arm": body("KN-12", "tile.valid was set inside a pto.range or pto.when body that has ended", """
        tile = pto.Tile("vec", "float32", 8, 64)
        with pto.when(pto.block_idx() == 0):
            tile.valid = (4, 64)
        pto.tload(tile, x[0:8])  # <- here
    """),
    "valid beyond the tile": body("CO-SHAPE-02", "valid (9, 64) must lie within [8, 64]", """
        tile = pto.Tile("vec", "float32", 8, 64, valid=(9, 64))  # <- here
    """),
    "valid beyond the tile in a block": body("CO-SHAPE-02", "9 valid rows of tile do not lie within 0:8 in block 9", """
        tile = pto.Tile("vec", "float32", 8, 64, valid=(pto.block_idx(), 64))
        with pto.when(pto.block_idx() > 0):
            pto.tload(tile, x[0:8])  # <- here
    """, launch="k[10](x, out, idx)"),
    "valid beyond the tile from memory": body("CO-SHAPE-02", "65 valid rows of tile do not lie within 0:64", """
        tile = pto.Tile("vec", "float32", 64, 64, valid=(pto.load_scalar(lens, 3), 64))
        pto.tload(tile, x)  # <- here
    """, given="x, lens", launch="k[1](x, lens)"),
    "valid as one number": body("", "valid takes (rows, cols), got 8", """
        tile = pto.Tile("vec", "float32", 8, 64, valid=8)  # <- here
    """, error=TypeError),
    "nothing valid": body("A-55", "at least one valid row and column", """
        tile = pto.Tile("vec", "float32", 8, 64, valid=(0, 64))
        pto.tload(tile, x[0:8])  # <- here
    """),
    "nothing valid at run time": body("A-55", "at least one valid row and column", """
        n = pto.load_scalar(lens, 0)
        tile = pto.Tile("vec", "float32", 8, 64, valid=(n, 64))
        pto.tload(tile, x[0:n])  # <- here
    """, given="x, lens", launch="k[1](x, lens)"),
}  # fmt: skip

SCALARS_FROM_MEMORY = {
    "a float from memory": body("KN-14", "reads whole numbers, not float32", "n = pto.load_scalar(x, 0, 0)  # <- here"),
    "a truth value from memory": body("KN-14", "whole numbers", """
        n = pto.load_scalar(x, 0)  # <- here
    """, given="x", launch="k[1](np.array([True]))"),
    "too many indices": body("KN-14", "one index for each of the 1 dims, got 2", """
        n = pto.load_scalar(idx, 0, 0)  # <- here
    """),
    "a scalar from a tile": body("KN-14", "pto.load_scalar reads an argument", """
        tile = pto.Tile("vec", "int32", 1, 8)
        n = pto.load_scalar(tile, 0)  # <- here
    """),
    "a scalar from an array outside": body("KN-14", "pto.load_scalar reads an argument, got ndarray", """
        n = pto.load_scalar(lens, 0)  # <- here
    """),
}  # fmt: skip

INSTRUCTIONS = {
    "a wrong element type": body("TL-01", "src must be of dst's element type, float32; found int32", """
        tile = pto.Tile("vec", "float32", 1, 64)
        pto.tload(tile, idx)  # <- here
    """),
    "a block that is too small": body("TL-02", "at least [8, 128], the valid region; found [8, 64]", """
        tile = pto.Tile("vec", "float32", 8, 128)
        pto.tload(tile, x[0:8])  # <- here
    """),
    "tiles of different shapes": body("CP-BIN-01", "src1 must be valid [8, 64], as dst; found valid [8, 32]", """
        a, b = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "float32", 8, 32)
        pto.tadd(a, a, b)  # <- here
    """),
    "tiles of different types": body("CP-BIN-02", "src1 must be of dst's element type, float32; found int32", """
        a, b = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "int32", 8, 64)
        pto.tadd(a, a, b)  # <- here
    """),
    "operands the wrong way round": body("TL-01", "src must be a GlobalTensor", """
        tile = pto.Tile("vec", "float32", 64, 64)
        pto.tload(x, tile)  # <- here
    """),
    "a number for a tile": body("", "idx must be a pto.Tile or a pto.GlobalTensor, got int", """
        tile = pto.Tile("vec", "float32", 64, 64)
        pto.mgather(tile, x, 3)  # <- here
    """, error=TypeError),
    "a tile for a number": body("", "tadds on float32 takes one number, got <tile tile", """
        tile = pto.Tile("vec", "float32", 64, 64)
        pto.tadds(tile, tile, tile)  # <- here
    """, error=TypeError),
    "an unknown policy": body("CO-SEM-01", "unknown value 'nonsense'; expected one of 'undefined', 'clamp'", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.mgather(tile, x, tile, oob="nonsense")  # <- here
    """),
    "an unknown memory": body("", "unknown value 'ub'; expected one of 'vec', 'mat'", """
        tile = pto.Tile("ub", "float32", 8, 64)  # <- here
    """, error=ValueError),
    "an unknown option of a tile": body("", "unexpected keyword argument 'size'", """
        tile = pto.Tile("vec", "float32", 8, 64, size=3)  # <- here
    """, error=TypeError),
    "tiles of both cores": body("KN-16", "l1 belongs to AIC, ub to AIV", """
        ub = pto.Tile("vec", "float32", 16, 64)
        l1 = pto.Tile("mat", "float32", 16, 64, blayout="col_major", slayout="row_major")
        pto.tload(ub, x[0:16])
        pto.tload(l1, x[0:16])  # <- here
    """, launch='k[1](x, out, idx, target="a5")'),
}  # fmt: skip


def too_large(rule: str, words: str, tile: str, options: str) -> Mistake:
    """Two tiles that do not fit together; the second is one too many."""
    tiles = f"a = {tile}\nb = {tile}  {HERE}\n"
    return body(
        rule,
        words,
        f"{tiles}pto.texpands(a, 0)\npto.texpands(b, 0)\npto.tadd(a, a, b)",
        launch=f"k[1](x, out, idx, {options})",
    )


MEMORY = {
    "UB of A2/A3": too_large(
        "MG-BUDG-02", "within 196608 bytes of UB; found 204800", 'pto.Tile("vec", "float32", 200, 128)', 'target="a2a3"'
    ),
    "UB of A5": too_large(
        "MG-BUDG-06", "within 262144 bytes of UB; found 270336", 'pto.Tile("vec", "float32", 264, 128)', 'target="a5"'
    ),
    "UB of A5 without dyn_ub": body("MG-BUDG-09", "launch with dyn_ub=32768 or more, at most 57344", """
        ids = pto.Tile("vec", "int32", 80, 256)
        got = pto.Tile("vec", "float32", 80, 256)  # <- here
        pto.texpands(ids, 0)
        pto.mgather(got, x, ids, coalesce="elem")
    """, launch='k[1](x, out, idx, target="a5")'),
    "a dyn_ub that is too small": body("MG-BUDG-13", "within 1 bytes of UB under dyn_ub=1; found 32 bytes", """
        t = pto.Tile("vec", "float32", 1, 8, addr=0)  # <- here
        pto.texpands(t, 0)
    """, mode="manual", launch='k[1](x, out, idx, target="a5", dyn_ub=1)'),
    "a dyn_ub beside static tiles": too_large(
        "MG-BUDG-07", "dyn_ub of at most 57344 bytes: 221184 less 163840 of tiles without an address",
        'pto.Tile("vec", "float32", 160, 128)', 'target="a5", dyn_ub=163840',
    ),
    "L1": body("A-38", "mat tiles must be within 524288 bytes of L1; found 1048576", """
        l1 = pto.Tile("mat", "float32", 1024, 256, blayout="col_major", slayout="row_major")  # <- here
        pto.tload(l1, w)
    """, given="w", launch='k[1](np.zeros((1024, 256), "float32"), target="a5")'),
    "L0": body("A-38", "left tiles must be within 65536 bytes of L0A; found 131072", """
        l1 = pto.Tile("mat", "float32", 128, 256, blayout="col_major", slayout="row_major")
        l0 = pto.Tile("left", "float32", 128, 256)  # <- here
        pto.tload(l1, w)
        pto.textract(l0, l1, 0, 0)
    """, given="w", launch='k[1](np.zeros((128, 256), "float32"), target="a5")'),
}  # fmt: skip

DEFINITIONS = {
    "any number of arguments": code("KN-17", "`arrays` is variadic or positional-only", """
        @pto.kernel  # <- here
        def k(*arrays):
            pass
    """),
    "a parameter that has no name": code("KN-17", "list the parameters, without *args, **options and /", """
        @pto.kernel  # <- here
        def k(x, /, out):
            pass
    """),
    "a parameter called target": code("KN-17", "`target` is an option of every launch", """
        @pto.kernel  # <- here
        def k(x, target):
            pass
    """),
    "a parameter called block_idx": code("KN-17", "`block_idx` is the block's own number", """
        @pto.kernel  # <- here
        def k(x, block_idx):
            pass
    """),
    "an unknown mode": code("", "mode is one of auto, manual, got 'fast'", """
        @pto.kernel(mode="fast")  # <- here
        def k(x):
            pass
    """, ValueError),
    "a mode without its name": code("", "@pto.kernel takes a function, got 'manual'", """
        @pto.kernel("manual")  # <- here
        def k(x):
            pass
    """, TypeError),
    "a lambda": code("KN-15", "cannot be read", """
        k = pto.kernel(lambda x: None)  # <- here
        k[1](x)
    """),
    "an element type that there is not": code("KN-20", "int33", """
        @pto.kernel
        def k(out):
            pto.Tile("vec", "int33", 1, 8)  # <- here


        raise pto.VerifyError(pto.check(k, out, target="cpu").findings)
    """),
    "an accumulator that was not cleared": body("KN-19", "reads tile, which nothing has written", """
        tile = pto.Tile("vec", "float32", 8, 64)
        pto.tadds(tile, tile, 1)  # <- here
    """, launch="k[1](x, out, idx, strict=True)"),
    "buffers in manual mode": body("KN-13", "buffers= belongs to auto mode", """
        for i in pto.range(4, buffers=2):  # <- here
            tile = pto.Tile("vec", "float32", 8, 64, addr=0)
    """, mode="manual"),
    "check without a kernel": code("", "a function under @pto.kernel", """
        pto.check(print, x)  # <- here
    """, TypeError),
}  # fmt: skip

LAUNCHES = {
    "no grid": launch("KN-17", "k is launched over a grid", "k(x, 3)"),
    "a float argument": launch("KN-17", "`n` takes an array or a whole number; found 0.5", "k[1](x, 0.5)"),
    "a list": launch("KN-17", "`x` takes an array or a whole number; found [1, 2]", "k[1]([1, 2], 3)"),
    "nothing for an array": launch("KN-17", "`x` takes an array or a whole number; found None", "k[1](None, 3)"),
    "an array as a constant": launch("KN-17", "the constant `rows` must be a number", "k[1](x, 3, x)"),
    "a constant that cannot be a key": launch("KN-17", "found list", "k[1](x, 3, rows=[8])"),
    "a number with a point of NumPy": launch("", "`n`: a global tensor has one", "k[1](x, np.float32(1))", ValueError),
    "an array that cannot be lent": launch("", "`x`: a stride of -256 bytes", "k[1](x[::-1], 3)", ValueError),
    "too few arguments": launch("", "k: missing a required argument: 'n'", "k[1](x)", TypeError),
    "too many arguments": launch("", "k: too many positional arguments", "k[1](x, 1, 2, 3)", TypeError),
    "an unknown keyword": launch("", "k: got an unexpected keyword argument 'cols'", "k[1](x, 3, cols=8)", TypeError),
    "a negative grid": launch("KN-18", "a whole number from 0 to 2,147,483,647; found -1", "k[-1](x, 3)"),
    "a grid of two dims": launch(
        "KN-18", "one-dimensional, a whole number from 0 to 2,147,483,647; found (2, 3)", "k[2, 3](x, 3)"
    ),
    "half a block": launch("KN-18", "found 1.5", "k[1.5](x, 3)"),
    "a truth value for a grid": launch("KN-18", "found True", "k[True](x, 3)"),
    "a grid of a report": launch("KN-18", "from 0 to 2,147,483,647; found -1", "pto.check(k, x, 3, grid=-1)"),
    "an unknown engine": launch("", "engine is one of auto, reference", "k[1](x, 3, engine='gpu')", ValueError),
    "an unknown target": launch("", "unknown target 'a4'; known: cpu", "k[1](x, 3, target='a4')", ValueError),
    "bytes below zero": launch("", "dyn_ub takes a number of bytes, got -1", "k[1](x, 3, dyn_ub=-1)", ValueError),
    "bytes in a list": launch("", "dyn_ub takes a number of bytes, got [1]", "k[1](x, 3, dyn_ub=[1])", ValueError),
    "a read-only array": Mistake("", "k: out is read-only; pass a writable array", dedent(f"""\
        @pto.kernel
        def k(x, out):
            tile = pto.Tile("vec", "float32", 64, 64)
            pto.tload(tile, x)
            pto.tstore(out, tile)
        out.flags.writeable = False
        k[1](x, out)  {HERE}
    """), ValueError),
}  # fmt: skip

GROUPS = (
    OUTSIDE_A_KERNEL, DECIDED_BY_PYTHON, CHANGED_INSIDE_A_BODY, USED_AFTER_A_BODY, LEAVING_A_BODY, BODIES_OUT_OF_PLACE,
    NOTHING_TO_SEE, OPERATORS, NOT_FOLLOWED, MADE_OUTSIDE, MANUAL, OUT_OF_RANGE, NO_VALUE, EXTENTS,
    SCALARS_FROM_MEMORY, INSTRUCTIONS, MEMORY, DEFINITIONS, LAUNCHES,
)  # fmt: skip
MISTAKES = {title: mistake for group in GROUPS for title, mistake in group.items()}


def stop(title: str, mistake: Mistake) -> Exception:
    """Run a mistake; what stopped it."""
    with pytest.raises(mistake.error) as stopped:
        exec(snippet.compiled(mistake.code, title), arrays())
    return stopped.value


@pytest.mark.parametrize("title", MISTAKES)
def test_a_mistake_is_named_at_its_line(title: str) -> None:
    mistake = MISTAKES[title]
    error = stop(title, mistake)
    if not mistake.rule:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"<{title}>"]
        assert frames[-1].lineno == mistake.line
        assert mistake.words in str(error)
        return
    assert isinstance(error, pto.VerifyError | pto.OutOfBoundsError), repr(error)
    here = [finding for finding in error.findings if finding.where == pto.Where(f"<{title}>", mistake.line)]
    assert here, f"line {mistake.line} expected: {error}"
    finding = next((finding for finding in here if finding.rule.startswith(mistake.rule)), here[0])
    assert finding.rule.startswith(mistake.rule)
    assert finding.level == "error"
    assert mistake.words in str(finding)
    assert finding.fix or finding.expected, "a refusal says what to do"
    assert len(set(error.findings)) == len(error.findings), "no finding is told twice"


@pytest.mark.parametrize("title", [*OPERATORS, *NOT_FOLLOWED])
def test_a_check_is_not_ok(title: str) -> None:
    head, _ = MISTAKES[title].code.rsplit("\n", 1)
    names = arrays()
    exec(snippet.compiled(head, title), names)
    report = pto.check(names["k"], *(names[name] for name in names["k"].parameters), target="cpu")
    assert not report.ok and [finding.rule for finding in report.findings] == [MISTAKES[title].rule]


@pytest.mark.parametrize("title", OPERATORS)
def test_operators_are_refused_with_real_values_too(title: str) -> None:
    head, launch = MISTAKES[title].code.rsplit("\n", 1)
    with pytest.raises(pto.VerifyError, match="KN-07"):
        exec(snippet.compiled(f"{head}\n{launch[:-1]}, debug=True)", f"{title}, debug"), arrays())


def test_there_are_many_and_no_two_are_the_same() -> None:
    assert len(MISTAKES) == sum(map(len, GROUPS))
    assert len({mistake.code for mistake in MISTAKES.values()}) == len(MISTAKES) > 100


def test_every_rule_of_the_language_has_a_mistake() -> None:
    language = {name for name in spec.clauses() if name.startswith("KN-")}
    assert language - {mistake.rule for mistake in MISTAKES.values()} == set()


SEEN_UNDER_DEBUG = {
    *CHANGED_INSIDE_A_BODY, *LEAVING_A_BODY, "a loop variable", "a name that grows", "a comprehension",
    "otherwise alone", "otherwise with a condition", "when behind another", "when by keyword", "when with a star",
    "when without a condition", "half a condition", "a condition that is none",
} - {"yield of a context"}  # fmt: skip
"""A body that a context hides is refused too, for its own reason."""


@pytest.mark.parametrize("title", sorted(SEEN_UNDER_DEBUG))
def test_what_the_source_shows_is_refused_under_debug_too(title: str) -> None:
    mistake = MISTAKES[title]
    head, launch = mistake.code.rsplit("\n", 1)
    again = Mistake(mistake.rule, mistake.words, f"{head}\n{launch[:-1]}, debug=True)", mistake.error)
    error = stop(f"{title}, debug", again)
    assert isinstance(error, pto.VerifyError)
    assert error.findings[0].rule == mistake.rule
    assert error.findings[0].where == pto.Where(f"<{title}, debug>", mistake.line)


@pytest.mark.parametrize("title", ["a block too many", "if", "rebinding", "a wrong element type", "an index outside"])
def test_after_a_mistake_everything_works_as_before(title: str) -> None:
    stop(title, MISTAKES[title])
    tile = pto.Tile("vec", "float32", 1, 8).write(1)
    assert tile.read().sum() == 8, "no kernel is being traced any more"


def test_a_refused_launch_writes_nothing() -> None:
    names = arrays()
    source = dedent("""\
        @pto.kernel
        def k(x, out):
            tile, r = pto.Tile("vec", "float32", 8, 64), pto.block_idx() * 8
            pto.tload(tile, x[r : r + 8])
            pto.tstore(out[r : r + 8], tile)
        k[9](x, out)
    """)
    with pytest.raises(pto.VerifyError):
        exec(snippet.compiled(source, "refused"), names)
    assert not names["out"].any()
