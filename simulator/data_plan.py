"""The file of ``--data``: data sets, how fast they are loaded, and the caches of the cluster (docs: shared-data.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose, isfinite
from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval

from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import Source
from ground.records import FiniteFloat, JsonRecord, Share
from scheduler.job import DataSet
from simulator.job_record import JobRecord

if TYPE_CHECKING:
    from topology.cluster import Cluster

IN_CACHE = ("augmented", "decoded", "encoded")  # Forms in which a cache holds samples
NODE = "node"  # The level of caches of which each node has one

Amount = Annotated[FiniteFloat, Interval(gt=0, le=1e18)]


class StoredData(JsonRecord):
    """A data set."""

    samples: Amount
    """Samples in all."""
    encoded_bytes: Amount
    """Bytes of a sample as it is stored."""
    prepared_bytes: Amount
    """Bytes of a decoded or augmented sample."""
    demand: Amount
    """Samples a second that each node of a job consumes at the pace of the trace."""
    augmented: Amount
    """Samples a second that a node makes ready of those that the cache has augmented."""
    decoded: Amount
    """Samples a second that a node makes ready of those that the cache has decoded."""
    encoded: Amount
    """Samples a second that a node makes ready of those that the cache has as they are stored."""
    miss: Amount
    """Samples a second that a node makes ready of those that come from storage."""


class DataCache(JsonRecord):
    """The caches: one in each domain of a level."""

    bytes: Amount
    """Size of each cache, bytes."""
    level: str = NODE
    """A level or second hierarchy of the cluster; node = each node has its own."""
    augmented: Share = 0.0
    """Share of the cache for augmented samples; the three add up to 1."""
    decoded: Share = 0.0
    """Share for decoded ones."""
    encoded: Share = 1.0
    """Share for encoded ones."""
    shared: bool = True
    """Whether jobs share what is cached; false = each keeps its own copy of what it reads."""

    def __post_init__(self) -> None:
        if not isclose(total := sum(self.shares_by_form), 1.0):
            raise ValueError(f"augmented, decoded and encoded are shares of the cache; they add up to {total:g}, not 1")

    @property
    def shares_by_form(self) -> tuple[float, ...]:
        """Shares of the cache by form."""
        return self.augmented, self.decoded, self.encoded


class DataPlan(JsonRecord):
    """The whole file."""

    data_sets: Mapping[str, StoredData]
    """Name -> data set."""
    cache: DataCache
    """The caches of the cluster."""

    @property
    def whole(self) -> dict[str, float]:
        """Samples of each data set."""
        return {name: data_set.samples for name, data_set in self.data_sets.items()}

    def read_by(self, record: JobRecord) -> tuple[DataSet, ...]:
        """Return what a job reads, in samples: all of a data set where it does not say how much."""
        return tuple(DataSet(name, min(size, self.data_sets[name].samples)) for name, size in record.data_sets)


def read_data(source: Source, records: Sequence[JobRecord], cluster: Cluster) -> DataPlan:
    """Read the file of ``--data`` for the jobs of a trace.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values, and says the line; or no job names data.
    :raises UnknownName: a job names a data set that the file has not, or caches have a level that the cluster has not.
    """
    # not at the top: the help of commands needs no YAML
    from ground.documents import load_document

    document = load_document(source)
    plan, where = document.parse(DataPlan), document.where("data_sets")
    if plan.cache.level != NODE:
        cluster.level(plan.cache.level, where=document.where("cache", "level"))
    names = dict.fromkeys(data_set.name for record in records for data_set in record.data_sets)
    if unknown := [name for name in names if name not in plan.data_sets]:
        fix = f"{did_you_mean(unknown[0], plan.data_sets)}add it, or name one of: {', '.join(plan.data_sets)}"
        problem = f"a job of the trace reads {unknown[0][:60]!r}, which is no data set here"
        raise UnknownName(problem, where=where, fix=fix)
    for name, size in (data_set for record in records for data_set in record.data_sets):
        if isfinite(size) and size > plan.data_sets[name].samples:
            message = f"a job of the trace reads {size:,.0f} samples of {name!r}, more than there are"
            fix = "correct one of the two"
            raise InvalidInput(message, where=document.where("data_sets", name, "samples"), fix=fix)
    if not names:
        fix = "give the trace a column data_sets, such as imagenet or imagenet:10000"
        raise InvalidInput("no job of the trace names its data", where=where, fix=fix)
    return plan
