"""The contract with the writers of pods: names of labels, annotations, gate and resources.

Users write these names into their manifests; a change here breaks them.
"""

GROUP = "arnold.dev"  # API group and prefix of all labels and annotations
SCHEDULER = "arnold"  # schedulerName of every pod that is ours
GATE = f"{GROUP}/gang"  # scheduling gate that holds a member until its gang has a plan
PLANNED = f"{GROUP}/Planned"  # condition that tells a member without the gate that it has a node

# Labels
GANG = f"{GROUP}/gang"  # name of the gang, unique in its namespace
RANK = f"{GROUP}/rank"  # node rank of the pod, unless its controller numbers it

# Annotations
GANG_SIZE = f"{GROUP}/gang-size"  # number of pods of the gang
PARALLELISM = f"{GROUP}/parallelism"  # degrees, tp=8,pp=8,dp=12
ORDER = f"{GROUP}/order"  # dimensions from the fastest running rank to the slowest, tp-cp-ep-dp-pp
ALPHA = f"{GROUP}/alpha"  # DP affinity between 0 and 1
MODEL = f"{GROUP}/model"  # what is trained, for alpha: a name, or its shape as YAML
MICROBATCHES = f"{GROUP}/microbatches"  # of a step, for the price of slow nodes
CONSTRAINTS = f"{GROUP}/constraints"  # YAML list as in the job file
GPU_TYPES = f"{GROUP}/gpu-types"  # types of GPU that its nodes may have, H200,H100; any = may mix them
LEVEL = f"{GROUP}/level"  # node label of the domains that spread counts
TP_LEVEL = f"{GROUP}/tp-level"  # node label of the domains that hold a TP group of several nodes
AVOID = f"{GROUP}/avoid"  # strict, price or ignore: what to do about slow nodes
PEAK_WATTS = f"{GROUP}/peak-watts"  # what the pod draws at most, for caps of power domains: 10200
EXPECTED_DURATION = f"{GROUP}/expected-duration"  # how long the pod will hardly run, 36h, 1h30m or seconds: a hint
PREEMPTIBLE = f"{GROUP}/preemptible"  # true = may be stopped for a large job that was announced, and queued again

FAIR_SHARE_WEIGHT = f"{GROUP}/fair-share-weight"  # of a Namespace: its weight under the queue policy fair-share

# Characters of the texts that a parser reads, as many as the CRD lets a CapacityReservation have
MOST_TEXT = {CONSTRAINTS: 32_768, MODEL: 4_096, GPU_TYPES: 4_096}
# Annotations of pods, all of them
ANNOTATIONS_READ = (
    *(GANG_SIZE, PARALLELISM, ORDER, ALPHA, MODEL, MICROBATCHES, CONSTRAINTS, GPU_TYPES),
    *(LEVEL, TP_LEVEL, AVOID, PEAK_WATTS, EXPECTED_DURATION, PREEMPTIBLE),
)

# Our resources
VERSION = "v1alpha1"
KIND = "GangPlan"
PLURAL = "gangplans"
RESERVATION_KIND = "CapacityReservation"
RESERVATION_PLURAL = "capacityreservations"
HISTORY_KIND = "GangHistory"
HISTORY_PLURAL = "ganghistories"
HISTORY_NAME = "arnold"  # of the one object in each namespace
