"""The head of a C++ function as a list of tokens: brackets, attributes, its name, its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_KEYWORDS = frozenset(re.findall(r"\w+", "const int float double char short long unsigned signed bool void auto"))


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry, as it is written."""

    name: str
    type: str

    @property
    def is_stream(self) -> bool:
        """Whether it is the stream of a launch."""
        return self.type.replace(" ", "") in ("void*", "aclrtStream", "rtStream_t") and "stream" in self.name.lower()


def type_parameters(texts: list[str]) -> tuple[str, ...]:
    """The names of the parameters of a template; none if one is no type."""
    parts = [[*part] for part in split(texts)]
    if any(len(part) < 2 or part[0] not in ("typename", "class") or part[1] == "..." for part in parts):
        return ()
    return tuple(part[1] for part in parts)


def nesting(text: str) -> int:
    """How a token changes the depth of brackets."""
    return (text in _OPENING) - (text in _CLOSING)


def outside_brackets(texts: list[str]) -> Iterator[str]:
    """The tokens outside round and square brackets and the parameters of templates."""
    depth = angles = 0
    for index, text in enumerate(texts):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        angles += (text == "<" and index > 0 and texts[index - 1] == "template") or (text == "<" and angles > 0)
        angles -= text == ">" and angles > 0
        if depth == 0 and angles == 0:
            yield text


def without_attributes(texts: list[str]) -> list[str]:
    """The tokens without `[[...]]`, `__attribute__((...))`, `alignas(...)`."""
    kept: list[str] = []
    index = 0
    while index < len(texts):
        if texts[index] in ("__attribute__", "alignas", "__declspec") and texts[index + 1 : index + 2] == ["("]:
            index = bracket_end(texts, index + 1)
        elif texts[index : index + 2] == ["[", "["]:
            index = bracket_end(texts, index)
        else:
            kept.append(texts[index])
            index += 1
    return kept


def angle_end(texts: list[str], start: int) -> int:
    """The index after the `>` that closes the `<` at `start`."""
    angles = depth = 0
    for index in range(start, len(texts)):
        depth += nesting(texts[index])
        if depth == 0:
            angles += (texts[index] == "<") - (texts[index] == ">")
            if angles == 0:
                return index + 1
    return len(texts)


def bracket_end(texts: list[str], start: int) -> int:
    """The index after the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(texts)):
        depth += nesting(texts[index])
        if depth == 0:
            return index + 1
    return len(texts)


def parameters_start(texts: list[str]) -> int | None:
    """The bracket that opens the parameters: the first one outside template arguments."""
    index = 0
    while index < len(texts):
        if texts[index] == "<" and index and re.fullmatch(r"\w+", texts[index - 1]):
            index = angle_end(texts, index)
        elif texts[index] == "(":
            if index and texts[index - 1] in ("decltype", "noexcept", "requires"):
                index = bracket_end(texts, index)
            else:
                return index
        else:
            index += 1
    return None


def name_end(texts: list[str], opened: int) -> tuple[int | None, str]:
    """The index of the function's name before its parameters, and its template arguments."""
    index = opened - 1
    if texts[index] != ">":
        return index, ""
    angles = depth = 0
    for place in range(index, -1, -1):
        depth -= nesting(texts[place])
        angles += ((texts[place] == ">") - (texts[place] == "<")) * (depth == 0)
        if angles == 0:
            return (place - 1, joined(texts[place:opened])) if place else (None, "")
    return None, ""


def qualified_start(texts: list[str], named: int) -> int:
    """The index where a name starts with the namespaces before it."""
    while named >= 2 and texts[named - 1] == "::" and re.fullmatch(r"[A-Za-z_]\w*", texts[named - 2]):
        named -= 2
    return named


def parameters(texts: list[str]) -> tuple[Parameter, ...]:
    """The parameters of a function, from what is between their brackets."""
    found: list[Parameter] = []
    for part in split(texts):
        if part and part != ["void"]:
            found.append(_parameter(part, len(found)))
    return tuple(found)


def _parameter(texts: list[str], number: int) -> Parameter:
    plain = texts[: texts.index("=")] if "=" in texts else texts
    last = plain[-1]
    named = len(plain) > 1 and re.fullmatch(r"[A-Za-z_]\w*", last) and last not in _KEYWORDS and plain[-2] != "::"
    alone = named and all(text in ("const", "volatile") for text in plain[:-1])
    if named and not alone:
        return Parameter(last, joined(plain[:-1]))
    return Parameter(f"argument{number}", joined(plain))


def split(texts: list[str]) -> Iterator[list[str]]:
    """The parts between commas outside brackets."""
    part: list[str] = []
    depth = 0
    for text in texts:
        depth += nesting(text) + (text == "<") - (text == ">")
        if text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(text)
    yield part


def joined(texts: Sequence[str]) -> str:
    """The tokens as text, with spaces only where it needs them."""
    text = " ".join(texts)
    text = re.sub(r" ?(::|[<>(),&*\[\]]) ?", r"\1", text)
    return re.sub(r"([,])(?=\S)", r"\1 ", re.sub(r"([>*&])(?=\w)", r"\1 ", text)).strip()
