"""How many GPUs a pod holds: the rule of Kubernetes, shared by the reader of lists and by the live cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

GPU = "nvidia.com/gpu"
"""Resource name of a GPU."""

_WHOLE = re.compile(r"[0-9]{1,9}")


def quantity(value: Any) -> int:
    """Read a number of GPUs as Kubernetes writes it, ``"8"`` or ``8``.

    :raises ValueError: not a whole number.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError(f"{str(value)[:40]!r} is not a number of GPUs")


def pod_gpus(containers: Iterable[int], init_containers: Iterable[tuple[int, bool]]) -> int:
    """Return the GPUs a pod holds: of what runs together, or of its largest moment before.

    Init containers run one after the other; those that restart always (sidecars) go on running beside what follows
    (KEP-753, the formula of ``resourcehelper.PodRequests``).

    :param containers: GPUs of each container.
    :param init_containers: GPUs of each init container in order, and whether it is a sidecar.
    """
    before = sidecars = 0
    for gpus, sidecar in init_containers:
        before = max(before, sidecars + gpus)
        if sidecar:
            sidecars += gpus
    return max(before, sidecars + sum(containers))
