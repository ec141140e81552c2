"""One expression of Kubernetes over labels of pods, or over labels and fields of nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from topology.kubernetes.kubernetes_objects import Object

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


class Requirement(Object, frozen=True):
    """What a label must be: an expression of a selector, a node selector or an affinity."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether it holds where these labels are; an unknown operator never does."""
        value, values = labels.get(self.key), self.values or ()
        match self.operator:
            case "In":
                return value is not None and value in values
            case "NotIn":
                return value is None or value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                bound = values[0] if len(values) == 1 else ""
                if value is None or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
                    return False
                return int(value) > int(bound) if self.operator == "Gt" else int(value) < int(bound)
        return False
