"""Gangs: which pods belong together, which rank each has, and which job they are.

What users write raises nothing here: contradictions become ``problem``, to be shown as a condition.
"""
