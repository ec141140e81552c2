"""The Kubernetes scheduler extender and the controller that plans gangs (docs/how-it-works/adr/0008).

A controller plans a whole gang with the solver of ``arnold place``, writes the plan as a ``GangPlan`` and pins every
pod to its node; the extender verifies what kube-scheduler is about to do.  Nothing here is imported by the rest of the
scheduler.

Programs list a live cluster (``list_cluster``) and its plans (``list_plans``), or run the extender (``serve``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extender.cluster_api.connect import WhichCluster
    from extender.live_cluster import list_cluster, list_plans
    from extender.plans.gang_plan import GangPlan
    from extender.service.server import serve
    from extender.service.settings import ServeOptions

DISTRIBUTION = "arnold-scheduler"

__all__ = ["DISTRIBUTION", "GangPlan", "ServeOptions", "WhichCluster", "list_cluster", "list_plans", "serve"]

_MODULES = {
    "GangPlan": "extender.plans.gang_plan",
    "ServeOptions": "extender.service.settings",
    "WhichCluster": "extender.cluster_api.connect",
    "list_cluster": "extender.live_cluster",
    "list_plans": "extender.live_cluster",
    "serve": "extender.service.server",
}


def __getattr__(name: str) -> Any:
    """Return what a program asks for, imported only then; the command line starts without it."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
