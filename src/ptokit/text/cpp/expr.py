"""Names, comments and whole-number expressions in C++. No name of a program can change the meaning of the text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from math import inf
from pathlib import PurePath

from ptokit.finding import Finding, VerifyError, Where
from ptokit.program.expr import ANYTHING, Expr, Op, Var, interval
from ptokit.text.numbers import Limits

KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq"""
API = """
    AtomicType BLayout CmpMode Coalesce CompactMode GatherExec GatherOOB GlobalTensor Layout PadValue RoundMode SLayout
    SaturationMode ScatterAtomicOp ScatterConflict ScatterOOB Shape Stride Tile TileType bfloat16_t event_t
    get_block_idx get_block_num half pipe_barrier pto set_flag wait_flag floor_div floor_mod least greatest
    kDynUbBytes stream blocks"""
"""Names that the emitted text uses itself."""
BUILT_IN = """
    block block_idx block_num status l2_vaddr_base l2_in_main linux unix errno assert stdin stdout stderr std main abort
    exit free malloc time"""
"""Macros and variables of the vendor's compiler, and of every C++ program."""
RESERVED = frozenset((*KEYWORDS.split(), *API.split(), *BUILT_IN.split()))
PATTERN = re.compile(r"[A-Z][A-Z0-9_]*[A-Z0-9]|u?int\d+_t|(hi)?float8_\w+")
"""Names all in capitals, which may be macros or instructions; element types."""

LONGEST = 60
"""Characters of a name or of a comment's part; what is longer is cut."""


def identifier(name: str) -> str:
    """A name as a C++ identifier: ASCII letters, no name that C++ or the vendor's headers use."""
    plain = re.sub(r"[\W_]+", "_", name[: 2 * LONGEST], flags=re.ASCII)[:LONGEST]
    if not re.match(r"[A-Za-z]", plain):
        plain = f"x{plain}"
    return _clear(plain)


def _clear(name: str) -> str:
    """A name that C++ and the vendor's headers do not use."""
    return f"{name}_" if name in RESERVED or PATTERN.fullmatch(name) else name


class Identifiers:
    """One C++ name for each name of a program, and new unique names."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._given: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = defaultdict(int)

    def of(self, name: str, kind: str = "") -> str:
        """The C++ name of a program's name; names of different kinds, as a tile and an argument, may be equal there."""
        if (kind, name) not in self._given:
            self._given[kind, name] = self.fresh(name)
        return self._given[kind, name]

    def fresh(self, base: str) -> str:
        """A new name, made from another one."""
        first = name = identifier(base)
        while name in self._taken:
            self._last[first] += 1
            name = _clear(f"{first.rstrip('_')}_{self._last[first]}")
        self._taken.add(name)
        return name


def pipe(name: str) -> str:
    """`PIPE_MTE2`."""
    return f"PIPE_{re.sub('[^A-Z0-9]', '', name)}"


def place_text(where: Where | None) -> str:
    """`file.py:12`, without the folders around it."""
    return printable(f"{PurePath(where.file.replace(chr(92), '/')).name[-LONGEST:]}:{where.line}") if where else ""


def comment(text: str) -> str:
    """A line that C++ skips."""
    return f"// {printable(text if len(text) <= 2 * LONGEST else f'{text[: 2 * LONGEST]} ...')}"


def printable(text: str) -> str:
    """The text without characters that end or continue a line, including the trigraph of a backslash."""
    return re.sub(r"[^\x20-\x3e\x40-\x5b\x5d-\x7e]", "_", text)


HELPERS = {
    "floordiv": (
        "floor_div",
        "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
        "Division that rounds towards minus infinity.",
    ),
    "mod": ("floor_mod", "return (a % b + b) % b;", "A remainder with the divisor's sign."),
    "min": ("least", "return b < a ? b : a;", "The smaller number."),
    "max": ("greatest", "return a < b ? b : a;", "The larger number."),
}
"""Operations that are functions in C++: the name, the body, and a comment."""
SYMBOLS = {"add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "floordiv": ("/", 6), "mod": ("%", 6)}
"""Arithmetic operators and their precedence; division only of numbers that are not negative."""
BITS = {"shl": "<<", "shr": ">>", "and": "&", "or": "|"}
"""Operators that are always written in brackets, because their precedence is little known."""
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and": "&&", "or": "||"}


def literal(number: int) -> str:
    """An integer literal; rejected if it does not fit 64 bits."""
    if not -(2**63) <= number < 2**63:
        message = f"{number} does not fit the 64-bit numbers of C++"
        raise VerifyError([Finding("error", "KN-11", message, fix="use smaller numbers")])
    return str(number) if number > -(2**63) else "INT64_MIN"


class Expressions:
    """Expressions in C++, all of type `int64_t`, with the author's names for parts of them."""

    def __init__(self, identifiers: Identifiers, names: Iterable[tuple[Expr, str]]) -> None:
        self.identifiers = identifiers
        self.names = dict(names)
        self._given: dict[Expr, str] = {}
        """The C++ names of expressions that have one; the author may call several by the same name."""
        self.limits = Limits()
        self.natural: set[Expr] = set()
        """Expressions that are known not to be negative."""
        self.helpers: set[str] = set()
        """Operations whose functions are needed."""
        self.used: dict[Var, None] = {}
        """Variables that occur in the text."""

    def name(self, expr: Expr) -> str | None:
        """The C++ name of a variable, or of an expression that has one."""
        if isinstance(expr, Var):
            self.used[expr] = None
            return self.identifiers.of(expr)
        if expr in self.names and expr not in self._given:
            self._given[expr] = self.identifiers.fresh(self.names[expr])
        return self._given.get(expr)

    def text(self, expr: Expr, around: int = 0) -> str:
        """An expression, in brackets if the operator around it has higher precedence."""
        if isinstance(expr, int):
            return literal(expr)
        return self.name(expr) or self.definition(expr, around)

    def definition(self, expr: Expr, around: int = 0) -> str:
        """An operation, written out even if it has a name."""
        assert isinstance(expr, Op)
        if expr.name in COMPARISONS:
            return f"int64_t({self._comparison(expr)})"
        if expr.name in HELPERS and not self._divides_plainly(expr):
            self.helpers.add(expr.name)
            return f"{HELPERS[expr.name][0]}({', '.join(map(self.text, expr.args))})"
        if expr.name in SYMBOLS:
            symbol, binding = SYMBOLS[expr.name]
            left, right = (self.text(arg, binding + k) for k, arg in enumerate(expr.args))
            return f"({left} {symbol} {right})" if binding < around else f"{left} {symbol} {right}"
        left, right = (self._operand(arg) for arg in expr.args)
        return f"({left} {BITS[expr.name]} {right})"

    def _operand(self, expr: Expr) -> str:
        """An operand of a bit operation; the type of a plain literal would be too narrow to shift."""
        return f"int64_t({literal(expr)})" if isinstance(expr, int) else self.text(expr, around=9)

    def _divides_plainly(self, expr: Op) -> bool:
        """Whether C++ rounds as Python does: nothing is negative."""
        return expr.name in SYMBOLS and self._least(expr.args[0]) >= 0 and self._least(expr.args[1]) > 0

    def _least(self, expr: Expr) -> float:
        return 0 if expr in self.natural else interval(expr, self.limits.bounds)[0]

    def condition(self, expr: Expr) -> str:
        if isinstance(expr, Op) and expr not in self.names:
            if expr.name in COMPARISONS:
                return self._comparison(expr)
            if expr.name in LOGIC and all(map(_is_truth, expr.args)):
                left, right = (self.condition(arg) for arg in expr.args)
                return f"({left}) {LOGIC[expr.name]} ({right})"
        return f"{self.text(expr)} != 0"

    def _comparison(self, expr: Op) -> str:
        left, right = map(self.text, expr.args)
        return f"{left} {COMPARISONS[expr.name]} {right}"

    def read(self, var: Var, is_unsigned: bool) -> None:
        """Record the bounds of a number from memory."""
        self.limits.bounds[var] = (0, inf) if is_unsigned else ANYTHING


def _is_truth(expr: Expr) -> bool:
    """Whether an expression is 0 or 1."""
    if not isinstance(expr, Op):
        return False
    return expr.name in COMPARISONS or (expr.name in LOGIC and all(map(_is_truth, expr.args)))
