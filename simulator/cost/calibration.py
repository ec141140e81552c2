"""Every number that the models are calibrated on, with its source; and the sentences that several models assume.

Those of the network are of the Arnold paper's characterisation (arXiv 2509.15940, section 4: NCCL tests, and the share
of communication in production steps) or, where that is silent, of a source that is named.  None is of its evaluation:
the gains of its placements in production are what the models are to predict.
"""

from dataclasses import dataclass

PEAK = {"A100": 312e12, "H100": 989e12, "H800": 989e12, "L20": 119.5e12}
"""Type of GPU -> floating-point operations a second, dense bf16 (NVIDIA's data sheets); others are taken as an H800."""

MICROBATCHES_A_STAGE = 4
"""Microbatches of a step for each pipeline stage where neither job nor model says: from there on the idle slots were
found negligible (Huang et al., "GPipe", NeurIPS 2019)."""


@dataclass(frozen=True, slots=True)
class LossCurve:
    """What communication of a kind loses of its bandwidth over minipods: evenly more with each, up to the whole."""

    whole: float  # share lost from full_from minipods on
    full_from: int

    def at(self, minipods: int) -> float:
        """Return l, the share of the bandwidth that is lost over so many minipods."""
        return self.whole * min(minipods - 1, self.full_from - 1) / (self.full_from - 1)

    def extra_time(self, minipods: int) -> float:
        """Return lambda, by what share the communication takes longer than inside one: ``1 / (1 - l) - 1``."""
        return 1.0 / (1.0 - self.at(minipods)) - 1.0

    def of_two(self, minipods: int) -> float:
        """Return the time that is added over so many minipods, in units of that over two."""
        return self.extra_time(minipods) / self.extra_time(2)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Figures of the characterisation, and what had to be read into them."""

    # of a step without spread that is not compute.  Published: 30 to 50 % of a production step; the middle.  What the
    # formula of the step does not find between the nodes is inside them, or waiting, and the same wherever a job lies
    communication_share: float = 0.40
    # share of its bus bandwidth a collective loses between minipods.  Published: up to 17 %
    collective_loss: float = 0.17
    send_recv_loss: float = 0.70  # the same for send-recv.  Published: up to 70 %
    # minipods from which on the whole loss is felt, growing evenly from none at 1.  Published: 2 to 6 minipods were
    # measured and the loss is "up to"; read as reached at 6, and not exceeded beyond
    full_loss_from: int = 6
    collective_saturation: float = 256e6  # bytes from which on a collective has its full bandwidth.  Published: 256 MB
    send_recv_saturation: float = 2e6  # the same for send-recv.  Published: about 2 MB
    saturated: float = 0.95  # share of the full bandwidth that counts as saturated; ours
    # share of a reduction that hides behind the pass of its microbatch, as far as that is long enough; ours: all
    overlap: float = 1.0
    # size of a gradient relative to its weight, 4 bytes to 2: the paper's trace of 9,600 GPUs reduces in fp32
    gradient_width: float = 2.0
    # share of the transfers between stages that compute waits for.  All: Megatron's scatter/gather, which divides their
    # bytes by 8, made 175B 11 % faster (SC'21, section 5.7), and no other share explains that
    transfer_exposure: float = 1.0
    # layers of one chunk of the interleaved schedule: 12 of a stage in 6 chunks (MegaScale 175B, NSDI'24)
    layers_a_chunk: float = 2.0
    # of its peak that a GPU computes at between waits.  Ours: between Llama 3's 43 % of steps with idle slots, 46 %
    # without, and what fits the step of Korthikanti et al.'s 175B, 54 %
    efficiency: float = 0.5
    uplinks: int = 32  # of a switch, each as fast as one of its GPUs.  Published: 32 ports up and 32 down
    # sub-flows of a GPU that are hashed by themselves: one queue pair of a send, channels of a collective (NCCL); ours
    send_recv_flows: float = 1
    collective_flows: float = 16

    @property
    def collective_curve(self) -> LossCurve:
        """The loss of collectives by minipods."""
        return LossCurve(self.collective_loss, self.full_loss_from)

    @property
    def send_recv_curve(self) -> LossCurve:
        """The loss of send-recv by minipods."""
        return LossCurve(self.send_recv_loss, self.full_loss_from)

    def speed(self, gpu: str | None) -> float:
        """Return floating-point operations a second of a GPU while it computes."""
        return self.efficiency * PEAK.get((gpu or "").upper(), PEAK["H800"])

    @property
    def spread_cost(self) -> float:
        """Share of the step that one more minipod costs: what collectives lose for each, of communication; 1.64 %."""
        collective_stretch = 1.0 / (1.0 - self.collective_loss)
        return self.communication_share * (collective_stretch - 1.0) / (self.full_loss_from - 1)

    @property
    def compute_assumptions(self) -> tuple[str, ...]:
        """What every model assumes."""
        return (
            f"Without spread, {self.communication_share:.0%} of the step is not compute; on one node all of it is.",
            "The slowest node stretches compute, by the same factor in every model, and nothing else.",
        )

    @property
    def volume_assumptions(self) -> tuple[str, ...]:
        """What every model assumes that knows volumes."""
        return (
            *self.compute_assumptions,
            "What transfers between nodes do not take of that is the same wherever the job lies.",
            f"A GPU computes at {self.efficiency:.0%} of its peak, an H800's where its type is not known; "
            f"{self.layers_a_chunk:g} layers of a stage are one chunk of the interleaved schedule.",
            f"{self.overlap:.0%} of the reduction of gradients hides behind the backward pass of a microbatch, of the "
            f"gathering of weights behind a forward pass, while these last; {self.transfer_exposure:.0%} of the "
            "transfers between stages is waited for, and all of those between experts.",
            "Context parallel traffic is not counted.",
            "A job that does not say what it trains sends what a 7B model sends, in "
            f"{MICROBATCHES_A_STAGE} microbatches for each pipeline stage unless it says how many.",
            "The slowest DP group and the slowest PP group set the pace.",
        )


PUBLISHED = Calibration()
