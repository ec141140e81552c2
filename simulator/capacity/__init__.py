"""Questions of capacity planning, each answered with numbers, a figure and the assumptions behind them.

A question is a frozen dataclass: its fields are the options of its command.  An answer is another, its own JSON;
:mod:`~simulator.capacity.capacity_question` is what all of them have in common.  Placements come from the production
algorithms, replays from the production queue.
"""
