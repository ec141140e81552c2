"""What the search works on: a grid of cells, domains that hold so many of them, its tuning numbers, and its solver.

``problem`` comes first; ``params`` has the numbers, ``cpsat`` the one way to run CP-SAT.
"""
