"""Flags laid over a cluster."""

import math
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput
from ground.files import Source
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flag_sources import with_flag_file

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

CLUSTER = build_cluster(["rack"], [Node(f"n{i}", ("r",), 8, 8) for i in range(1, 10)])


def flagged(text: str) -> tuple[Cluster, int]:
    """The cluster after a flag file, and the number of flags that are not active."""
    return with_flag_file(CLUSTER, Source("flags", text), now=NOW)


@pytest.mark.parametrize(
    "text",
    [
        "- node: n2\n  kind: straggler\n  slowdown: 1.3\n  source: replay\n  evidence: slow in 9 of 10 steps\n",
        '[{"node": "n2", "kind": "straggler", "slowdown": 1.3, "source": "replay", "since": null, '
        '"evidence": "slow in 9 of 10 steps"}]',
        '{"slowdown": 1.9, "flags": [{"node": "n2", "kind": "straggler", "slowdown": 1.3, "source": "replay", '
        '"evidence": "slow in 9 of 10 steps"}]}',
    ],
    ids=["yaml", "json", "output of arnold stragglers"],
)
def test_a_flag_file_in_each_of_its_forms(text: str) -> None:
    """YAML, JSON, and a JSON document with flags in it."""
    cluster, expired = flagged(text)
    assert expired == 0
    flag = cluster.flags[1]
    assert (flag.node, flag.slowdown, flag.source) == ("n2", 1.3, "replay")
    assert flag.evidence == "slow in 9 of 10 steps"


@pytest.mark.parametrize("name", ["n2.example.com", "N2", '"N[2].example.com"'])
def test_a_name_in_another_spelling_is_that_of_the_node(name: str) -> None:
    """With a domain, or in capitals, as in lists of nodes."""
    assert [flag.node for flag in flagged(f"- {{node: {name}, kind: faulty}}\n")[0].flags.values()] == ["n2"]


def test_a_hostlist_flags_each_of_its_nodes() -> None:
    """Slurm's ranges stand for the nodes of one finding; a node that is called so is that node."""
    cluster, _ = flagged("- {node: 'n[2-3],n7', slowdown: 1.3}")
    assert [flag.node for flag in cluster.flags.values()] == ["n2", "n3", "n7"]
    assert {flag.slowdown for flag in cluster.flags.values()} == {1.3}
    odd = build_cluster(["rack"], [Node(name, ("r",), 8, 8) for name in ("n[1-2]", "n1")])
    cluster, _ = with_flag_file(odd, Source("flags", "- {node: 'n[1-2]', slowdown: 1.3}"), now=NOW)
    assert [flag.node for flag in cluster.flags.values()] == ["n[1-2]"]


@pytest.mark.parametrize("slowdown", ["", ", slowdown: .inf", ", slowdown: null"])
def test_a_faulty_node_needs_no_slowdown(slowdown: str) -> None:
    """It is never used, however it is written."""
    cluster, _ = flagged(f"- {{node: n1, kind: faulty{slowdown}}}")
    assert cluster.slowdown[0] == math.inf


@pytest.mark.parametrize(
    ("validity", "active"),
    [
        ("since: 2026-11-21T12:00:00Z", True),
        ("since: 2026-11-21T12:00:01Z", False),
        ("until: 2026-11-21T12:00:00Z", False),
        ("until: 2026-11-21T13:00:01+01:00", True),
        ("since: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z", True),
    ],
)
def test_flags_hold_from_since_up_to_until(validity: str, active: bool) -> None:
    """It is noon in UTC; the end is exclusive."""
    cluster, expired = flagged(f"- {{node: n1, kind: degraded, slowdown: 2, {validity}}}")
    assert bool(cluster.flags) == active
    later = bool(cluster.upcoming)
    assert later == (validity == "since: 2026-11-21T12:00:01Z")
    assert expired == (not active and not later)


@pytest.mark.parametrize(
    ("text", "complaint", "where", "fix"),
    [
        ("- {node: n1, kind: faulty}\n- {node: n11, kind: faulty}", "no node 'n11'", "flags:2", "did you mean 'n1'?"),
        ('{"flags": [\n{"node": "n11", "kind": "faulty"}]}', "no node 'n11'", "flags:2", "did you mean 'n1'?"),
        ("- node: n1\n  kind: straggler\n  slodown: 1.3", "unknown key .*slodown", "flags:3", "'slowdown'"),
        ("- node: n1\n  kind: slow\n  slowdown: 2", "kind: .*'straggler', 'degraded' or 'faulty'", "flags:2", "kind"),
        ("- node: n1\n  kind: straggler", "needs a slowdown", "flags:1", "correct"),
        ("- node: n1\n  kind: straggler\n  slowdown: .inf", "needs a slowdown", "flags:1", "correct"),
        ("- node: n1\n  kind: straggler\n  slowdown: .nan", "greater than or equal to 1", "flags:3", "slowdown"),
        ("- node: n1\n  kind: straggler\n  slowdown: 0.5", "greater than or equal to 1", "flags:3", "slowdown"),
        ("- node: n1\n  kind: straggler\n  slowdown: much", "valid number", "flags:3", "slowdown"),
        ("- node: n1\n  kind: straggler\n  slowdown: true", "valid number, not True", "flags:3", "slowdown"),
        ("- node: n1\n  kind: faulty\n  score: true", "valid number, not True", "flags:3", "score"),
        ('[{"node": "n1", "kind": "degraded",\n"slowdown": true}]', "valid number, not True", "flags:2", "slowdown"),
        ("- node: n1\n  kind: faulty\n  slowdown: 2", "no slowdown, and this one has 2", "flags:1", "correct"),
        ("- node: n1\n  kind: faulty\n  until: 2026-11-22", "until", "flags:3", "until"),
        ("- node: n1\n  kind: faulty\n  until: 2026-11-22T00:00:00", "timezone", "flags:3", "until"),
        ("- node: n1\n  kind: faulty\n  until: 9999-12-31T23:59:59-08:00", "9999", "flags:3", "until"),
        (
            "- node: n1\n  kind: faulty\n  since: 2026-11-22T00:00:00Z\n  until: 2026-11-21T00:00:00Z",
            "n1 ends at 2026-11-21T00:00:00Z, not after it begins, at 2026-11-22T00:00:00Z",
            "flags:4",
            "correct until, or since",
        ),
        (
            'flags: [{"node": "n1", "kind": "faulty", "since": "2026-11-22T00:00:00Z",\n'
            '"until": "2026-11-22T01:00:00+01:00"}]',
            "not after it begins",
            "flags:2",
            "correct until, or since",
        ),
        ("- node: 1\n  kind: faulty", "must be text, not 1", "flags:1", "quotes"),
        ("- kind: faulty", "'node' is missing", "flags:1", "add 'node'"),
        ("n1", "no list of flags", "flags:1", "- {node: 'n[01-04]', slowdown: 1.3}"),
        ("n[1-2]\nn4", "no list of flags", "flags:1", "--busy"),
        ("- {node: n1, kind: faulty}\n- {node: 'n[8-10]', kind: faulty}", "no node 'n10'", "flags:2", "use names"),
        ("- {node: 'n[1-]', kind: faulty}", "range", "flags:1", "low to high"),
        ("- node: n1", "straggler needs a slowdown", "flags:1", "correct"),
        ("node: n1", "'flags' is missing", "flags:1", "add 'flags'"),
        ("- &a {node: n1, kind: faulty}\n- *a", "anchor", "flags:1", "write the value out"),
    ],
)
def test_bad_flag_files_are_refused(text: str, complaint: str, where: str, fix: str) -> None:
    """With the line, what is wrong, and what to do."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        flagged(text)
    assert caught.value.where == where
    assert fix in caught.value.fix


FLAG = "- {node: n1, kind: straggler, slowdown: 1.3, since: 2026-01-01T00:00:00Z, evidence: x}\n"


@examples(100)
@given(st.integers(0, len(FLAG)), st.text("n1[]{}-:,.\n&*!'\"", max_size=4), st.integers(0, 5))
def test_no_text_breaks_the_overlays(at: int, inserted: str, removed: int) -> None:
    """A valid flag with a piece replaced, a cluster or an ArnoldError."""
    text = FLAG[:at] + inserted + FLAG[at + removed :]
    with suppress(ArnoldError):
        flagged(text)
