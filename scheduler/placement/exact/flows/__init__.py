"""Flows: domains serve sets of columns, and rows are paths across them, found by linear programs."""
