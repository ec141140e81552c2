"""The console: answers as text, tables, JSON and saved pages; progress, notes and how much is said; Ctrl-C.

``output`` comes first.
"""
