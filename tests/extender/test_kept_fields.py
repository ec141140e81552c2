"""What the cache keeps of what users write on pods, and how much room that takes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import dialect_names
from extender.gangs.annotations import ANNOTATIONS
from extender.kubernetes_names import MOST_TEXT
from extender.objects import MOST_LABELS, decode_allocation, decode_owner, decode_pod
from extender.texts import LONGEST_KEY, CutText
from tests.allocation_objects import claim_json
from tests.case_counts import ALL_CASES, examples
from tests.extender.things import pod_json

BOMB = 250_000
"""Characters of an annotation; the API server takes 256 kB of them on one object."""

PODS, MOST_MEGABYTES = (10_000, 400) if ALL_CASES else (1_000, 120)
"""Pods, and what a process may take that has them all in its cache: their annotations alone are 2,500 or 250 MB."""

FEED = """
import re, sys
from pathlib import Path
from extender.cluster_cache import ClusterCache
from extender.controller.store import Stores
from extender.objects import decode_pod

keys, bytes_, pods = ("example.com/notes", "arnold.dev/constraints", "pod-group-name"), *map(int, sys.argv[1:])
cache = ClusterCache(["example.com/rack"])
stores = Stores(cache)
box = b'{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}'
spec = b'"spec": {"schedulerName": "arnold", "containers": [' + box + b"]}"
rest = b"x" * (bytes_ - 10) + b'"}}, ' + spec + b"}"
for number in range(pods):
    meta = '{"metadata": {"name": "p-%d", "namespace": "team", "uid": "%d", "annotations": {"%s": "%010d'
    stores.pods.put(decode_pod((meta % (number, number, keys[number % 3], number)).encode() + rest))
assert len(cache.pods) == pods
# Not ru_maxrss: it begins with the memory of the process that started this one.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.many_cases
def test_pods_with_long_annotations() -> None:
    """A process that takes up pods, each with 250 kB of its own, some read and some not, stays small."""
    ran = subprocess.run([sys.executable, "-c", FEED, str(BOMB), str(PODS)], check=True, capture_output=True, text=True)
    assert int(ran.stdout) < MOST_MEGABYTES


def test_what_is_read_stays() -> None:
    """Each annotation of the contract and of peers, as it was written; and nothing else."""
    wanted = dict.fromkeys((*ANNOTATIONS.values(), *dialect_names.NAMES), "v" * LONGEST_KEY)
    wanted |= {key: "v" * most for key, most in MOST_TEXT.items()}
    wanted |= {"arnold.dev/expected-duration": "1h", "arnold.dev/preemptible": "true"}
    kept = decode_pod(pod_json("p", annotations={**wanted, "kubectl.kubernetes.io/last-applied": "x"})).annotations
    assert kept == wanted
    # Constants of other kinds are no names of labels.
    assert "leaderworkerset.sigs.k8s.io/size" in dialect_names.NAMES
    assert all("/" in name or name == "pod-group-name" for name in dialect_names.NAMES)


@examples(100)
@given(beginning=st.text(max_size=400), ends=st.lists(st.text(min_size=1, max_size=20), min_size=2, unique=True))
def test_what_is_too_long_is_as_different_as_before(beginning: str, ends: list[str]) -> None:
    """Of long texts that begin alike each stays another, and too long to be taken for one that is short enough."""
    texts = [f"{beginning}{'-' * LONGEST_KEY}{end}" for end in ends]
    kept = [
        decode_pod(pod_json("p", annotations={"pod-group-name": text})).annotations["pod-group-name"] for text in texts
    ]
    assert len(set(kept)) == len(kept)
    for one, text in zip(kept, texts, strict=True):
        assert isinstance(one, CutText)
        assert LONGEST_KEY < len(one.encode("utf-8", "replace")) < 2 * LONGEST_KEY
        assert one.size == len(text.encode("utf-8", "replace"))


def test_owners_and_labels() -> None:
    """The owner that controls a pod stays, by a name that is cut; of thousands of labels, those with a meaning do."""
    labels = {f"example.com/l{number}": "x" for number in range(5_000)} | {
        "arnold.dev/gang": "g",
        "ray.io/cluster": "r",
    }
    raw = pod_json("p", labels=labels, owner=("StatefulSet", "n" * 200_000))
    raw["metadata"]["ownerReferences"] += [{"kind": "ConfigMap", "name": "m" * 1_000, "uid": str(n)} for n in range(99)]
    pod = decode_pod(json.dumps(raw).encode())
    assert pod.owner is not None
    assert len(pod.owner.name) < 2 * LONGEST_KEY
    assert len(pod.metadata.owner_references or ()) == 1
    assert len(pod.labels) == MOST_LABELS + 2
    assert (pod.labels["arnold.dev/gang"], pod.labels["ray.io/cluster"]) == ("g", "r")


def test_claims_are_kept_without_annotations() -> None:
    """Anybody may make claims and templates; nothing reads their annotations."""
    claim = claim_json("c", "team")
    claim["metadata"]["annotations"] = {"arnold.dev/constraints": "x" * BOMB, "example.com/notes": "x" * BOMB}
    kept = decode_allocation["ResourceClaim"](json.dumps(claim).encode())
    assert (kept.metadata.annotations, kept.labels, kept.name) == (None, {}, "c")


def test_makers_of_pods_are_kept_as_shortly() -> None:
    """A Job's annotations count for its pods where these say nothing; what nothing reads goes here too."""
    meta: dict[str, Any] = {"name": "j", "uid": "u"}
    meta["annotations"] = {"example.com/notes": "x" * BOMB, "kueue.x-k8s.io/podset-required-topology": "rack"}
    assert decode_owner({"kind": "Job", "metadata": meta}).metadata.annotations == {
        "kueue.x-k8s.io/podset-required-topology": "rack"
    }
