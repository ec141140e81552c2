"""Groups of ranks and of cells against Megatron's, derived once more by walking the ranks one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.grid import CellGroups, Grid, RankNumbering, cell_groups, joined
from scheduler.job import FAMILIES, MEGATRON_ORDER, Family, Parallelism
from tests.case_counts import every_fourth
from tests.facts import saying

Groups = list[list[int]]
ORDERS = (MEGATRON_ORDER, "tp-cp-ep-pp-dp", "tp-dp-ep-cp-pp", "pp-cp-tp-dp-ep", "cp-pp-ep-dp-tp")
"""The two of Megatron's options, and such that mix all dimensions."""
ALL_ORDERS = ["-".join(names) for names in permutations(FAMILIES)]


class Setting:
    """Degrees as a launch script gives them, and what Megatron makes of them: ``initialize_model_parallel``."""

    def __init__(self, *, tp: int, cp: int, ep: int, dp: int, pp: int, etp: int, order: str) -> None:
        self.degrees = {"tp": tp, "cp": cp, "ep": ep, "dp": dp, "pp": pp, "etp": etp}
        self.order = order
        self.world = tp * cp * dp * pp
        self.dense = {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}
        self.expert = {"tp": etp, "cp": 1, "ep": ep, "dp": self.world // (etp * ep * pp), "pp": pp}

    def groups(self, degrees: dict[str, int], *along: str) -> Groups:
        """Ranks that have all coordinates but some in common, each group by its first rank."""
        found: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.world):
            left, others = rank, []
            for name in self.order.split("-"):
                left, coordinate = divmod(left, degrees[name])
                if name not in along:
                    others.append(coordinate)
            found.setdefault(tuple(others), []).append(rank)
        return list(found.values())

    def of_family(self, family: Family) -> Groups:
        """The groups of a family: a DP group is that of Megatron with context parallel."""
        if family == "ep":
            return self.groups(self.expert, "ep")
        return self.groups(self.dense, *(("dp", "cp") if family == "dp" else (family,)))

    @property
    def accepted(self) -> bool:
        """Whether Megatron takes them: its three conditions, in its order."""
        etp, ep, pp = (self.degrees[name] for name in ("etp", "ep", "pp"))
        if self.world % (etp * ep * pp):
            return False
        if not (self.order.endswith("pp") or pp == 1 or self.expert["dp"] == self.dense["dp"]):
            return False
        return self.groups(self.dense, "pp") == self.groups(self.expert, "pp")

    @property
    def parallelism(self) -> Parallelism:
        """The same as ours; raises where ours refuses."""
        return Parallelism(**self.degrees, order=self.order)


def small_settings(order: str) -> Iterator[Setting]:
    """All settings of some degrees with up to 64 ranks."""
    degrees = {"tp": (1, 2, 4, 8), "cp": (1, 2, 3), "ep": (1, 2, 3, 4, 8), "dp": (1, 2, 4, 6), "pp": (1, 2, 3)}
    for chosen in product(*degrees.values(), (1, 2, 3, 4, 8)):
        one = Setting(**dict(zip((*degrees, "etp"), chosen, strict=True)), order=order)
        if one.world <= 64:
            yield one


@st.composite
def settings_of_any_order(draw: st.DrawFn, *, accepted: bool = False) -> Setting:
    """Degrees up to 6 in any of the 120 orders, up to 96 ranks; mostly such that Megatron accepts, or only such."""
    tp, cp, dp, pp = (draw(st.integers(1, 6)) for _ in range(4))
    while tp * cp * dp * pp > 96:
        tp, cp, dp, pp = (max(1, degree - 1) for degree in (tp, cp, dp, pp))
    divisors = [d for d in range(1, tp * cp * dp + 1) if (tp * cp * dp) % d == 0]
    ep, order = draw(st.sampled_from(divisors)), draw(st.sampled_from(ALL_ORDERS))
    etp = draw(st.sampled_from([d for d in divisors if (tp * cp * dp) % (ep * d) == 0]))
    found = Setting(tp=tp, cp=cp, ep=ep, dp=dp, pp=pp, etp=etp, order=order)
    if accepted and not found.accepted:
        # with pp last nothing else is asked
        order = "-".join([name for name in order.split("-") if name != "pp"] + ["pp"])
        found = Setting(**found.degrees, order=order)
    return found


@st.composite
def cut_settings(draw: st.DrawFn) -> tuple[Setting, int]:
    """A setting that Megatron accepts, and the GPUs of nodes that it fills, the last perhaps in part."""
    setting = draw(settings_of_any_order(accepted=True))
    return setting, draw(st.integers(1, 12))


def rank_groups(parallelism: Parallelism, family: Family) -> Groups:
    """Our groups of a family."""
    numbering = parallelism.expert if family == "ep" else parallelism.dense
    found: Groups = numbering.groups(*(("dp", "cp") if family == "dp" else (family,))).tolist()
    return found


def check(setting: Setting) -> None:
    """Ours refuses what Megatron refuses, with a place and a remedy; else the groups are the same, rank for rank."""
    if not setting.accepted:
        with pytest.raises(InvalidJob) as caught:
            _ = setting.parallelism
        assert caught.value.where.startswith("parallelism.")
        assert caught.value.fix
        return
    found = setting.parallelism
    for family in FAMILIES:
        assert rank_groups(found, family) == setting.of_family(family), (setting.degrees, family)


@pytest.mark.many_cases
@pytest.mark.parametrize("order", ORDERS)
def test_small_settings_are_refused_or_grouped_as_by_megatron(order: str) -> None:
    """2,800 settings in each order, of which Megatron accepts some hundreds."""
    some = list(small_settings(order))
    assert len(some) == 2800
    assert sum(setting.accepted for setting in some) > 500
    for setting in every_fourth(some):
        check(setting)


@given(setting=settings_of_any_order())
def test_any_order_is_refused_or_grouped_as_by_megatron(setting: Setting) -> None:
    """The same in any order of the dimensions."""
    check(setting)


def cells_of(grid: Grid, family: Family) -> set[frozenset[int]]:
    """The node ranks that each group of a family touches."""
    groups, node_rank = grid.groups[family], grid.node_rank.ravel()
    return {frozenset(node_rank[groups.cell[groups.group == g]].tolist()) for g in range(len(groups.sizes))}


def nodes_touched(groups: Groups, gpus: int) -> set[frozenset[int]]:
    """The node ranks that groups of ranks touch, when nodes have so many GPUs."""
    return {frozenset(rank // gpus for rank in group) for group in groups}


def cuts_into_nodes(setting: Setting, gpus: int) -> bool:
    """Whether TP groups lie inside nodes of so many GPUs, in the same way on all, or fill consecutive ones."""
    of_tp, tp = setting.of_family("tp"), setting.degrees["tp"]
    if tp <= gpus:
        # TP groups begin anew after so many ranks
        return tp == 1 or gpus % (tp * (of_tp[0][1] - of_tp[0][0])) == 0
    return tp % gpus == 0 and all(group == list(range(group[0], group[0] + tp)) for group in of_tp)


def makes_a_grid(setting: Setting, gpus: int) -> bool:
    """Whether pipelines are rows of nodes, stages are columns, and each node is where one of each meet."""
    stages = setting.groups(setting.dense, "tp", "cp", "dp")
    rows, columns = nodes_touched(setting.of_family("pp"), gpus), nodes_touched(stages, gpus)
    once = sum(map(len, rows)) == sum(map(len, columns)) == -(-setting.world // gpus)
    return once and all(len(row & column) == 1 for row in rows for column in columns)


def check_cells(setting: Setting, gpus: int) -> None:
    """Each group touches the nodes of its ranks, and pipelines and stages are rows and columns where they make a grid
    of nodes; where TP groups have parts of nodes: refusal.
    """
    found = setting.parallelism
    if not cuts_into_nodes(setting, gpus):
        with pytest.raises(InvalidJob) as caught:
            found.shape(gpus)
        assert caught.value.fix
        return
    grid = found.grid(gpus)
    assert found.shape(gpus) == (grid.rows, grid.columns)
    assert sorted(grid.node_rank.ravel().tolist()) == list(range(-(-setting.world // gpus)))
    assert grid.parts == max(map(len, nodes_touched(setting.of_family("tp"), gpus)))
    check_parts(grid)
    assert grid.aligned == makes_a_grid(setting, gpus)
    assert grid.aligned or grid.columns == 1
    for family in FAMILIES:
        groups = grid.groups[family]
        assert cells_of(grid, family) == nodes_touched(setting.of_family(family), gpus)
        assert len(groups.sizes) == len(cells_of(grid, family))
        assert groups.one_each == (groups.cell.tolist() == list(range(grid.cells)))


def check_parts(grid: Grid) -> None:
    """The parts of a TP group follow each other, in rank and down the column: row r is part r mod parts."""
    first = grid.node_rank[:: grid.parts]
    for part in range(grid.parts):
        assert (grid.node_rank[part :: grid.parts] == first + part).all()
    together = {frozenset(range(rank, rank + grid.parts)) for rank in first.ravel().tolist()}
    assert cells_of(grid, "tp") == together


@pytest.mark.many_cases
@pytest.mark.parametrize("order", ORDERS)
def test_small_settings_on_nodes(order: str) -> None:
    """All small settings that Megatron accepts, on nodes of 8 GPUs; of the usual order on nodes of 4 and 2 as well,
    where TP groups of 8 take two and four of them.
    """
    accepted = every_fourth([setting for setting in small_settings(order) if setting.accepted])
    for setting in accepted:
        check_cells(setting, 8)
    for setting, gpus in product(accepted, (4, 2)) if order == MEGATRON_ORDER else ():
        check_cells(setting, gpus)


@given(cut=cut_settings())
def test_groups_of_cells_are_those_of_megatron(cut: tuple[Setting, int]) -> None:
    """The same in any order, on nodes of any size."""
    check_cells(*cut)


@given(cut=cut_settings(), families=st.sets(st.sampled_from(FAMILIES)))
def test_what_groups_tie_together_is_equally_large(cut: tuple[Setting, int], families: set[Family]) -> None:
    """Blocks: cells in one group of a held family, or in groups that share cells; all as many cells, as capacities are
    counted in them, or refused.
    """
    setting, gpus = cut
    assume(cuts_into_nodes(setting, gpus))
    grid = setting.parallelism.grid(gpus)
    block = {frozenset({cell}) for cell in range(grid.cells)}
    for family in families:
        groups = grid.groups[family]
        for g in range(len(groups.sizes)):
            together = set(groups.cell[groups.group == g].tolist())
            hit = {one for one in block if one & together}
            block = block - hit | {frozenset().union(*hit)}
    if len({len(one) for one in block}) > 1:
        # some nodes have ranks of several groups, or fewer ranks than others: blocks would not be equal
        assert setting.world % gpus or not grid.aligned
        with pytest.raises(InvalidJob, match=saying("equally many")):
            grid.tied(sorted(families))
        return
    rows, columns = grid.tied(sorted(families))
    label = (rows[:, None] * (columns.max() + 1) + columns[None, :]).ravel()
    assert block == {frozenset(np.flatnonzero(label == one).tolist()) for one in np.unique(label)}


def test_experts_with_a_tensor_parallelism_of_their_own() -> None:
    """With tp 8, etp 1, ep 8: an expert group is the eight GPUs of a node, not eight nodes."""
    own, same = (Parallelism(tp=8, ep=8, dp=16, etp=etp).grid(8) for etp in (1, 8))
    assert own.groups["ep"].sizes.tolist() == [1] * 16
    assert same.groups["ep"].sizes.tolist() == [8, 8]


def test_expert_groups_that_share_a_node() -> None:
    """24 ranks, two expert groups of 12 on three nodes of 8: ranks 0-11 lie on nodes 0 and 1, the others on 1 and 2."""
    groups = Parallelism(ep=12, dp=24).grid(8).groups["ep"]
    assert (groups.cell.tolist(), groups.group.tolist()) == ([0, 1, 1, 2], [0, 0, 1, 1])
    assert not groups.one_each
    assert groups.of_pairs(np.array([[5], [6], [7]])).tolist() == [5, 6, 6, 7]


def test_groups_with_the_same_cells_count_once() -> None:
    """Groups of three on nodes of 8: of ranks 0-2 and 3-5 in cell 0; 6-8 in cells 0 and 1, 15-17 in 1 and 2."""
    numbering = RankNumbering({"ep": 3, "dp": 8})
    groups = cell_groups(numbering, "ep", gpus=8, cell_of_node=np.arange(3, dtype=np.int32))
    assert sorted(groups.sizes.tolist()) == [1, 1, 1, 2, 2]
    assert np.bincount(groups.cell).tolist() == [2, 3, 2]


def test_groups_of_very_many_ranks() -> None:
    """A slip of the key is laid out like any job, to be told what it asks for: groups of 125,000 nodes."""
    numbering = RankNumbering({"cp": 1_000_000, "dp": 2})
    groups = cell_groups(numbering, "cp", gpus=8, cell_of_node=np.arange(250_000, dtype=np.int32))
    assert groups.sizes.tolist() == [125_000, 125_000]
    assert np.array_equal(groups.group, np.arange(250_000) // 125_000)


def test_what_groups_join() -> None:
    """Classes {0, 1}, {2}, {3}, {4}; groups {1, 2}, {2, 3} reach from one to the next."""
    pairs = CellGroups(cell=np.array([1, 2, 2, 3]), group=np.array([0, 0, 1, 1]))
    assert joined(np.array([0, 0, 1, 2, 3]), pairs.cell, pairs.group).tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("degrees", "where", "words"),
    [
        ({"tp": 8, "dp": 3, "ep": 2}, "parallelism.ep", "groups of 2 with expert tensor parallelism of 8"),
        ({"tp": 4, "dp": 2, "etp": 3}, "parallelism.etp", "do not divide the 8 ranks"),
        ({"tp": 4, "dp": 2, "etp": 0}, "parallelism.etp", "etp is 0"),
        (
            {"tp": 8, "dp": 4, "pp": 2, "ep": 2, "order": "tp-cp-ep-pp-dp"},
            "parallelism.order",
            "data parallelism of 2 and the other layers of 4",
        ),
        (
            {"tp": 2, "cp": 2, "dp": 2, "pp": 2, "ep": 2, "order": "tp-cp-pp-ep-dp"},
            "parallelism.order",
            "step over 2 ranks and those of the other layers over 4",
        ),
    ],
)
def test_what_megatron_refuses_is_refused_with_the_reason(
    degrees: dict[str, int | str], where: str, words: str
) -> None:
    """Each of its conditions, and a remedy."""
    with pytest.raises(InvalidJob, match=words) as caught:
        Parallelism(**degrees)  # type: ignore[arg-type]
    assert caught.value.where == where
    assert caught.value.fix


@pytest.mark.parametrize(("ep", "fits"), [(32, "etp: 2"), (6, "ep: 2")])
def test_degrees_of_experts_that_fit_are_named(ep: int, fits: str) -> None:
    """Of 64 ranks expert groups of 32 leave room for 2; 6 does not divide them, and 2 is what it shares with 16."""
    with pytest.raises(InvalidJob) as caught:
        Parallelism(tp=4, dp=16, ep=ep)
    assert caught.value.fix.endswith(f"such as {fits}")


def test_the_same_degrees_are_equal() -> None:
    """An expert tensor parallelism that is that of tp says nothing."""
    assert Parallelism(tp=4, etp=4) == Parallelism(tp=4)
    assert Parallelism(tp=4, etp=1, dp=2).degree("etp") == 1
    assert Parallelism(tp=4).degree("etp") == 4


def test_tensor_parallel_groups_that_leave_their_node() -> None:
    """With pp running fastest a node of 8 holds all four stages of two of the four ranks of a TP group."""
    with pytest.raises(InvalidJob, match=saying("4 ranks", "tensor-parallel", "4 apart")) as caught:
        Parallelism(tp=4, pp=4, order="pp-tp-cp-ep-dp").grid(8)
    assert caught.value.where == "parallelism.order"


def test_too_many_ranks_to_lay_out_expert_groups() -> None:
    """A slip of the keyboard is refused before arrays of that size are made."""
    with pytest.raises(InvalidJob, match=saying("expert groups", "16,777,216")):
        Parallelism(tp=10**9, etp=1, ep=2).shape(10**9)
