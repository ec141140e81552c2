"""Shapes: how many rows and columns each domain serves, one choice after another, where few are possible."""
