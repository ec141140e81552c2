"""Exact placement of a grid of cells on domains: bounds, constructions, and the walk over pairs (S, R)."""
