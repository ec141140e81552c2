"""Questions of capacity planning, each answered with numbers, a figure and the assumptions behind them.

An answer is a frozen dataclass made by one function, for scripts; :mod:`~simulator.capacity.sheet` is what any of them
looks like to a person.  Placements come from the production algorithms, replays from the production queue.
"""
