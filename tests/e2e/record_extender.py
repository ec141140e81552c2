"""Record what the real kube-scheduler sends to an extender, and what it makes of each kind of answer.

    python -m tests.e2e.record_extender

writes one JSON file for each scene into ``tests/extender/golden``: the extender's configuration, the
request as it was sent, the answer, and what became of the pod.  Record again when the version of Kubernetes in
``tests/e2e/control_plane/go.mod`` changes; names, UIDs and times differ between two runs, nothing else should.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.harness.client import Object
from tests.e2e.harness.nodes import namespace, node
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.pods import pod, priority_class
from tests.e2e.harness.programs import KUBERNETES, find_programs
from tests.e2e.harness.recorder import Message, Recorder, Reply
from tests.e2e.harness.waiting import wait_until

GOLDEN = Path(__file__).parents[1] / "extender" / "golden"
NAMESPACE = "golden"
HIGH = "high"
LABELS = {"topology.example.com/minipod": "mp1", "topology.example.com/rack": "r1"}

Answer = Callable[[Message], Reply]


def names_of(request: Message) -> list[str]:
    """The nodes that a Filter request asks about."""
    if request["NodeNames"] is not None:
        return list(request["NodeNames"])
    return [item["metadata"]["name"] for item in request["Nodes"]["items"]]


def only(*chosen: str) -> Answer:
    """Filter: these nodes pass; the others fail for good."""

    def answer(request: Message) -> Reply:
        asked = names_of(request)
        refused = {name: "not the planned node" for name in asked if name not in chosen}
        if request["NodeNames"] is not None:
            passed: Message = {"Nodes": None, "NodeNames": [name for name in asked if name in chosen]}
        else:
            items = [item for item in request["Nodes"]["items"] if item["metadata"]["name"] in chosen]
            passed = {"Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
        return 200, {**passed, "FailedNodes": {}, "FailedAndUnresolvableNodes": refused, "Error": ""}

    return answer


def refused(how: str) -> Answer:
    """Filter: all nodes fail, in one of the two ways there are."""

    def answer(request: Message) -> Reply:
        failed: Message = {"FailedNodes": {}, "FailedAndUnresolvableNodes": {}}
        return 200, {
            **failed,
            "NodeNames": [],
            "Error": "",
            how: dict.fromkeys(names_of(request), "promised to a gang"),
        }

    return answer


def fixed(status: int, document: Any) -> Answer:
    """Always the same answer."""
    return lambda _: (status, document)


def late(_: Message) -> Reply:
    """An answer that comes after the timeout of one second."""
    time.sleep(2.0)
    return 200, {"NodeNames": ["node-1"]}


def keep_all(request: Message) -> Reply:
    """Preempt: all candidates may be used; victims by UID, in whatever form they came."""
    if (meta := request["NodeNameToMetaVictims"]) is None:
        meta = {
            name: {"Pods": [{"UID": it["metadata"]["uid"]} for it in victims["Pods"]], "NumPDBViolations": 0}
            for name, victims in request["NodeNameToVictims"].items()
        }
    return 200, {"NodeNameToMetaVictims": meta}


@dataclass(frozen=True)
class Scene:
    """One thing to record.

    :param name: of the file; begins with the verb whose first request is kept.
    :param nodes: how many nodes there are.
    :param full: each of them has a tenant of low priority, which the pod may push out.
    :param cache: ``nodeCacheCapable``: the scheduler sends names instead of whole nodes.
    :param pinned: node that the pod's affinity names.
    :param bound: the pod is bound in the end.
    """

    name: str
    about: str
    filter: Answer
    preempt: Answer = keep_all
    nodes: int = 3
    full: bool = False
    cache: bool = True
    pinned: str | None = None
    bound: bool = False

    @property
    def verb(self) -> str:
        """``filter`` or ``preempt``."""
        return self.name.partition("-")[0]


FIRST = only("node-1")
ANY = only("node-1", "node-2")
ELSEWHERE = {"NodeNames": ["elsewhere"], "Error": ""}
NOBODY: Message = {"NodeNameToMetaVictims": {}}

SCENES: Sequence[Scene] = (
    Scene("filter-names", "one of three nodes passes, by name", FIRST, bound=True),
    Scene("filter-nodes", "one of two whole nodes passes", FIRST, nodes=2, cache=False, bound=True),
    Scene(
        "filter-pinned", "a pod whose affinity names a node is asked about alone", FIRST, pinned="node-1", bound=True
    ),
    Scene("filter-refused-for-good", "no node passes: no preemption", refused("FailedAndUnresolvableNodes")),
    Scene("filter-refused", "no node passes: preemption is tried", refused("FailedNodes")),
    Scene("filter-error", "an answer with an error", fixed(200, {"NodeNames": None, "Error": "the plan expired"})),
    Scene("filter-status-500", "an answer that is not 200", fixed(500, {"detail": "no"})),
    Scene("filter-nothing", "neither nodes nor names in the answer", fixed(200, {})),
    Scene("filter-unknown-node", "a node in the answer that was not asked about", fixed(200, ELSEWHERE)),
    Scene("filter-late", "an answer after the timeout", late),
    Scene("filter-nominated", "a nominated node is asked about alone", ANY, nodes=2, full=True, bound=True),
    Scene("preempt-names", "who could be pushed out, by UID", ANY, nodes=2, full=True, bound=True),
    Scene("preempt-nodes", "who could be pushed out, as pods", ANY, nodes=2, full=True, cache=False, bound=True),
    Scene("preempt-nobody", "an extender that lets nobody be pushed out", ANY, fixed(200, NOBODY), nodes=1, full=True),
)


def configuration(url: str, scene: Scene) -> Object:
    """Of a kube-scheduler that asks the recorder about every pod with GPUs."""
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "httpTimeout": "1s",
        "nodeCacheCapable": scene.cache,
        "managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}],
    }
    return {
        "profiles": [{"schedulerName": "recorded"}],
        "percentageOfNodesToScore": 100,
        "extenders": [extender],
    }


def record(plane: ControlPlane, scene: Scene) -> Object:
    """Play one scene and say what was seen."""
    plane.sweep()
    admin = plane.admin
    names = [f"node-{number + 1}" for number in range(scene.nodes)]
    admin.create_all(node(name, labels=LABELS) for name in names)
    if scene.full:
        admin.create_all(pod(f"tenant-{name}", NAMESPACE, node=name) for name in names)
    asking = pod("asking", NAMESPACE, scheduler="recorded", priority=HIGH)
    if scene.pinned:
        field = {"key": "metadata.name", "operator": "In", "values": [scene.pinned]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        asking["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    with Recorder({"filter": scene.filter, "preempt": scene.preempt}) as recorder:
        setup = configuration(recorder.url, scene)
        plane.add_scheduler("recorded", setup)
        admin.create(asking)
        exchange = wait_until(lambda: recorder.asked(scene.verb), f"a request of {scene.name}")[0]
        became = wait_until(lambda: outcome(plane, bound=scene.bound), f"a verdict in {scene.name}")
        plane.remove("recorded")
    document = {
        "about": scene.about,
        "kube_scheduler": KUBERNETES,
        "extender": setup["extenders"][0],
        "verb": scene.verb,
        "content_type": exchange.headers["Content-Type"],
        "request": exchange.body,
        "answer": {"status": exchange.status, "body": exchange.answer},
        "outcome": became,
    }
    told: Object = json.loads(json.dumps(document).replace(recorder.url, "http://127.0.0.1:8888"))
    return told


def outcome(plane: ControlPlane, *, bound: bool) -> Object | None:
    """What became of the pod: its node, or why it has none."""
    found = plane.admin.get("pods", "asking", NAMESPACE)
    if bound:
        where = found["spec"].get("nodeName")
        return {"node": where} if where else None
    conditions = {it["type"]: it for it in found["status"].get("conditions", [])}
    return {"node": None, "message": conditions["PodScheduled"]["message"]} if conditions else None


def main() -> None:
    """Record all scenes."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    programs = find_programs(lambda message: print(message, file=sys.stderr))
    with (
        tempfile.TemporaryDirectory() as scratch,
        ControlPlane(programs, Path(scratch) / "plane") as plane,
    ):
        plane.admin.create(namespace(NAMESPACE))
        plane.admin.create(priority_class(HIGH, 10))
        for scene in SCENES:
            document = record(plane, scene)
            file = GOLDEN / f"{scene.name}.json"
            file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{scene.name}: {json.dumps(document['outcome'])}")


if __name__ == "__main__":
    main()
