"""A cluster over time: traces, failures, reservations; the production scheduler decides (ADR 9)."""

DISTRIBUTION = "arnold-scheduler"
