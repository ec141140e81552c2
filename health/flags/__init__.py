"""Where findings of all detectors meet: what holds against which node, why, and what held when.

A store is one file (:mod:`topology.flag_log`).  Rules (:mod:`.rules`) say when a finding becomes a flag and when a flag
ends; tracks (:mod:`.tracks`) apply them to what one source says of one node; the ledger (:mod:`.ledger`) is all tracks,
the store (:class:`FlagStore`) is the ledger on disk, :mod:`.history` answers why a node was avoided.
"""

from health.flags.ledger import Ledger, Recorded
from health.flags.rules import Rule, Rules
from health.flags.store import FlagStore

__all__ = ["FlagStore", "Ledger", "Recorded", "Rule", "Rules"]
