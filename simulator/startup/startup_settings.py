"""What a gang needs before it works, in sizes and bandwidths: the file of ``--startup`` (docs/start-up.md).

How long each stage takes on a real cluster is not published, so that nothing here but the switches has a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Interval

from topology.field_types import AtLeastOne, NotNegative
from topology.files import Source

STRICT = {"extra": "forbid", "allow_inf_nan": False}

Rate = Annotated[float, Gt(0)]
"""GB a second."""


@dataclass(frozen=True, slots=True)
class ImageStage:
    """The container image, which nodes keep, and the ways it comes by; snapshots of environments come the same ways."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    size_gb: NotNegative
    cache_gb: NotNegative  # what a node keeps; what was used longest ago goes first
    node_gb_per_second: Rate  # that a node takes at most
    store_gb_per_second: Rate  # of the registry, shared by all nodes that pull
    hot_share: Annotated[float, Interval(gt=0, le=1)]  # of the image, which a start reads
    peer_gb_per_second: NotNegative = 0.0  # that each node gets from nodes that have it, besides
    shared_gb: NotNegative = 0.0  # layers that all images have
    of: Literal["job", "user", "queue", "group"] = "user"  # whose jobs have one image

    def __post_init__(self) -> None:
        if self.shared_gb > self.size_gb:
            raise ValueError(f"shared_gb is {self.shared_gb:g}, more than the whole image, {self.size_gb:g}")


@dataclass(frozen=True, slots=True)
class EnvironmentStage:
    """What is installed into the running container: lognormal on each node, or unpacked from a snapshot."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    median_seconds: NotNegative
    sigma: Annotated[float, Interval(ge=0, le=5)]  # standard deviation of the logarithm: how far stragglers lie
    snapshot_gb: NotNegative


@dataclass(frozen=True, slots=True)
class CheckpointStage:
    """The checkpoint that each start reads."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    gb_per_gpu: NotNegative
    node_gb_per_second: Rate  # that a node reads at most
    stripe_gb_per_second: Rate  # of one stripe of a file
    stripes: AtLeastOne  # that are read at once
    stripes_if_striped: AtLeastOne  # the same with striped reads

    def seconds(self, *, gpus: float, nodes: int, striped: bool) -> float:
        """Return how long a gang reads."""
        stripes = self.stripes_if_striped if striped else self.stripes
        return self.gb_per_gpu * gpus / min(nodes * self.node_gb_per_second, stripes * self.stripe_gb_per_second)


@dataclass(frozen=True, slots=True)
class Techniques:
    """What shortens a start-up, the three answers of Bootseer."""

    prefetch: bool = False  # hot blocks of the image alone, once a start has recorded which these are
    snapshots: bool = False  # of the environment, once the job has installed it
    striped_reads: bool = False  # of the checkpoint


@dataclass(frozen=True, slots=True)
class StartUpSettings:
    """The whole file."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    fixed_seconds: NotNegative  # that nothing here shortens: pods, processes, first connections
    image: ImageStage
    environment: EnvironmentStage
    checkpoint: CheckpointStage
    prefetch: bool = False
    snapshots: bool = False
    striped_reads: bool = False

    @property
    def techniques(self) -> Techniques:
        """Those that are in use."""
        return Techniques(self.prefetch, self.snapshots, self.striped_reads)


def read_startup(source: Source) -> StartUpSettings:
    """Read the file of ``--startup``.

    :raises InvalidInput: not YAML or JSON, unknown keys, impossible values; says the line.
    """
    # not at the top: the options of commands are read from this module, and their help needs no YAML
    from topology.documents import load_document

    return load_document(source).parse(StartUpSettings)
