"""The conformance kit: test vectors for other implementations, and a judge of their results."""
