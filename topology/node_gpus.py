"""The GPUs of a node as devices, whatever it hands out: whole GPUs, slices of MIG, shares of one GPU for several jobs.

A share is no GPU: two jobs that each have one may wait for each other on the same device.  A job of whole GPUs never
gets shares, so a node that hands out any is kept out for it, and counts with the GPUs that are really there.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

GPUS = ("nvidia.com/gpu", "amd.com/gpu")  # Extended resources of nodes and containers that count as GPUs

GPU_CLASSES = ("gpu.nvidia.com", "gpu.amd.com")  # DeviceClasses of whole GPUs, and the drivers behind them

SharedGpus = Literal["unusable", "whole"]
"""What nodes are for jobs that hand out GPUs in parts: unusable, or whole, as if the sharing were switched off."""

_PROFILE = re.compile(r"(?:([1-7])c\.)?(?<![0-9])([1-7])g\.([0-9]{1,4})gb(?:[.+_][a-z]+)*")
_AROUND = "-_. "  # what stands between the name of a GPU and that of a profile

_DOUBLED = frozenset((20, 24, 35, 45, 46, 47, 67))
"""Gigabytes of the profiles of one compute slice that have two memory slices, of which four fit on a GPU, not seven."""

_OF_FOUR = frozenset(("1g.6gb", "2g.12gb", "4g.24gb", "2g.48gb", "4g.96gb"))
"""Profiles of A30 and RTX PRO 6000, which are cut into four slices and not into seven."""


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node."""

    physical: int = 0  # GPUs that are there, shared ones among them; 0 = it has none
    allocatable: int = 0  # of these, GPUs of which everything may be handed out
    sharing: str = ""  # how they are handed out in parts, ``time-slicing x4``; empty = whole
    shares: int = 1  # in how many parts each is handed out; 1 also where the parts differ

    def free(self, held: int) -> int:
        """Return GPUs of which nothing is in use, for sure: each part that is held may lie on a GPU of its own."""
        return max(0, self.allocatable - held)


def alike_types(names: Iterable[str]) -> str:
    """Return which names of types of GPU differ in case or punctuation alone, as a sentence; empty = none do."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(filter(None, names)):
        alike.setdefault("".join(filter(str.isalnum, name.casefold())), []).append(name)
    named = "; ".join(" and ".join(same) for same in alike.values() if len(same) > 1)
    return named and f"types of GPU that differ in case or punctuation alone are different types here: {named}"


def mig_profile(text: str) -> str:
    """Return the profile of MIG in the name of a resource or of a type of GPU; empty = it names none.

    >>> mig_profile("nvidia.com/mig-1g.10gb.shared"), mig_profile("a100_3g.20gb"), mig_profile("h100")
    ('1g.10gb', '3g.20gb', '')
    """
    match = _PROFILE.search(text)
    return "" if match is None else f"{f'{match[1]}c.' if match[1] else ''}{match[2]}g.{match[3]}gb"


def without_profile(gpu_type: str) -> str:
    """Return the name of a type of GPU without the profile of MIG in it.

    >>> without_profile("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"), without_profile("a100_3g.20gb"), without_profile("1g.5gb")
    ('NVIDIA-A100-SXM4-80GB', 'a100', '')
    """
    match = _PROFILE.search(gpu_type)
    if match is None:
        return gpu_type
    return re.sub(r"(?i)[-_. ]?mig$", "", gpu_type[: match.start()].rstrip(_AROUND)).rstrip(_AROUND)


def mig_gpus(instances: Mapping[str, int], gpu_type: str = "") -> int:
    """Return the fewest GPUs on which so many instances of each profile lie.

    A GPU has seven slices for computing and eight of memory, or four of both; a profile says how many of them it takes.
    Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles".

    >>> mig_gpus({"1g.10gb": 56}), mig_gpus({"1g.10gb": 16, "2g.20gb": 8, "3g.40gb": 8})
    (8, 8)

    :param gpu_type: the name of the GPU, which tells a 1g.10gb of 40 GB from one of 80 GB.
    """
    compute, memory, most = Fraction(0), Fraction(0), 0
    for name, count in instances.items():
        match = _PROFILE.search(name)
        if match is None or not count:
            continue
        slices, gigabytes = int(match[2]), int(match[3])
        of_four = f"{slices}g.{gigabytes}gb" in _OF_FOUR
        doubled = slices == 1 and (
            gigabytes in _DOUBLED or (gigabytes == 10 and "40GB" in without_profile(gpu_type).upper())
        )
        memory_slices = slices if of_four else {1: 2 if doubled else 1, 2: 2, 3: 4, 4: 4}.get(slices, 8)
        all_compute, all_memory = (4, 4) if of_four else (7, 8)
        if match[1]:
            # several compute instances share the memory of one GPU instance
            slices, memory_slices = int(match[1]), 0
        compute += count * Fraction(slices, all_compute)
        memory += count * Fraction(memory_slices, all_memory)
        together = min(all_compute // slices, all_memory // max(1, memory_slices))
        most = max(most, ceil(Fraction(count, together)))
    return max(ceil(compute), ceil(memory), most)


def mig_sharing(instances: Mapping[str, int], *, cut: int, physical: int) -> str:
    """Return in words how some of the GPUs of a node are cut: ``MIG 1g.10gb``, ``MIG 3g.40gb on 2 of 8 GPUs``."""
    profiles = ", ".join(sorted(name for name, count in instances.items() if count))
    return f"MIG {profiles}".strip() + (f" on {cut} of {physical} GPUs" if cut < physical else "")
