"""Files of models that a replay may have: what starts wait for, which data jobs read, what nodes draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ground.errors import InvalidInput
from ground.files import read_source

if TYPE_CHECKING:
    from simulator.replay_settings import ReplaySettings
    from simulator.traces import JobTrace
    from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What else a replay models; without a file it does not."""

    startup: str | None = field(default=None, metadata={"file": True, "default": "jobs start at once"})
    """Image, environment and checkpoint of each start, YAML."""
    data: str | None = field(default=None, metadata={"file": True})
    """Data sets that jobs of the trace name, and caches for them, YAML."""
    power: str | None = field(default=None, metadata={"file": True})
    """What nodes draw, and caps of power domains, YAML (see `arnold schema power`)."""

    def settings(
        self, settings: ReplaySettings, trace: JobTrace, clusters: Sequence[Cluster], *, restart: str | None = None
    ) -> tuple[ReplaySettings, tuple[str, ...]]:
        """Return the settings with these models, and notes about them.

        :param clusters: all that are replayed; files must fit each.
        :param restart: what ``--restart`` says.
        :raises ArnoldError: a file is unusable, or ``--restart`` says the same as ``--startup`` in another way.
        """
        from simulator.data_plan import read_data
        from simulator.power_file import read_power
        from simulator.startup_settings import read_startup

        notes: tuple[str, ...] = ()
        if self.startup is not None:
            if restart is not None:
                wrong = "what a restart takes is said by --startup, after the time until a failure is seen"
                raise InvalidInput(wrong, where="--restart", fix="leave out --restart, or --startup")
            settings = replace(settings, startup=read_startup(read_source(self.startup)))
        if self.data is not None:
            source = read_source(self.data)
            for cluster in clusters:
                settings = replace(settings, data=read_data(source, trace.records, cluster))
        if self.power is not None:
            source = read_source(self.power)
            for cluster in clusters:
                settings = replace(settings, power=read_power(source, cluster))
            ids = {record.job_id for record in trace.records}
            others = [name for name in settings.power.jobs if name not in ids] if settings.power else []
            if others:
                notes = (f"{self.power}: no job of the trace is called {others[0][:60]!r}; nothing there counts.",)
        return settings, notes
