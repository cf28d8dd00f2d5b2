"""`ptokit view`: layouts, tiles and accesses as pictures on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text

from ptokit.brief import brief
from ptokit.cli.problems import FINE, Misuse, misused, status_of
from ptokit.cli.programs import machine_report, placed_programs
from ptokit.cli.report import print_json, print_lines, show_findings, terminal_width
from ptokit.cli.request import ProgramRequest
from ptokit.cli.subject import find
from ptokit.finding import suggestion
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import FORMS, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.unknown import is_unknown
from ptokit.lang.launcher import Launchable
from ptokit.machine.report import heading, shown_findings
from ptokit.program.expr import Expr
from ptokit.render.access import access_lines
from ptokit.render.document import new_console
from ptokit.render.layouts import LayoutPicture, tile_rows
from ptokit.render.tables import folded
from ptokit.report.access import access_maps
from ptokit.target import families_with_pipes

LAYOUTS = {form: layouts for layouts, form in FORMS.items()}
SHAPE = re.compile(r"(\d{1,6})[xX,](\d{1,6})")
"""`16x32`."""
FRACTALS = (512, 1024, 32)
Placed = tuple[str, TileSpec, tuple[Expr, ...]]
"""A tile of a program: its name, what it is, and its addresses."""


def view_layout(
    form: str, shape: str, element: str, valid: str | None, fractal: int, *, offsets: bool, as_json: bool
) -> int:
    """Draw a layout of a shape and an element type."""
    picture = LayoutPicture(_spec(form.lower(), shape, element, valid, fractal))
    if as_json:
        print_json("view layout", **_layout_data(picture), address=picture.address)
    else:
        _draw(picture, offsets=offsets)
    return FINE


def _spec(form: str, shape: str, element: str, valid: str | None, fractal: int) -> TileSpec:
    if form not in LAYOUTS:
        raise Misuse(f"a layout is one of {', '.join(LAYOUTS)}; found {brief(form)}{suggestion(form, LAYOUTS)}")
    if fractal not in FRACTALS:
        raise Misuse(f"--fractal is one of {', '.join(map(str, FRACTALS))}; found {fractal}")
    with misused(TypeError, ValueError):
        kind = dtype(element)
    rows, cols = _extents(shape, "a shape")
    kept = _extents(valid, "--valid") if valid else (rows, cols)
    if not (rows and cols) or kept[0] > rows or kept[1] > cols:
        raise Misuse(f"a shape has rows and columns, and --valid lies within it; found {shape} and {valid or shape}")
    return TileSpec(kind, TileType.Vec, rows, cols, *kept, *LAYOUTS[form], fractal)


def _extents(text: str, what: str) -> tuple[int, int]:
    match = SHAPE.fullmatch(text.strip())
    if not match:
        raise Misuse(f"{what} is ROWSxCOLS, such as 16x32; found {brief(text)}")
    return int(match[1]), int(match[2])


def _draw(picture: LayoutPicture, *, offsets: bool) -> None:
    console = new_console(highlight=False)
    console.print(Text(picture.title, style="bold"), soft_wrap=True)
    for remark in picture.remarks:
        console.print(Text(remark, style="yellow"), soft_wrap=True)
    console.print(picture.text(console.width, offsets=offsets), soft_wrap=True)


# --- tiles of programs


def view_tile(request: ProgramRequest, name: str | None, *, offsets: bool, as_json: bool) -> int:
    """Draw a tile of a program as a target places it; without a name, list the tiles."""
    tiles = [*_tiles(request)]
    if name is None:
        if as_json:
            print_json("view tile", tiles=[_tile_data(each) for each in tiles])
        else:
            _table(tiles)
        return FINE
    found = next((each for each in tiles if each[0] == name), None)
    if found is None:
        names = [each[0] for each in tiles]
        raise Misuse(f"there is no tile {brief(name)}; it has {', '.join(names) or 'none'}{suggestion(name, names)}")
    _, spec, addresses = found
    whole = spec.changed(valid_rows=spec.rows, valid_cols=spec.cols) if is_unknown(*spec.valid) else spec
    first = next((each for each in addresses if isinstance(each, int)), 0)
    picture = LayoutPicture(whole, first)
    if as_json:
        print_json("view tile", **_tile_data(found), **_layout_data(picture))
    else:
        _table([found])
        _draw(picture, offsets=offsets)
    return FINE


def _tiles(request: ProgramRequest) -> Iterator[Placed]:
    """The tiles of all launches; of those with one name, the first."""
    seen: set[str] = set()
    for program in placed_programs(request):
        for name, tile in program.tiles.items():
            if name not in seen:
                seen.add(name)
                yield name, tile.spec, tile.addresses


def _table(tiles: list[Placed]) -> None:
    console = new_console(highlight=False)
    print_lines(map(Text, folded(tile_rows(tiles), console.width)), new_console(soft_wrap=True, highlight=False))


def _tile_data(tile: Placed) -> dict[str, object]:
    name, spec, addresses = tile
    return {
        "name": name,
        "memory": spec.loc.text,
        "text": str(spec),
        "addresses": [each if isinstance(each, int) else str(each) for each in addresses],
    }


def _layout_data(picture: LayoutPicture) -> dict[str, object]:
    """All but the address."""
    try:
        return {key: value for key, value in picture.as_dict().items() if key != "address"}
    except ValueError as problem:
        raise Misuse(f"{problem}; without --json its first part is drawn") from None


# --- accesses


def view_gather(request: ProgramRequest, *, as_json: bool) -> int:
    """Run a program on the machine, and draw what its gathers and scatters touch."""
    kernel = find(request)
    options = replace(request.machine, lanes=True)
    report = machine_report(kernel, replace(request, machine=options), _target(kernel, request))
    show_findings(shown_findings(report.findings, notes=False))
    maps = access_maps(report)
    if as_json:
        print_json("view gather", kernel=kernel.name, target=report.target, grid=report.grid, ok=report.ok, access=maps)
    else:
        console = new_console(highlight=False, soft_wrap=terminal_width() is None)
        is_plain = not (console.encoding or "").lower().startswith("utf")
        lines = (line for each in maps for line in access_lines(each, console.width, is_plain=is_plain))
        title = Text(f"{kernel.name} on {heading(report)}", style="bold green" if report.ok else "bold red")
        print_lines([title, *(lines if maps else [Text("no gathers and no scatters")])], console)
    return status_of(report.findings)


def _target(kernel: Launchable, request: ProgramRequest) -> str:
    """The target that is named, else the last with pipes that the kernel is for."""
    if request.target is not None:
        return request.target
    return (kernel.targets or families_with_pipes())[-1]
