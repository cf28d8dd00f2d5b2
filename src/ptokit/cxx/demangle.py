"""Names of C++ functions from the names that linkers use: `_ZN2ns6helperIfEEvPT_` is `ns::helper<float>`."""

from __future__ import annotations

import re
from functools import lru_cache

DEEPEST = 48
LONGEST = 4096
"""Characters of a name; substitutions could double it again and again."""
LONGEST_SYMBOL = 1 << 15
"""Characters of a symbol that is read by its grammar."""

BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "w": "wchar_t", "z": "...",
}  # fmt: skip
TWO_LETTERS = {
    "Dn": "std::nullptr_t", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto", "Dh": "half",
}  # fmt: skip
STANDARD = {
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream",
    "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
PREFIXES = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile"}
OPERATORS = {
    "cl": "()", "ix": "[]", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "ls": "<<", "rs": ">>", "nw": " new", "dl": " delete",
    "pp": "++", "mm": "--", "pt": "->", "nt": "!", "aa": "&&", "oo": "||", "an": "&", "or": "|", "eo": "^", "rm": "%",
    "le": "<=", "ge": ">=", "de": "*", "ng": "-", "co": "~",
}  # fmt: skip


class _UnknownName(Exception):
    """A name outside the part of the grammar that is read here."""


class _NameReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.seen: list[str] = []
        """What substitutions refer to."""
        self.arguments: list[str] = []
        """The last template arguments, for T_."""

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def take(self, what: str) -> bool:
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def expect(self, what: str) -> None:
        if not self.take(what):
            raise _UnknownName

    def remember(self, name: str) -> str:
        if len(name) > LONGEST:
            raise _UnknownName
        self.seen.append(name)
        return name

    def name(self) -> str:
        """A function's or a type's name."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _UnknownName
        found = self._name()
        self.depth -= 1
        return found

    def _name(self) -> str:
        if self.take("N"):
            return self.nested()
        if self.take("Z"):
            return self.inside_function()
        if self.take("St"):
            found = "std::" + self.unqualified()
        elif self.peek() == "S":
            found = self.substitution()
            return found + self.template_arguments() if self.peek() == "I" else found
        else:
            found = self.unqualified()
        if self.peek() == "I":
            self.remember(found)
            found += self.template_arguments()
        return found

    def inside_function(self) -> str:
        outer = self.name()
        while self.peek() and self.peek() != "E":  # the parameters of the function
            self.type()
        self.expect("E")
        if self.take("s"):
            return outer
        return f"{outer}::{self.name()}"

    def nested(self) -> str:
        while self.peek() in ("K", "V", "r", "R", "O") and self.peek():
            self.at += 1
        found = ""
        while not self.take("E"):
            if self.peek() == "I":
                found += self.template_arguments()
                self.remember(found)
            elif self.peek() == "S" and self.peek(2) != "St":
                found = self.substitution()
            elif self.take("St"):
                found = "std"
            elif self.peek() == "T":
                found = self.remember(self.template_parameter())
            else:
                part = self.unqualified(found)
                found = self.remember(f"{found}::{part}" if found else part)
        if self.seen and self.seen[-1] == found:
            self.seen.pop()  # the whole name is no substitution, unless a type says so
        return found

    def unqualified(self, outer: str = "") -> str:
        found = ""
        letter = self.peek()
        if letter.isdigit():
            found = self.source_name()
        elif letter == "L":
            self.at += 1
            return self.unqualified(outer)
        elif self.peek(2) == "Ul":
            self.at += 2
            while not self.take("E"):
                self.type()
            self.number_until("_")
            found = "{lambda}"
        elif self.peek(2) == "Ut":
            self.at += 2
            self.number_until("_")
            found = "{unnamed}"
        elif self.peek(2) in ("C1", "C2", "C3", "D0", "D1", "D2"):
            self.at += 2
            last = re.sub(r"<.*", "", outer).rpartition("::")[2]
            found = ("~" if letter == "D" else "") + last
        elif self.peek(2) in OPERATORS:
            found = "operator" + OPERATORS[self.peek(2)]
            self.at += 2
        elif self.take("cv"):
            found = "operator " + self.type()
        else:
            raise _UnknownName
        while self.take("B"):  # an ABI tag
            self.source_name()
        return found

    def source_name(self) -> str:
        digits = re.compile(r"\d{1,6}").match(self.text, self.at)
        if digits is None:
            raise _UnknownName
        size = int(digits[0])
        self.at = digits.end()
        found = self.peek(size)
        if len(found) != size or not size:
            raise _UnknownName
        self.at += size
        return "(anonymous namespace)" if found.startswith("_GLOBAL__N") else found

    def number_until(self, end: str) -> int:
        digits = re.compile(r"[0-9A-Z]*").match(self.text, self.at)
        text = digits[0] if digits else ""
        self.at += len(text)
        self.expect(end)
        return int(text, 36) + 1 if text else 0

    def substitution(self) -> str:
        if self.peek(2) in STANDARD:
            self.at += 2
            return STANDARD[self.text[self.at - 2 : self.at]]
        self.expect("S")
        number = self.number_until("_")
        if number >= len(self.seen):
            raise _UnknownName
        return self.seen[number]

    def template_parameter(self) -> str:
        self.expect("T")
        number = self.number_until("_")
        return self.arguments[number] if number < len(self.arguments) else "auto"

    def template_arguments(self) -> str:
        self.expect("I")
        found: list[str] = []
        while not self.take("E"):
            found += self.template_argument()
        self.arguments = found
        text = ", ".join(found)
        if len(text) > LONGEST:
            raise _UnknownName
        return f"<{text}>"

    def template_argument(self) -> list[str]:
        if self.take("J"):
            found: list[str] = []
            while not self.take("E"):
                found += self.template_argument()
            return found
        if self.take("L"):
            return [self.literal()]
        return [self.type()]

    def literal(self) -> str:
        if self.take("_Z"):
            found = self.name()
            while self.peek() and self.peek() != "E":
                self.type()
            self.expect("E")
            return found
        kind = self.type()
        end = self.text.find("E", self.at)
        if end < 0:
            raise _UnknownName
        value = self.text[self.at : end].replace("n", "-")
        self.at = end + 1
        if kind == "bool":
            return "true" if value == "1" else "false"
        plain = kind in BUILTIN.values()
        return value if plain else f"({kind}){value}"

    def type(self) -> str:
        """A type as a template argument or a parameter shows it."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _UnknownName
        found = self._type()
        self.depth -= 1
        return found

    def _type(self) -> str:
        letter = self.peek()
        if letter in BUILTIN and letter:
            self.at += 1
            return BUILTIN[letter]
        if self.peek(2) in TWO_LETTERS:
            self.at += 2
            return TWO_LETTERS[self.text[self.at - 2 : self.at]]
        if self.take("DF16_"):
            return "_Float16"
        if self.take("DF16b"):
            return "__bf16"
        if self.take("Dp"):
            return self.type()
        if letter in PREFIXES and letter:
            self.at += 1
            return self.remember(self.type() + PREFIXES[letter])
        if letter == "T":
            found = self.template_parameter()
            self.remember(found)
            return found + self.template_arguments() if self.peek() == "I" else found
        if letter == "F":
            return self.function_type()
        if letter == "A":
            self.at += 1
            size = self.number_until("_") - 1
            return self.remember(f"{self.type()} [{size}]")
        if letter == "S" and self.peek(2) != "St":
            found = self.substitution()
            return self.remember(found + self.template_arguments()) if self.peek() == "I" else found
        return self.remember(self.name())

    def function_type(self) -> str:
        self.expect("F")
        parts: list[str] = []
        while not self.take("E"):
            parts.append(self.type())
        result, *parameters = parts or ["void"]
        return self.remember(f"{result} ({', '.join(p for p in parameters if p != 'void')})")


@lru_cache(maxsize=4096)
def shown_function(symbol: str) -> str:
    """A function without its parameters, as its author writes it; a name that is not understood stays readable. At most
    `LONGEST` characters of it."""
    symbol = symbol.partition(".")[0] if symbol.startswith("_Z") else symbol  # clones: foo.constprop.0
    if not symbol.startswith("_Z"):
        return symbol[:LONGEST]
    try:
        if len(symbol) > LONGEST_SYMBOL:
            raise _UnknownName
        return _NameReader(symbol[2:]).name()[:LONGEST]
    except (_UnknownName, RecursionError, ValueError):
        words = _words(symbol[2:])
        return ("::".join(words[:4]) or symbol)[:LONGEST]


def _words(text: str) -> list[str]:
    """The names in a linker's name, without its grammar."""
    found: list[str] = []
    at = 0
    while (match := re.compile(r"\d{1,4}").search(text, at)) and len(found) < 8:
        size = int(match[0])
        word = text[match.end() : match.end() + size]
        at = match.end()
        if size and len(word) == size and word.isidentifier():
            found.append(word)
            at += size
    return found
