"""Filter and Preempt: pure functions of state, request and time.  Nothing is remembered of a question."""

from __future__ import annotations

from datetime import datetime

from scheduler.extender.protocol import FilterArgs, FilterResult, PreemptArgs, PreemptResult
from scheduler.extender.state import State


def filter_nodes(state: State, args: FilterArgs, now: datetime) -> FilterResult:
    """Which of the nodes asked about a pod may use.

    :raises InvalidInput: a node without a name.
    """
    raise NotImplementedError


def preempt(state: State, args: PreemptArgs, now: datetime) -> PreemptResult:
    """On which of the nodes pods may be preempted for a pod."""
    raise NotImplementedError
