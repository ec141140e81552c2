"""What the API server says, in whatever order, and what of it the cache takes up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster_cache import ClusterCache
from extender.controller.store import Stores
from extender.objects import decode_budget, decode_owner, decode_pod
from extender.plans.gang_plan import GangPlan, PlanPhase
from extender.plans.reservation import decode_reservation
from tests.extender.things import SPACE, gang_pods, key, minipods, pod_json, reservation_json, state_of, uid
from topology.kubernetes.pods import Pod


def pod_of(version: int, *, name: str = "p", made: str = "p", phase: str = "Pending") -> Pod:
    """One pod at a version.

    :param made: another text for another pod of the same name.
    """
    raw = pod_json(name, phase=phase)
    raw["metadata"] |= {"resourceVersion": str(version), "uid": uid(made)}
    return decode_pod(raw)


@given(st.permutations([3, 7, 5, 9, 4]))
def test_the_newest_version_counts_in_whatever_order_they_come(versions: list[int]) -> None:
    """An answer to a write of ours may be ahead of the watch, which brings the older versions later."""
    cache = ClusterCache()
    stores = Stores(cache)
    for version in versions:
        stores.pods.put(pod_of(version))
    (pod,) = cache.pods.values()
    assert pod.metadata.resource_version == "9"


def test_the_echo_of_an_answer_is_known() -> None:
    """The watch repeats the version that a write of ours was answered with; any other is news, and so is one unread."""
    pods = Stores(ClusterCache()).pods
    pods.put(pod_of(3))
    pods.wrote(pod_of(7))
    known = {version: pods.knows(SPACE, "p", version) for version in ("3", "7", "8", "", "x")}
    assert known == {"3": False, "7": True, "8": False, "": False, "x": False}
    assert not pods.knows(SPACE, "other", "7")
    pods.remove(SPACE, "p")
    assert not pods.knows(SPACE, "p", "7")


def test_a_version_that_is_passed_over() -> None:
    """The watch need not repeat it, and what comes later counts; the same version may still be taken up."""
    cache = ClusterCache()
    pods = Stores(cache).pods
    pods.pass_over(SPACE, "p", "4")
    assert not pods.knows(SPACE, "p", "4"), "of an object that is not known nothing is passed over"
    pods.put(pod_of(3))
    pods.pass_over(SPACE, "p", "7")
    pods.pass_over(SPACE, "p", "5")
    assert pods.knows(SPACE, "p", "7")
    for version in (7, 8):
        pods.wrote(pod_of(version))
        (pod,) = cache.pods.values()
        assert pod.metadata.resource_version == str(version)


def test_a_new_list_counts_whatever_its_versions_are() -> None:
    """An API server that was restored from a backup counts from an earlier number."""
    cache = ClusterCache()
    pods = Stores(cache).pods
    pods.put(pod_of(9))
    pods.replace([pod_of(2, phase="Running"), pod_of(3, name="q", made="q")])
    assert {pod.metadata.resource_version for pod in cache.pods.values()} == {"2", "3"}
    pods.replace([])
    assert not cache.pods


def test_an_answer_brings_nothing_back() -> None:
    """The pod was deleted, or made anew under its name, while our patch was under way."""
    cache = ClusterCache()
    pods = Stores(cache).pods
    pods.put(pod_of(1))
    pods.remove(SPACE, "p")
    pods.wrote(pod_of(2))
    assert not cache.pods
    pods.put(pod_of(4, made="another"))
    pods.wrote(pod_of(3))
    assert set(cache.pods) == {uid("another")}


def test_a_pod_made_anew_takes_the_place_of_the_one_before() -> None:
    """Its deletion may never be seen: after a gap of the watch there is only the new one."""
    cache = ClusterCache()
    pods = Stores(cache).pods
    pods.put(pod_of(1))
    pods.put(pod_of(2, made="another"))
    assert set(cache.pods) == {uid("another")}


@pytest.mark.parametrize("new", [True, False])
def test_a_plan_that_was_made_just_now_is_taken_up(new: bool) -> None:
    """The watch need not know of it yet; any other that it does not know is gone."""
    cache = ClusterCache()
    Stores(cache).plans.wrote(GangPlan(key("g"), PlanPhase.WAITING, uid="u", resource_version="5"), new=new)
    assert (key("g") in cache.plans) is new


def test_a_reservation_comes_and_goes() -> None:
    """By its own name; what is unknown may be removed too."""
    cache = ClusterCache()
    reservations = Stores(cache).reservations
    made = decode_reservation(reservation_json(nodes=2))
    reservations.put(made)
    assert list(cache.reservations.values()) == [made]
    reservations.remove(SPACE, "llm")
    reservations.remove(SPACE, "llm")
    assert not cache.reservations


def test_changes_concern_few_gangs() -> None:
    """A pod its own gang and the one that its node is promised to, a heartbeat none, a maker those of its namespace."""
    cache = state_of(minipods(3), [*gang_pods("g", 2), *gang_pods("h", 2)])
    assert cache.take_changed() == {key("g"), key("h")}
    assert cache.take_changed() == set()
    cache.put_plan(GangPlan(key("h"), PlanPhase.PLANNED, nodes=("m0-0", "m0-1")))
    assert cache.take_changed() == {key("h")}
    cache.put_pod(decode_pod(pod_json("single", node="m0-0", phase="Running")))
    assert cache.take_changed() == {key("h")}
    cache.put_node(minipods(3)[0])
    assert cache.take_changed() == set()
    cache.put_node(minipods(3, unschedulable=True)[1])
    assert cache.take_changed() == {key("h")}
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": SPACE, "uid": uid("j")}, "spec": {"completions": 2}}
    cache.put_owner(decode_owner(job))
    assert cache.take_changed() == {key("g"), key("h")}
    cache.put_owner(decode_owner(job | {"status": {"active": 2}}))
    assert cache.take_changed() == set()


def test_everything_is_new_at_first_and_when_asked_for() -> None:
    """Time changes some gangs although nothing happens to them."""
    cache = state_of((), gang_pods("a", 1))
    assert cache.take_changed() == {key("a")}
    cache.changed(key("b"))
    cache.changed()
    assert cache.take_changed() == {key("a"), key("b")}
    assert cache.take_changed() == set()


def test_budgets_of_one_uid_go_one_after_the_other() -> None:
    """Objects that were written back with a UID of before may share it: the second that goes stops no watch."""
    cache = ClusterCache()
    budgets = Stores(cache).budgets
    for name in ("a", "b"):
        budgets.put(decode_budget(json.dumps({"metadata": {"name": name, "uid": uid("u")}}).encode()))
    for name in ("a", "b"):
        budgets.remove("", name)
    assert cache.budgets == {}
