"""The parameters of functions: the numbers that they are, and the members of those that are structures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ptokit.cxx.source_text import SourceTokens
from ptokit.isa.dtype import DType, dtype

WHOLE = {"int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64", "size_t": "uint64",
         "unsigned long": "uint64", "long long": "int64", "short": "int16", "char": "int8"}  # fmt: skip
"""C++ types of scalars that are not among the spellings of element types."""
STRUCTURE_TEXT, STRUCTURE_TOKENS = 1 << 16, 1 << 13
"""The longest text, and the most tokens, of a structure that is read."""
MOST_MEMBERS = 256
"""Members of a structure, and of those in it, that are looked at."""
_NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_NO_MEMBER = frozenset(re.findall(r"\S+", "( [ & < : static using typedef friend template struct class union enum"))
"""Tokens of declarations that are no plain numbers or pointers."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry, as it is written."""

    name: str
    type: str

    @property
    def is_stream(self) -> bool:
        """Whether it is the stream of a launch."""
        return self.type.replace(" ", "") in ("void*", "aclrtStream", "rtStream_t") and "stream" in self.name.lower()

    @property
    def plain_type(self) -> str:
        """Its type without qualifiers and pointers."""
        words = re.sub(r"\b(?:const|volatile|__gm__|__restrict__|std::)\b|::", " ", self.type).replace("*", " ")
        return " ".join(words.split())

    @property
    def number(self) -> DType | None:
        """The type of a number by name; None for another type, or one that has another name."""
        if len(self.plain_type) < 2:  # a name of the user's, which NumPy has for a type, too
            return None
        try:
            return dtype(WHOLE.get(self.plain_type, self.plain_type))
        except TypeError:
            return None

    @property
    def structure(self) -> str:
        """The name of its type, if that may be a structure; else nothing."""
        name = re.sub(r"\bconst\b|&$", " ", self.type).strip()
        return name if _NAME.fullmatch(name) and self.number is None else ""


class Structures:
    """The structures that a text defines."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [(match[1], match.end() - 1) for match in re.finditer(r"\bstruct\s+(\w+)\s*\{", text)]
        counts = Counter(name for name, _ in starts)
        self._starts = {name: start for name, start in starts if counts[name] == 1}
        """Of those with a name that no other one has, in whatever namespace."""

    def members(self, structure: str) -> list[Parameter]:
        """The numbers and pointers in a structure, those of structures in it, too: `shape.rows`. None of one with
        private members or constructors, or with too many."""
        found: list[Parameter] = []
        left = [*self._own(structure)][::-1]
        for _ in range(MOST_MEMBERS):
            if not left:
                return found
            member = left.pop()
            if "*" in member.type or (member.number is not None and "const" not in member.type):
                found.append(member)
            elif member.structure:
                inner = [replace(each, name=f"{member.name}.{each.name}") for each in self._own(member.structure)]
                left += inner[::-1]
        return []

    def _own(self, structure: str) -> Iterator[Parameter]:
        name = structure.rpartition("::")[2]
        start = self._starts.get(name)
        if start is None:
            return iter(())
        rows = self.text[start : start + STRUCTURE_TEXT].split("\n")
        tokens = SourceTokens("\n".join(row for row in rows if not row.startswith("#")), STRUCTURE_TOKENS)
        body = tokens.texts[1 : tokens.partners[0]] if tokens.partners[0] > 0 else []
        is_plain = not {"private", "protected", "virtual", name} & {*body}
        return (member for part in _declarations(body) for member in _declared(part)) if is_plain else iter(())


def _declarations(texts: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    depth = 0
    for text in texts:
        depth += (text in ("(", "{")) - (text in (")", "}"))
        part.append(text)
        if depth == 0 and text == ";":
            yield part[:-1]
        if depth == 0 and (text == ";" or (text == "}" and "(" in part)):
            part = []


def _declared(texts: list[str]) -> Iterator[Parameter]:
    """The members of a declaration: a type and names, some with a value."""
    kept = [*_without_values(texts)]
    if _NO_MEMBER & {*kept}:
        return
    names = [k for k in range(len(kept)) if kept[k + 1 : k + 2] in ([], [","])]
    for k in names:
        yield Parameter(kept[k], " ".join(kept[: names[0]]))


def _without_values(texts: list[str]) -> Iterator[str]:
    depth, is_value = 0, False
    for text in texts:
        is_value = (is_value and (text != "," or depth > 0)) or text in ("=", "{")
        depth += (text in ("(", "{")) - (text in (")", "}"))
        if not is_value:
            yield text
