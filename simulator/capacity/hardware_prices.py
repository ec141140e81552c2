"""What hardware costs: prices as options of a question, and the cost of an hour that follows."""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Interval

from ground.errors import InvalidInput

HOURS_OF_A_YEAR = 8_766.0

Price = Annotated[float | None, Interval(gt=0, le=1e9)]
MONEY = {"metavar": "MONEY"}


@dataclass(frozen=True, kw_only=True)
class NodePrices:
    """Prices of nodes in any one currency, each optional; what they do not say is told relative to a node."""

    price_gpu_hour: Price = field(default=None, metadata=MONEY)
    """Price of a GPU-hour with all costs, rented or accounted inside."""
    price_node: Price = field(default=None, metadata=MONEY)
    """Price of a node that is bought, in place of the price of a GPU-hour."""
    price_kwh: Price = field(default=None, metadata=MONEY)
    """Price of a kilowatt-hour, cooling included, for nodes that are bought."""
    node_kilowatts: Annotated[float, Interval(gt=0, le=1_000)] = field(default=10.2, metadata={"metavar": "KW"})
    """Kilowatts that a node draws; 10.2 is the maximum of a DGX H100 (NVIDIA's data sheet)."""
    years: Annotated[float, Interval(gt=0, le=30)] = field(default=4.0, metadata={"metavar": "YEARS"})
    """Years for which what is bought is used, in equal shares of its price."""

    def check_prices(self) -> None:
        """Refuse prices that say the same thing twice, or nothing.

        :raises InvalidInput: a GPU-hour's price beside a node's or energy's, energy's without a node's, or years or
            kilowatts without a price that they are for.
        """
        if self.price_gpu_hour is not None and (self.price_node is not None or self.price_kwh is not None):
            other = "--price-node" if self.price_node is not None else "--price-kwh"
            fix = "give --price-gpu-hour, or --price-node and --price-kwh"
            raise InvalidInput(f"a GPU-hour's price holds what {other} says", where=other, fix=fix)
        if self.price_kwh is not None and self.price_node is None:
            fix = "give --price-node too, or --price-gpu-hour alone"
            raise InvalidInput("energy is only a part of what a node costs", where="--price-kwh", fix=fix)
        for name, used, needs in (
            ("years", self.is_bought, "--price-node"),
            ("node_kilowatts", self.price_kwh is not None, "--price-kwh"),
        ):
            if not used and getattr(self, name) != getattr(type(self), name):
                option = f"--{name.replace('_', '-')}"
                raise InvalidInput(f"means nothing without {needs}", where=option, fix=f"add {needs}, or leave it away")

    @property
    def is_bought(self) -> bool:
        """Whether a price is of what is bought, and used for years."""
        return self.price_node is not None

    def node_hour(self, gpus: int) -> float | None:
        """Return what a node of so many GPUs costs an hour, with energy; ``None`` = no price says it."""
        if self.price_gpu_hour is not None:
            return gpus * self.price_gpu_hour
        if self.price_node is None:
            return None
        return self.an_hour(self.price_node) + self.node_kilowatts * (self.price_kwh or 0.0)

    def an_hour(self, price: float) -> float:
        """Return an hour's share of the price of what is bought."""
        return price / (self.years * HOURS_OF_A_YEAR)


@dataclass(frozen=True, kw_only=True)
class HardwarePrices(NodePrices):
    """Prices of nodes and of the network between them."""

    price_switch_port: Price = field(default=None, metadata=MONEY)
    """Price of a switch port with its optics and half of the cable."""

    @property
    def is_bought(self) -> bool:
        """Whether a price is of what is bought, and used for years."""
        return super().is_bought or self.price_switch_port is not None
