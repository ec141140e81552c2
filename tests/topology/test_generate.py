"""Made clusters: published sizes, exact counts, same seed same cluster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, InvalidTopology, TooLarge, UnknownName
from topology.cluster import Cluster, count_nodes
from topology.generate import (
    PAPER_SIZES,
    PRESETS,
    flag_some,
    fragment,
    generate,
    minipods,
    nvl72,
    paper_cluster,
    split_nodes,
)


def shape(cluster: Cluster) -> tuple[int, ...]:
    """Domains of each level, then nodes, then GPUs."""
    return *(len(level) for level in cluster.levels), len(cluster), int(cluster.gpus.sum())


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # 22 minipods of 93 nodes: 23 racks of 4 and one of a single node, 24 racks each.
        ("minipods", (22, 528, 2046, 16368)),
        # k = 48: 48 pods of 24 edge switches of 24 hosts (SIGCOMM 2008: 27,648 hosts).
        ("fat-tree", (48, 1152, 27648, 221184)),
        # 8 pods of 3,072 GPUs (arXiv 2407.21783: "a cluster of 24K GPUs").
        ("llama3-pods", (8, 1536, 3072, 24576)),
        # 15 segments of 1,024 GPUs (SIGCOMM 2024: "15K GPUs" a pod).
        ("hpn-segments", (1, 15, 1920, 15360)),
        # 16 scalable units of 576 GPUs.
        ("nvl72", (16, 128, 2304, 9216)),
    ],
)
def test_defaults_are_the_published_sizes(preset: str, expected: tuple[int, ...]) -> None:
    """Every preset, called without sizes, makes the cluster that its source describes."""
    assert shape(generate(preset)) == expected


def test_every_preset_names_its_source() -> None:
    """A preset is only worth its source: the docstring cites it, the summary is one line."""
    for preset in PRESETS.values():
        assert "Source: " in (preset.build.__doc__ or "")
        assert preset.summary.endswith(".")


def test_oversubscribed_levels_exist() -> None:
    """A preset's oversubscription speaks of levels that its cluster has."""
    for preset in PRESETS.values():
        cluster = preset.build(gpus=4)
        assert all(cluster.level(level) for level in preset.oversubscription)


def test_sizes_can_be_chosen() -> None:
    """Sizes replace the defaults: 2 blocks of 3 racks of 18 trays."""
    assert shape(generate("nvl72", blocks=2, racks=3)) == shape(nvl72(blocks=2, racks=3)) == (2, 6, 108, 432)


def test_racks_do_not_cross_minipods() -> None:
    """A minipod's last rack holds what is left: 9 nodes in racks of 4 are 4, 4 and 1."""
    cluster = minipods(minipods=2, nodes=18, rack_nodes=4)
    assert np.bincount(cluster.level("rack").domain_of).tolist() == [4, 4, 1, 4, 4, 1]


@pytest.mark.parametrize("setting", PAPER_SIZES)
def test_paper_settings_have_the_published_nodes(setting: str) -> None:
    """The paper's settings, split evenly: sizes of minipods differ by one node at most."""
    cluster = paper_cluster(setting)
    sizes = np.bincount(cluster.level("minipod").domain_of)
    assert (len(sizes), len(cluster)) == PAPER_SIZES[setting]
    assert sizes.max() - sizes.min() <= 1


@given(st.integers(1, 40), st.integers(0, 500), st.floats(0, 0.99), st.integers(0, 9))
def test_a_split_gives_every_domain_a_node_and_loses_none(
    domains: int, extra: int, unevenness: float, seed: int
) -> None:
    """However uneven, the parts add up and none is empty; without unevenness they differ by at most one."""
    sizes = split_nodes(domains + extra, domains, unevenness=unevenness, seed=seed)
    assert len(sizes) == domains
    assert sum(sizes) == domains + extra
    assert min(sizes) >= 1
    assert max(split_nodes(domains + extra, domains)) - min(split_nodes(domains + extra, domains)) <= 1


def test_an_uneven_split_is_uneven() -> None:
    """Unevenness reaches the sizes: 5 % of 93 nodes is more than rounding."""
    sizes = split_nodes(1019, 11, unevenness=0.05, seed=3)
    assert max(sizes) - min(sizes) > 1
    assert max(sizes) <= 93 * 1.05 / 0.95 + 1


@pytest.mark.parametrize(
    ("preset", "sizes", "complaint"),
    [
        ("minipods", {"minipods": 0}, "minipods is 0"),
        ("minipods", {"nodes": 3}, "3 nodes cannot fill 22 domains"),
        ("minipods", {"unevenness": float("nan")}, "unevenness is nan"),
        ("fat-tree", {"k": 5}, "k is 5"),
    ],
)
def test_impossible_sizes_are_refused(preset: str, sizes: dict[str, float], complaint: str) -> None:
    """A size that makes no cluster is named, with what it should be."""
    with pytest.raises(InvalidTopology, match=complaint) as refusal:
        generate(preset, **sizes)
    assert refusal.value.fix


@pytest.mark.parametrize("sizes", [{"nodes": 400_000_000}, {"minipods": 400_000_000, "nodes": 400_000_000}])
def test_a_cluster_beyond_all_measure_is_refused_at_once(sizes: dict[str, int]) -> None:
    """Hundreds of millions of nodes end in an error, not in a full memory."""
    with pytest.raises(TooLarge, match="400,000,000 nodes"):
        generate("minipods", **sizes)
    with pytest.raises(TooLarge):
        generate("llama3-pods", pods=10**9)


def test_unknown_names_suggest_the_closest() -> None:
    """A misspelt preset or size is answered with the name that was meant."""
    with pytest.raises(UnknownName) as preset:
        generate("minipod")
    assert "did you mean 'minipods'?" in preset.value.fix
    with pytest.raises(UnknownName) as size:
        generate("nvl72", block=3)
    assert "did you mean 'blocks'?" in size.value.fix
    with pytest.raises(UnknownName, match="no setting 'iv'"):
        paper_cluster("iv")


@given(st.floats(0, 1), st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))
def test_the_number_of_busy_nodes_is_exact(share: float, seed: int, scattered: float, partly: float) -> None:
    """Whatever the mix, exactly the rounded share of nodes is not free, and no GPU count leaves its range."""
    cluster = fragment(minipods(minipods=4, nodes=70), share, seed, scattered=scattered, partly=partly)
    assert int((cluster.free_gpus < cluster.gpus).sum()) == round(share * 70)
    assert cluster.free_gpus.min() >= 0


def test_fragments_are_uneven_over_domains_and_reproducible() -> None:
    """Same seed, same nodes; another seed, others; some minipods are nearly full while others are nearly empty."""
    empty = paper_cluster("9600")
    first, again, other = (fragment(empty, 0.4, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.free_gpus, again.free_gpus)
    assert not np.array_equal(first.free_gpus, other.free_gpus)
    free = count_nodes(first.default_level(), first.idle)
    # Sampling 818 of 2,046 nodes evenly would leave 56 +- 4 of 93 free in each minipod; jobs leave far more spread.
    assert free.std() > 15


def test_gangs_are_contiguous_and_small_jobs_are_not() -> None:
    """Without small jobs busy nodes come in long runs along the tree; with nothing else they are scattered."""
    empty = paper_cluster("9600")

    def runs(scattered: float) -> int:
        busy = fragment(empty, 0.4, seed=5, scattered=scattered).free_gpus == 0
        return int(np.count_nonzero(np.diff(busy.astype(int)) == 1))

    assert runs(0.0) * 5 < runs(1.0)


def test_some_nodes_are_partly_busy() -> None:
    """A tenth of the newly used nodes keeps some GPUs free, and counts as busy for a gang of whole nodes."""
    cluster = fragment(minipods(minipods=4, nodes=200), 0.5, seed=1)
    assert int(((cluster.free_gpus > 0) & (cluster.free_gpus < cluster.gpus)).sum()) == 10
    assert int(cluster.idle.sum()) == 100


def test_nodes_busy_already_count() -> None:
    """The share is that of the result: 60 busy nodes of 100 are 40 more than the first 20."""
    once = fragment(minipods(minipods=4, nodes=100), 0.2, seed=1)
    twice = fragment(once, 0.6, seed=2)
    assert int((twice.free_gpus < twice.gpus).sum()) == 60
    assert (twice.free_gpus <= once.free_gpus).all()
    with pytest.raises(InvalidInput, match="busy"):
        fragment(twice, 0.5, seed=1)


def test_a_cluster_without_levels_can_be_fragmented() -> None:
    """No level, no popularity of domains: nodes are still used, exactly as many as asked for."""
    flat = minipods(minipods=1, nodes=20).replace(levels=())
    assert int(fragment(flat, 0.25, seed=0).idle.sum()) == 15


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    """Anything outside 0 .. 1 is refused by name."""
    cluster = minipods(minipods=2, nodes=8)
    with pytest.raises(InvalidInput, match="busy_share"):
        fragment(cluster, share, seed=0)
    with pytest.raises(InvalidInput, match="faulty_share"):
        flag_some(cluster, 1, seed=0, faulty_share=share)


def test_flags_fall_on_free_nodes_and_are_exact() -> None:
    """Ten flags: two faulty, eight slow by 10 to 100 %, all on nodes that the next job could have used."""
    busy = fragment(minipods(minipods=4, nodes=100), 0.5, seed=1)
    flagged = flag_some(busy, 10, seed=4)
    assert len(flagged.flags) == 10
    assert all(busy.idle[i] for i in flagged.flags)
    assert sum(flag.kind == "faulty" for flag in flagged.flags.values()) == 2
    slow = [flag.slowdown for flag in flagged.flags.values() if flag.kind == "straggler"]
    assert all(1.1 <= factor <= 2.0 for factor in slow)
    assert flag_some(busy, 10, seed=4).flags == flagged.flags


def test_more_flags_than_free_nodes_are_refused() -> None:
    """Three nodes are free, four cannot be flagged; a flag more on top of flags finds no node either."""
    cluster = minipods(minipods=1, nodes=3)
    with pytest.raises(InvalidInput, match="cannot flag 4 nodes"):
        flag_some(cluster, 4, seed=0)
    with pytest.raises(InvalidInput, match="0 are free"):
        flag_some(flag_some(cluster, 3, seed=0), 1, seed=0)


def test_presets_of_one_type_of_gpu_say_it() -> None:
    """Published of two; the fabrics of the others are described without their GPUs."""
    assert generate("nvl72", blocks=1, racks=1).nodes_of_type == {"GB200": 18}
    assert generate("llama3-pods", pods=1, racks=2).nodes_of_type == {"H100": 4}
    assert generate("minipods").nodes_of_type == {}
