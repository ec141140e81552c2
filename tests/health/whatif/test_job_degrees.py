"""The degrees of a job are those that its own files say, or it is refused with what they propose: never a guess."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arnold.commands.run import run
from ground.errors import InvalidInput, TraceFormatError
from health.whatif.conversion import ConversionSettings
from health.whatif.converters import convert, sizes_of
from health.whatif.converters.names import described_family, hop_of
from health.whatif.trace import JobSizes, RankLayout, layout_of
from tests.case_counts import examples
from tests.facts import saying
from tests.health.whatif.profiles_made import RankProfile

DATA = os.environ.get("ARNOLD_DATA")
MEGATRON = {
    "tp": "TENSOR_MODEL_PARALLEL_GROUP",
    "cp": "CONTEXT_PARALLEL_GROUP",
    "dp": "DATA_PARALLEL_GROUP",
    "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
}


def members(layout: RankLayout, rank: int) -> dict[str, list[int]]:
    """The ranks that differ from one in a single coordinate of the grid: its tp, cp, dp and pp groups."""
    sizes = {"tp": layout.tp, "cp": layout.dsp, "dp": layout.dp, "pp": layout.pp}
    stride, groups = 1, {}
    for name, size in sizes.items():
        first = rank - rank // stride % size * stride
        groups[name] = [first + i * stride for i in range(size)]
        stride *= size
    return groups


def files(folder: Path, layout: RankLayout, names: Mapping[str, str]) -> list[str]:
    """A profile of each rank that holds its groups alone; a name for each family, without one it is not recorded."""
    paths = []
    for rank in range(layout.world_size):
        made = RankProfile(rank, layout.world_size)
        made.groups = [(names[name], ranks) for name, ranks in members(layout, rank).items() if name in names]
        paths.append(made.write(folder))
    return paths


def proposal(error: InvalidInput) -> dict[str, int]:
    """The degrees that a refusal proposes."""
    return {name: int(size) for name, size in re.findall(r"(\w+)_size: (\d+)", error.fix)}


DEGREES = st.builds(
    RankLayout, dp=st.integers(1, 4), dsp=st.integers(1, 2), pp=st.integers(1, 4), tp=st.integers(1, 4), vpp=st.just(1)
)


@given(DEGREES)
@examples(60)
def test_groups_that_are_described_give_the_degrees(
    tmp_path_factory: pytest.TempPathFactory, layout: RankLayout
) -> None:
    """Whatever the grid, the groups as Megatron-LM describes them make the same grid again."""
    found = sizes_of(files(tmp_path_factory.mktemp("job"), layout, MEGATRON))
    assert layout_of(found) == layout


@given(DEGREES)
@examples(60)
def test_groups_without_a_purpose_are_no_replicas(tmp_path_factory: pytest.TempPathFactory, layout: RankLayout) -> None:
    """Two dimensions or more without descriptions are refused; what is proposed makes as many ranks as the job has."""
    assume(sum(size > 1 for size in (layout.tp, layout.dsp, layout.dp, layout.pp)) > 1)
    with pytest.raises(TraceFormatError, match=saying("all of its parallelism")) as caught:
        sizes_of(files(tmp_path_factory.mktemp("job"), layout, dict.fromkeys(MEGATRON, "undefined")))
    given = proposal(caught.value)
    product = 1
    for size in given.values():
        product *= size
    assert product == layout.world_size


def test_ranks_without_smaller_groups_are_replicas(tmp_path: Path) -> None:
    """DDP and FSDP have the group of all ranks; sharding inside of hosts is described as data-parallel."""
    layout = RankLayout(dp=8, dsp=1, pp=1, tp=1, vpp=1)
    assert sizes_of(files(tmp_path, layout, {})) == JobSizes(dp=8, pp=1, world=8)
    hybrid = []
    for rank in range(8):
        made = RankProfile(rank, 8)
        made.groups = [
            ("mesh_dp_shard", range(rank // 4 * 4, rank // 4 * 4 + 4)),
            ("mesh_dp_replicate", (rank % 4, rank % 4 + 4)),
        ]
        hybrid.append(made.write(tmp_path, name=f"hybrid_rank-{rank}.json"))
    assert sizes_of(hybrid) == JobSizes(dp=8, pp=1, world=8)


@pytest.mark.parametrize(
    ("groups", "right"),
    [
        ([(0, 1), (2, 3)], True),
        ([(0, 2), (1, 3)], True),
        ([(0, 1, 2), (3,)], False),
        ([(0, 1), (0, 1, 2)], False),
        ([(0, 1, 3)], False),
    ],
)
def test_one_partition_of_the_ranks_is_no_second_dimension(
    groups: Sequence[Sequence[int]], right: bool, tmp_path: Path
) -> None:
    """Groups of two that nobody describes may reduce gradients in two steps; uneven ones are something else."""
    paths = []
    for rank in range(4):
        made = RankProfile(rank, 4)
        made.groups = [("undefined", ranks) for ranks in groups if rank in ranks]
        paths.append(made.write(tmp_path))
    if right:
        assert sizes_of(paths).dp == 4
    else:
        with pytest.raises(TraceFormatError, match="do not describe all"):
            sizes_of(paths)


@pytest.mark.parametrize("groups", [[(0, 1, 2), (3, 4, 5, 6, 7)], [(0, 1), (2, 3), (4, 5), (6, 7)], [(0, 1)]])
def test_replicas_that_are_not_all_ranks_leave_a_dimension_unsaid(
    groups: Sequence[Sequence[int]], tmp_path: Path
) -> None:
    """Groups that say they are data-parallel, uneven or of two ranks of eight, do not make eight replicas."""
    paths = []
    for rank in range(8):
        made = RankProfile(rank, 8)
        made.groups = [("DATA_PARALLEL_GROUP", ranks) for ranks in groups if rank in ranks]
        paths.append(made.write(tmp_path))
    with pytest.raises(TraceFormatError, match="do not describe all"):
        sizes_of(paths)


def step(made: RankProfile, *names: str) -> RankProfile:
    """One step with these ranges on the host."""
    made.host("ProfilerStep#1", 0.0, 20_000.0)
    for i, name in enumerate(("## forward ##", "## backward ##", *names, "Optimizer.step#SGD.step")):
        made.host(name, 1_000.0 * i, 900.0)
    return made


@pytest.mark.parametrize(
    ("name", "degrees"),
    [
        ("gloo:send", {"dp": 1, "pp": 4}),
        ("nccl:send 0->2", {"dp": 2, "pp": 2}),
        ("nccl:recv 3<-2", {"dp": 1, "pp": 4}),
        ("Forward 0", {"dp": 1, "pp": 4}),
        ("PP:1F0", {"dp": 1, "pp": 4}),
    ],
)
def test_what_only_a_pipeline_records_refutes_replicas(
    name: str, degrees: Mapping[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sends, and passes of stages, where no group is smaller than the job: exit 2 with degrees, and nothing is saved.

    A hop of two ranks of four leaves two stages.  Whoever says that the ranks are replicas is believed about sends.
    """
    paths = [step(RankProfile(rank, 4, backend="gloo"), name).write(tmp_path) for rank in range(4)]
    assert run(["health", "op-trace", *paths, "--save", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert {key: int(size) for key, size in re.findall(r"(\w+)_size: (\d+)", said)} == degrees
    assert "--meta" in said
    assert not (tmp_path / "out").exists()
    if ":s" in name or ":r" in name:
        convert(paths, RankLayout(dp=4, dsp=1, pp=1, tp=1, vpp=1))


def test_groups_that_metadata_contradict_are_refused(tmp_path: Path) -> None:
    """Stages on neighbouring ranks: ranks 0 and 1 are a pipeline, which Megatron's order does not make of 2 x 2."""
    paths = []
    for rank in range(4):
        made = step(RankProfile(rank, 4, backend="gloo"))
        made.groups = [("mesh_pp", (rank // 2 * 2, rank // 2 * 2 + 1)), ("mesh_dp", (rank % 2, rank % 2 + 2))]
        paths.append(made.write(tmp_path))
    with pytest.raises(TraceFormatError, match=saying("mesh_pp", "ranks 0, 1", "none of pp")):
        convert(paths, RankLayout(dp=2, dsp=1, pp=2, tp=1, vpp=1))
    with pytest.raises(TraceFormatError, match="mesh_pp"):
        convert(paths, layout_of(sizes_of(paths)), ConversionSettings(guessed=True))


LINES = {
    "using world size: 16, data-parallel size: 2, context-parallel size: 1, hierarchical context-parallel sizes: None, "
    "tensor-model-parallel size: 4, pipeline-model-parallel size: 2": JobSizes(dp=2, pp=2, tp=4, world=16),
    "using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 2, "
    "pipeline-model-parallel size: 2 ": JobSizes(dp=2, pp=2, tp=2, world=8),
    "[default0]:> using world size: 8, data-parallel size: 1, context-parallel size: 2 tensor-model-parallel size: 1, "
    "pipeline-model-parallel size: 4 \n  virtual_pipeline_model_parallel_size ............ 2": JobSizes(
        dp=1, pp=4, dsp=2, vpp=2, world=8
    ),
}
"""What Megatron-LM has printed over the years, and what it says."""


@pytest.mark.parametrize("text", LINES)
def test_a_log_of_megatron_says_its_degrees(text: str, tmp_path: Path) -> None:
    """They stand in a line before the first times."""
    path = tmp_path / "train.log"
    path.write_text(f"x\n{text}\ntimes across ranks (ms):\n")
    assert sizes_of([str(path)]) == LINES[text]


def test_a_log_without_degrees_is_refused(tmp_path: Path) -> None:
    """A log that was cut off at its beginning: rank 0 alone is not the job."""
    path = tmp_path / "train.log"
    path.write_text("times across ranks (ms):\n  forward-compute:\n     rank 0: 1.0\n")
    with pytest.raises(TraceFormatError, match=saying("degrees")) as caught:
        sizes_of([str(path)])
    assert "--meta" in caught.value.fix


@pytest.mark.parametrize(
    ("words", "family"),
    [
        ("dp0", "dp"),
        ("mesh_fsdp", "dp"),
        ("pp1", "pp"),
        ("tp", "tp"),
        ("mesh_cp", "cp"),
        ("dpo", ""),
        ("pipelined_io", ""),
        ("undefined", ""),
    ],
)
def test_descriptions_of_groups(words: str, family: str) -> None:
    """A family by itself, numbered, or of a mesh; a word that only begins like one is none."""
    assert described_family(words) == family


def test_hops_of_transfers() -> None:
    """Distances where both ends are recorded; collectives are no transfers."""
    names = {"nccl:send 0->3": 3, "nccl:recv 3<-2": 1, "gloo:send": 0, "nccl:recv 1<-?": 0, "nccl:all_reduce": None}
    assert {name: hop_of(name) for name in names} == names


@pytest.mark.skipif(DATA is None, reason="ARNOLD_DATA is not set: the public profiles are not here")
@pytest.mark.parametrize(("job", "slow"), [("pytorch215_slow/gpipe_slow-bwd_2", (0, 1)), ("pytorch215/gpipe", (1, 1))])
def test_real_jobs_name_the_slow_rank_without_metadata(
    job: str, slow: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two stages of two replicas with one slow worker: rank 0, which only waited for it, was named."""
    paths = [str(Path(str(DATA), "real", job, f"rank-{rank}.json.gz")) for rank in range(4)]
    assert run(["health", "op-trace", *paths, "--save", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["stragglers", str(tmp_path / "trace.parquet"), "--meta", str(tmp_path / "meta.yaml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(worker["dp"], worker["stage"]) for worker in found["slow_workers"]] == [slow]


@pytest.mark.skipif(DATA is None, reason="ARNOLD_DATA is not set: the public profiles are not here")
def test_an_interleaved_job_with_replicas_names_the_slow_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two chunks a stage, gradients reduced after the schedule: the clocks agree, and dp 0 / stage 0 alone is slow."""
    paths = sorted(map(str, Path(str(DATA), "real", "pytorch215_slow", "interleaved_slow-bwd_0").glob("*.json.gz")))
    meta = tmp_path / "job.yaml"
    meta.write_text("dp_size: 2\npp_size: 2\nvpp_size: 2\n", encoding="utf-8")
    assert run(["health", "op-trace", *paths, "--meta", str(meta), "--save", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["stragglers", str(tmp_path / "trace.parquet"), "--meta", str(meta), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(worker["dp"], worker["stage"]) for worker in found["slow_workers"]] == [(0, 0)]
    assert not any("clocks" in note.lower() for note in found["notes"])


@pytest.mark.skipif(DATA is None, reason="ARNOLD_DATA is not set: the public profiles are not here")
@pytest.mark.parametrize(
    ("job", "degrees"),
    [
        ("pytorch215_slow/interleaved_slow-bwd_0", {"dp": 2, "pp": 2, "vpp": 2}),
        ("pytorch215/interleaved", {"dp": 1, "pp": 2, "vpp": 2}),
    ],
)
def test_real_jobs_with_several_stages_a_rank_are_refused_with_their_degrees(
    job: str, degrees: dict[str, int], tmp_path: Path
) -> None:
    """Groups say dp and pp, and the stages that ranges name how many a rank has."""
    paths = sorted(map(str, Path(str(DATA), "real", job).glob("*.json.gz")))
    with pytest.raises(TraceFormatError) as caught:
        convert(paths, layout_of(sizes_of(paths)), ConversionSettings(guessed=True))
    assert proposal(caught.value) == degrees
