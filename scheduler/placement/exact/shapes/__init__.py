"""Shapes: how many rows and columns each domain serves, one choice after another, where few are possible.

``shape_counts`` refutes by their numbers, ``shape_search`` decides each choice, by ``crossing_sets`` or by skeletons.
"""
