"""The Kubernetes scheduler extender and the controller that plans gangs (docs/how-it-works/adr/0008).

A controller plans a whole gang with the solver of ``arnold place``, writes the plan as a ``GangPlan`` and releases
every pod to its node; the extender verifies what kube-scheduler is about to do.  Nothing here is imported by the rest
of the scheduler.  Its face is in ``__init__.pyi``.
"""

from ground.faces import face

DISTRIBUTION = "arnold-scheduler"

__getattr__ = face(__name__)
