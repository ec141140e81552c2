"""A control plane of etcd and API server, RBAC on, with Arnold's manifests applied.

The tests of this folder share it, in one worker.  They are skipped, with the reason, where neither KUBEBUILDER_ASSETS
nor a Go toolchain provides the programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

import pytest

from tests.e2e.harness.client import ApiError, Object
from tests.e2e.harness.nodes import node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.programs import Unavailable, find_programs, module_folder
from tests.e2e.harness.waiting import wait_until
from tests.manifests.accounts import Accounts
from tests.manifests.rendering import SYSTEM, kustomize, read, render

NODE = "node-0"
"""The one node there is: Ready, eight GPUs."""
STRICT = "&fieldValidation=Strict"
"""A field that the API does not know is an error, not dropped."""

ADMISSION = "admissionregistration.k8s.io"

FOREIGN = (
    ("github.com/cert-manager/cert-manager", "v1.21.2", "deploy/crds/cert-manager.io_issuers.yaml"),
    ("github.com/cert-manager/cert-manager", "v1.21.2", "deploy/crds/cert-manager.io_certificates.yaml"),
    ("sigs.k8s.io/jobset", "v0.12.0", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    ("github.com/kubeflow/training-operator", "v1.8.1", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
)
"""Resource definitions of others: Go module, version, file."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the tests of this folder in one worker, so that they start one control plane."""
    item.add_marker(pytest.mark.xdist_group("manifests"))


@pytest.fixture(scope="session")
def rendered() -> list[Object]:
    """The manifests as ``kubectl apply -k manifests`` sends them."""
    try:
        kustomize()
    except Unavailable as reason:
        pytest.skip(f"nothing renders kustomizations here, neither kustomize nor kubectl, and {reason}")
    return render("")


@pytest.fixture(scope="session")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of etcd and API server."""
    try:
        programs = find_programs(lambda message: print(message, file=sys.stderr))
    except Unavailable as reason:
        pytest.skip(str(reason))
    plane = ControlPlane(programs, tmp_path_factory.mktemp("manifests") / "plane")
    try:
        plane.etcd.start(wait=False)
        plane.api_server.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def plane(bare_plane: ControlPlane, rendered: list[Object]) -> ControlPlane:
    """The control plane with everything of ``manifests`` applied."""
    for thing in rendered:
        bare_plane.admin.apply(thing, query=STRICT)
    bare_plane.admin.create(node(NODE))
    wait_for_policies(bare_plane)
    return bare_plane


@pytest.fixture(scope="session")
def accounts(plane: ControlPlane) -> Accounts:
    """Clients with the own tokens of service accounts, made once for each."""
    return cache(lambda name: plane.service_account_client(name, SYSTEM))


@pytest.fixture(scope="session")
def foreign(plane: ControlPlane) -> ControlPlane:
    """The same with the resource definitions of cert-manager, JobSet and the Kubeflow training operator."""
    try:
        files = [module_folder(module, version) / file for module, version, file in FOREIGN]
    except Unavailable as reason:
        pytest.skip(f"the resource definitions of others cannot be had: {reason}")
    plane.define(definition for file in files for definition in read(file))
    return plane


def wait_for_policies(plane: ControlPlane) -> None:
    """Wait until the API server heeds every policy that was applied before.

    It takes policies and bindings up later, each in the order in which they were written: when the last of both is
    heeded, all are.  The last mutating policy is the gate's; a validating one is written here and taken away again.
    """
    name = "heeded-up-to-here"
    where = "api/v1/namespaces/default/{}?dryRun=All"
    member = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "default", "labels": {"arnold.dev/gang": "probe"}},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    }
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {
        "matchConstraints": {"resourceRules": [{**rule, "resourceNames": [name]}]},
        "validations": [{"expression": "false", "message": name}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        written = {"apiVersion": f"{ADMISSION}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        plane.admin.apply(written, query=STRICT)

    def heeded() -> bool:
        if "schedulingGates" not in plane.admin.request("POST", where.format("pods"), member)["spec"]:
            return False
        try:
            plane.admin.request("POST", where.format("configmaps"), configuration)
        except ApiError as refusal:
            return name in str(refusal)
        return False

    wait_until(heeded, "the policies to be heeded")
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        plane.admin.request("DELETE", f"apis/{ADMISSION}/v1/{plural}/{name}")
