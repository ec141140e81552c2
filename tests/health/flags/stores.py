"""Flag stores in memory."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from weakref import finalize

from health.flags import Ledger


def memory_ledger(now: datetime) -> Ledger:
    """Return a new store that begins at a time and is gone with the last reference to it."""
    ledger = _ledger()
    ledger.create(now)
    return ledger


def copied(ledger: Ledger) -> Ledger:
    """Return a store with the same events."""
    copy = _ledger()
    ledger._connection.backup(copy._connection)
    return copy


def _ledger() -> Ledger:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    ledger = Ledger(connection)
    finalize(ledger, connection.close)
    return ledger
