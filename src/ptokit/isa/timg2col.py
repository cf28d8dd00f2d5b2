"""TIMG2COL: a row for each place of a filter in an image, a column for each of its weights; and the load of images.

Calls in C++ take these numbers from a tile and from registers that SETFMATRIX and its kin set; a recording has them.
"""

from __future__ import annotations

from ptokit.isa.instruction import Call
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Compute, Input

NUMBERS = (
    "pos_m", "pos_k", "height", "width", "left", "right", "top", "bottom", "stride_h", "stride_w", "dilation_h",
    "dilation_w", "filter_h", "filter_w", "channels", "pad",
)  # fmt: skip
"""The first row and column; the extents of the image, and how many elements around it are `pad`; the distance of
filters and of their weights; the extents of a filter."""
IMAGE_FORM = f"w:dst r:src n:{','.join(NUMBERS)}"


def image_to_columns(call: Call) -> tuple[Compute, ...]:
    """The image lies in blocks of channels of 32 bytes, NC1HWC0 (cpu/TImg2col.hpp:28, 131)."""
    src = call.src
    inputs = (Input("src", src.layout, src.valid), *(Input(name, Layout.plain(0, 0), (1, 1)) for name in NUMBERS))
    return (Compute("img2col", call.dst.valid, Access("dst", call.dst.layout), inputs),)


def load_image(call: Call) -> tuple[Compute, ...]:
    """All elements in row-major order (TLoad.hpp:228)."""
    rows, cols = call.src.extents
    dst = Access("dst", Layout.plain(cols, 1))
    return (Compute("copy", (rows, cols), dst, (Input("src", call.src.layout, (rows, cols)),)),)
