"""What the kustomizations say, before anybody applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender import kubernetes_names as names
from tests.e2e.harness.client import Object
from tests.manifests.rendering import MANIFESTS, OVERLAYS, SYSTEM, pick, pod_template, read, render, render_own
from topology.node_gpus import GPUS

WORKLOADS = ("arnold-extender", "arnold-scheduler")


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest, rendered: list[Object]) -> list[Object]:
    """Each way to bring certificates; ``rendered`` skips where nothing renders."""
    return render(request.param)


def configuration(objects: list[Object]) -> Any:
    """The KubeSchedulerConfiguration that the scheduler's pods read."""
    return yaml.safe_load(pick(objects, "ConfigMap", "arnold-scheduler-config")["data"]["config.yaml"])


def test_root_brings_its_own_certificates(rendered: list[Object]) -> None:
    """``kubectl apply -k manifests`` is the overlay that needs nothing else in the cluster."""
    assert rendered == render("overlays/self-signed")


def test_names_are_those_of_the_contract(rendered: list[Object]) -> None:
    """Gate, label, scheduler and resource in the manifests are the names that the program reads."""
    definition = pick(rendered, "CustomResourceDefinition", "gangplans")["spec"]
    assert (definition["group"], definition["versions"][0]["name"]) == (names.GROUP, names.VERSION)
    ours = {"kind": names.KIND, "plural": names.PLURAL, "singular": "gangplan", "shortNames": ["gp"]}
    assert definition["names"].items() >= ours.items()
    reservation = pick(rendered, "CustomResourceDefinition", "capacityreservations")["spec"]
    assert (reservation["group"], reservation["versions"][0]["name"]) == (names.GROUP, names.VERSION)
    ours = {"kind": names.RESERVATION_KIND, "plural": names.RESERVATION_PLURAL}
    assert reservation["names"].items() >= ours.items()
    history = pick(rendered, "CustomResourceDefinition", "ganghistories")["spec"]
    assert (history["group"], history["versions"][0]["name"]) == (names.GROUP, names.VERSION)
    assert history["names"].items() >= {"kind": names.HISTORY_KIND, "plural": names.HISTORY_PLURAL}.items()
    policy = pick(rendered, "MutatingAdmissionPolicy")["spec"]
    assert policy["matchConstraints"]["objectSelector"]["matchExpressions"] == [
        {"key": names.GANG, "operator": "Exists"}
    ]
    change = policy["mutations"][0]["applyConfiguration"]["expression"]
    assert f'schedulerName: "{names.SCHEDULER}"' in change
    assert f'schedulingGates{{name: "{names.GATE}"}}' in change


def test_servers_before_1_36_are_sent_nothing_that_they_do_not_know(rendered: list[Object], tmp_path: Path) -> None:
    """With the component the policies that mutate are gone, and a webhook and a policy that refuses are there."""
    there = {(thing["kind"], thing["metadata"]["name"]) for thing in render_own(tmp_path / "own", "before-1.36")}
    before = {(thing["kind"], thing["metadata"]["name"]) for thing in rendered}
    assert {kind for kind, _ in before - there} == {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    refusing = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert there - before == {
        *((kind, "arnold-gang-gate") for kind in refusing),
        ("MutatingWebhookConfiguration", "arnold-gang"),
        ("NetworkPolicy", "arnold-extender-webhook"),
        ("ClusterRole", "arnold-certificates"),
        ("ClusterRoleBinding", "arnold-certificates"),
    }
    assert not any(kind.startswith("MutatingAdmission") for kind, _ in there)


def test_scheduler_asks_the_extender_about_all_nodes(rendered: list[Object]) -> None:
    """The scheduler sends whole lists, over TLS that both sides verify, and places nothing without an answer."""
    found = configuration(rendered)
    assert found["profiles"] == [{"schedulerName": names.SCHEDULER}]
    # A sample of the nodes may lack the planned one.
    assert found["percentageOfNodesToScore"] == 100
    (extender,) = found["extenders"]
    service = pick(rendered, "Service", "arnold-extender")["metadata"]
    assert extender["urlPrefix"] == f"https://{service['name']}.{service['namespace']}.svc"
    wanted = {"filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True, "ignorable": False}
    assert extender.items() >= wanted.items()
    # It would name resources of containers, and so leave out pods that claim their GPUs.
    assert "managedResources" not in extender
    assert extender["enableHTTPS"] is True
    assert {"caFile", "certFile", "keyFile"} == set(extender["tlsConfig"])
    # Neither places nor binds: an extender that scores or binds would have to remember.
    assert {"prioritizeVerb", "bindVerb"}.isdisjoint(extender)


def test_our_own_pods_do_not_need_us(overlay: list[Object]) -> None:
    """No pod of ours names our scheduler, is in a gang or asks for GPUs: a cluster starts with Arnold down."""
    makers = [thing for thing in overlay if thing["kind"] in ("Deployment", "Job")]
    assert {thing["metadata"]["name"] for thing in makers} >= set(WORKLOADS)
    for thing in makers:
        template = pod_template(thing)
        assert "schedulerName" not in template["spec"]
        assert "schedulingGates" not in template["spec"]
        assert names.GANG not in template["metadata"]["labels"]
        assert all({*GPUS}.isdisjoint(container["resources"]["limits"]) for container in template["spec"]["containers"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_two_replicas_survive_a_drain(rendered: list[Object], name: str) -> None:
    """Two replicas, of which a drain takes one at a time, or the only one; a probe for each state."""
    deployment = pick(rendered, "Deployment", name)
    assert deployment["spec"]["replicas"] == 2
    labels = pod_template(deployment)["metadata"]["labels"]
    budget = pick(rendered, "PodDisruptionBudget", name)["spec"]
    assert (budget["maxUnavailable"], "minAvailable" in budget) == (1, False)
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    (container,) = pod_template(deployment)["spec"]["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)


def test_extender_is_probed_where_it_answers(rendered: list[Object]) -> None:
    """Alive by /healthz, ready by /readyz, which waits for the cache."""
    (container,) = pod_template(pick(rendered, "Deployment", "arnold-extender"))["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_pods_write_nowhere_but_to_scratch(overlay: list[Object]) -> None:
    """Root file systems are read-only; what the restricted pod security standard wants is tested by the API server."""
    for thing in overlay:
        if thing["kind"] in ("Deployment", "Job"):
            spec = pod_template(thing)["spec"]
            assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in spec["containers"])
            assert {kind for volume in spec["volumes"] for kind in volume} <= {
                "name",
                "secret",
                "configMap",
                "emptyDir",
            }


def test_secrets_that_pods_wait_for_are_brought(overlay: list[Object]) -> None:
    """Each overlay makes the two Secrets with the names that the pods mount."""
    mounted = {
        volume["secret"]["secretName"]
        for thing in overlay
        if thing["kind"] == "Deployment"
        for volume in pod_template(thing)["spec"]["volumes"]
        if "secret" in volume
    }
    made = {thing["metadata"]["name"] for thing in overlay if thing["kind"] == "Secret"}
    made |= {thing["spec"]["secretName"] for thing in overlay if thing["kind"] == "Certificate"}
    assert mounted == {"arnold-extender-tls", "arnold-scheduler-tls"}
    assert mounted <= made


def test_rules_name_objects_as_they_are_called(overlay: list[Object]) -> None:
    """No hash of a generated ConfigMap gets into the names of an RBAC rule, as kustomize does where names are equal."""
    named = {
        name
        for thing in overlay
        if thing["kind"] in ("Role", "ClusterRole")
        for rule in thing["rules"]
        for name in rule.get("resourceNames", ())
    }
    known = {"arnold-extender", "arnold-scheduler", "arnold-extender-tls", "arnold-scheduler-tls"}
    assert {"arnold-extender", "arnold-scheduler"} <= named <= known


def test_nothing_of_ours_is_outside_our_namespace(overlay: list[Object]) -> None:
    """Of what lives in namespaces, only the right to read how the API server authenticates lies elsewhere."""
    elsewhere = {
        (thing["kind"], thing["metadata"]["namespace"])
        for thing in overlay
        if thing["metadata"].get("namespace", SYSTEM) != SYSTEM
    }
    assert elsewhere == {("RoleBinding", "kube-system")}


def test_a_users_own_kustomization(tmp_path: Path, rendered: list[Object]) -> None:
    """Images and levels are named in one file, as kubernetes.md of the docs says, and reach the pods."""
    page = (MANIFESTS.parent / "docs" / "reference" / "kubernetes.md").read_text(encoding="utf-8")
    block = next(text for text in page.split("```") if text.startswith("yaml\n# kustomization.yaml"))
    own = yaml.safe_load(block.removeprefix("yaml\n"))
    (tmp_path / "arnold").symlink_to(MANIFESTS.parent)
    (tmp_path / "cluster").mkdir()
    own["resources"] = ["../arnold/manifests"]
    (tmp_path / "cluster" / "kustomization.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    objects = render(tmp_path / "cluster")
    images = {image["name"]: image for image in own["images"]}
    for kind, name, image in (
        ("Deployment", "arnold-extender", images["arnold"]),
        ("Deployment", "arnold-scheduler", images["kube-scheduler"]),
        ("Job", "arnold-certificates", images["arnold"]),
    ):
        (container,) = pod_template(pick(objects, kind, name))["spec"]["containers"]
        assert container["image"] == f"{image['newName']}:{image['newTag']}"
    (literal,) = own["configMapGenerator"][0]["literals"]
    assert literal == f"levels={pick(objects, 'ConfigMap', 'arnold-extender-settings')['data']['levels']}"
    # A changed setting has another name, so that the Deployment rolls.
    old, new = (pick(each, "ConfigMap", "arnold-extender-settings")["metadata"]["name"] for each in (rendered, objects))
    assert old != new


@pytest.mark.parametrize("file", ["jobset.yaml", "indexed-job.yaml", "pytorchjob.yaml"])
def test_examples_of_gangs_agree_with_themselves(file: str) -> None:
    """Size, parallelism, number of pods and what torchrun is told say the same, and ranks are the controller's."""
    from extender.gangs.annotations import parse_parallelism

    maker = read(f"examples/{file}")[-1]
    templates, pods = _templates(maker)
    assert pods == 96
    for template in templates:
        annotations = template["metadata"]["annotations"]
        parallelism = parse_parallelism(annotations[names.PARALLELISM])
        (container,) = template["spec"]["containers"]
        assert int(annotations[names.GANG_SIZE]) == pods
        assert parallelism.gpus == pods * container["resources"]["limits"][GPUS[0]]
        (script,) = container["args"]
        assert "--rdzv-backend=static" in script
        assert "--nnodes=96" in script or "--nnodes=$PET_NNODES" in script
        assert f"--tensor-model-parallel-size {parallelism.tp} " in script
        assert script.endswith(f"--pipeline-model-parallel-size {parallelism.pp}")
        # The policy adds both: an example shows what a user must write, and no more.
        assert {"schedulerName", "schedulingGates"}.isdisjoint(template["spec"])


def _templates(maker: Object) -> tuple[list[Object], int]:
    """Pod templates of a job of any kind, and how many pods it makes."""
    spec = maker["spec"]
    if maker["kind"] == "PyTorchJob":
        replicas = spec["pytorchReplicaSpecs"].values()
        return [one["template"] for one in replicas], sum(one["replicas"] for one in replicas)
    if maker["kind"] == "JobSet":
        (workers,) = spec["replicatedJobs"]
        inner = workers["template"]["spec"]
        return [inner["template"]], workers["replicas"] * inner["completions"]
    return [spec["template"]], spec["completions"]
