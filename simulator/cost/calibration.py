"""Every number that the models are calibrated on, with its source; and the sentences that several models assume.

All are of the Arnold paper's characterisation (arXiv 2509.15940, section 4: NCCL tests, and the share of communication
in production steps) or, where that is silent, of a source that is named.  None is of its evaluation: the gains of its
placements in production are what the models are to predict.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    # of a step without spread.  Published: 30 to 50 % of a production step; the middle. Read as the time in which the
    # network between nodes is busy, hidden behind compute or not
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
    # share of the reduction of gradients that is hidden behind compute; ours: none, as nothing is said
    overlap: float = 0.0

    @property
    def collective_curve(self) -> LossCurve:
        """The loss of collectives by minipods."""
        return LossCurve(self.collective_loss, self.full_loss_from)

    @property
    def send_recv_curve(self) -> LossCurve:
        """The loss of send-recv by minipods."""
        return LossCurve(self.send_recv_loss, self.full_loss_from)

    @property
    def send_recv_stretch(self) -> float:
        """By what send-recv takes longer, 3.33; every node sends at once, so this is the oversubscription."""
        return 1.0 / (1.0 - self.send_recv_loss)

    @property
    def spread_cost(self) -> float:
        """Share of the step that one more minipod costs: what collectives lose for each, of communication; 1.64 %."""
        collective_stretch = 1.0 / (1.0 - self.collective_loss)
        return self.communication_share * (collective_stretch - 1.0) / (self.full_loss_from - 1)

    @property
    def compute_assumptions(self) -> tuple[str, ...]:
        """What every model assumes."""
        return (
            f"Without spread, communication between nodes is {self.communication_share:.0%} of the step; compute is "
            f"what is left, and all of it on one node.",
            "The slowest node stretches compute, by the same factor in every model, and nothing else.",
        )

    @property
    def volume_assumptions(self) -> tuple[str, ...]:
        """What every model assumes that knows volumes."""
        # here: an option's default is made of these figures, and its help imports no numpy
        from simulator.cost.types import MICROBATCHES_A_STAGE

        hidden = f"{self.overlap:.0%}" if self.overlap else "Nothing"
        return (
            *self.compute_assumptions,
            "Of the network only the proportions matter.",
            "Gradients are reduced once a step, activations sent for each microbatch; expert and context parallel "
            "traffic is not counted.",
            "A job that does not say what it trains sends what a 7B model sends, in "
            f"{MICROBATCHES_A_STAGE} microbatches for each pipeline stage unless it says how many.",
            f"{hidden} of the reduction of gradients is hidden behind compute.",
            "The slowest DP group and the slowest PP group set the pace.",
        )


PUBLISHED = Calibration()
