"""What flags lead to in Slurm: never more drains than may be, and nothing back but what we drained."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from slurm.evidence import EvidenceDecision, EvidencePolicy, KeeperChange, decide_evidence, reason_of
from slurm.live import LiveSlurm
from tests.case_counts import examples
from topology.flags import NodeFlag
from topology.generate import minipods
from topology.node_names import expand_hostlist
from topology.slurm_nodes import SlurmNode, SlurmReason
from topology.slurm_snapshot import SlurmReservation, SlurmSnapshot

CLUSTER = minipods(minipods=3, nodes=300, rack_nodes=10)
NAMES = CLUSTER.names
NOW, HOUR = 1_800_000_000.0, 3600.0
DAY_MOST, POD_MOST = 6, 2  # two of a hundred nodes: of 300, and of each minipod of 100
DRAIN = EvidencePolicy(faulty="drain")


class Controller:
    """The nodes of a Slurm, as far as we change them."""

    def __init__(self) -> None:
        self.now = NOW
        self.nodes = {name: SlurmNode(name, ("IDLE",), None, "", "", weight=1) for name in NAMES}
        self.suspects: set[str] = set()
        self.drains: list[tuple[float, str]] = []

    def look(self) -> LiveSlurm:
        """What it says."""
        held = SlurmReservation("arnold_suspect", frozenset(self.suspects), self.now, self.now + HOUR, active=True)
        said = SlurmSnapshot(tuple(self.nodes.values()), reservations=(held,) if self.suspects else ())
        return LiveSlurm(self.now, (), said, CLUSTER)

    def step(self, flags: list[NodeFlag], policy: EvidencePolicy = DRAIN) -> EvidenceDecision:
        """Decide, and do it."""
        decision = decide_evidence(self.look(), flags, policy)
        for change in decision.changes:
            self.apply(change)
        return decision

    def apply(self, change: KeeperChange) -> None:
        """Do what scontrol would."""
        if change.verb == "suspect":
            self.suspects = {*expand_hostlist(change.node)} if change.node else set()
            return
        node = self.nodes[change.node]
        match change.verb:
            case "drain":
                assert "DRAIN" not in node.state
                self.drains.append((self.now, change.node))
                node = replace(node, state=("IDLE", "DRAIN"), reason=SlurmReason(change.value, "slurm", self.now))
            case "resume":
                assert node.reason.text.startswith("arnold: ")
                node = replace(node, state=("IDLE",), reason=SlurmReason())
            case "weight":
                node = replace(node, weight=int(change.value))
        self.nodes[change.node] = node if change.verb == "resume" else replace(node, comment=change.comment)

    def by_hand(self, name: str, **changes: object) -> None:
        """A person changes a node."""
        self.nodes[name] = replace(self.nodes[name], **changes)  # type: ignore[arg-type]


def faulty(node: str, evidence: str = "GPU 3 ECC") -> NodeFlag:
    """A node that a detector found broken."""
    return NodeFlag(node, "faulty", source="dcgm", evidence=evidence, since=datetime(2026, 11, 29, 10, tzinfo=UTC))


def test_nodes_are_found_in_other_spellings() -> None:
    """A detector's name with the domain is the node that Slurm calls without."""
    controller = Controller()
    controller.step([NodeFlag(f"{NAMES[7].upper()}.example.com", "faulty")])
    assert [name for _, name in controller.drains] == [NAMES[7]]


def test_a_faulty_node_is_drained_with_its_reason_and_comes_back() -> None:
    """What, and since when; without the flag it is resumed, and its comment goes on saying when it was drained."""
    slurm = Controller()
    slurm.step([faulty(NAMES[3])])
    node = slurm.nodes[NAMES[3]]
    assert node.reason.text == "arnold: GPU 3 ECC since 2026-11-29 10:00 UTC"
    assert node.comment == f"arnold: drained={NOW:.0f}"
    assert slurm.step([faulty(node.name)]).changes == ()
    assert slurm.step([]).changes == (KeeperChange("resume", node.name),)


@examples(40)
@given(st.randoms(use_true_random=False))
def test_a_thousand_flags_never_drain_more_than_allowed(rng: random.Random) -> None:
    """Flags come and go at random over two weeks, people drain and comment too, and nothing is kept between two looks:
    in no day more than 6 of 300 nodes or 2 of a minipod are drained, and what people drained stays.  A node whose flag
    ends and comes again may be drained twice in a day, and is one node.
    """
    slurm, flags, theirs = Controller(), dict[str, NodeFlag](), set[str]()
    for _ in range(50):
        slurm.now += rng.choice([60.0, HOUR, 7 * HOUR, 25 * HOUR])
        for name in rng.sample(NAMES, 20):
            flags[name] = faulty(name)
        for name in rng.sample(sorted(flags), min(len(flags), rng.randrange(25))):
            del flags[name]
        for name in rng.sample(NAMES, 3):
            if slurm.nodes[name].state == ("IDLE",):
                slurm.by_hand(name, state=("IDLE", "DRAIN"), reason=SlurmReason("fan", "anna", slurm.now))
                theirs.add(name)
        slurm.step([*flags.values()])
        assert all(slurm.nodes[name].reason.text == "fan" for name in theirs)
        day = {name for time, name in slurm.drains if time > slurm.now - 24 * HOUR}
        assert len(day) <= DAY_MOST
        pods = [CLUSTER.node(name).path[0] for name in day]
        assert all(pods.count(pod) <= POD_MOST for pod in {*pods})
    assert slurm.drains


def test_the_worst_go_first_and_the_others_are_named() -> None:
    """One minipod may lose two; who stays, and why, is said."""
    slurm = Controller()
    decision = slurm.step([faulty(name) for name in NAMES[:4]])
    assert [change.verb for change in decision.changes] == ["drain", "drain"]
    assert len(decision.passed_over) == 2
    assert all("2 of 100 nodes" in why for why in decision.passed_over.values())


def test_what_others_did_is_left_alone() -> None:
    """A node that a person drained, one that is down, one with a person's comment; and Slurm's own reasons."""
    slurm = Controller()
    mine, down, noted, told = NAMES[0], NAMES[100], NAMES[200], NAMES[50]
    slurm.by_hand(mine, state=("IDLE", "DRAIN"), reason=SlurmReason("fan", "anna", NOW))
    slurm.by_hand(down, state=("DOWN*",))
    slurm.by_hand(noted, comment="do not touch")
    decision = slurm.step([*map(faulty, (mine, down, noted)), replace(faulty(told), source="slurm:root")])
    assert (decision.changes, {*decision.passed_over}) == ((), {mine, down, noted})
    assert "fan" in decision.passed_over[mine]


def test_one_that_died_while_drained_is_not_resumed() -> None:
    """It would come back into work dead."""
    slurm = Controller()
    slurm.step([faulty(NAMES[0])])
    slurm.by_hand(NAMES[0], state=("DOWN", "DRAIN"))
    decision = slurm.step([])
    assert (decision.changes, {*decision.passed_over}) == ((), {NAMES[0]})


def test_weights_are_raised_and_put_back() -> None:
    """The weight of before is remembered in the comment; a drain in between keeps it."""
    slurm, policy = Controller(), EvidencePolicy("weight", "weight", "drain")
    name = NAMES[7]
    slurm.by_hand(name, weight=5)
    slow = NodeFlag(name, "straggler", 1.3, source="what-if")
    slurm.step([slow], policy)
    assert (slurm.nodes[name].weight, slurm.nodes[name].comment) == (35, "arnold: weight=5")
    assert slurm.step([slow], policy).changes == ()
    slurm.step([faulty(name)], policy)
    slurm.step([], policy)
    assert (slurm.nodes[name].weight, slurm.nodes[name].state) == (5, ("IDLE",))


def test_suspects_are_reserved() -> None:
    """The reservation follows the flags, within the same limits, and goes with the last one."""
    slurm, policy = Controller(), EvidencePolicy(degraded="reserve")
    flags = [NodeFlag(name, "degraded", 1.2, source="nccl") for name in NAMES[:5]]
    slurm.step(flags, policy)
    assert len(slurm.suspects) == POD_MOST
    assert slurm.step(flags, policy).changes == ()
    assert slurm.step([], policy).changes == (KeeperChange("suspect", ""),)
    assert slurm.suspects == set()


@pytest.mark.parametrize("text", ["faulty=shoot", "faulty", "faulty=drain,faulty=price", "broken=drain"])
def test_a_policy_that_is_none_is_refused(text: str) -> None:
    """Kind and measure are known, each kind once."""
    with pytest.raises(InvalidInput) as caught:
        EvidencePolicy.parse(text)
    assert caught.value.fix


@examples(100)
@given(st.text())
def test_a_reason_is_one_plain_line(evidence: str) -> None:
    """Whatever a detector says: it goes through a program, and into a table of sinfo."""
    reason = reason_of(faulty(NAMES[0], evidence))
    assert reason.isascii()
    assert reason.isprintable()
    assert reason.startswith("arnold: ")
    assert len(reason) <= 200
    assert KeeperChange("drain", NAMES[0], reason).line().count("\t") == 3
