"""Flows: domains serve sets of columns, and rows are paths across them, found by linear programs.

``interval_flow`` comes first; ``ring_flow`` and ``set_flow`` are its dives on other sets, with rows that are listed.
"""
