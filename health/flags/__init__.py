"""Where findings of all detectors meet: what holds against which node, why, and what held when.

A store is an SQLite file of events.  Rules say when a finding becomes a flag and when it ends; tracks apply them to
what one source says of one node; the ledger writes what follows.
"""

from health.flags.flag_store import Ledger, Recorded, open_ledger
from health.flags.rules import Rule, Rules

__all__ = ["Ledger", "Recorded", "Rule", "Rules", "open_ledger"]
