"""Where findings of all detectors meet: what holds against which node, why, and what held when.

A store is an SQLite file of events (:mod:`topology.flag_log`).  Rules (:mod:`.rules`) say when a finding becomes a flag
and when a flag ends; tracks (:mod:`.tracks`) apply them to what one source says of one node; the ledger
(:mod:`.ledger`) writes what follows; :mod:`.store` opens and compacts the file, :mod:`.flag_history` answers why a node
was avoided.
"""

from health.flags.ledger import Ledger, Recorded
from health.flags.rules import Rule, Rules
from health.flags.store import open_ledger

__all__ = ["Ledger", "Recorded", "Rule", "Rules", "open_ledger"]
