"""The Helm chart, rendered by helm itself: the objects of the kustomization, and what its values change."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness.client import Object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.programs import Unavailable, Unfetched, from_module
from tests.facts import says
from tests.manifests.conftest import STRICT
from tests.manifests.rendering import MANIFESTS, SYSTEM, pick, pod_template, render, render_own

HELM = ("helm.sh/helm/v3/cmd/helm", "v3.22.0")
HASHED = re.compile(
    r"\b(arnold-(?:extender-settings|watch-settings|scheduler-config|certificates-script))-[a-z0-9]{10}\b|\b(arnold-certificates)-1\b"
)
"""Names to which kustomize adds a hash, so that a change rolls the Deployments (the chart has a checksum for that), and
the one to which the chart adds the number of the release.
"""

BETA = "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"
"""Of a server before 1.36 that serves mutating policies, as helm is told."""
OPTION = re.compile(r"^{{- if \.Values\.nativeGroups }}\n.*?^{{- end }}\n", re.MULTILINE | re.DOTALL)
"""What the chart has by one value alone."""
Helm = Callable[..., subprocess.CompletedProcess[str]]
Template = Callable[..., str]
Chart = Callable[..., list[Object]]


@pytest.fixture(scope="module")
def helm_for_plane(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """``helm template`` with values, for a server of a version."""
    try:
        helm = shutil.which("helm") or str(from_module(*HELM, lambda message: print(message, file=sys.stderr)))
    except (Unavailable, Unfetched) as reason:
        pytest.skip(f"helm cannot be had: {reason}")

    def run_helm(
        chart: Path = MANIFESTS / "chart", *, server: str = "1.36.3", **values: Any
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path_factory.mktemp("values") / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        command = [helm, "template", "arnold", str(chart), "-n", SYSTEM, "-f", str(file)]
        command += ["--kube-version", *server.split()]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run_helm


@pytest.fixture(scope="module")
def template_for_plane(helm_for_plane: Helm) -> Template:
    """What it prints."""

    def rendered_by_helm(*chart: Path, **values: Any) -> str:
        done = helm_for_plane(*chart, **values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return rendered_by_helm


@pytest.fixture(scope="module")
def chart_for_plane(template_for_plane: Template) -> Chart:
    """The objects that it prints."""
    return lambda **values: [thing for thing in yaml.safe_load_all(template_for_plane(**values)) if thing]


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """The objects by kind and name, without what the two tools write each in its own way."""
    plain = yaml.safe_load_all(yaml.safe_dump_all(objects))
    named = {}
    for thing in plain:
        for part in (thing, thing.get("spec", {}).get("template", {})):
            notes = part.get("metadata", {}).get("annotations", {})
            for note in ("helm.sh/resource-policy", "checksum/config"):
                notes.pop(note, None)
            if not notes:
                part.get("metadata", {}).pop("annotations", None)
        named[thing["kind"], _without_hash(thing["metadata"]["name"])] = _unfolded(thing)
    return named


def _unfolded(value: Any) -> Any:
    """A value with its texts on one line, as kustomize adds empty lines to folded ones, and names without hashes."""
    if isinstance(value, dict):
        return {key: _unfolded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_unfolded(part) for part in value]
    return _without_hash(re.sub(r"\s+", " ", value)) if isinstance(value, str) else value


def _without_hash(text: str) -> str:
    return HASHED.sub(lambda found: found[1] or found[2], text)


@pytest.mark.parametrize(
    ("values", "server", "components"),
    [
        ({}, "1.36.3", []),
        ({}, "1.33.0", ["before-1.36"]),
        (
            {"allGpuPods": True, "wholeNodePods": True},
            "1.33.0",
            ["before-1.36", "before-1.36/all-gpu-pods", "before-1.36/whole-node-pods"],
        ),
        ({"allGpuPods": True}, "1.35.0 --api-versions=" + BETA, ["all-gpu-pods", "mutating-v1beta1"]),
        ({"allGpuPods": True, "wholeNodePods": True}, "1.37.0", ["all-gpu-pods", "whole-node-pods"]),
        ({"monitoring": True}, "1.36.3", ["monitoring"]),
        ({"watch": {"enabled": True}}, "1.36.3", ["health"]),
        ({"watch": {"enabled": True, "act": True}}, "1.36.3", ["health", "health-act"]),
        ({"preemption": True}, "1.36.3", ["preemption"]),
        ({"nativeGroups": True}, "1.37.0", ["native"]),
    ],
    ids=[
        "plain",
        "before 1.36",
        "pods before 1.36",
        "beta",
        "pods",
        "monitoring",
        "health",
        "act",
        "preemption",
        "native",
    ],
)
def test_chart_is_the_kustomization(
    chart_for_plane: Chart, tmp_path: Path, values: dict[str, Any], server: str, components: list[str]
) -> None:
    """Object by object, but for the namespace, which helm makes itself."""
    by_kustomize = by_name(render_own(tmp_path / "own", *components))
    del by_kustomize["Namespace", SYSTEM]
    assert by_name(chart_for_plane(server=server, **values)) == by_kustomize


def test_without_native_groups_every_byte_is_as_if_there_were_none(
    template_for_plane: Template, tmp_path: Path
) -> None:
    """A chart from which all is cut out that the value brings is rendered the same."""
    chart = Path(shutil.copytree(MANIFESTS / "chart", tmp_path / "chart"))
    cut = [file for file in chart.glob("templates/*.yaml") if OPTION.search(file.read_text(encoding="utf-8"))]
    assert {file.name for file in cut} == {"native-rbac.yaml", "scheduler-config.yaml"}
    for file in cut:
        file.write_text(OPTION.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")
    assert not any("nativeGroups" in file.read_text(encoding="utf-8") for file in cut)
    assert template_for_plane() == template_for_plane(chart)
    assert template_for_plane(nativeGroups=True) != template_for_plane(chart)


def test_cert_manager_is_a_value(chart_for_plane: Chart) -> None:
    """Certificates of cert-manager in place of the Job that makes them."""
    by_kustomize = by_name(render("overlays/cert-manager"))
    del by_kustomize["Namespace", SYSTEM]
    assert by_name(chart_for_plane(certificates="cert-manager")) == by_kustomize


def test_values_reach_their_objects(chart_for_plane: Chart) -> None:
    """Levels, images, resources, replicas, options; pods roll when settings change, which are read at the start."""
    asked = {
        "settings": {"levels": "example.com/minipod"},
        "image": {"repository": "images.example/arnold", "tag": "9"},
        "scheduler": {"image": {"tag": 20261201}},
        "extender": {"replicas": 3, "extraArgs": ["--bind-timeout=10m"], "resources": {"limits": {"memory": "9Gi"}}},
        "priority": 7,
    }
    plain, own = chart_for_plane(), chart_for_plane(**asked)
    settings = pick(own, "ConfigMap", "arnold-extender-settings")["data"]
    assert (settings["levels"], settings["queue"]) == ("example.com/minipod", "priority-age")
    deployment = pick(own, "Deployment", "arnold-extender")
    (container,) = pod_template(deployment)["spec"]["containers"]
    assert (deployment["spec"]["replicas"], container["image"]) == (3, "images.example/arnold:9")
    (of_scheduler,) = pod_template(pick(own, "Deployment", "arnold-scheduler"))["spec"]["containers"]
    assert of_scheduler["image"] == "kube-scheduler:20261201"
    assert container["args"][-1] == "--bind-timeout=10m"
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "9Gi"}}
    assert pick(own, "PriorityClass")["value"] == 7
    assert pick(own, "Job")["spec"]["template"]["spec"]["containers"][0]["image"] == "images.example/arnold:9"
    notes = [pod_template(pick(objects, "Deployment", "arnold-extender"))["metadata"] for objects in (plain, own)]
    assert notes[0]["annotations"] != notes[1]["annotations"]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"levels": "example.com/minipod"}, "levels"),
        ({"settings": {"level": "example.com/minipod"}}, "level"),
        ({"certificates": "certmanager"}, "certificates"),
        ({"extender": {"replicas": "two"}}, "replicas"),
    ],
)
def test_a_value_that_nothing_heeds_is_refused(helm_for_plane: Helm, values: dict[str, Any], named: str) -> None:
    """A slip of the pen is told, with its name, and not installed without what was asked."""
    done = helm_for_plane(**values)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert says(done.stderr, named)


def test_a_chart_around_it_has_words_of_its_own(template_for_plane: Template) -> None:
    """What Helm hands down to each chart of another, and the usual condition by which it is one of them."""
    assert template_for_plane(**{"global": {"registry": "x"}, "enabled": True}) == template_for_plane()


def test_the_watch_reaches_a_server_on_another_port(chart_for_plane: Chart) -> None:
    """What the NetworkPolicy lets through is that of Prometheus' pods."""
    own = chart_for_plane(watch={"enabled": True, "prometheus": "http://thanos:80", "port": 10902}, image={"tag": 9})
    policy = pick(own, "NetworkPolicy", "arnold-watch")
    assert policy["spec"]["egress"][0]["ports"] == [{"protocol": "TCP", "port": 10902}]


def test_pods_of_the_watch_roll_when_its_server_is_another(chart_for_plane: Chart) -> None:
    """Every Deployment that reads a ConfigMap has its checksum; that of the scheduler is the same as before."""
    asked = [{"watch": {"enabled": True, "prometheus": f"http://{name}:9090"}} for name in ("a", "b")]
    first, second = (
        {
            thing["metadata"]["name"]: pod_template(thing)["metadata"]["annotations"]["checksum/config"]
            for thing in chart_for_plane(**values)
            if thing["kind"] == "Deployment"
        }
        for values in asked
    )
    assert first["arnold-watch"] != second["arnold-watch"]
    assert {name for name in first if first[name] == second[name]} == {"arnold-extender", "arnold-scheduler"}


def test_another_namespace_is_named_everywhere(chart_for_plane: Chart) -> None:
    """Rights, policies and certificates name the namespace of the release; none keeps the kustomization's."""
    text = "".join(file.read_text(encoding="utf-8") for file in (MANIFESTS / "chart" / "templates").iterdir())
    assert SYSTEM not in text
    assert text.count("{{ .Release.Namespace }}") > 50  # about seventy today


def test_an_api_server_takes_the_chart(plane: ControlPlane, chart_for_plane: Chart) -> None:
    """Applied over the kustomization's objects, with unknown fields refused."""
    for thing in chart_for_plane():
        plane.admin.apply(thing, query=STRICT)
