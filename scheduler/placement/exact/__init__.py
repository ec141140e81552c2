"""Exact placement of a grid of cells on domains: bounds, constructions, and the search over pairs (S, R).

``algorithm`` comes first, and ``plain_gang`` is its short way.  From there on down: ``goals``, ``schedule``, the rooms
of the methods, ``pairs``, ``grid`` (docs: exact.md).
"""
