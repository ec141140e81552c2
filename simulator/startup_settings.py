"""What a gang needs before it works, in sizes and bandwidths: the file of ``--startup`` (docs: start-up.md).

How long each stage takes on a real cluster is not published, so that nothing here but the switches has a default.
"""

from typing import Annotated, Literal

from annotated_types import Interval

from ground.records import FiniteFloat, JsonRecord

Amount = Annotated[FiniteFloat, Interval(ge=0, le=1e9)]  # GB or seconds

Rate = Annotated[FiniteFloat, Interval(ge=1e-6, le=1e9)]  # GB a second

Stripes = Annotated[int, Interval(ge=1, le=1_000_000)]


class ImageStage(JsonRecord):
    """The container image, which nodes keep, and the ways it comes by; snapshots of environments come the same ways."""

    size_gb: Amount
    """GB of each image."""
    cache_gb: Amount
    """GB that a node keeps; what was used longest ago goes first."""
    node_gb_per_second: Rate
    """GB/s that a node takes at most."""
    store_gb_per_second: Rate
    """GB/s of the registry, shared by all nodes that pull."""
    hot_share: Annotated[FiniteFloat, Interval(gt=0, le=1)]
    """Share of the image that a start reads."""
    peer_gb_per_second: Amount = 0.0
    """GB/s that each node gets from nodes that have it, besides."""
    shared_gb: Amount = 0.0
    """GB of the layers that all images have."""
    of: Literal["job", "user", "queue", "group"] = "user"
    """What the jobs with one image, and one environment, have in common."""

    def __post_init__(self) -> None:
        if self.shared_gb > self.size_gb:
            raise ValueError(f"shared_gb is {self.shared_gb:g}, more than the whole image, {self.size_gb:g}")


class EnvironmentStage(JsonRecord):
    """What is installed into the running container: lognormal on each node, or unpacked from a snapshot."""

    median_seconds: Amount
    """Median time of installing it on a node, seconds."""
    sigma: Annotated[FiniteFloat, Interval(ge=0, le=5)]
    """Standard deviation of the logarithm: how far stragglers lie."""
    snapshot_gb: Amount
    """GB that a node pulls instead, once it is saved."""


class CheckpointStage(JsonRecord):
    """The checkpoint that each start reads."""

    gb_per_gpu: Amount
    """Size of the checkpoint over GPUs of the job, GB."""
    node_gb_per_second: Rate
    """GB/s that a node reads at most."""
    stripe_gb_per_second: Rate
    """GB/s of one stripe of a file."""
    stripes: Stripes
    """Stripes that are read at once."""
    stripes_if_striped: Stripes
    """Stripes that are read at once with striped reads."""

    def seconds(self, *, gpus: float, nodes: int, striped: bool) -> float:
        """Return how long a gang reads."""
        stripes = self.stripes_if_striped if striped else self.stripes
        return self.gb_per_gpu * gpus / min(nodes * self.node_gb_per_second, stripes * self.stripe_gb_per_second)


class Techniques(JsonRecord, kw_only=True):
    """What shortens a start-up, the three answers of Bootseer."""

    prefetch: bool = False
    """Whether a start waits for the hot blocks of the image alone, once a start has recorded which these are."""
    snapshots: bool = False
    """Whether a snapshot of the environment is pulled, once a start with the same image has installed it."""
    striped_reads: bool = False
    """Whether checkpoints are read in `stripes_if_striped` stripes."""


class StartUpSettings(Techniques, kw_only=True):
    """The whole file, with the techniques that are in use."""

    fixed_seconds: Amount
    """Seconds that nothing here shortens: pods, processes, first connections."""
    image: ImageStage
    """The container image."""
    environment: EnvironmentStage
    """What is installed into the running container."""
    checkpoint: CheckpointStage
    """What each start reads."""
