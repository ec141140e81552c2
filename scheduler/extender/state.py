"""The cache: nodes, pods, gangs and plans as last seen, updated object by object.

It knows no client and no time, and belongs to one thread: the event loop's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.extender.fleet import Fleet
from scheduler.extender.gangs import Gang, GangKey
from scheduler.extender.objects import Node, Owner, Pod
from scheduler.extender.plan import Plan


class State:
    """All that is known of the cluster.

    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    """

    fleet: Fleet
    plans: Mapping[GangKey, Plan]

    def __init__(self, levels: Sequence[str] | None = None) -> None:
        raise NotImplementedError

    def put_node(self, node: Node) -> None:
        """A node appeared or changed."""
        raise NotImplementedError

    def drop_node(self, name: str) -> None:
        """A node is gone."""
        raise NotImplementedError

    def put_pod(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        raise NotImplementedError

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        raise NotImplementedError

    def put_owner(self, owner: Owner) -> None:
        """A Job, JobSet, StatefulSet or PodGroup appeared or changed."""
        raise NotImplementedError

    def drop_owner(self, uid: str) -> None:
        """It is gone."""
        raise NotImplementedError

    def put_plan(self, plan: Plan) -> None:
        """A plan was read or written."""
        raise NotImplementedError

    def drop_plan(self, key: GangKey) -> None:
        """A plan is gone, and its promises with it."""
        raise NotImplementedError

    def pod(self, uid: str) -> Pod | None:
        """A pod by its UID."""
        raise NotImplementedError

    def gang(self, key: GangKey) -> Gang | None:
        """A gang with at least one live pod."""
        raise NotImplementedError

    def gangs(self) -> Iterable[Gang]:
        """All gangs with at least one live pod."""
        raise NotImplementedError

    def plan_of_pod(self, uid: str) -> tuple[Plan, int] | None:
        """The plan that names a pod, and the pod's rank in it."""
        raise NotImplementedError

    def replace_nodes(self, nodes: Iterable[Node]) -> None:
        """A new list of all nodes: those that are not in it are gone."""
        raise NotImplementedError

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """A new list of all pods."""
        raise NotImplementedError

    def replace_plans(self, plans: Iterable[Plan]) -> None:
        """A new list of all plans."""
        raise NotImplementedError
