"""What our copies of other schedulers' rules are worth beside the real ones."""

from __future__ import annotations

import pytest

from benchmarks.kubernetes.against_peers import by_rule, cases
from scheduler.algorithm_run import run
from scheduler.placement.types import ALGORITHMS, Limits


@pytest.mark.parametrize("rule", ["kueue-preferred", "kueue-slice-p", "kueue-slice-d"])
def test_copies_are_weighed_in_the_order_of_their_pods(rule: str) -> None:
    """Kueue gives ranks to hosts by the names on their path, whichever groups its slices are of; here host names run
    through minipods in turn.
    """
    case = cases()[8]
    nodes = run(ALGORITHMS.load(rule), case.cluster, case.job, Limits(workers=1)).proposal.nodes
    assert nodes is not None
    hosts = sorted(case.cluster.names[i] for i in nodes.ravel())
    assert by_rule(rule, case) == case.worth(hosts)[0].objective
