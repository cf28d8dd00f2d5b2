"""The user's checkout of the public headers, and copies of it that a host compiler takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path

SUFFIXES = frozenset((".hpp", ".h", ".inl"))
INSTRUCTION = re.compile(
    r"\b(?:PTO_INST\b[^;{}()]*?\b(?P<name>[A-Z][A-Z0-9_]+)|PTO_INTERNAL void (?P<own>[A-Z][A-Z0-9_]+)_IMPL)"
    r"\s*\([^{};]*\)\s*\{"
)
"""The definition of a public instruction, or of its own function that sources call, too; up to its body."""
MOST_BYTES = 16 << 20


class HeadersError(ValueError):
    """A folder that is no checkout of the public headers, or one that cannot be read."""


def _without_device_keyword(text: str) -> str:
    """`[aicore]` is an attribute of the device compiler only."""
    return text.replace("[aicore]", "")


def _without_attributes(text: str) -> str:
    """Attributes that name vector functions."""
    return re.sub(r"__attribute__\(\(vf_(?:name|kind)\(#\w+\)\)\)", "", text)


def _without_address_spaces(text: str) -> str:
    """A specialization for a pointee in global memory is a second definition where address spaces are no types."""
    return text.replace("struct remove_gm<__gm__ T>", "struct remove_gm<ptokit::Never<T>>")


def _without_declarations(text: str) -> str:
    """A function of the device compiler has its type already."""
    return re.sub(r"^uint32_t get_block_idx\(\);$", "", text, flags=re.MULTILINE)


def _with_one_int4(text: str) -> str:
    """Four-bit integers are those of ptokit."""
    return re.sub(r"namespace pto \{\s*struct int4b_t \{.*?\n\};\s*\}", "", text, count=1, flags=re.DOTALL)


def _with_mapped_addresses(text: str) -> str:
    """Tiles get addresses in the memory of the host."""
    return text.replace(
        "assignData(reinterpret_cast<typename T::TileDType>(static_cast<std::uintptr_t>(addr)))",
        "assignData(reinterpret_cast<typename T::TileDType>(ptokit::mapped(T::Loc, addr)))",
    )


def _with_bias(text: str) -> str:
    """The addresses of an accumulator and a bias have no place in one word of the host."""
    packed = r"uint64_t xd = \(\(uint64_t\)c\) & 0xffffffffULL \| \(\((.*) & 0xffffffffULL\) << 32\);"
    return re.sub(packed, r"uint64_t xd = ptokit::with_bias(c, \1);", text)


def _with_scales(text: str) -> str:
    """Scales lie at a sixteenth of an address on the chip."""
    return text.replace("return addr >> SHIFT_MX_ADDR;", "return ptokit::scale_address(addr);")


def _with_scopes(text: str) -> str:
    """A public instruction says where it begins and ends."""
    scope = '{} const ptokit::Scope ptokit_scope("{}");'
    return INSTRUCTION.sub(lambda match: scope.format(match[0], match["name"] or match["own"]), text)


CHANGES: dict[str, Callable[[str], str]] = {
    "device keyword": _without_device_keyword,
    "attributes": _without_attributes,
    "address spaces": _without_address_spaces,
    "declarations": _without_declarations,
    "four-bit integers": _with_one_int4,
    "addresses of tiles": _with_mapped_addresses,
    "bias": _with_bias,
    "addresses of scales": _with_scales,
    "scopes": _with_scopes,
}
"""What is changed in copies of headers."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of the public repository."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> Checkout:
        """The checkout at a path; its include folder will do."""
        for root in (path, path.parent):
            if (root / "include" / "pto" / "pto-inst.hpp").is_file():
                return cls(root.resolve())
        raise HeadersError(f"{path} has no include/pto/pto-inst.hpp: name a checkout of the public headers")

    @property
    def include(self) -> Path:
        """The include folder."""
        return self.path / "include"

    @cached_property
    def texts(self) -> dict[str, str]:
        """The headers by their include path."""
        return {file.relative_to(self.include).as_posix(): file.read_text("utf-8", "replace") for file in self._files()}

    @cached_property
    def instructions(self) -> frozenset[str]:
        """The names of the public instructions, in capitals."""
        found = (match["name"] for text in self.texts.values() for match in INSTRUCTION.finditer(text))
        return frozenset(name.removesuffix("_IMPL") for name in found if name)

    def _files(self) -> Iterator[Path]:
        left = MOST_BYTES
        for file in sorted((self.include / "pto").rglob("*")):
            if file.suffix in SUFFIXES and file.is_file() and not file.is_symlink():
                left -= file.stat().st_size
                if left < 0:
                    raise HeadersError(f"{self.include} has more than {MOST_BYTES >> 20} MB of headers")
                yield file

    def write(self, folder: Path) -> None:
        """Write the copies."""
        for name, text in self.texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(reduce(lambda text, change: change(text), CHANGES.values(), text), encoding="utf-8")
