"""Which gang a pod belongs to and where it stands in it, in the words of each project."""

from typing import Any

import pytest

from extender.gangs.recognise import recognise
from extender.objects import Owner, decode_owner, decode_pod
from tests.extender.things import SPACE, key, pod, pod_json, uid

INDEX = "batch.kubernetes.io/job-completion-index"
SIZE = {"arnold.dev/gang-size": "4"}


def jobset(name: str, job: int, completion: int, *, replicas: int = 12, others: int = 0) -> dict[str, str]:
    """The labels of a JobSet's pod."""
    prefix = "jobset.sigs.k8s.io"
    return {
        f"{prefix}/jobset-name": name,
        f"{prefix}/jobset-uid": uid(name),
        f"{prefix}/job-index": str(job),
        f"{prefix}/job-global-index": str(job + others),
        f"{prefix}/replicatedjob-replicas": str(replicas),
        f"{prefix}/global-replicas": str(replicas + others),
        INDEX: str(completion),
    }


def spelled(role: bytes) -> int:
    """A role's number in an order by the alphabet: its letters as the first digits of 63, as many as a label has."""
    return int.from_bytes(role.ljust(63, b"\0"))


FORMS = [
    pytest.param({"labels": {"arnold.dev/gang": "g", "arnold.dev/rank": "3"}}, "g", "arnold", (3,), id="arnold"),
    pytest.param(
        {"schedulingGroup": {"podGroupName": "g"}, "labels": {"arnold.dev/rank": "3"}},
        "g",
        "native-pod-group",
        (3,),
        id="native PodGroup of 1.36",
    ),
    pytest.param(
        {"workloadRef": {"name": "w", "podGroup": "workers", "podGroupReplicaKey": "2"}, "labels": {INDEX: "1"}},
        "w-workers-2",
        "native-workload",
        (1,),
        id="native Workload of 1.35",
    ),
    pytest.param(
        {"labels": {"scheduling.x-k8s.io/pod-group": "g", INDEX: "1"}}, "g", "pod-group", (1,), id="sig-scheduling"
    ),
    pytest.param({"owner": ("Job", "j"), "labels": {INDEX: "5"}, "gate": True}, "j", "job", (5,), id="Indexed Job"),
    pytest.param(
        {"owner": ("Job", "j"), "annotations": {INDEX: "5"}, "gate": True}, "j", "job", (5,), id="Job by annotation"
    ),
    pytest.param(
        {"owner": ("Job", "s-w-2"), "labels": jobset("s", 2, 5), "annotations": SIZE},
        "s",
        "jobset",
        (2, 5),
        id="JobSet",
    ),
    pytest.param(
        {"owner": ("Job", "s-w-2"), "labels": jobset("s", 2, 5, others=1), "annotations": SIZE},
        "s",
        "jobset",
        (3, 5),
        id="JobSet with two templates",
    ),
    pytest.param(
        {
            "owner": ("StatefulSet", "l-1"),
            "labels": {
                "leaderworkerset.sigs.k8s.io/name": "l",
                "leaderworkerset.sigs.k8s.io/group-index": "1",
                "leaderworkerset.sigs.k8s.io/worker-index": "3",
                "apps.kubernetes.io/pod-index": "2",
            },
            "annotations": {"leaderworkerset.sigs.k8s.io/size": "4"},
            "gate": True,
        },
        "l-1",
        "lws",
        (3,),
        id="LeaderWorkerSet, not the StatefulSet inside",
    ),
    pytest.param(
        {
            "labels": {
                "training.kubeflow.org/job-name": "t",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "2",
            },
            "gate": True,
        },
        "t",
        "kubeflow",
        (1, spelled(b"worker"), 2),
        id="Kubeflow worker",
    ),
    pytest.param(
        {
            "labels": {
                "training.kubeflow.org/job-name": "t",
                "training.kubeflow.org/replica-type": "Master",
                "training.kubeflow.org/replica-index": "0",
            },
            "gate": True,
        },
        "t",
        "kubeflow",
        (0, spelled(b"master"), 0),
        id="Kubeflow master comes first",
    ),
    pytest.param(
        {"owner": ("StatefulSet", "f"), "labels": {"apps.kubernetes.io/pod-index": "7"}, "gate": True},
        "f",
        "statefulset",
        (7,),
        id="StatefulSet",
    ),
    pytest.param(
        {
            "annotations": {
                "scheduling.k8s.io/group-name": "v",
                "volcano.sh/task-spec": "",
                "volcano.sh/task-index": "2",
            }
        },
        "v",
        "volcano",
        (1, 0, 2),
        id="Volcano",
    ),
    pytest.param({"annotations": {"pod-group-name": "k"}, "labels": {INDEX: "2"}}, "k", "kai", (2,), id="KAI"),
    pytest.param(
        {"labels": {"kueue.x-k8s.io/pod-group-name": "q", "kueue.x-k8s.io/pod-group-pod-index": "2"}},
        "q",
        "kueue",
        (2,),
        id="Kueue pod group",
    ),
    pytest.param(
        {"labels": {"ray.io/cluster": "r", "ray.io/node-type": "head"}, "gate": True},
        "r",
        "kuberay",
        (0, 0, 0, 0),
        id="KubeRay head",
    ),
    pytest.param(
        {
            "labels": {
                "ray.io/cluster": "r",
                "ray.io/node-type": "worker",
                "ray.io/worker-group-replica-index": "2",
                "ray.io/replica-host-index": "1",
            },
            "gate": True,
        },
        "r",
        "kuberay",
        (1, 0, 2, 1),
        id="KubeRay worker",
    ),
]


@pytest.mark.parametrize(("more", "name", "dialect", "index"), FORMS)
def test_every_project_says_it_in_its_own_words(
    more: dict[str, Any], name: str, dialect: str, index: tuple[int, ...]
) -> None:
    """Gang, form and place, with the exact labels of each project."""
    member = recognise(pod("p", **more), {})
    assert member is not None
    assert (member.key, member.dialect, member.index, member.problem) == (key(name), dialect, index, None)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"owner": ("Job", "j"), "labels": {INDEX: "5"}},
        {"owner": ("Job", "s-w-2"), "labels": jobset("s", 2, 5)},
        {"owner": ("StatefulSet", "f"), "labels": {"apps.kubernetes.io/pod-index": "7"}},
        {"owner": ("ReplicaSet", "d"), "gate": True},
    ],
    ids=["single", "Job", "JobSet", "StatefulSet", "gate without any gang"],
)
def test_pods_that_need_not_start_together_are_no_gang(more: dict[str, Any]) -> None:
    """Controllers make pods by the number for many ends; only our gate or annotations make a gang of them."""
    assert recognise(pod("p", **more), {}) is None


@pytest.mark.parametrize(
    "ask", [{"gate": True}, {"annotations": SIZE}, {"annotations": {"arnold.dev/parallelism": "dp=4"}}]
)
def test_any_of_three_things_makes_a_gang_of_a_job(ask: dict[str, Any]) -> None:
    """The gate, the size or the degrees of parallelism."""
    member = recognise(pod("p", owner=("Job", "j"), labels={INDEX: "0"}, **ask), {})
    assert member is not None
    assert member.key == key("j")


def test_a_pod_on_the_node_that_it_is_pinned_to_had_the_gate() -> None:
    """A release before there was a mark left the pin alone; on another node, or on none, a pin says nothing."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    job: dict[str, Any] = {"owner": ("Job", "j"), "labels": {INDEX: "0"}}
    member = recognise(pod("p", node="n1", affinity=affinity, **job), {})
    assert member is not None
    assert member.key == key("j")
    for more in ({"affinity": affinity}, {"affinity": affinity, "node": "n2"}, {"node": "n1"}):
        assert recognise(pod("p", **job, **more), {}) is None


def test_our_label_names_the_gang_and_the_controller_numbers_it() -> None:
    """As the examples do it: a JobSet's template with the gang label."""
    labels = {"arnold.dev/gang": "llm", **jobset("s", 2, 5)}
    member = recognise(pod("p", labels=labels), {})
    assert member is not None
    assert (member.key.name, member.index, member.parts) == ("llm", (2, 5), 12)


def test_our_rank_comes_before_the_controllers() -> None:
    """Who writes it, means it."""
    labels = {"arnold.dev/gang": "llm", "arnold.dev/rank": "1", **jobset("s", 2, 5)}
    member = recognise(pod("p", labels=labels), {})
    assert member is not None
    assert (member.index, member.parts) == ((1,), None)


def test_pods_without_gpus_are_nobodys_members() -> None:
    """The launcher of a job goes where it likes."""
    assert recognise(pod("p", gpus=0, owner=("Job", "j"), labels={INDEX: "0"}, gate=True), {}) is None


def test_our_label_on_a_pod_without_gpus_is_a_mistake() -> None:
    """It would be missing for ever; so the gang is told, not the pod forgotten."""
    member = recognise(pod("p", gpus=0, labels={"arnold.dev/gang": "g", "arnold.dev/rank": "0"}), {})
    assert member is not None
    assert member.problem is not None
    assert member.problem.reason == "NoGpus"
    assert "arnold.dev/gang" in member.problem.fix


@pytest.mark.parametrize("text", ["", "-1", "1.0", "one", "9" * 30, "٣"])
def test_a_rank_that_is_no_number_is_a_mistake(text: str) -> None:
    """Also digits of other scripts, which int() would take."""
    member = recognise(pod("p", labels={"arnold.dev/gang": "g", "arnold.dev/rank": text}), {})
    assert member is not None
    assert member.index is None
    assert member.problem is not None
    assert member.problem.reason == "InvalidRank"


def test_gpus_that_are_no_number_are_a_mistake() -> None:
    """The API server refuses them; a forged object does not get far."""
    raw = pod_json("p", labels={"arnold.dev/gang": "g", "arnold.dev/rank": "0"}, gpus="many")
    member = recognise(decode_pod(raw), {})
    assert member is not None
    assert member.problem is not None
    assert member.problem.reason == "InvalidGpus"


def owners(*documents: dict[str, Any]) -> dict[str, Owner]:
    """Owners by all the names under which pods look for them."""
    found = {}
    for document in documents:
        owner = decode_owner(document)
        found[owner.metadata.uid] = found[f"{owner.kind}/{SPACE}/{owner.metadata.name}"] = owner
    return found


def owner(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A maker of pods."""
    return {"kind": kind, "metadata": {"name": name, "namespace": SPACE, "uid": uid(name)}, "spec": spec}


GPU_TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}


@pytest.mark.parametrize(
    ("document", "more"),
    [
        (owner("Job", "o", completions=6), {"owner": ("Job", "o"), "labels": {INDEX: "0"}, "gate": True}),
        (
            owner("StatefulSet", "o", replicas=6),
            {"owner": ("StatefulSet", "o"), "labels": {"apps.kubernetes.io/pod-index": "0"}, "gate": True},
        ),
        (
            owner(
                "JobSet",
                "o",
                replicatedJobs=[
                    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": GPU_TEMPLATE}}}
                ],
            ),
            {"owner": ("Job", "o-w-0"), "labels": jobset("o", 0, 0), "gate": True},
        ),
        (
            owner("PodGroup", "o", schedulingPolicy={"gang": {"minCount": 6}}),
            {"schedulingGroup": {"podGroupName": "o"}},
        ),
        (
            owner("Workload", "o", podGroups=[{"name": "ps"}, {"name": "w", "policy": {"gang": {"minCount": 6}}}]),
            {"workloadRef": {"name": "o", "podGroup": "w"}},
        ),
        (owner("PodGroup", "o", minMember=6), {"labels": {"scheduling.x-k8s.io/pod-group": "o"}}),
        (owner("PodGroup", "o", minMember=6), {"annotations": {"scheduling.k8s.io/group-name": "o"}}),
        (
            owner("Job", "o", completions=6),
            {"owner": ("Job", "o"), "labels": {INDEX: "0", "arnold.dev/gang": "llm"}, "gate": True},
        ),
    ],
    ids=["Job", "StatefulSet", "JobSet", "native PodGroup", "native Workload", "PodGroup", "Volcano", "labelled"],
)
def test_owners_that_are_known_say_how_many_there_are(document: dict[str, Any], more: dict[str, Any]) -> None:
    """So that the annotation may be left out."""
    member = recognise(pod("p", **more), owners(document))
    assert member is not None
    assert member.size == 6
    unknown = recognise(pod("p", **more), {})
    assert unknown is not None
    assert unknown.size is None


@pytest.mark.parametrize(
    ("made_by", "gpus", "size"),
    [
        ("o", "32", 4),  # four pods of 8 GPUs, and a fifth without
        ("o", "40", 5),  # each of the five has 8
        ("o", "36", 5),  # of no number of pods with 8
        ("o", "some", 5),
        ("o", None, 5),
        ("another", "32", 5),  # nobody knows whether its writer counted all GPUs
    ],
)
def test_a_volcano_job_says_how_many_of_its_pods_have_gpus(made_by: str, gpus: str | None, size: int) -> None:
    """Its PodGroup's minimum counts the others too, but its resources say the GPUs of all; of the Job's own group."""
    name = f"{made_by}-{uid(made_by)}"
    resources = {"cpu": "5"} | ({} if gpus is None else {"nvidia.com/gpu": gpus})
    group = owners(owner("PodGroup", name, minMember=5, minResources=resources))
    notes = {"scheduling.k8s.io/group-name": name}
    member = recognise(pod("p", owner=("Job", "o"), annotations=notes), group)
    assert member is not None
    assert member.size == size


@pytest.mark.parametrize(
    ("document", "more", "dialect"),
    [
        (
            owner("PodGroup", "o", schedulingPolicy={"basic": {}}),
            {"schedulingGroup": {"podGroupName": "o"}},
            "native-pod-group",
        ),
        (
            owner("Workload", "o", podGroups=[{"name": "w", "policy": {"basic": {}}}]),
            {"workloadRef": {"name": "o", "podGroup": "w"}},
            "native-workload",
        ),
    ],
    ids=["PodGroup", "Workload"],
)
def test_a_basic_policy_is_no_gang(document: dict[str, Any], more: dict[str, Any], dialect: str) -> None:
    """Its pods start one by one, unless they ask otherwise themselves: then whoever numbers them says who they are."""
    known = owners(document)
    assert recognise(pod("p", **more), known) is None
    asked = recognise(pod("p", annotations=SIZE, **more), known)
    assert asked is not None
    assert asked.dialect == dialect
    of_job = recognise(pod("p", owner=("Job", "j"), labels={INDEX: "0"}, gate=True, **more), known)
    assert of_job is not None
    assert of_job.dialect == "job"


def test_objects_of_lists_do_not_say_their_kind() -> None:
    """The API server leaves it out of lists of its own kinds: what is followed says it for them."""
    document = owner("StatefulSet", "o", replicas=6, template=GPU_TEMPLATE)
    del document["kind"]
    listed = decode_owner(document, "StatefulSet")
    assert (listed.kind, listed.spec.template is None) == ("StatefulSet", False)


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, [("rack", None)]),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 2}}, [(None, 2)]),
        ({"networkTopology": {"mode": "soft", "highestTierAllowed": 2}}, []),
        ({"minMember": 3}, []),
    ],
)
def test_a_pod_group_says_what_is_near(spec: dict[str, Any], requests: list[Any]) -> None:
    """The native one by a node label, Volcano's by a number; what is soft asks for nothing more."""
    member = recognise(
        pod("p", annotations={"scheduling.k8s.io/group-name": "o"}), owners(owner("PodGroup", "o", **spec))
    )
    assert member is not None
    assert [(request.level, request.tier) for request in member.asked.requests] == requests
    assert all(request.hard for request in member.asked.requests)


KUEUE, KAI, VOLCANO = "kueue.x-k8s.io", "kai.scheduler", "volcano.sh"
SLICES = f"{KUEUE}/podset-slice-required-topology-constraints"


@pytest.mark.parametrize(
    ("notes", "heeded", "unread"),
    [
        ({SLICES: '[{"topology":"mp","size":8},{"topology":"rack","size":4}]'}, [("mp", 8), ("rack", 4)], []),
        ({f"{KAI}/segment-topology-required-placement": "rack", f"{KAI}/segment-size": "4"}, [("rack", 4)], []),
        ({f"{KAI}/topology": "cluster", f"{KUEUE}/podset-unconstrained-topology": "true"}, [], []),
        ({f"{VOLCANO}/network-topology-mode": "soft"}, [], []),
        ({SLICES: "[8]"}, [], [SLICES]),
        ({SLICES: '[{"topology":"mp","size":"8"}]'}, [], [SLICES]),
        ({SLICES: "[" * 100_000}, [], [SLICES]),
        ({f"{KUEUE}/podset-slice-required-topology": "rack"}, [], [f"{KUEUE}/podset-slice-required-topology"]),
        ({f"{VOLCANO}/network-topology-mode": "hard"}, [], [f"{VOLCANO}/network-topology-highest-tier"]),
        ({f"{KUEUE}/podset-balanced-topology": "rack"}, [], [f"{KUEUE}/podset-balanced-topology"]),
        ({f"{KAI}/topology-forbidden": "rack"}, [], [f"{KAI}/topology-forbidden"]),
        ({f"{VOLCANO}/network-topology-highest-tier-name": "t"}, [], [f"{VOLCANO}/network-topology-highest-tier-name"]),
        ({"alpha.jobset.sigs.k8s.io/exclusive-topology": "r"}, [], ["alpha.jobset.sigs.k8s.io/exclusive-topology"]),
        ({"example.com/topology": "rack", f"{KAI}/queue": "a"}, [], []),
    ],
)
def test_a_hard_wish_is_heeded_or_said_to_be_unread(
    notes: dict[str, str], heeded: list[tuple[str, int]], unread: list[str]
) -> None:
    """Also one that is not known yet, in the domain of a known project; what is no wish for a place is nothing."""
    member = recognise(pod("p", annotations={**notes, "pod-group-name": "g"}), {})
    assert member is not None
    asked = member.asked.requests
    assert [(one.level, one.slice_size) for one in asked if not one.unread] == heeded
    assert [one.source for one in asked if one.unread] == unread


@pytest.mark.parametrize(
    "spec",
    [
        {"networkTopology": {"mode": "hard", "highestTierName": "spine"}},
        {"subGroupPolicy": [{"subGroupSize": 4, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}]},
    ],
)
def test_what_a_pod_group_of_volcano_wishes_and_no_plan_heeds(spec: dict[str, Any]) -> None:
    """A tier by its name, and parts of a gang."""
    group = owners(owner("PodGroup", "o", minMember=4, **spec))
    member = recognise(pod("p", annotations={"scheduling.k8s.io/group-name": "o"}), group)
    assert member is not None
    assert [bool(one.unread) for one in member.asked.requests] == [True]


def test_annotations_of_the_job_count_where_the_pod_has_none() -> None:
    """KAI reads them from the Job; the pod's own win."""
    document = owner("Job", "j", completions=2)
    document["metadata"]["annotations"] = {"kai.scheduler/topology-required-placement": "rack"}
    plain = {"owner": ("Job", "j"), "labels": {INDEX: "0"}, "gate": True}
    for own, level in ({}, "rack"), ({"kai.scheduler/topology-required-placement": "block"}, "block"):
        member = recognise(pod("p", annotations=own, **plain), owners(document))
        assert member is not None
        assert [request.level for request in member.asked.requests] == [level]


@pytest.mark.parametrize("more", [{}, {"owner": ("Job", "j"), "labels": {INDEX: "5"}}, {"owner": ("StatefulSet", "s")}])
def test_a_pod_that_says_one_is_a_gang_of_its_own(more: dict[str, Any]) -> None:
    """Whoever made it, and whatever its number there, it has rank 0; in a group it belongs to that as ever."""
    annotations = {"arnold.dev/gang-size": "1"}
    alone = recognise(decode_pod(pod_json("p", annotations=annotations, **more)), {})
    assert alone is not None
    assert (alone.key, alone.dialect, alone.index, alone.problem) == (key("p"), "alone", (0,), None)
    labels = {"scheduling.x-k8s.io/pod-group": "g", INDEX: "0"}
    grouped = recognise(decode_pod(pod_json("p", annotations=annotations, labels=labels)), {})
    assert grouped is not None
    assert grouped.key == key("g")
