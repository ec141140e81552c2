"""What a record of a trace asks, put to placement as a job file with the same keys is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import TraceFormatError
from ground.files import Source
from scheduler.affinity import NAMED_MODELS, RECORDS, affinity
from scheduler.job import DEFAULT_ALPHA, Hold, Job, Parallelism
from scheduler.job_files.job_file import load_job
from scheduler.placement.types import Limits, Proposal
from scheduler.queue.policy import POLICIES
from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.pools import Disagreement, NodePool
from simulator.replay import check_against
from simulator.sim_job import Need, SimJob
from simulator.traces import JobTrace, read_trace
from simulator.traces.readers.own_tables import write_jobs
from simulator.workload import WorkloadSpec, generate
from tests.case_counts import examples
from tests.facts import saying, says
from tests.simulator.clusters import racks
from tests.simulator.runs import placed, placed_run
from topology.build import build_cluster
from topology.cluster import Cluster, Node

CLUSTER = racks(64).with_gpu_types({i: "H100" if i < 56 else "H200" for i in range(64)})
SHAPES = st.fixed_dictionaries(
    {"hidden": st.integers(1, 8192), "layers": st.integers(1, 96), "vocab": st.integers(1, 10**5)},
    optional={"micro_batch": st.integers(1, 4), "gpu": st.sampled_from(["H800", "L20"])},
).map(lambda shape: {**shape, "sequence_length": 4096})
CONSTRAINTS = st.lists(
    st.fixed_dictionaries({"family": st.sampled_from(["dp", "pp", "ep"]), "within": st.just("pod")})
    | st.fixed_dictionaries(
        {"family": st.sampled_from(["tp", "cp"]), "level": st.just("rack"), "weight": st.sampled_from([0.5, 1.25])}
    ),
    max_size=3,
)
# A tensor-parallel group stays in its node, so tp runs fastest.
ORDERS = st.permutations(["cp", "ep", "dp", "pp"]).map(lambda rest: "-".join(("tp", *rest)))


def megatron_accepts(asked: dict[str, Any]) -> bool:
    """Whether stages run slowest where experts, which know no context parallelism, have another data parallelism."""
    return asked["cp"] == 1 or asked["pp"] == 1 or asked.get("order", "pp").endswith("pp")


def pods_have_room(asked: dict[str, Any]) -> bool:
    """Whether a pod has 16 nodes enough: where DP and PP groups are held in one, the whole job is."""
    held = {one["family"] for one in asked.get("constraints", ()) if "within" in one}
    return not held >= {"dp", "pp"} or asked["cp"] * asked["dp"] * asked["pp"] <= 16


ASKED = st.fixed_dictionaries(
    {"cp": st.sampled_from([1, 2]), "dp": st.sampled_from([1, 2, 4]), "pp": st.sampled_from([1, 2, 4])},
    optional={
        "order": ORDERS,
        "alpha": st.sampled_from([0.0, 0.25, 1.0]),
        "gpu_types": st.sampled_from(["any", ["H100"], ["H200", "H100"]]),
        "model": st.sampled_from(list(NAMED_MODELS)) | SHAPES,
        "microbatches": st.integers(1, 64),
        "avoid": st.sampled_from(["strict", "price", "ignore"]),
        "constraints": CONSTRAINTS,
    },
).filter(lambda asked: megatron_accepts(asked) and pods_have_room(asked))


def job_file(asked: dict[str, Any]) -> str:
    """The job file with these keys."""
    degrees = {name: asked[name] for name in ("cp", "dp", "pp")}
    others = {name: value for name, value in asked.items() if name not in degrees}
    return json.dumps({"parallelism": {"tp": 8, **degrees}, **others})


def read_back(text: str, folder: Path) -> JobRecord:
    """The one job of a trace."""
    (folder / "trace").write_text(text, encoding="utf-8")
    return read_trace(folder / "trace").records[0]


def waiting(record: JobRecord) -> SimJob:
    """The job in a queue."""
    need = placed(CLUSTER).need(record)
    return SimJob(
        key=0, record=record, need=Need(need.nodes, need.gpus, need.units), prediction=Prediction(1.0, 1.0, 1.0)
    )


@given(ASKED)
@examples(150)
def test_a_record_asks_what_its_job_file_asks(asked: dict[str, Any]) -> None:
    """Every key, whether the trace is JSON lines or what is written of it as CSV; only name and level are the run's.

    A hold that cannot be kept even on the empty cluster is refused before the run, so none here: pods hold 16 nodes.
    """
    gpus = 8 * asked["cp"] * asked["dp"] * asked["pp"]
    row = {"job_id": "a", "submit_time": 0, "duration": 60, "gpus": gpus, "tp": 8, **asked}
    with tempfile.TemporaryDirectory() as folder:
        record = read_back(json.dumps(row) + "\n", Path(folder))
        assert read_back(write_jobs([record]), Path(folder)) == record
    expected = load_job(Source("job.yaml", job_file(asked))).job
    if expected.grid.cells > 1:
        assert placed(CLUSTER).gang(waiting(record)) == expected


def test_jobs_of_a_made_workload_have_the_alpha_of_their_models() -> None:
    """By the characterisation, or 1 without pipeline stages; of those without a model nothing is known."""
    records = generate(WorkloadSpec(days=3, seed=1, kinds=("other", "evaluation"), max_gpus=256))
    gangs = [record for record in records if record.gpus >= 16]
    pool = placed(racks(64))
    for record in gangs[:60]:
        found = pool.gang(waiting(record))
        assert isinstance(record.model, str)
        known = record.known_model
        assert found.alpha == (DEFAULT_ALPHA if known is None else affinity(known, found.parallelism, RECORDS).alpha)
    assert {record.model for record in gangs} >= {"llm-7b", "llm-20b"}


def gang(name: str, at: float, takes: float, nodes: int, **asks: Any) -> JobRecord:
    """A data-parallel job on whole nodes."""
    return JobRecord(name, at, takes, 8.0 * nodes, parallelism=Parallelism(tp=8, dp=nodes), **asks)


def starts(records: list[JobRecord], policy: str) -> dict[str, float]:
    """When each job starts, on two racks of four nodes."""
    run = placed_run(racks(8), records, POLICIES.load(policy))
    return {job.record.job_id: job.first_start for job in run.jobs}


def test_a_constraint_makes_a_job_wait() -> None:
    """Three nodes of each rack are in use until 10: the two that are free are in two racks."""
    held = (Hold("dp", "rack"),)
    before = [gang("a", 0, 10, 3, holds=held), gang("b", 0, 10, 3, holds=held)]
    assert starts([*before, gang("c", 1, 5, 2)], "fifo")["c"] == 1
    assert starts([*before, gang("c", 1, 5, 2, holds=held)], "fifo")["c"] == 10


def test_jobs_of_one_size_that_ask_otherwise_are_asked_one_by_one() -> None:
    """At 4 a node of each rack is free: not for the gang that wants a rack, but for the longer one behind it."""
    held = (Hold("dp", "rack"),)
    before = [gang("a", 0, 10, 3, holds=held), gang("b", 0, 10, 3, holds=held), gang("e", 0, 4, 2)]
    found = starts([*before, gang("c", 1, 5, 2, holds=held), gang("d", 2, 6, 2)], "arnold-no-reserve")
    assert (found["c"], found["d"]) == (10, 4)


@pytest.mark.parametrize(
    ("asks", "nodes", "message"),
    [
        ({"holds": (Hold("dp", "rack"),)}, 5, "its constraints cannot be kept, even if the cluster were empty"),
        ({"holds": (Hold("dp", "rak"),)}, 2, "the cluster has no level 'rak'"),
    ],
)
def test_constraints_that_no_state_of_the_cluster_keeps(asks: dict[str, Any], nodes: int, message: str) -> None:
    """Such a job would wait for ever: strict says which, lenient leaves it out and counts it."""
    trace = JobTrace((gang("fits", 0, 1, 2), gang("x", 0, 1, nodes, **asks)), source="t.csv")
    with pytest.raises(TraceFormatError, match=f"job x could never run: constraints: .*{message}"):
        check_against(trace, placed(racks(8)), nodes=8)
    assert check_against(trace, placed(racks(8)), nodes=8, lenient=True).dropped == {"constraints": 1}


class GivesUp:
    """An algorithm that finds nothing and proves nothing."""

    name = "gives-up"
    summary = "made for a test"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """No nodes, and no reason why there could be none."""
        return Proposal(None)


def test_a_job_for_which_nothing_was_found_is_not_said_to_be_impossible() -> None:
    """The search gives up, although the job would fit."""
    pool = NodePool(racks(8), algorithm=GivesUp(), limits=Limits(workers=1))
    holds = (Hold("pp", "rack"),)
    trace = JobTrace((JobRecord("x", 0, 1, 32, parallelism=Parallelism(tp=8, dp=2, pp=2), holds=holds),))
    with pytest.raises(TraceFormatError, match=saying("no placement was found", "not prove")):
        check_against(trace, pool, nodes=8)


def test_constraints_of_parts_of_nodes_are_refused() -> None:
    """Placement is asked about whole nodes alone."""
    trace = JobTrace((gang("fits", 0, 1, 2), JobRecord("x", 0, 1, 8, 2, holds=(Hold("dp", "rack"),))))
    with pytest.raises(TraceFormatError, match=saying("2 nodes", "constraints")):
        check_against(trace, placed(racks(8)), nodes=8)


def typed(*types: str, nodes: int = 8) -> Cluster:
    """Two racks of four nodes, or more, the types of GPU over and over."""
    return racks(nodes).with_gpu_types({i: types[i % len(types)] for i in range(nodes)})


def starts_on(cluster: Cluster, records: list[JobRecord], policy: str = "fifo") -> dict[str, tuple[float, set[str]]]:
    """When each job starts, and the types of its nodes."""
    run = placed_run(cluster, records, POLICIES.load(policy))
    return {
        job.record.job_id: (job.first_start, {cluster.node(i).gpu_type for i in job.places} or set())
        for job in run.jobs
    }


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "arnold-no-reserve"])
def test_a_job_waits_for_a_type_that_it_admits(policy: str) -> None:
    """Four H100 and four A100: three H100 are taken until 10, and only a job that admits A100 starts before.

    A job on one GPU heeds its types as well: of the H100 one is left, which the fourth job takes with all its GPUs.
    """
    cluster = typed("A100", "H100")
    before = [gang("a", 0, 10, 3, gpu_types=("H100",)), JobRecord("d", 0, 10, 8.0, gpu_types=("H100",))]
    after = [
        gang("b", 1, 5, 2, gpu_types=("H100",)),
        gang("c", 1, 5, 2, gpu_types=("A100", "H100")),
        JobRecord("e", 1, 5, 1.0, gpu_types=("H100",)),
    ]
    first = {name: at for name, (at, _) in starts_on(cluster, [*before, after[1]], policy).items()}
    assert (first["a"], first["d"], first["c"]) == (0, 0, 1)
    for late in (after[0], after[2]):
        assert starts_on(cluster, [*before, late], policy)[late.job_id][0] == 10


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "arnold-no-reserve"])
def test_a_gang_that_may_mix_types_takes_nodes_of_both(policy: str) -> None:
    """Six nodes on four A100 and four H100: one type has too few; mixed it starts at once, or when both are free."""
    cluster = typed("A100", "H100")
    big = gang("big", 1, 5, 6, mix_types=True)
    assert starts_on(cluster, [big], policy)["big"][0] == 1
    assert starts_on(cluster, [gang("a", 0, 10, 3), big], policy)["big"][0] == 10
    with pytest.raises(Disagreement, match=saying("same type of GPU")):
        placed(cluster).need(gang("big", 1, 5, 6))


def test_types_that_the_cluster_has_not_are_named() -> None:
    """With the one that was probably meant."""
    with pytest.raises(Disagreement, match=saying("'H10'")) as caught:
        placed(typed("A100", "H100")).need(gang("x", 0, 1, 2, gpu_types=("H10",)))
    assert "did you mean 'H100'?" in caught.value.fix


def test_a_job_takes_nodes_as_large_as_those_of_its_types() -> None:
    """Six nodes of 8 GPUs and four of 4 of another type: 16 GPUs of that are four whole nodes, else two."""
    rows = [
        Node(f"n{i}", ("r",), 8 if i < 6 else 4, 8 if i < 6 else 4, gpu_type="a" if i < 6 else "b") for i in range(10)
    ]
    pool = placed(build_cluster(["rack"], rows))
    degrees = Parallelism(tp=4, dp=4)
    assert pool.need(JobRecord("x", 0, 1, 16.0, parallelism=degrees)).nodes == 2
    assert pool.need(JobRecord("x", 0, 1, 16.0, parallelism=degrees, gpu_types=("b",))).nodes == 4


@pytest.mark.parametrize("cell", ["any", "H100", '"H200,H100"', '"[H200, H100]"'])
def test_cells_of_types(cell: str, tmp_path: Path) -> None:
    """As in a job file, or with commas; a CSV cell with commas stands in quotes."""
    record = read_back(f"job_id,submit_time,duration,gpus,gpu_types\na,0,60,16,{cell}\n", tmp_path)
    expected = {"any": (None, True), "H100": (("H100",), False)}.get(cell, (("H200", "H100"), False))
    assert (record.gpu_types, record.mix_types) == expected


def test_a_model_that_is_not_known_is_said_once(tmp_path: Path) -> None:
    """Two jobs of models of the cluster's own, one of which says its alpha; a model of ours is known."""
    rows = ["a,bert,", "b,bert,", "c,resnet,0.5", "d,llm-7b,", "e,,"]
    text = "job_id,model,alpha,submit_time,duration,gpus\n" + "".join(f"{row},0,60,16\n" for row in rows)
    (tmp_path / "t.csv").write_text(text)
    notes = [note for note in read_trace(tmp_path / "t.csv").notes if "not known" in note]
    (note,) = notes
    assert says(note, "alpha", "0.3", "'bert'", "2 of 5 jobs")
