"""What lowering an engine costs in release pairs, side by side: ``nox -s bench``."""
