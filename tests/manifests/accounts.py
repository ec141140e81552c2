"""Clients with the own tokens of Arnold's service accounts."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.harness.client import Client

Accounts = Callable[[str], Client]
"""The client of a service account of Arnold's namespace, by its name."""
