"""A machine that does what its peers do, only later or earlier: its clock is wrong, or its rhythm is another's.

Such a machine stands out wherever a metric swings, though nothing is wrong with it.  What is at fault stands out
however its samples are shifted.
"""

from __future__ import annotations

import numpy as np

from health.peers.streams import FloatArray

MOST = 30
"""Most steps it is looked for; of a clock further off its rest beyond whole training steps shows."""

SHARE = 8
"""... and at most one such part of the time it stood out, so that what began or ended meanwhile cannot explain it."""

EXPLAINED = 0.5
"""A shift that leaves at most this part of the distance explains it."""


def lag(values: FloatArray, row: int, first: int, last: int) -> int | None:
    """Return steps by which a machine follows its peers, negative = precedes them; ``None`` = no shift explains it.

    :param values: shape (machines, times).
    :param row: of the machine.
    :param first: first time at which it stood out.
    :param last: last one.
    """
    own = values[row, first : last + 1]
    peers = np.median(np.delete(values, row, axis=0), axis=0)
    most = min(MOST, len(own) // SHARE)
    shifts = [k for k in range(-most, most + 1) if first - k >= 0 and last - k < len(peers)]
    apart = {k: float(np.abs(own - peers[first - k : last + 1 - k]).mean()) for k in shifts}
    best = min(apart, key=lambda k: (apart[k], abs(k)))
    return best if best != 0 and apart[best] <= EXPLAINED * apart[0] else None
