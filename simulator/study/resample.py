"""Other traces of the same kind: pieces of a trace in another order, some of them more than once.

A replay of one trace has one answer, and says nothing about another month of the same users.  Here a trace is cut into
pieces of equal length, and each seed draws as many of them with replacement: within a piece jobs stay as they came
together, from piece to piece they are independent (a block bootstrap, Kuensch, "The jackknife and the bootstrap for
general stationary observations", 1989, with blocks that do not overlap).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from simulator.job_record import JobRecord
from simulator.traces import JobTrace
from topology.errors import InvalidInput


def resampled(trace: JobTrace, seconds: float, seed: int) -> JobTrace:
    """Return a trace from pieces of another; seed 0 is the trace itself.

    Ids get the number of their piece's place: ``id@3``.

    :param seconds: length of a piece: whole days or weeks, so that nights stay nights.
    :raises InvalidInput: the trace is shorter than two pieces, or a length not above 0.
    """
    records = trace.records
    origin = records[0].submit if records else 0.0
    length = records[-1].submit - origin if records else 0.0
    count = int(length // seconds) if seconds > 0 else 0
    if count < 2:
        raise InvalidInput(
            f"pieces of {seconds:g} seconds of a trace of {length:g}",
            where="--resample",
            fix="give a length of which the trace holds several, in hours",
        )
    if seed == 0:
        return trace
    pieces: list[list[JobRecord]] = [[] for _ in range(count)]
    for record in records:
        pieces[min(int((record.submit - origin) // seconds), count - 1)].append(record)
    chosen = np.random.default_rng(np.random.SeedSequence((seed, count))).integers(0, count, count).tolist()
    drawn = Counter(chosen)
    made = [
        _moved(record, (place - piece) * seconds, place if drawn[piece] > 1 else None)
        for place, piece in enumerate(chosen)
        for record in pieces[piece]
    ]
    made.sort(key=lambda record: record.submit)
    return trace.replace(records=tuple(made))


def _moved(record: JobRecord, shift: float, place: int | None) -> JobRecord:
    announced = None if record.announced is None else record.announced + shift
    name = record.job_id if place is None else f"{record.job_id}@{place}"
    return replace(record, job_id=name, submit=record.submit + shift, announced=announced)
