"""The Python face: tiles, tensors, targets and the calls on them."""
