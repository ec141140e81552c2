"""Exact placement of a grid of cells on domains: bounds, constructions, and the search over pairs (S, R)."""
