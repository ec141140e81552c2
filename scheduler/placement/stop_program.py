"""The cheapest jobs to stop that free enough nodes: an integer program that cuts are added to."""

from collections.abc import Collection, Mapping, Sequence

from scheduler.placement.cpsat import Slice, solve


class StopProgram:
    """Chooses jobs, by number.

    :param costs: of stopping each, whole and at least 0.
    :param ways: of which one is enough, as on one of several types of GPU: jobs that share nodes -> nodes that are free
        when all of these have gone, and how many nodes have to be freed at least.
    """

    def __init__(self, costs: Sequence[int], ways: Sequence[tuple[Mapping[tuple[int, ...], int], int]]) -> None:
        from scheduler.placement import cp_model

        self._model = model = cp_model.CpModel()
        self._stopped = [model.new_bool_var(f"job {number}") for number in range(len(costs))]
        chosen = [model.new_bool_var(f"way {number}") for number in range(len(ways))]
        model.add_bool_or(chosen)
        for is_chosen, (freed, needed) in zip(chosen, ways, strict=True):
            nodes = []
            for number, (holders, count) in enumerate(freed.items()):
                are_free = model.new_bool_var(f"nodes {number}")
                for holder in holders:
                    model.add_implication(are_free, self._stopped[holder])
                nodes.append(count * are_free)
            model.add(sum(nodes) >= needed * is_chosen)
        # of choices that cost the same the one with the fewest jobs
        weights = [cost * (len(costs) + 1) + 1 for cost in costs]
        model.minimize(sum(weight * var for weight, var in zip(weights, self._stopped, strict=True)))

    def cheapest(self, seconds: float, *, seed: int) -> list[int] | None:
        """Return the jobs of the cheapest choice; ``None`` = not settled within the time, or there is none."""
        from scheduler.placement import cp_model

        says, solver = solve(self._model, Slice(seconds, seconds, seed))
        if says != "yes" or solver.response_proto.status != cp_model.OPTIMAL:
            return None
        return [number for number, var in enumerate(self._stopped) if solver.boolean_value(var)]

    def cut(self, barren: Collection[int]) -> None:
        """Rule out all choices that are part of one that makes no room."""
        self._model.add_bool_or([var for number, var in enumerate(self._stopped) if number not in barren])
