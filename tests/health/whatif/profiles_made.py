"""Profiles as PyTorch writes them, made event by event; times in microseconds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BASE = 1_700_000_000_000_000_000
"""What the clocks of the files count from, nanoseconds."""


@dataclass
class RankProfile:
    """The profile of one rank."""

    rank: int | None
    world: int | None
    backend: str = "nccl"
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    groups: list[tuple[str, Sequence[int]]] = field(default_factory=list)
    """Description and ranks of the process groups that it is in, but for that of all ranks."""

    def host(
        self, name: str, start: float, duration: float, *, category: str = "user_annotation", tid: int = 1
    ) -> None:
        """A range on the host."""
        self.events.append(
            {"ph": "X", "pid": 1, "tid": tid, "cat": category, "name": name, "ts": start, "dur": duration}
        )

    def kernel(self, name: str, launch: float, start: float, duration: float, *, stream: int = 7, **said: Any) -> None:
        """A launch on the host and its kernel on the device."""
        self.number += 1
        arguments = {"correlation": self.number, "stream": stream, **said}
        launched = {"ph": "X", "pid": 1, "tid": 9, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launch}
        self.events.append({**launched, "dur": 1.0, "args": arguments})
        ran = {"ph": "X", "pid": 0, "tid": stream, "cat": "kernel", "name": name, "ts": start, "dur": duration}
        self.events.append({**ran, "args": arguments})

    def document(self) -> dict[str, Any]:
        """The file; without a rank it is of a process that joined no group."""
        info: dict[str, Any] = {"backend": self.backend, "rank": self.rank, "world_size": self.world}
        if self.groups and self.world is not None:
            every = [("default_pg", range(self.world)), *self.groups]
            info["pg_config"] = [
                {"pg_name": str(i), "pg_desc": words, "pg_size": len(ranks), "ranks": list(ranks)}
                for i, (words, ranks) in enumerate(every)
            ]
        said = {} if self.rank is None else {"distributedInfo": {k: v for k, v in info.items() if v is not None}}
        return {"schemaVersion": 1, **said, "traceEvents": self.events, "baseTimeNanoseconds": BASE}

    def write(self, folder: Path, *, name: str | None = None) -> str:
        """The path of the written file, packed if its name ends so."""
        path = folder / (name or f"rank-{self.rank}.json")
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return str(path)


def milliseconds(seconds: float) -> float:
    """Seconds in milliseconds, rounded to a nanosecond."""
    return round(seconds * 1e3, 6)
