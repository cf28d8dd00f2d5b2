"""The operation of TIMG2COL against loops over the padded image."""

from __future__ import annotations

import numpy as np
import pytest

from ptokit.engine.compute import OPS
from ptokit.isa.dtype import dtype


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
def test_places_and_weights(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, count, (height, width) = 32 // np.dtype(kind).itemsize, int(rng.integers(1, 3)), rng.integers(4, 8, 2)
    left, right, top, bottom = rng.integers(0, 3, 4)
    (stride_h, stride_w, dilation_h, dilation_w), (filter_h, filter_w) = rng.integers(1, 3, 4), rng.integers(1, 3, 2)
    image = rng.integers(-9, 9, (count, height, width, block)).astype(kind)
    around = np.full((count, height + top + bottom, width + left + right, block), 5)
    around[:, top : top + height, left : left + width] = image
    last_h, last_w = (filter_h - 1) * dilation_h, (filter_w - 1) * dilation_w
    places = [
        [
            around[c, i + h * dilation_h, j + w * dilation_w, channel]
            for c, h, w, channel in np.ndindex(count, int(filter_h), int(filter_w), block)
        ]
        for i in range(0, around.shape[1] - last_h, stride_h)
        for j in range(0, around.shape[2] - last_w, stride_w)
    ]
    whole = np.pad(np.array(places), 3, constant_values=5)[3:, 3:]  # behind the last place and weight
    m, k = int(rng.integers(0, 3)), int(rng.integers(0, block))
    numbers = (m, k, height, width, left, right, top, bottom, stride_h, stride_w, dilation_h, dilation_w, filter_h)
    given = [np.array([[x]]) for x in (*numbers, filter_w, count * block, 5)]
    shape = whole.shape[0] - m, whole.shape[1] - k
    assert np.array_equal(OPS["img2col"](shape, dtype(kind), image.reshape(1, -1), *given), whole[m:, k:])


def test_an_image_that_is_too_short_has_no_values() -> None:
    given = [np.array([[x]]) for x in (0, 0, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 8, 0)]
    found = OPS["img2col"]((4, 8), dtype("float32"), np.zeros((1, 24), "float32"), *given)
    assert not found[:3].any() and np.isnan(found[3]).all()


def test_any_numbers_are_taken() -> None:
    for number in (-1, 0, 65535, 1 << 62, float("nan")):
        given = [np.array([[number]])] * 15 + [np.array([[0.0]])]
        with np.errstate(all="ignore"):
            assert OPS["img2col"]((4, 8), dtype("float32"), np.zeros((1, 24), "float32"), *given).shape == (4, 8)
