"""Gangs on other releases of Kubernetes: the oldest and the newest are built, ours speaks as those between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.harness.arnold import running
from tests.e2e.harness.client import ApiError, Client, Object, path
from tests.e2e.harness.invariants import guarded
from tests.e2e.harness.nodes import level_labels, make_real
from tests.e2e.harness.nodes import namespace as namespace_object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.plans import plan_in
from tests.e2e.harness.pods import GANG, GATE, RANK, bound, gang, native_group, pod
from tests.e2e.harness.programs import KUBERNETES, Unavailable, find_kwok, find_programs, find_release
from tests.e2e.harness.waiting import wait_until
from tests.manifests.rendering import pick, render_own
from topology.generate import generate

STRICT = "&fieldValidation=Strict"
SPACE = "train"
NOWHERE = "https://127.0.0.1:1/mutate"
WEBHOOK = "MutatingWebhookConfiguration"
MUTATING = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]


@dataclass(frozen=True)
class Release:
    """A release, and what Arnold's manifests need there.

    :param built: from the modules of that release, else ours speaks as it.
    :param young: what is on there and off by default, see :class:`ControlPlane`.
    :param refused: kinds that it does not take without the component.
    """

    minor: str
    built: bool = False
    young: Mapping[str, str] = field(default_factory=dict)
    component: str = "before-1.36"
    refused: tuple[str, ...] = (*MUTATING,)

    def __str__(self) -> str:
        return f"{self.minor}{' built' * self.built}{'-beta' * bool(self.young)}"


# Of 1.34 and 1.35, and no server but of these versions starts with it as the only version that it has.
BETA = {"MutatingAdmissionPolicy": "admissionregistration.k8s.io/v1beta1"}
NEWEST = {"GenericWorkload": "scheduling.k8s.io/v1beta1"}
RELEASES = [
    Release("1.33"),
    Release("1.34"),
    Release("1.35"),
    Release("1.36", young=BETA, component="mutating-v1beta1", refused=()),
    pytest.param(Release("1.33", built=True), marks=pytest.mark.releases),
    pytest.param(Release("1.37", built=True, young=NEWEST, component="", refused=()), marks=pytest.mark.releases),
]


@pytest.fixture(params=RELEASES, ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    """Each release that there is."""
    found: Release = request.param
    return found


@pytest.fixture
def release_plane(release: Release, tmp_path: Path, say: Callable[[str], None]) -> Iterator[ControlPlane]:
    """A control plane of that release."""
    try:
        programs = find_release(release.minor, say) if release.built else find_programs(say)
        kwok = find_kwok(say)
    except Unavailable as reason:
        pytest.skip(str(reason))
    speaks_as = None if release.built or KUBERNETES.startswith(f"v{release.minor}.") else release.minor
    with ControlPlane(programs, tmp_path / "plane", kwok=kwok, speaks_as=speaks_as, young=release.young) as plane:
        yield plane


def refusals(client: Client, things: list[Object], *, dry: bool) -> list[str]:
    """Apply objects, fields that are not known being errors; the kinds of those that are not taken as there is none."""
    refused = []
    for thing in things:
        # pods of our own need images, which no node here has
        query = f"{STRICT}&dryRun=All" if thing["kind"] in ("Deployment", "Job") or dry else STRICT
        try:
            client.apply(_of_nobody(thing) if thing["kind"] == WEBHOOK and not dry else thing, query=query)
        except ApiError as error:
            if error.status != 404:
                raise
            refused.append(thing["kind"])
    return refused


def _of_nobody(configuration: Object) -> Object:
    """A webhook in place of whose Service, behind which nobody is here, is an address where nobody is."""
    (webhook,) = configuration["webhooks"]
    return {**configuration, "webhooks": [{**webhook, "clientConfig": {"url": NOWHERE}}]}


def labelled(name: str, rank: int) -> Object:
    """A pod of a gang of eight by its label alone."""
    return pod(
        f"{name}-{rank}",
        SPACE,
        labels={GANG: name, RANK: str(rank)},
        annotations={"arnold.dev/gang-size": "8"},
    )


QUOTA = "example.com/quota"
ADMITTED = {
    "bare": (labelled("bare", 0), ("arnold", [GATE])),
    "whole": (gang("whole", SPACE, size=1)[0], ("arnold", [GATE])),
    "unheard": (pod("unheard", SPACE, labels={GANG: "unheard"}, gates=(GATE,)), ("arnold", [GATE])),
    "held": (pod("held", SPACE, labels={GANG: "held"}, gates=(QUOTA,)), ("arnold", [GATE, QUOTA])),
    "other": (pod("other", SPACE, labels={GANG: "other"}, scheduler="volcano"), ("volcano", [])),
    "static": (pod("static", SPACE, labels={GANG: "static"}, node="node-0"), ("default-scheduler", [])),
    "single": (pod("single", SPACE), ("default-scheduler", [])),
}
"""Pods, and the scheduler and gates that they have once they are stored, by policy or by webhook."""


def kept(client: Client, thing: Object) -> tuple[str, list[str]] | str:
    """The scheduler and the gates of a pod as it would be stored, or the refusal."""
    try:
        spec = client.request("POST", f"{path('pods', SPACE)}?dryRun=All", thing)["spec"]
    except ApiError as error:
        return str(error)
    return spec["schedulerName"], sorted(gate["name"] for gate in spec.get("schedulingGates", ()))


def test_gangs_start_there(release: Release, release_plane: ControlPlane, tmp_path: Path) -> None:
    """All manifests are taken, with the component that the reference names.  A label alone is enough, or refused while
    the extender is away and there is no policy, and never ignored; and a gang is on the nodes of its plan.
    """
    plane, admin = release_plane, release_plane.admin
    everything = render_own(tmp_path / "all")
    admin.apply(next(thing for thing in everything if thing["kind"] == "Namespace"))
    assert refusals(admin, everything, dry=True) == [*release.refused]
    wanted = render_own(tmp_path / "own", *filter(None, [release.component]))
    assert refusals(admin, wanted, dry=False) == []
    admin.create(namespace_object(SPACE))
    cluster = generate("minipods", minipods=2, nodes=16)
    make_real(admin, cluster)

    asked = release.component == "before-1.36"
    bare, ours = ADMITTED["bare"]
    if asked:
        wait_until(lambda: "To fix: " in kept(admin, bare), "the label alone to be refused")
    options = ["--webhook"] if asked else []
    with running(plane, levels=level_labels(cluster), options=options) as arnold, guarded(plane):
        if asked:
            admin.apply(arnold.webhook(pick(wanted, WEBHOOK)), query=STRICT)
        wait_until(lambda: kept(admin, bare) == ours, "the label to be enough")
        assert {name: kept(admin, thing) for name, (thing, _) in ADMITTED.items()} == {
            name: wanted for name, (_, wanted) in ADMITTED.items()
        }
        admin.create_all([labelled("llm", rank) for rank in range(8)])
        plan = wait_until(lambda: plan_in(admin, "llm", SPACE, "Bound"), "eight pods on their nodes")
        on = bound(admin, SPACE)
        assert [on[f"llm-{rank}"] for rank in range(8)] == list(plan.nodes)
        if (version := release.young.get("GenericWorkload")) is not None:
            for thing in (
                *native_group("group", SPACE, size=3, version=version),
                *native_group("loose", SPACE, size=2, version=version, basic=True),
            ):
                admin.create(thing)
            wait_until(lambda: plan_in(admin, "group", SPACE, "Bound"), "the pods of the PodGroup on their nodes")
            wait_until(lambda: len(bound(admin, SPACE)) == 8 + 3 + 2, "those of the basic PodGroup")
            assert {plan["metadata"]["name"] for plan in admin.all("gangplans", SPACE)} == {"llm", "group"}


GANGLESS = {
    "whole": (pod("whole", SPACE), ("arnold", [GATE])),
    "held": (pod("held", SPACE, gates=(QUOTA,)), ("arnold", [GATE, QUOTA])),
    "heard": (pod("heard", SPACE, scheduler="arnold"), ("arnold", [GATE])),
    "part": (pod("part", SPACE, gpus=4), ("arnold", [])),
    "member": (labelled("member", 0), ("arnold", [GATE])),
    "other": (pod("other", SPACE, scheduler="volcano"), ("volcano", [])),
    "static": (pod("static", SPACE, node="node-0"), ("default-scheduler", [])),
    "idle": (pod("idle", SPACE, gpus=0), ("default-scheduler", [])),
}
"""Pods, most of them without a gang, and the scheduler and gates that they have by the webhooks for GPU pods."""


@pytest.mark.parametrize(
    "release",
    [Release("1.33"), pytest.param(Release("1.33", built=True), marks=pytest.mark.releases)],
    ids=str,
    indirect=True,
)
def test_pods_without_a_gang_come_too(release: Release, release_plane: ControlPlane, tmp_path: Path) -> None:
    """All pods with GPUs are Arnold's, and those of a whole node stand in the queue, by webhooks.  While the extender
    is away they start elsewhere, which is said to whoever creates them; a pod of a gang is refused.
    """
    plane, admin = release_plane, release_plane.admin
    components = ("before-1.36", "before-1.36/all-gpu-pods", "before-1.36/whole-node-pods")
    wanted = render_own(tmp_path / "own", *components)
    admin.apply(next(thing for thing in wanted if thing["kind"] == "Namespace"))
    assert refusals(admin, wanted, dry=False) == []
    admin.create(namespace_object(SPACE))
    cluster = generate("minipods", minipods=2, nodes=4)
    make_real(admin, cluster)

    def warned(name: str) -> int:
        assert kept(admin, GANGLESS[name][0]) == ("default-scheduler", [])
        return sum("extender is away" in warning for warning in admin.warnings)

    wait_until(lambda: warned("whole") == 2, "warnings of both components")
    assert (warned("part"), warned("idle")) == (1, 0)
    assert "To fix: " in kept(admin, GANGLESS["member"][0])
    with running(plane, levels=level_labels(cluster), options=["--webhook"]) as arnold, guarded(plane):
        for thing in wanted:
            if thing["kind"] == WEBHOOK:
                admin.apply(arnold.webhook(thing), query=STRICT)
        whole, ours = GANGLESS["whole"]
        wait_until(lambda: kept(admin, whole) == ours, "the pod of a whole node to get its gate")
        found = {name: kept(admin, thing) for name, (thing, _) in GANGLESS.items()}
        assert found == {name: stored for name, (_, stored) in GANGLESS.items()}
        assert admin.warnings == []
        system = pod("system", "kube-system")
        assert admin.request("POST", f"{path('pods', 'kube-system')}?dryRun=All", system)["spec"]["schedulerName"] == (
            "default-scheduler"
        )
        admin.create_all([whole, GANGLESS["part"][0]])
        plan = wait_until(lambda: plan_in(admin, "whole", SPACE, "Bound"), "the pod of a whole node on its node")
        wait_until(lambda: len(bound(admin, SPACE)) == 2, "the other pod on another")
        on = bound(admin, SPACE)
        assert [on["whole"]] == list(plan.nodes) != [on["part"]]
