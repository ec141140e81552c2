"""Repair: the fewest moves from one placement to another, in which all cells have nodes again."""
