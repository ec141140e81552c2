"""Record the pods that real controllers make for a gang of two roles, each behind Arnold's gate.

    python -m tests.e2e.record_forms [NAME ...]

writes one JSON file for each form into ``tests/extender/forms``: who made it, the pods and their makers, without what
says nothing of a gang.  Record again when a controller's version changes; names, UIDs and times differ between two
runs, nothing else should.  A controller is built from its module, unless a program of its name is on the PATH.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.harness import peers
from tests.e2e.harness.client import Object, home_of
from tests.e2e.harness.nodes import namespace
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import GATE, container
from tests.e2e.harness.process import Process
from tests.e2e.harness.programs import find_programs, from_folder, from_module, module_folder
from tests.e2e.harness.waiting import wait_until
from tests.ports import free_port

FORMS = Path(__file__).parents[1] / "extender" / "forms"
SPACE = "team"
MPI = ("github.com/kubeflow/mpi-operator", "cmd/mpi-operator", "v0.8.0", "manifests/base/kubeflow.org_mpijobs.yaml")
RAY = ("github.com/ray-project/kuberay/ray-operator", "", "v1.6.0", "config/crd/bases")
TRAINER = ("github.com/kubeflow/trainer/v2", "cmd/trainer-controller-manager", "v2.2.0", "manifests/base/crds")
RAY_BEFORE = (*RAY[:2], "v1.5.0", RAY[3])
KUBEFLOW = ("github.com/kubeflow/training-operator", "cmd/training-operator.v1", "v1.9.3", "manifests/base/crds")


def template(gpus: int, *, size: int | None = None, name: str = "train", **more: Any) -> Object:
    """A template of pods: with GPUs behind Arnold's gate, without left to the cluster's own scheduler.

    :param name: of the container, where a controller knows it by one.
    """
    ours = {"schedulerName": "arnold", "schedulingGates": [{"name": GATE}]} if gpus else {}
    notes = {} if size is None else {"arnold.dev/gang-size": str(size)}
    return {
        "metadata": {"annotations": notes},
        "spec": {**ours, **more, "containers": [{**container(gpus), "name": name}]},
    }


def of(version: str, kind: str, spec: Object) -> Object:
    """An object of the name of all recordings."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "llm", "namespace": SPACE}, "spec": spec}


def lws() -> Object:
    """A leader without GPUs, three workers."""
    pods = {"size": 4, "leaderTemplate": template(0), "workerTemplate": template(8)}
    return of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 1, "leaderWorkerTemplate": pods})


def jobset() -> Object:
    """Two kinds of jobs with GPUs, and one without."""

    def job(name: str, replicas: int, pods: int, gpus: int) -> Object:
        of_job = template(gpus, restartPolicy="Never")
        spec = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": of_job}
        return {"name": name, "replicas": replicas, "template": {"spec": spec}}

    jobs = [job("driver", 1, 1, 0), job("actors", 2, 1, 8), job("learners", 1, 2, 8)]
    return of("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def mpijob(*, works: bool) -> Object:
    """A launcher, which may be a worker itself, and two workers."""
    roles = {
        "Launcher": {"template": template(8 if works else 0, size=2 + works)},
        "Worker": {"replicas": 2, "template": template(8, size=2 + works)},
    }
    return of("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": roles, "runLauncherAsWorker": works})


def raycluster() -> Object:
    """A head without GPUs, two groups of workers, one of them with two hosts to a replica."""
    groups = [
        {"groupName": name, "replicas": 2, "minReplicas": 0, "maxReplicas": 9, "numOfHosts": hosts}
        for name, hosts in (("decode", 1), ("prefill", 2))
    ]
    workers = [{**group, "rayStartParams": {}, "template": template(8)} for group in groups]
    head = {"rayStartParams": {}, "template": template(0)}
    return of("ray.io/v1", "RayCluster", {"headGroupSpec": head, "workerGroupSpecs": workers})


def kubeflow(kind: str, framework: str, roles: Mapping[str, tuple[int, int]]) -> Object:
    """A job of the Training Operator.

    :param framework: as its fields and its container are called.
    :param roles: name -> pods, GPUs of each.
    """
    size = sum(pods for pods, gpus in roles.values() if gpus)
    specs = {
        role: {"replicas": pods, "template": template(gpus, size=size, name=framework)}
        for role, (pods, gpus) in roles.items()
    }
    return of("kubeflow.org/v1", kind, {f"{framework.replace('tensorflow', 'tf')}ReplicaSpecs": specs})


def vcjob() -> Object:
    """Two tasks with GPUs, and one without."""
    roles = {"prefill": 8, "decode": 8, "router": 0}
    tasks = [{"name": name, "replicas": 2 if gpus else 1, "template": template(gpus)} for name, gpus in roles.items()]
    spec = {"schedulerName": "arnold", "queue": "default", "minAvailable": 5, "plugins": {"svc": []}, "tasks": tasks}
    return of("batch.volcano.sh/v1alpha1", "Job", spec)


def trainjob() -> Object:
    """Two nodes of the runtime below."""
    spec = {"runtimeRef": {"name": "two-roles"}, "trainer": {"numNodes": 2}}
    return of("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)


def runtime() -> Object:
    """A runtime of the Trainer: what fetches the data has no GPUs, the nodes have."""

    def job(name: str, step: str, gpus: int) -> Object:
        of_job = template(gpus)
        of_job["spec"]["containers"][0]["name"] = name
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
        return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": of_job}}}

    jobs = [job("dataset-initializer", "dataset-initializer", 0), job("node", "trainer", 8)]
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}}
    version, labels = "trainer.kubeflow.org/v1alpha1", {"trainer.kubeflow.org/framework": "torch"}
    about = {"name": "two-roles", "labels": labels}
    return {"apiVersion": version, "kind": "ClusterTrainingRuntime", "metadata": about, "spec": spec}


@contextmanager
def by_flags(
    plane: ControlPlane,
    module: Sequence[str],
    *flags: str,
    environment: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a controller that takes flags alone, with its kinds in place.

    :param own: folder that only its container has -> the one below the plane's folder that it looks into here.
    """
    path, package, version, kinds = module
    peers.define(plane, module_folder(path, version) / kinds)
    name = f"{Path(package or path).name}-{version}"
    program = Path(shutil.which(name) or from_module("/".join(filter(None, (path, package))), version, print))
    for container_folder, folder in (own or {}).items():
        program = peers.looking_into(folder, container_folder, program, plane.folder / name)
    with started(plane, name, program, *flags, environment=environment):
        yield


@contextmanager
def started(
    plane: ControlPlane, name: str, program: Path, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a program beside the plane, as an administrator."""
    kubeconfig = str(plane.kubeconfig(name, "system:masters"))
    command = [str(program), *(flag.format(kubeconfig=kubeconfig) for flag in flags)]
    variables = {"KUBECONFIG": kubeconfig, **(environment or {})}
    log = plane.folder / f"{name}.log"
    plane.add(Process(name, command, log=log, ready=lambda: True, environment=variables, folder=plane.folder))
    try:
        yield
    finally:
        plane.remove(name)


@contextmanager
def training_operator(plane: ControlPlane) -> Iterator[None]:
    """Run the Training Operator; its webhooks, which change nothing, are not called."""
    certificates = "k8s-webhook-server/serving-certs"
    peers.serving_certificate(plane, "operator", plane.folder / certificates)
    name = {"name": "validator.training-operator.kubeflow.org"}
    webhooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    plane.admin.apply({**webhooks, "metadata": name})
    secret = {"name": "training-operator-webhook-cert", "namespace": SPACE}
    plane.admin.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    flags = ("--metrics-bind-address=0", "--health-probe-bind-address=0", f"--webhook-server-port={free_port()}")
    with by_flags(
        plane,
        KUBEFLOW,
        *flags,
        "--enable-scheme=pytorchjob",
        "--enable-scheme=tfjob",
        environment={"TMPDIR": str(plane.folder), "MY_POD_NAMESPACE": SPACE},
        own={f"/tmp/{certificates}": certificates},
    ):
        yield


ENQUEUE = 'actions: "enqueue"\ntiers: [{plugins: [{name: gang}]}]\n'


@contextmanager
def volcano(plane: ControlPlane) -> Iterator[None]:
    """Run Volcano's controllers, and its scheduler, which lets them make pods and binds none."""
    program = from_folder(peers.MODULES / "volcano", f"{peers.VOLCANO[0]}/cmd/controller-manager", print)
    name, (module, version) = "volcano-controllers", peers.VOLCANO
    peers.define(plane, module_folder(module, version) / "config/crd/jobflow/bases")
    flags = ("--kubeconfig={kubeconfig}", "--leader-elect=false")
    with peers.volcano(plane, ENQUEUE, print), started(plane, f"{name}-{version}", program, *flags):
        yield


@contextmanager
def trainer(plane: ControlPlane) -> Iterator[None]:
    """Run the Trainer and the JobSet controller, and define the runtime."""
    peers.serving_certificate(plane, "trainer", plane.folder / "k8s-webhook-server" / "serving-certs")
    off = {"bindAddress": "0"}
    health = {
        "healthProbeBindAddress": "127.0.0.1:0",
        "readinessEndpointName": "readyz",
        "livenessEndpointName": "healthz",
    }
    settings = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "certManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {**off, "secureServing": False},
        "health": health,
        "webhook": {"host": "127.0.0.1", "port": free_port()},
    }
    file = plane.folder / "trainer.configuration"
    file.write_text(json.dumps(settings), encoding="utf-8")
    with (
        peers.running(peers.JOBSET, plane, print),
        by_flags(plane, TRAINER, f"--config={file}", environment={"TMPDIR": str(plane.folder)}),
    ):
        plane.admin.create(runtime())
        yield


MPI_FLAGS = ("--kubeConfig={kubeconfig}", "--namespace=team", "--lock-namespace=team")
INDEXED = "--feature-gates=RayMultiHostIndexing=true"
RAY_FLAGS = ("--enable-leader-election=false", "--metrics-addr=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")
Runs = Callable[[ControlPlane], Any]
CASES: Mapping[str, tuple[str, Runs, Object, int]] = {
    "lws-cpu-leader": (
        "LeaderWorkerSet v0.9.0",
        lambda on: peers.running(peers.LEADER_WORKER_SET, on, print),
        lws(),
        4,
    ),
    "jobset-roles": ("JobSet v0.12.0", lambda on: peers.running(peers.JOBSET, on, print), jobset(), 5),
    "mpijob": ("MPI Operator v0.8.0", lambda on: by_flags(on, MPI, *MPI_FLAGS), mpijob(works=False), 3),
    "mpijob-launcher-works": ("MPI Operator v0.8.0", lambda on: by_flags(on, MPI, *MPI_FLAGS), mpijob(works=True), 3),
    "trainjob": ("Trainer v2.2.0 and JobSet v0.12.0", trainer, trainjob(), 3),
    "kuberay-1.6": ("KubeRay v1.6.0", lambda on: by_flags(on, RAY, *RAY_FLAGS), raycluster(), 7),
    "kuberay-1.5": ("KubeRay v1.5.0", lambda on: by_flags(on, RAY_BEFORE, *RAY_FLAGS), raycluster(), 7),
    "kuberay-1.5-indexed": (
        f"KubeRay v1.5.0 with {INDEXED}",
        lambda on: by_flags(on, RAY_BEFORE, *RAY_FLAGS, INDEXED),
        raycluster(),
        7,
    ),
    "pytorchjob": (
        "Training Operator v1.9.3",
        training_operator,
        kubeflow("PyTorchJob", "pytorch", {"Master": (1, 8), "Worker": (2, 8)}),
        3,
    ),
    "tfjob": (
        "Training Operator v1.9.3",
        training_operator,
        kubeflow("TFJob", "tensorflow", {"PS": (1, 0), "Worker": (2, 8), "Evaluator": (1, 8), "Chief": (1, 8)}),
        5,
    ),
    "volcano": ("Volcano v1.14.1", volcano, vcjob(), 5),
}
"""Name -> who makes it, what runs that, the object, its pods."""


def pods_made(plane: ControlPlane, thing: Object, count: int) -> list[Object]:
    """Create an object, wait for its pods, and return them and what made them."""
    plane.admin.create(thing)
    try:
        wait_until(lambda: len(plane.admin.all("pods", SPACE)) >= count, f"{count} pods")
    except Exception:
        print(*(log.read_text(encoding="utf-8")[-3000:] for log in plane.folder.glob("*-v*.log")), sep="\n")
        raise
    made = [{"kind": "Pod", **it} for it in plane.admin.all("pods", SPACE)]
    for resource, kind in ("jobs", "Job"), ("statefulsets", "StatefulSet"):
        made += [{"kind": kind, **it} for it in plane.admin.all(resource, SPACE)]
    if thing["kind"] in ("JobSet", "RayCluster"):
        made.append(plane.admin.request("GET", f"{home_of(thing)}/llm"))
    between = {"TrainJob": ("jobsets", "JobSet"), "Job": ("podgroups", "PodGroup")}
    if thing["kind"] in between:
        resource, kind = between[thing["kind"]]
        made += [{"kind": kind, **it} for it in plane.admin.all(resource, SPACE)]
    return made


def told(thing: Object) -> Object:
    """What of an object may say something of a gang."""
    about = ("name", "namespace", "uid", "creationTimestamp", "labels", "annotations", "ownerReferences")
    metadata = {key: thing["metadata"][key] for key in about if key in thing["metadata"]}
    metadata.get("annotations", {}).pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return {"kind": thing["kind"], "metadata": metadata, "spec": slim(thing["spec"]), "status": {}}


def slim(part: Any) -> Any:
    """Drop what says how a container starts."""
    dropped = ("env", "volumeMounts", "volumes", "command", "args", "lifecycle", "livenessProbe", "readinessProbe")
    if isinstance(part, dict):
        return {key: slim(value) for key, value in part.items() if key not in dropped}
    return [slim(one) for one in part] if isinstance(part, list) else part


def main() -> None:
    """Record all forms, or those named."""
    FORMS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ControlPlane(find_programs(print), Path(scratch) / "plane") as plane:
        plane.admin.create(namespace(SPACE))
        for name in sys.argv[1:] or CASES:
            maker, runs, thing, count = CASES[name]
            with runs(plane):
                made = [told(it) for it in pods_made(plane, thing, count)]
                plane.admin.request("DELETE", f"{home_of(thing)}/llm", {"propagationPolicy": "Background"})
                for resource in ("jobs", "statefulsets", "pods"):
                    plane.admin.delete_all(resource)
                wait_until(lambda: not plane.admin.all("pods", SPACE), "all pods to go")
            document = {"made by": maker, "objects": made}
            (FORMS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {len(made)} objects of {maker}")


if __name__ == "__main__":
    main()
