"""The lines of a recording, as a tracer that watches the three counters writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from health.collectives.progress import COUNTERS, NAME, VERSION
from health.collectives.recording import WAYS, CollectiveRecording


def write_progress(recording: CollectiveRecording) -> Iterator[str]:
    """Yield the lines of a recording, without line ends."""
    ranks = [member.rank if member.rank is not None else i for i, member in enumerate(recording.members)]
    yield json.dumps({"type": "format", "name": NAME, "version": VERSION})
    for rank, member in zip(ranks, recording.members, strict=True):
        yield json.dumps({"type": "rank", "rank": rank, "host": member.host or ""})
    for group in recording.groups:
        members = [ranks[i] for i in group.members]
        yield json.dumps({"type": "group", "comm": group.name, "kind": group.kind, "ranks": members})

    def collective(group: int, member: int, seq: int, op: int) -> dict[str, Any]:
        return {"rank": ranks[member], "comm": recording.groups[group].name, "seq": seq, "op": recording.ops[op]}

    for time, *about, channel, peer, way, total, ready, transmitted, done in recording.states.rows():
        flow = {"channel": channel, "peer": ranks[peer], "way": WAYS[way]}
        counters = dict(zip(COUNTERS, (total, ready, transmitted, done), strict=True))
        yield json.dumps({"type": "state", "time": time, **collective(*about), **flow, **counters})
    for end, start, *about, size in recording.completions.rows():
        begun = {} if math.isnan(start) else {"start": start}
        yield json.dumps({"type": "done", "time": end, **begun, **collective(*about), "bytes": size})
