"""Failure domains as users state them: parts, defaults with their sources, nodes of a cluster's level."""

from __future__ import annotations

import pytest

from ground.errors import UnknownName
from simulator.capacity.spares import HOURS_SOURCE, RATE_SOURCE, stated_domain
from tests.simulator.capacity.clusters_in_use import with_free


def test_defaults_of_a_domain() -> None:
    """0.051 % of switches a month are 0.017 in 1,000 days; 2 % in 91 days are 0.22: the ends of the default range."""
    leaf = stated_domain("leaf:32", None)
    assert (leaf.name, leaf.nodes) == ("leaf", 32)
    assert (leaf.rate.quantile(0.1), leaf.rate.quantile(0.9)) == pytest.approx((0.017, 0.22))
    assert (leaf.rate.source, leaf.hours.source) == (RATE_SOURCE, HOURS_SOURCE)
    assert leaf.rate.words == "failures per 1,000 leaf-days"


def test_all_parts_of_a_domain() -> None:
    """A rate that is certain, hours that are a range; both are the user's."""
    feed = stated_domain(" feed : 96 : 0.05 : 6..48 ", None)
    assert (feed.name, feed.nodes, feed.rate.certain, feed.rate.quantile(0.5)) == ("feed", 96, True, 0.05)
    assert (feed.hours.quantile(0.1), feed.hours.quantile(0.9)) == pytest.approx((6.0, 48.0))
    assert (feed.rate.source, feed.hours.source) == ("given", "given")


def test_nodes_of_a_level() -> None:
    """Three minipods of 8 nodes each; a rate may follow; stated nodes go before those of the level."""
    cluster = with_free(8, 8, 8)
    assert stated_domain("minipod", cluster).nodes == 8
    assert stated_domain("minipod::0.5", cluster).rate.quantile(0.5) == 0.5
    assert stated_domain("minipod:4", cluster).nodes == 4
    with pytest.raises(UnknownName, match="no level 'leaf'"):
        stated_domain("leaf", cluster)
