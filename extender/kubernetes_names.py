"""The contract with the writers of pods: names of labels, annotations, gate and resources.

Users write these names into their manifests; a change here breaks them.
"""

from __future__ import annotations

GROUP = "arnold.dev"
"""API group and prefix of all labels and annotations."""

SCHEDULER = "arnold"
"""``schedulerName`` of every pod that is ours."""

GATE = f"{GROUP}/gang"
"""Scheduling gate that holds a member until its gang has a plan."""

GANG = f"{GROUP}/gang"
"""Label: name of the gang, unique in its namespace."""

RANK = f"{GROUP}/rank"
"""Label: node rank of the pod, unless its controller numbers it."""

PLANNED = f"{GROUP}/Planned"
"""Condition of a member that came without the gate: it has a node, which is told to it alone."""

GANG_SIZE = f"{GROUP}/gang-size"
"""Annotation: number of pods of the gang."""

PARALLELISM = f"{GROUP}/parallelism"
"""Annotation: degrees, ``tp=8,pp=8,dp=12``."""

ALPHA = f"{GROUP}/alpha"
"""Annotation: DP affinity between 0 and 1."""

LEVEL = f"{GROUP}/level"
"""Annotation: node label whose domains spread counts."""

AVOID = f"{GROUP}/avoid"
"""Annotation: ``strict``, ``price`` or ``ignore``, what to do about slow nodes."""

EXPECTED_DURATION = f"{GROUP}/expected-duration"
"""Annotation: how long the pod will hardly run, ``36h``, ``1h30m`` or seconds; a hint to queue policies."""

PREEMPTIBLE = f"{GROUP}/preemptible"
"""Annotation: ``true`` = may be stopped for a large job that was announced, and queued again."""

VERSION = "v1alpha1"
"""Version of our resources."""

KIND = "GangPlan"
PLURAL = "gangplans"

RESERVATION_KIND = "CapacityReservation"
RESERVATION_PLURAL = "capacityreservations"
