"""The conformance kit: test vectors for other implementations, and a judge of what these make of them."""
