"""GPUs behind slices of MIG, and names of types that differ in case alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_counts import examples
from topology.node_gpus import NodeGpus, alike_types, mig_gpus, mig_profile, without_profile

# what fits on one GPU of 80 GB, as NVIDIA's MIG user guide lists it: whole partitions of its eight memory slices
FULL = (
    {"1g.10gb": 7},
    {"1g.20gb": 4},
    {"2g.20gb": 3, "1g.10gb": 1},
    {"3g.40gb": 2},
    {"4g.40gb": 1, "3g.40gb": 1},
    {"7g.80gb": 1},
    {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
)


@pytest.mark.parametrize(
    ("slices", "gpu_type", "gpus"),
    [
        ({"1g.10gb": 56}, "NVIDIA-A100-SXM4-80GB", 8),  # seven a GPU
        ({"1g.10gb": 32}, "NVIDIA-A100-SXM4-40GB", 8),  # four a GPU: there each has a quarter of the memory
        ({"1g.5gb": 56}, "", 8),
        ({"2g.20gb": 24}, "", 8),  # three a GPU, which leave a seventh over
        ({"3g.71gb": 16}, "NVIDIA-H200", 8),
        ({"1g.6gb": 16}, "NVIDIA-A30", 4),  # an A30 is cut into four
        ({"1g.10gb": 16, "2g.20gb": 8, "3g.40gb": 8}, "", 8),  # all-balanced: 2 + 1 + 1 on each
        ({"1g.20gb": 16, "3g.40gb": 8}, "", 8),  # 2 + 1 on each: the memory is full, two sevenths are not
        ({"1c.3g.40gb": 42}, "", 6),  # 42 sevenths of computing
        ({}, "", 0),
    ],
)
def test_gpus_behind_slices(slices: dict[str, int], gpu_type: str, gpus: int) -> None:
    """As many as the layouts of NVIDIA's guide take."""
    assert mig_gpus(slices, gpu_type) == gpus


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(FULL), st.floats(0.0, 1.0)), max_size=8))
def test_never_more_gpus_than_there_are(layouts: list[tuple[dict[str, int], float]]) -> None:
    """Whatever is cut out of however many GPUs, in part or in full, the number found is at most theirs."""
    slices = Counter[str]()
    for layout, share in layouts:
        slices.update({profile: round(count * share) for profile, count in layout.items()})
    assert mig_gpus(slices) <= len(layouts)


@pytest.mark.parametrize("layout", FULL)
def test_full_gpus_are_counted_exactly(layout: dict[str, int]) -> None:
    """Eight GPUs that are cut alike, and in full, are eight."""
    assert mig_gpus({profile: 8 * count for profile, count in layout.items()}) == 8


def test_profiles_in_names() -> None:
    """As Kubernetes, Slurm and NVML write them; a name with digits and g in it is none."""
    names = (
        "nvidia.com/mig-1g.10gb.me",
        "A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia_a100_3g.20gb",
        "1g.5gb+me",
        "a100",
        "b2g",
    )
    assert [mig_profile(name) for name in names] == ["1g.10gb", "1g.5gb", "3g.20gb", "1g.5gb", "", ""]
    types = [without_profile(name) for name in ("A100-SXM4-40GB-MIG-1g.5gb", "a100_3g.20gb", "1g.5gb", "h100-80gb")]
    assert types == ["A100-SXM4-40GB", "a100", "", "h100-80gb"]


def test_parts_in_use_may_lie_on_a_gpu_each() -> None:
    """Three shares of eight GPUs leave five of which nothing is in use for sure; thirty leave none."""
    gpus = NodeGpus(8, 8, "time-slicing x4", 4)
    assert [gpus.free(held) for held in (0, 3, 30)] == [8, 5, 0]


def test_names_that_differ_in_case_or_punctuation() -> None:
    """All spellings of one name are told; names that differ in a letter, and no name, are not."""
    assert alike_types(["H100", "h100", "", "A100", "A-100", "H200"]).endswith("H100 and h100; A100 and A-100")
    assert not alike_types(["H100", "H200", "", ""])
