"""The headers of a checkout with values: functions of the vector unit are executed on host memory.

Operations on lanes are rows of a table here; `values.hpp` has the rest: registers, reductions, selection, movement.
What neither has is recorded as before, and named by `missing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ptokit.cxx.compile import Build, CompileOptions, compile_source
from ptokit.cxx.names import INCLUDE
from ptokit.cxx.recording import Recording
from ptokit.witness.headers import Checkout
from ptokit.witness.intrinsics import CONVERSIONS, TABLE
from ptokit.witness.record import Witness

HEADER = Path(__file__).with_name("values.hpp")
FLAGS = ("-fpermissive", "-ffp-contract=off")
"""Headers convert types that a host compiler keeps apart; a product and a sum are two operations."""
TWO = {
    "vadd": "plus(a, b)",
    "vsub": "minus(a, b)",
    "vmul": "times(a, b)",
    "vdiv": "over(a, b)",
    "vmax": "larger(a, b)",
    "vmin": "smaller(a, b)",
    "vand": "a & b",
    "vor": "a | b",
    "vaddrelu": "positive(plus(a, b))",
    "vsubrelu": "positive(minus(a, b))",
}
"""Operations on two lanes, `a` and `b`."""
ADDED = {
    "vmla": "plus(d, times(as<D>(a), as<D>(b)))",
    "vmadd": "plus(times(a, d), b)",
    "vmaddrelu": "positive(plus(times(a, d), b))",
}
"""Those that read the lane of the destination, `d`, too."""
ONE = {
    "vexp": "function([](double x) { return std::exp(x); }, a)",
    "vln": "function([](double x) { return std::log(x); }, a)",
    "vsqrt": "function([](double x) { return std::sqrt(x); }, a)",
    "vrec": "over(A(1.0f), a)",
    "vrsqrt": "function([](double x) { return 1 / std::sqrt(x); }, a)",
    "vabs": "magnitude(a)",
    "vrelu": "positive(a)",
    "vnot": "~a",
}
"""Operations on a lane."""
SCALAR = {
    "vadds": "plus(a, (A)s)",
    "vmuls": "times(a, (A)s)",
    "vmaxs": "larger(a, (A)s)",
    "vmins": "smaller(a, (A)s)",
    "vlrelu": "a > A(0) ? a : times(a, (A)s)",
    "vshl": "a << s",
    "vshr": "a >> s",
}
"""Those on a lane and a scalar, `s`."""
SCALAR_ADDED = {"vaxpy": "plus(d, times(as<D>(a), as<D>(s)))"}
"""Those that read the lane of the destination, too."""
NOT_CONVERTED = re.compile("f162s4|s42f16|deq")
"""Conversions of numbers of four bits are not executed; the one with a scale is written by hand."""
DEFINED = re.compile(r"^(?:inline|template <[^>]*>\ninline) [\w:]+ (?:ptokit_)?(?!transpose)(\w+)\(", re.MULTILINE)
OF_MACROS = (
    *(f"vcmp{form}_{mode}" for form in ("v", "vs", "") for mode in ("eq", "ne", "lt", "le", "gt", "ge")),
    *("vcgadd", "vcgmax", "vcgmin"),
    *(f"copy_{way}_align_b{bits}" for way in ("gm_to_ubuf", "ubuf_to_gm") for bits in (8, 16, 32)),
)
"""Names that macros of `values.hpp` make."""


def _function(name: str, operation: str, operands: str, *, scalar: bool = False, reads: bool = False) -> str:
    """A function over the lanes of a destination `d` and of sources."""
    lanes = [letter.upper() for letter in operands]
    types = ", ".join(f"typename {each}" for each in ("D", *lanes, *(["S"] if scalar else [])))
    pointers = "".join(f", {each}* p{each}" for each in lanes) + (", S s" if scalar else "")
    strides = "".join(f", long {kind}{each}" for kind in ("b", "r") for each in ("D", *lanes))
    taken = ["D", *lanes] if reads else lanes
    parameters = ", ".join(f"{each} {each.lower()}" for each in taken)
    views = ", ".join(f"Lanes<{each}>(p{each}, b{each}, r{each})" for each in ("D", *taken))
    return (
        f"template <{types}, typename... More>\n"
        f"inline void {name}(D* pD{pointers}, std::uint64_t repeats{strides}, More...) {{\n"
        "  using namespace ptokit::values;\n"
        f"  each_lane([=]({parameters}) -> D {{ return {operation}; }}, repeats, {views});\n}}\n"
    )


def _conversions() -> Iterator[str]:
    for word in CONVERSIONS.split():
        stem, _, modes = word.partition("{")
        if not NOT_CONVERTED.match(stem):
            for mode in modes.rstrip("}").split(",") if modes else ("",):
                yield (
                    "template <typename D, typename S, typename... A>\n"
                    f"inline void vconv_{stem}{mode}(D* to, S* from, A... a) "
                    f"{{ ptokit::values::convert('{mode or 'r'}', to, from, a...); }}\n"
                )


def executing() -> str:
    """The functions that are executed."""
    parts = [
        HEADER.read_text(encoding="utf-8"),
        *(_function(name, operation, "ab") for name, operation in TWO.items()),
        *(_function(name, operation, "ab", reads=True) for name, operation in ADDED.items()),
        *(_function(name, operation, "a") for name, operation in ONE.items()),
        _function("vconv_deq", "converted<D>((float)a * core.scale, 'r')", "a"),
        *(_function(name, operation, "a", scalar=True) for name, operation in SCALAR.items()),
        *(_function(name, operation, "a", scalar=True, reads=True) for name, operation in SCALAR_ADDED.items()),
        *_conversions(),
    ]
    return "\n".join(parts)


def executed() -> frozenset[str]:
    """The names of the functions that are executed."""
    return frozenset((*DEFINED.findall(executing()), *OF_MACROS)) & TABLE.keys()


def _left_out(name: str) -> str:
    """A function that is not executed: recorded, unless it only orders others or sets registers."""
    does = "" if TABLE[name].pipe == "S" else f' ptokit::witness("{name}", a...);'
    return f"template <typename... A> inline ptokit::Zero {name}(A... a) {{{does} return {{}}; }}\n"


class ValueWitness(Witness):
    """Headers whose vector functions are executed."""

    def __init__(self, checkout: Checkout) -> None:
        super().__init__(checkout)
        names = executed()
        stubs = "".join(map(_left_out, (name for name in TABLE if name not in names)))
        (self.folder / "ptokit" / "intrinsics.hpp").write_text(f"{executing()}\n{stubs}", encoding="utf-8")

    def compile(self, source: Path, target: str, options: CompileOptions | None = None) -> Build:
        """Compile a source with these headers."""
        return compiled(self.folder, source, target, options)


def compiled(folder: Path, source: Path, target: str, options: CompileOptions | None = None) -> Build:
    """Compile a source with the headers in the folder of a `ValueWitness`."""
    options = options or CompileOptions()
    flags = (*FLAGS, *options.flags)
    return compile_source(source, target, replace(options, flags=flags, headers=(INCLUDE / "witness", folder)))


def missing(recording: Recording) -> set[str]:
    """The functions of the vector unit that a recording called and that are not executed."""
    names = executed()
    found = {call.name for call in recording.calls}
    return {name for name in found if name in TABLE and TABLE[name].pipe != "S" and name not in names}
