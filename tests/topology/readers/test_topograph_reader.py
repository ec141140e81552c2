"""Topograph's graph JSON."""

import json
from datetime import UTC, datetime

import pytest

from ground.errors import InvalidInput
from ground.files import Source
from topology.readers.reading import Reading
from topology.readers.topograph import Topograph

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def read(text: str) -> Reading:
    """Read a text called f."""
    return Topograph().read(Source("f", text), levels=None, now=NOW)


def graph(*instances: dict) -> str:
    """A document, one instance a line."""
    return '{"instances": [\n' + ",\n".join(json.dumps(instance) for instance in instances) + "]}"


def test_layers_run_from_close_to_broad() -> None:
    """The first layer is the closest; levels are called as in Topograph's labels, tier-0 the closest."""
    text = graph(
        {"id": "i1", "type": "H100", "network_layers": ["leaf-a", "spine-a"]},
        {"id": "i2", "type": "H100", "network_layers": ["leaf-b", "spine-a"]},
    )
    cluster = read(text).cluster
    assert [level.name for level in cluster.levels] == ["tier-1", "tier-0"]
    assert cluster.node("i1").path == ("spine-a", "leaf-a")
    assert cluster.node("i1").gpus == 8


@pytest.mark.parametrize(
    "accelerator", [{"attributes": {"nvlink": "nvl1"}}, {"labels": {"accelerator.topograph.run/domain": "nvl1"}}]
)
def test_accelerator_domains_are_the_closest_level(accelerator: dict) -> None:
    """In the spelling of v0.5 and of v1.0."""
    cluster = read(graph({"id": "i1", "network_layers": ["leaf"], **accelerator})).cluster
    assert [level.name for level in cluster.levels] == ["tier-0", "accelerator"]
    assert cluster.node("i1").path == ("leaf", "nvl1")


def test_a_short_list_hangs_on_a_broader_switch() -> None:
    """Topograph leaves out tiers it does not know; null and an absent list are no tier at all."""
    text = graph(
        {"id": "i1", "network_layers": ["leaf", "spine"]},
        {"id": "i2", "network_layers": ["spine"]},
        {"id": "i3", "network_layers": None},
        {"id": "i4"},
    )
    cluster = read(text).cluster
    assert cluster.node("i2").path == ("spine", "spine")
    assert cluster.node("i3").path == cluster.node("i4").path == ("(root)", "(root)")


def test_accelerator_domains_that_cut_leaves_are_a_second_hierarchy() -> None:
    """Leaves of two and domains of three: neither nests, and both stay whole."""
    text = graph(
        *({"id": f"i{k}", "network_layers": [f"l{k // 2}"], "attributes": {"nvlink": f"d{k // 3}"}} for k in range(6))
    )
    cluster = read(text).cluster
    assert [level.name for level in cluster.levels] == ["tier-0"]
    (beside,) = cluster.second_levels
    assert (beside.name, beside.domain_of.tolist()) == ("@accelerator", [0, 0, 0, 1, 1, 1])


def test_names_that_repeat_below_different_parents_are_qualified() -> None:
    """Two leaves called 1 are two leaves, and a note says so."""
    text = graph({"id": "i1", "network_layers": ["1", "a"]}, {"id": "i2", "network_layers": ["1", "b"]})
    reading = read(text)
    assert reading.cluster.levels[1].domains == ("a/1", "b/1")
    assert "tier-0" in reading.notes[0]


@pytest.mark.parametrize(
    ("text", "complaint", "where"),
    [
        (graph(), "no nodes", ""),
        (graph({"id": "a"}, {"id": "a"}), "'a' appears twice", "f:3"),
        (graph({"id": "a"}, {"network_layers": []}), "'id' is missing", "f:3"),
        (graph({"id": 7}), "must be text, not 7", "f:2"),
        (graph({"id": "a"}, {"id": "b", "network_layers": "leaf"}), "valid list", "f:3"),
        (graph({"id": "a", "network_layers": ["x"] * 40}), "the tree has 40 levels", ""),
        (graph({"id": "a\ud800"}), "control characters", "f:2"),
        ('{"instances": 3}', "valid list", "f:1"),
        (graph({"id": "a"})[:-3], "truncated", "f:2"),
    ],
)
def test_bad_documents_are_refused(text: str, complaint: str, where: str) -> None:
    """Each fault gives its line."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        read(text)
    assert caught.value.where == where
    assert caught.value.fix
