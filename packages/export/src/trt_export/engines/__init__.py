"""Engines as the exporter sees them: where they are in a program, and what their records say."""
