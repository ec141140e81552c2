"""Members put together: ranks, size, job; what is missing, and every contradiction by name."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.gangs.annotations import format_parallelism, parse_parallelism
from extender.gangs.assembly import assemble
from extender.gangs.recognise import recognise
from extender.gangs.types import Gang
from extender.objects import decode_owner, decode_pod
from extender.plans.gang_plan import uids_of
from scheduler.job import Hold
from tests.case_counts import examples
from tests.extender.gangs.test_recognise import INDEX, jobset
from tests.extender.things import SPACE, gang_pods, key, member_json, missing, pod, uid
from tests.facts import says
from topology.kubernetes.pods import Pod

PARALLEL = {"arnold.dev/parallelism": "tp=8,pp=2,dp=3", "arnold.dev/alpha": "0.3"}


def gang(pods: Iterable[Pod]) -> Gang:
    """The gang of some pods, all of which must be members of one."""
    members = [member for one in pods if (member := recognise(one, {})) is not None]
    return assemble(members[0].key, members)


def test_a_complete_gang_knows_its_ranks_and_its_job() -> None:
    """2 stages x 3 pipelines on whole nodes of 8 GPUs: 6 pods, one a rank."""
    found = gang(gang_pods("g", 6, PARALLEL, priority=5))
    assert found.complete
    assert uids_of(found) == tuple(uid(f"g-{rank}") for rank in range(6))
    assert found.job is not None
    assert (found.job.grid.rows, found.job.grid.columns) == (3, 2)
    assert (found.job.alpha, found.job.gpus_per_node, found.job.name) == (0.3, 8, "team/g")
    assert (found.size, found.priority, missing(found)) == (6, 5, ())


def test_rank_r_is_the_cell_of_megatron() -> None:
    """Rank r is pp x D + dp: rank 4 of 3 pipelines is pipeline 1, stage 1."""
    job = gang(gang_pods("g", 6, PARALLEL)).job
    assert job is not None
    assert job.grid.node_rank.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_the_order_of_pods_makes_no_difference() -> None:
    """They come as the API server pleases."""
    pods = gang_pods("g", 6, PARALLEL)
    shuffled = random.Random(1).sample(pods, len(pods))
    assert gang(shuffled) == gang(pods)


def test_without_degrees_a_gang_is_one_data_parallel_group() -> None:
    """All its pods in one column."""
    job = gang(gang_pods("g", 5)).job
    assert job is not None
    assert (job.grid.rows, job.grid.columns, job.alpha) == (5, 1, 0.3)


def test_degrees_alone_say_the_size() -> None:
    """The annotation gang-size may be left out."""
    raw = [member_json("g", rank, 6, PARALLEL) for rank in range(6)]
    for one in raw:
        del one["metadata"]["annotations"]["arnold.dev/gang-size"]
    found = gang(map(decode_pod, raw))
    assert (found.size, found.complete) == (6, True)


@pytest.mark.parametrize("text", ["tp=8,cp=1,ep=1,dp=3,pp=2", "tp=8,cp=1,ep=8,dp=3,pp=2,etp=1"])
def test_degrees_are_written_as_they_are_read(text: str) -> None:
    """Expert tensor parallelism only where it is not that of tp: plans of before say the same."""
    assert format_parallelism(parse_parallelism(text)) == text


def test_missing_pods_are_named_by_rank() -> None:
    """The first of them, and how many."""
    found = gang(gang_pods("g", 9)[2:3])
    assert not found.complete
    assert says(found.waits, "8 of 9 pods", "rank 0, 1, 3, 4, 5 and 3 more")
    assert missing(found) == (0, 1, 3, 4, 5, 6, 7, 8)
    assert found.problem is None


def test_a_gang_whose_size_nobody_says_waits_and_says_so() -> None:
    """With the annotation that helps."""
    found = gang([pod("p", labels={"arnold.dev/gang": "g", "arnold.dev/rank": "0"})])
    assert says(found.waits, "how many pods", "arnold.dev/gang-size")
    assert (found.job, found.size, found.complete) == (None, None, False)


def set_label(index: int, **labels: str) -> Any:
    """A change of one pod's labels."""

    def change(raw: list[dict[str, Any]]) -> None:
        raw[index]["metadata"]["labels"] |= {name.replace("__", "/").replace("_", "."): v for name, v in labels.items()}

    return change


def annotate(index: int | None, name: str, value: str) -> Any:
    """A change of one pod's annotations, or of all."""

    def change(raw: list[dict[str, Any]]) -> None:
        for one in raw if index is None else [raw[index]]:
            one["metadata"]["annotations"][f"arnold.dev/{name}"] = value

    return change


def unlabel(index: int, label: str) -> Any:
    """One pod loses a label."""

    def change(raw: list[dict[str, Any]]) -> None:
        del raw[index]["metadata"]["labels"][label]

    return change


def ask(index: int, gpus: str) -> Any:
    """One pod asks for other GPUs."""

    def change(raw: list[dict[str, Any]]) -> None:
        raw[index]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}

    return change


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (set_label(4, arnold_dev__rank="1"), "DuplicateRank", "pods g-1 and g-4 have the same rank, 1"),
        (set_label(4, arnold_dev__rank="6"), "RankOutOfRange", "pod g-4 has rank 6, the gang has ranks 0 to 5"),
        (unlabel(4, "arnold.dev/rank"), "MissingRank", "pod g-4 has no rank"),
        (set_label(4, arnold_dev__rank="x"), "InvalidRank", "pod g-4: arnold.dev/rank is 'x'"),
        (annotate(None, "gang-size", "7"), "SizeContradictsParallelism", "makes 6 pods (3 pipelines of 2)"),
        (annotate(3, "gang-size", "7"), "Disagreement", "'6' (g-0) and '7' (g-3)"),
        (annotate(3, "alpha", "0.5"), "Disagreement", "'0.3' (g-0) and '0.5' (g-3)"),
        (annotate(None, "gang-size", "six"), "InvalidGangSize", "'six'"),
        (annotate(None, "gang-size", "0"), "InvalidGangSize", "'0'"),
        (annotate(None, "gang-size", "1000001"), "InvalidGangSize", "'1000001'"),
        (annotate(None, "alpha", "1.5"), "InvalidAlpha", "'1.5'"),
        (annotate(None, "alpha", "nan"), "InvalidAlpha", "'nan'"),
        (annotate(None, "avoid", "prize"), "InvalidAvoid", "'prize'"),
        (annotate(None, "parallelism", "tp=8,pp"), "InvalidParallelism", "'pp' is not a degree of parallelism"),
        (annotate(None, "parallelism", "tp=8,qq=2"), "InvalidParallelism", "'qq' is no kind of parallelism"),
        (annotate(None, "parallelism", "tp=8,tp=2"), "InvalidParallelism", "tp is given twice"),
        (annotate(None, "parallelism", "tp=3,dp=16"), "InvalidParallelism", "neither divide a node of 8 GPUs"),
        (annotate(None, "parallelism", "tp=8,pp=2,dp=3,etp=5"), "InvalidParallelism", "do not divide the 24 ranks"),
        (annotate(None, "parallelism", "tp=0,dp=16"), "InvalidParallelism", "tp is 0"),
        (annotate(None, "parallelism", "tp=4,dp=1"), "SizeContradictsParallelism", "makes 1 pods"),
        (annotate(None, "parallelism", "tp=8,dp=999999999"), "InvalidParallelism", "999,999,999 pods"),
        (ask(4, "4"), "UnequalPods", "4 (g-4), 8 (g-0)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contradictions_are_named_and_a_way_out_is_shown(change: Any, reason: str, words: str) -> None:
    """One word for machines, a sentence that names the pods, and what to do."""
    raw = [member_json("g", rank, 6, PARALLEL) for rank in range(6)]
    change(raw)
    found = gang(map(decode_pod, raw))
    assert found.problem is not None
    assert (found.problem.reason, found.complete, found.job) == (reason, False, None)
    assert words in found.problem.message
    assert found.problem.fix


def test_more_pods_than_the_gang_has() -> None:
    """Which of them is too many, nobody can say."""
    raw = [member_json("g", rank, 3) for rank in range(4)]
    found = gang(map(decode_pod, raw))
    assert found.problem is not None
    assert found.problem.reason == "TooManyPods"


def test_more_pods_than_the_minimum_of_their_group() -> None:
    """A plan is for a known number of ranks: four pods of a group of at least 2 are told to say 4."""
    group = decode_owner({"kind": "PodGroup", "metadata": {"name": "g", "namespace": SPACE}, "spec": {"minMember": 2}})
    known = {f"PodGroup/{SPACE}/g": group}

    def of_group(annotations: dict[str, str]) -> Gang:
        labels = {"scheduling.x-k8s.io/pod-group": "g"}
        pods = [pod(f"g-{r}", labels={**labels, "arnold.dev/rank": str(r)}, annotations=annotations) for r in range(4)]
        return assemble(key("g"), [member for one in pods if (member := recognise(one, known)) is not None])

    found = of_group({})
    assert found.problem is not None
    assert found.problem.reason == "TooManyPods"
    assert "arnold.dev/gang-size" in found.problem.fix
    assert of_group({"arnold.dev/gang-size": "4"}).complete


def test_two_groups_of_one_name_are_told_apart() -> None:
    """A Job and a StatefulSet may be called the same; a GangPlan may not."""
    job = pod("a", owner=("Job", "x"), labels={INDEX: "0"}, gate=True)
    other = pod("b", owner=("StatefulSet", "x"), labels={"apps.kubernetes.io/pod-index": "1"}, gate=True)
    found = gang([job, other])
    assert found.problem is not None
    assert found.problem.reason == "NameClash"


def test_the_jobs_of_a_jobset_with_one_template_are_ranked_at_once() -> None:
    """Job x pods of a job + completion index: job 2 of 3, pod 1 of 4, is rank 9, though others are missing."""
    labels = {"arnold.dev/gang": "g", **jobset("s", 2, 1, replicas=3)}
    found = gang([pod("p", labels=labels, annotations={"arnold.dev/gang-size": "12"})])
    assert found.members[9] is not None
    assert len(missing(found)) == 11
    assert "rank 0, 1, 2, 3, 4 and 6 more" in found.waits


def test_a_completion_index_beyond_the_jobs_pods_contradicts_the_size() -> None:
    """3 jobs share 12 pods, so none has a fifth: 1 x 4 + 4 would be the rank of the next job's first."""
    labels = {"arnold.dev/gang": "g", **jobset("s", 1, 4, replicas=3)}
    found = gang([pod("p", labels=labels, annotations={"arnold.dev/gang-size": "12"})])
    assert found.problem is not None
    assert found.problem.reason == "RankOutOfRange"


def test_jobs_of_different_sizes_are_ranked_one_after_the_other() -> None:
    """A leader job of one pod, then a worker job of three: known when all four are there."""
    pods = [("leader", 0, 0), ("w0", 1, 0), ("w1", 1, 1), ("w2", 1, 2)]
    size = {"arnold.dev/gang-size": "4"}

    def labels(job: int, completion: int) -> dict[str, str]:
        return jobset("s", job, completion, replicas=1) | {"jobset.sigs.k8s.io/global-replicas": "2"}

    made = [pod(name, labels=labels(job, completion), annotations=size) for name, job, completion in pods]
    found = gang(made)
    assert uids_of(found) == tuple(uid(name) for name, _, _ in pods)
    partly = gang(made[:3])
    assert (partly.members, partly.waits) == ((), "1 of 4 pods are missing")


def test_workers_of_kubeflow_come_after_the_master() -> None:
    """As torchrun in a PyTorchJob: the master is node rank 0, worker i is i + 1."""

    def member(name: str, kind: str, index: int) -> Pod:
        prefix = "training.kubeflow.org"
        labels = {f"{prefix}/job-name": "t", f"{prefix}/replica-type": kind, f"{prefix}/replica-index": str(index)}
        return pod(name, labels=labels, annotations={"arnold.dev/gang-size": "3"})

    found = gang([member("w1", "worker", 1), member("m", "master", 0), member("w0", "worker", 0)])
    assert uids_of(found) == (uid("m"), uid("w0"), uid("w1"))


def test_a_mixture_of_numberings_is_refused() -> None:
    """(0,) and (1, 2) cannot be put in order."""
    one = pod("a", labels={"arnold.dev/gang": "g", "arnold.dev/rank": "0"}, annotations={"arnold.dev/gang-size": "2"})
    two = pod("b", labels={"arnold.dev/gang": "g", **jobset("s", 0, 1)}, annotations={"arnold.dev/gang-size": "2"})
    found = gang([one, two])
    assert found.problem is not None
    assert found.problem.reason == "MixedRanks"


def test_a_recreated_pod_takes_the_place_of_the_one_that_goes() -> None:
    """Old and new pod of an index are there together for a while; the old one is on its way out."""
    pods = gang_pods("g", 3)
    old = decode_pod(member_json("g", 1, 3, name="old", leaving=True, node="n1", phase="Running"))
    failed = decode_pod(member_json("g", 1, 3, name="failed", phase="Failed"))
    found = gang([*pods, old, failed])
    assert found.complete
    assert uids_of(found)[1] == uid("g-1")
    alone = gang([pods[0], pods[2], old, failed])
    assert (missing(alone), alone.over) == ((1,), False)


def test_pods_that_succeeded_are_not_missed() -> None:
    """The ranks of an Indexed Job end one by one."""
    raw = [member_json("g", rank, 3, phase="Succeeded" if rank == 1 else "Running") for rank in range(3)]
    found = gang(map(decode_pod, raw))
    assert ({*found.done}, missing(found), found.complete, found.over) == ({1}, (), True, False)
    ended = gang(decode_pod(member_json("g", rank, 3, phase="Succeeded")) for rank in range(3))
    assert ended.over
    assert {*ended.done} == {0, 1, 2}


def test_what_an_earlier_job_left_behind_does_not_count() -> None:
    """A second Job takes the label while the ended pods of the first are still there: its own are awaited."""
    annotations = {"arnold.dev/gang-size": "3"}

    def of_job(job: str, index: int, **more: Any) -> Pod:
        labels = {"arnold.dev/gang": "g", INDEX: str(index)}
        return pod(f"{job}-{index}", owner=("Job", job), labels=labels, annotations=annotations, **more)

    earlier = [of_job("first", index, phase="Succeeded", created="2026-11-20T08:00:00Z") for index in range(3)]
    second = of_job("second", 0)
    found = gang([*earlier, second])
    assert says(found.waits, "2 of 3 pods", "rank 1, 2")
    assert ({*found.done}, found.pods, found.created) == (frozenset(), (second,), second.created)


def ended(rank: int, at: str, phase: str = "Succeeded", **more: Any) -> Pod:
    """A pod of three with our label that was made at 08:00 and ended."""
    raw = member_json("g", rank, 3, phase=phase, created="2026-11-21T08:00:00Z", name=f"old-{rank}", **more)
    state = {"terminated": {"exitCode": 0, "finishedAt": f"2026-11-21T{at}Z"}}
    raw["status"]["containerStatuses"] = [{"name": "c", "state": state}]
    return decode_pod(raw)


def fresh(rank: int, created: str, **more: Any) -> Pod:
    """A pod of three that is needed."""
    return decode_pod(member_json("g", rank, 3, created=f"2026-11-21T{created}Z", **more))


def test_what_an_earlier_run_of_bare_pods_left_behind_does_not_count() -> None:
    """All of them had ended when the first pod of this run was made, the last in the same second."""
    earlier = [ended(0, "09:00:00"), ended(1, "09:30:00", "Failed"), ended(2, "10:00:00")]
    found = gang([*earlier, second := fresh(0, "10:00:00")])
    assert says(found.waits, "2 of 3 pods", "rank 1, 2")
    assert ({*found.done}, found.pods, found.created) == (frozenset(), (second,), second.created)


def test_a_rank_that_is_done_stays_done_when_another_is_made_anew() -> None:
    """Rank 0 ended at 09:00 beside rank 1, which runs since 08:30; rank 2 is newer than that end."""
    found = gang([ended(0, "09:00:00"), fresh(1, "08:30:00", phase="Running"), fresh(2, "09:30:00")])
    assert ({*found.done}, found.complete) == ({0}, True)


def test_a_job_that_makes_its_pod_anew_goes_on_with_the_run() -> None:
    """The last rank fails when the others are done: its Job's first pod is as old as they are."""
    mine = {"owner": ("Job", "j2")}
    failed = ended(2, "09:30:00", "Failed", **mine)
    found = gang([ended(0, "09:00:00"), ended(1, "09:10:00"), failed, fresh(2, "09:31:00", **mine)])
    assert ({*found.done}, found.complete) == ({0, 1}, True)


def test_pods_with_our_rank_may_each_have_a_job_of_their_own() -> None:
    """Three Jobs of one pod; the one that has succeeded is done, and the gang still whole."""
    raw = [member_json("g", rank, 3, owner=("Job", f"j{rank}"), phase="Running") for rank in range(3)]
    raw[1]["status"]["phase"] = "Succeeded"
    found = gang(map(decode_pod, raw))
    assert ({*found.done}, found.complete) == ({1}, True)


def requesting(annotations: dict[str, str], degrees: str | None = None, size: int = 12) -> Gang:
    """A gang whose pods carry annotations of other projects."""
    ours = {"arnold.dev/parallelism": degrees} if degrees else {}
    return gang(gang_pods("g", size, {**ours, **annotations}))


WHOLE = (Hold("dp", "rack"), Hold("pp", "rack"))


@pytest.mark.parametrize(
    ("annotations", "holds", "level"),
    [
        ({"kueue.x-k8s.io/podset-required-topology": "rack"}, WHOLE, None),
        ({"kueue.x-k8s.io/podset-preferred-topology": "rack"}, (), "rack"),
        ({"kai.scheduler/topology-required-placement": "rack"}, WHOLE, None),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, (), "rack"),
        ({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}, WHOLE, None),
        (
            {
                "kueue.x-k8s.io/podset-slice-required-topology": "rack",
                "kueue.x-k8s.io/podset-slice-size": "4",
                "kueue.x-k8s.io/podset-preferred-topology": "block",
            },
            (Hold("dp", "rack"),),
            "block",
        ),
        (
            {
                "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": "rack",
                "leaderworkerset.sigs.k8s.io/subgroup-size": "4",
            },
            (Hold("dp", "rack"),),
            None,
        ),
        (
            {
                "kai.scheduler/topology-required-placement": "block",
                "kai.scheduler/topology-preferred-placement": "rack",
            },
            (Hold("dp", "block"), Hold("pp", "block")),
            "rack",
        ),
    ],
)
def test_what_peers_are_asked_means_the_same_here(
    annotations: dict[str, str], holds: tuple[Hold, ...], level: str | None
) -> None:
    """Required is held, preferred counts; slices of four ranks are the data-parallel groups of three pipelines."""
    degrees = "tp=8,dp=4,pp=3"
    found = requesting(annotations, degrees)
    assert found.job is not None
    assert (found.job.holds, found.job.level) == (holds, level)
    assert found.notes


def test_slices_without_degrees_are_the_groups() -> None:
    """12 pods in slices of 4: three groups of four."""
    found = requesting(
        {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "4"}
    )
    assert found.job is not None
    assert (found.job.grid.rows, found.job.grid.columns, found.job.holds) == (4, 3, (Hold("dp", "rack"),))


@pytest.mark.parametrize(("size", "degrees"), [("6", "tp=8,dp=4,pp=3"), ("5", None)])
def test_slices_that_are_no_groups_are_refused(size: str, degrees: str | None) -> None:
    """A requirement that cannot be kept is never left out silently."""
    slices = {"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": size}
    found = requesting(slices, degrees)
    assert found.problem is not None
    assert found.problem.reason == "UnsupportedSlice"


def test_pods_that_each_require_something_else() -> None:
    """33 pods, each with a level of its own for both families: 66 requirements, and a GangPlan holds 64."""
    pods = [
        decode_pod(member_json("g", rank, 33, {"kai.scheduler/topology-required-placement": f"level-{rank}"}))
        for rank in range(33)
    ]
    found = gang(pods)
    assert found.problem is not None
    assert (found.problem.reason, "66" in found.problem.message) == ("TooManyWishes", True)


def test_our_level_comes_before_a_peers_preference() -> None:
    """A requirement stays."""
    annotations = {
        "arnold.dev/level": "block",
        "kueue.x-k8s.io/podset-preferred-topology": "rack",
        "kai.scheduler/topology-required-placement": "zone",
    }
    job = requesting(annotations).job
    assert job is not None
    assert (job.level, job.holds) == ("block", (Hold("dp", "zone"), Hold("pp", "zone")))


def test_tiers_of_volcano_wait_for_the_levels_of_the_cluster() -> None:
    """A number says nothing until the levels are known."""
    found = requesting({"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "2"})
    assert [request.tier for request in found.tiers] == [2]
    soft = requesting({"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "2"})
    assert soft.tiers == ()


WORDS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "3",
        "6",
        "007",
        "-1",
        "1e3",
        "6 ",
        "tp=8,pp=2,dp=3",
        "tp=8",
        "dp=,",
        "=",
        "strict",
        "0.3",
        ".",
        "rack",
        "tp-pp-cp-ep-dp",
        "llm-7b",
        "[{family: dp, within: rack}]",
    ]
)
NAMES = st.sampled_from(
    [
        "arnold.dev/gang-size",
        "arnold.dev/parallelism",
        "arnold.dev/alpha",
        "arnold.dev/order",
        "arnold.dev/model",
        "arnold.dev/microbatches",
        "arnold.dev/constraints",
        "arnold.dev/level",
        "arnold.dev/tp-level",
        "arnold.dev/avoid",
        "kueue.x-k8s.io/podset-required-topology",
        "kueue.x-k8s.io/podset-slice-required-topology",
        "kueue.x-k8s.io/podset-slice-size",
        "kai.scheduler/topology-preferred-placement",
        "volcano.sh/network-topology-mode",
        "volcano.sh/network-topology-highest-tier",
        "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
        "leaderworkerset.sigs.k8s.io/subgroup-size",
    ]
)
LABELS = st.sampled_from(
    [
        "arnold.dev/rank",
        INDEX,
        "jobset.sigs.k8s.io/job-index",
        "jobset.sigs.k8s.io/replicatedjob-replicas",
        "jobset.sigs.k8s.io/global-replicas",
        "training.kubeflow.org/replica-index",
        "ray.io/worker-group-replica-index",
        "apps.kubernetes.io/pod-index",
    ]
)
TEXT = WORDS | st.text(max_size=12)
PODS = st.tuples(
    st.dictionaries(NAMES, TEXT, max_size=4),
    st.dictionaries(LABELS, TEXT, max_size=3),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    st.sampled_from([0, 4, 8]),
)


@given(st.lists(PODS, min_size=1, max_size=6))
@examples(300)
def test_whatever_users_write_comes_to_a_gang_or_to_a_reason(pods: list[Any]) -> None:
    """Nothing raises; a gang is complete, or waits, or has a problem with a way out, and only one of the three.

    A complete gang has one pod, or one that succeeded, for every rank of its job.
    """
    made = [
        pod(f"p{i}", labels={"arnold.dev/gang": "g", **labels}, annotations=annotations, phase=phase, gpus=gpus)
        for i, (annotations, labels, phase, gpus) in enumerate(pods)
    ]
    found = gang(made)
    assert found.key == key("g")
    assert sum([found.complete, bool(found.waits), found.problem is not None]) == 1
    if found.problem is not None:
        assert found.problem.fix
        assert found.problem.reason.isalpha()
        assert found.job is None
    if found.complete:
        assert found.job is not None
        assert found.size == found.job.grid.cells == len(found.members)
        assert not missing(found)
        present = [member.pod.uid for member in found.members if member is not None]
        assert len(set(present)) == len(present)
