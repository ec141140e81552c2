"""Presets by name, with what a command line needs to offer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import getdoc, signature

from topology.cluster import Cluster
from topology.errors import UnknownName, did_you_mean
from topology.generate.presets import fat_tree, hpn_segments, llama3_pods, minipods, nvl72


@dataclass(frozen=True, slots=True)
class Preset:
    """One kind of cluster that can be made.

    :param name: name on the command line.
    :param build: the function that makes it; takes sizes by keyword.
    :param oversubscription: for levels whose links upwards carry less than those below: the ratio, for
        :func:`topology.graph.uplinks`.  Levels left out have none.
    """

    name: str
    build: Callable[..., Cluster]
    oversubscription: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """One sentence of what it is."""
        return (getdoc(self.build) or "").splitlines()[0]

    @property
    def sizes(self) -> Mapping[str, int | float]:
        """Names of the sizes that can be chosen, and their defaults."""
        return {name: parameter.default for name, parameter in signature(self.build).parameters.items()}


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("minipods", minipods),
        Preset("fat-tree", fat_tree),
        Preset("llama3-pods", llama3_pods, {"pod": 7.0}),
        Preset("hpn-segments", hpn_segments, {"pod": 15.0}),
        Preset("nvl72", nvl72),
    )
}


def generate(preset: str, **sizes: int | float) -> Cluster:
    """Make the cluster of a preset.

    :param sizes: sizes to change, see :attr:`Preset.sizes`.
    :raises UnknownName: no preset or no size is called that.
    :raises InvalidTopology: sizes that make no cluster.
    """
    if preset not in PRESETS:
        raise UnknownName(
            f"no preset is called {preset!r}",
            where="preset",
            fix=did_you_mean(preset, PRESETS) + f"use one of {', '.join(PRESETS)}",
        )
    known = PRESETS[preset].sizes
    for name in sizes:
        if name not in known:
            raise UnknownName(
                f"preset {preset!r} has no size {name!r}",
                where=name,
                fix=did_you_mean(name, known) + f"use one of {', '.join(known)}",
            )
    return PRESETS[preset].build(**sizes)
