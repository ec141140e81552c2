"""What annotations ask, against a job file with the same keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.gangs.job import understand
from extender.gangs.types import GangKey, GangRequest, InvalidGang, TopologyRequest
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, decode_plan, encode_plan
from ground.files import Source
from scheduler.affinity import NAMED_MODELS
from scheduler.job import DEFAULT_ALPHA, Count, Hold, Job
from scheduler.job_files.job_file import load_job
from tests.facts import saying

KEY = GangKey("team", "g")
DEGREES = {"tp": 8, "cp": 1, "ep": 1, "dp": 4, "pp": 2}
RACK = "example.com/rack"
MODELS = st.sampled_from(list(NAMED_MODELS)) | st.just(
    {"hidden": 4096, "layers": 32, "vocab": 32000, "sequence_length": 4096, "gpu": "L20", "global_batch": 64}
)
CONSTRAINTS = st.lists(
    st.fixed_dictionaries({"family": st.sampled_from(["ep", "dp"]), "within": st.just(RACK)})
    | st.fixed_dictionaries({"family": st.just("pp"), "level": st.just(RACK), "weight": st.sampled_from([0.0, 0.1])}),
    max_size=3,
    unique_by=lambda one: json.dumps(one, sort_keys=True),
)
SAID = st.fixed_dictionaries(
    {},
    optional={
        "order": st.permutations(["cp", "ep", "dp", "pp"]).map(lambda rest: "-".join(("tp", *rest))),
        "alpha": st.sampled_from([0.0, 0.25, 1.0]),
        "gpu_types": st.sampled_from(["any", ["H100"], ["H200", "H100"]]),
        "model": MODELS,
        "microbatches": st.integers(1, 64),
        "constraints": CONSTRAINTS,
        "avoid": st.sampled_from(["strict", "price", "ignore"]),
        "level": st.just(RACK),
        "tp_level": st.just(RACK),
    },
)


def asked(said: dict[str, Any], *, parallelism: str | None = "tp=8,dp=4,pp=2", **more: Any) -> Job:
    """The job of annotations with these values, structures as YAML."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}
    job = understand(KEY, GangRequest(parallelism=parallelism, **texts, **more), 8, size=8).job
    assert job is not None
    return job


@given(SAID)
@settings(deadline=None)
def test_annotations_ask_what_a_job_file_asks(said: dict[str, Any]) -> None:
    """Every key; and the GangPlan keeps all it takes to ask it again."""
    found = asked(said)
    file = json.dumps({"name": str(KEY), "parallelism": DEGREES, **said})
    assert found == load_job(Source("job.yaml", file)).job
    plan = GangPlan(KEY, PlanPhase.PLANNED, spec=PlanSpec.of(found, dialect="job", priority=0))
    assert decode_plan(encode_plan(plan)).spec.job(str(KEY)) == found


def test_alpha_wins_over_the_model_and_both_over_the_default() -> None:
    """A mixture of experts like the measured one has 0.3 by the table, which is the default too; 24B dense has 0."""
    model = {"model": "24B dense on H800"}
    assert asked(model).alpha == 0.0
    assert asked({**model, "alpha": "0.7"}).alpha == 0.7
    assert asked({}).alpha == DEFAULT_ALPHA


def test_yaml_as_people_write_it() -> None:
    """Blocks of several lines."""
    written = "- family: ep\n  within: example.com/rack\n- {family: cp, level: example.com/rack, weight: 0.1}\n"
    found = asked({"constraints": written, "model": "hidden: 4096\nlayers: 32\nvocab: 100\nsequence_length: 64\n"})
    assert (found.holds, found.counts) == ((Hold("ep", RACK),), (Count("cp", RACK, 0.1),))


@pytest.mark.parametrize("text", ["H200,H100", "[H200, H100]", ' ["H200","H100"] ', "H200, H100, H200"])
def test_types_of_gpu_as_people_write_them(text: str) -> None:
    """With commas, or as the list of a job file; twice is once."""
    found = asked({"gpu_types": text})
    assert (found.gpu_types, found.mix_types) == (("H200", "H100"), False)
    assert asked({"gpu_types": "any"}).mix_types


def test_the_longest_label_of_kubernetes_is_a_level() -> None:
    """A domain of 253 characters, a slash, a name of 63: as many as a GangPlan has room for; one more is refused."""
    label = f"{'d' * 253}/{'n' * 63}"
    assert asked({"level": label, "tp_level": label}).level == label
    with pytest.raises(InvalidGang, match=saying("318 bytes")):
        asked({"level": f"{label}n"})


def test_an_order_without_degrees_is_said_to_say_nothing() -> None:
    """The ranks of one DP group are alike: the gang is planned, with a doubt."""
    found = understand(KEY, GangRequest(order="tp-pp-cp-ep-dp"), 8, size=4)
    assert found.job is not None
    assert [(doubt.reason, doubt.where) for doubt in found.doubts] == [("OrderAlone", "arnold.dev/order")]
    assert "add arnold.dev/parallelism" in found.doubts[0].fix
    assert not understand(KEY, GangRequest(order="tp-pp-cp-ep-dp", parallelism="tp=8,dp=4"), 8, size=4).doubts


def test_another_order_numbers_the_ranks_otherwise() -> None:
    """Pipelines first: rank r is stage r mod 2 of replica r div 2 (4 replicas of 2 stages)."""
    found = asked({"order": "tp-pp-cp-ep-dp"})
    assert found.grid.node_rank.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("order", "size", "family"), [("tp-cp-ep-dp-pp", 4, "dp"), ("tp-pp-cp-ep-dp", 2, "pp"), ("tp-pp-cp-ep-dp", 4, "")]
)
def test_slices_of_peers_are_the_groups_of_consecutive_ranks(order: str, size: int, family: str) -> None:
    """DP groups of 4 in Megatron's order, pipelines of 2 in the other; slices that are no groups are refused."""
    request = TopologyRequest(RACK, True, "kueue", slice_size=size)
    if family:
        assert [hold.family for hold in asked({"order": order}, requests=(request,)).holds] == [family]
    else:
        with pytest.raises(InvalidGang, match="wants slices of 4 ranks"):
            asked({"order": order}, requests=(request,))


def _slices(*sizes: int) -> tuple[TopologyRequest, ...]:
    """Slices of these sizes, each in a level of its own."""
    return tuple(TopologyRequest(f"level-{size}", True, "kueue", slice_size=size) for size in sizes)


@pytest.mark.parametrize("sizes", [(8,), (8, 4), (4, 8), (12, 4, 2), (24, 6), (24, 8, 4, 2)])
def test_slices_within_slices_are_held_by_groups_within_groups(sizes: tuple[int, ...]) -> None:
    """Of a gang of 24 without degrees: at its level so many consecutive ranks are a group, whatever the order."""
    job = understand(KEY, GangRequest(requests=_slices(*sizes)), 8, size=24).job
    assert job is not None
    held: dict[str, set[tuple[int, ...]]] = {}
    ranks = job.grid.node_rank.ravel()
    for hold in job.holds:
        groups = job.grid.groups[hold.family].members
        held.setdefault(hold.level, set()).update(tuple(sorted(ranks[[*group]].tolist())) for group in groups)
    for size in sizes:
        wanted = {tuple(range(first, first + size)) for first in range(0, 24, size)}
        # the whole gang is held by its columns and its rows
        assert (
            held[f"level-{size}"] >= wanted
            if size < 24
            else {rank for one in held["level-24"] for rank in one} == set(range(24))
        )


def test_slices_within_slices_of_a_job_with_degrees() -> None:
    """CP groups of 2 pods inside columns of 8: the slices of a gang that says how it trains."""
    said = GangRequest(parallelism="tp=8,cp=2,dp=4,pp=2", requests=_slices(8, 2))
    job = understand(KEY, said, 8, size=16).job
    assert job is not None
    assert [(hold.family, hold.level) for hold in job.holds] == [("dp", "level-8"), ("cp", "level-2")]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((8, 3), "3 ranks do not divide the slices of 8"),
        ((5,), "5 ranks do not divide the 24"),
        ((12, 6, 3, 1), "4 sizes"),
    ],
)
def test_slices_that_no_groups_can_be_are_refused(sizes: tuple[int, ...], words: str) -> None:
    """Nothing is dropped: the gang is told."""
    with pytest.raises(InvalidGang, match=saying(words)) as refused:
        understand(KEY, GangRequest(requests=_slices(*sizes)), 8, size=24)
    assert refused.value.reason == "UnsupportedSlice"


def test_a_wish_that_is_not_read_is_a_doubt() -> None:
    """The gang is planned as if it were not there, and says so."""
    found = understand(
        KEY, GangRequest(requests=(TopologyRequest(None, True, "some/wish", unread="not known"),)), 8, size=4
    )
    assert found.job is not None
    assert (found.job.holds, found.tiers) == ((), ())
    assert [(doubt.reason, doubt.where) for doubt in found.doubts] == [("WishNotRead", "some/wish")]


@pytest.mark.parametrize(
    ("order", "size", "families"),
    [("tp-cp-ep-dp-pp", 8, ["dp", "tp"]), ("tp-pp-cp-ep-dp", 4, ["pp", "tp"]), ("tp-cp-ep-dp-pp", 2, ["tp"])],
)
def test_slices_of_tensor_parallel_groups_of_two_pods(order: str, size: int, families: list[str]) -> None:
    """TP 16 on pods of 8 GPUs, 4 replicas of 2 stages: a stage is 8 pods, a pipeline 4, a TP group 2."""
    notes = GangRequest(
        parallelism="tp=16,dp=4,pp=2", order=order, requests=(TopologyRequest(RACK, True, "kueue", slice_size=size),)
    )
    found = understand(KEY, notes, 8, size=16).job
    assert found is not None
    assert [hold.family for hold in found.holds] == families


@pytest.mark.parametrize(
    ("said", "reason", "words", "fix"),
    [
        ({"order": "tp-dp"}, "InvalidOrder", "'tp-dp' does not name", "for example order"),
        ({"model": "llm-7"}, "InvalidModel", "no model is called 'llm-7'", "did you mean"),
        ({"model": "{hiden: 8}"}, "InvalidModel", "unknown key 'hiden'", "did you mean 'hidden'"),
        ({"model": "&a [*a]"}, "InvalidModel", "has an anchor", "write the value out"),
        ({"microbatches": "0"}, "InvalidMicrobatches", "'0' is no number of microbatches", "like 32"),
        ({"microbatches": "-3"}, "InvalidMicrobatches", "'-3' is no number of microbatches", "like 32"),
        ({"gpu_types": ""}, "InvalidGpuTypes", "'' names no types", "like H200,H100"),
        ({"gpu_types": "H200,,H100"}, "InvalidGpuTypes", "names no types of GPU", "or any"),
        ({"gpu_types": "H200: 2"}, "InvalidGpuTypes", "names no types of GPU", "as the label"),
        ({"gpu_types": ",".join(f"t{i}" for i in range(33))}, "InvalidGpuTypes", "names no types", "at most 32"),
        ({"constraints": "{family: dp}"}, "InvalidConstraints", "valid list", "correct"),
        ({"constraints": "[{family: dp, within: r, weight: 1}]"}, "InvalidConstraints", "either within", "correct"),
        ({"constraints": f"[{{family: dp, within: {'r' * 400}}}]"}, "InvalidLevel", "is no node label", "at most"),
        (
            {"constraints": json.dumps([{"family": "dp", "within": f"r{i}"} for i in range(65)])},
            "TooManyWishes",
            "65 different things",
            "fewer constraints",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem_with_a_way_out(
    said: dict[str, Any], reason: str, words: str, fix: str
) -> None:
    """One message, where it stands, and what to write instead."""
    with pytest.raises(InvalidGang, match=words) as caught:
        asked(said)
    assert caught.value.reason == reason
    assert caught.value.where.startswith("arnold.dev/")
    assert fix in (caught.value.fix if "did you mean" not in fix else str(caught.value))


def test_a_batch_that_does_not_divide_is_blamed_on_the_model() -> None:
    """63 sequences over 4 replicas."""
    model = {"hidden": 8, "layers": 2, "vocab": 8, "sequence_length": 8, "global_batch": 63}
    with pytest.raises(InvalidGang, match="a global batch of 63") as caught:
        asked({"model": model})
    assert (caught.value.reason, caught.value.where) == ("InvalidModel", "arnold.dev/model")


@pytest.mark.parametrize("annotation", ["constraints", "model"])
def test_a_long_text_is_refused_without_being_read(annotation: str) -> None:
    """Whoever writes it must not hold the controller up, nor fill its caches."""
    with pytest.raises(InvalidGang, match="it has 200,000 characters") as refused:
        asked({annotation: "- 1\n" * 50_000})
    assert "write at most" in refused.value.fix


def test_what_a_refusal_repeats_of_the_text_is_short() -> None:
    """A GangPlan with the message must be one that the API server takes: 32,768 bytes at most."""
    with pytest.raises(InvalidGang) as refused:
        asked({"constraints": "- &" + "x" * 30_000 + " 1"})
    assert len(str(refused.value)) < 10_000
