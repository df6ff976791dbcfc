"""Real architectures with random weights, taken to engines one by one: `nox -s models`."""
