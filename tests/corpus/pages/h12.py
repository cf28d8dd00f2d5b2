"""Elements move to other rows of a tile; one row is outside."""

import numpy as np

import ptokit as pto


@pto.kernel
def move(x, places, out):
    ids = pto.Tile("vec", "int32", 8, 16)
    values = pto.Tile("vec", "float32", 8, 16)
    moved = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, places)
    pto.tload(values, x)
    pto.texpands(moved, 0)
    pto.tscatter(moved, values, ids)
    pto.tstore(out, moved)


places = np.repeat(np.arange(8, dtype="int32")[::-1, None], 16, axis=1)
places[0, 3] = 8  # -
move[1](np.ones((8, 16), "float32"), places, np.zeros((8, 16), "float32"), target="a5")
