"""Random traces for properties: few distinct numbers, so that times coincide and jobs are on the edge of fitting."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from simulator.job_record import JobRecord

# On nodes of 8 GPUs: shares, parts of a node, a whole one, gangs of whole nodes and of parts.
SHAPES = [(0.25, 1), (1, 1), (3, 1), (8, 1), (16, 2), (24, 3), (8, 2), (12, 2), (48, 6)]


@st.composite
def traces(draw: st.DrawFn, *, most: int = 16, shapes: Sequence[tuple[float, int]] = SHAPES) -> list[JobRecord]:
    """Jobs in order of submission, for a cluster of at least six nodes.

    :param shapes: GPUs and nodes that jobs may ask for.
    """
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 12), st.integers(1, 9), st.sampled_from(shapes), st.integers(0, 2), st.booleans()),
            min_size=1,
            max_size=most,
        )
    )
    return [
        JobRecord(
            f"j{i}", submit, duration, gpus, nodes=nodes, priority=priority, preemptible=preemptible, queue="abc"[i % 3]
        )
        for i, (submit, duration, (gpus, nodes), priority, preemptible) in enumerate(sorted(rows, key=lambda r: r[0]))
    ]
