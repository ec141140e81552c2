"""Reading job files: what is taken, and how mistakes are named."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput, InvalidJob, TooLarge, UnknownName
from ground.files import Source
from ground.records import NotPlainError, read_json, read_plain
from scheduler.affinity import Record
from scheduler.job import Count, Hold, Overrides
from scheduler.job_files.job_file import MAX_CELLS, JobDocument, JobFile, job_document, job_of, load_job
from scheduler.job_files.records_file import load_records
from scheduler.outcome import Instance
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Node

FILE_ALONE = Overrides()
START = "name: llm\nparallelism: {tp: 8, pp: 8, dp: 150}\n"


def read(text: str, *, overrides: Overrides = FILE_ALONE, records: Sequence[Record] = ()) -> JobFile:
    """The job of a text, as if from job.yaml."""
    return load_job(Source("job.yaml", text), overrides=overrides, records=records)


def test_the_example_of_the_documentation_is_read() -> None:
    """Every key of the documented example arrives in the job."""
    job = read(
        "name: llm-400b\ngpus_per_node: 8\nparallelism: {tp: 8, pp: 8, dp: 150}\nalpha: 0.3\nlevel: minipod\n"
        "avoid: strict\n"
    ).job
    assert (job.name, job.gpus_per_node, job.alpha, job.level, job.avoid) == ("llm-400b", 8, 0.3, "minipod", "strict")
    assert (job.grid.rows, job.grid.columns) == (150, 8)


def test_the_documentation_is_true() -> None:
    """Every YAML block of job.md of the docs is read: jobs, but the last, which is a characterisation file."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "job.md").read_text(encoding="utf-8")
    *jobs, records = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    found = [read(text).job for text in jobs]
    assert [job.grid.cells for job in found] == [1200, 128, 1200]
    assert found[0].holds == (Hold("ep", "rack"),)
    assert found[2].microbatches == 10
    assert [record.name for record in load_records(Source("docs", records))] == ["our 70B"]


def test_json_is_yaml() -> None:
    """The same job as JSON."""
    assert read('{"parallelism": {"tp": 8, "dp": 2}, "alpha": 1}').job.alpha == 1.0


@pytest.mark.parametrize(
    ("degrees", "cells", "notes"),
    [
        ("{tp: 4}", 1, ["the node has ranks for 4 of its 8 GPUs, and is taken whole."]),
        ("{tp: 4, dp: 3}", 2, ["the last of the 2 nodes has ranks for 4 of its 8 GPUs, and is taken whole."]),
        (
            "{tp: 4, dp: 3, pp: 2}",
            3,
            ["stages begin inside nodes, which are filled in the order of ranks: there is no grid of nodes."],
        ),
    ],
)
def test_nodes_that_are_not_filled_evenly(degrees: str, cells: int, notes: list[str]) -> None:
    """The job is taken, and what is unusual about it is said."""
    found = read(f"alpha: 0.3\nparallelism: {degrees}")
    assert found.job.grid.cells == cells
    assert [*found.notes] == notes


def test_groups_that_cannot_be_held_are_named_with_their_line() -> None:
    """TP groups that find no room: the line of the level that is named, else of tp; stages of which the first two share
    a node, 5 nodes, and the third has 3 of its own: that of the constraints.
    """
    cluster = build_cluster(["m", "r"], [Node(f"n{i}", ("m", f"r{i // 3}"), 4, 4) for i in range(6)])
    start = "gpus_per_node: 4\nparallelism:\n  tp: 16\n"
    for text, where, words in (
        (start, "job.yaml:3", "no r has more than 3 such nodes: 12 GPUs would fit"),
        (start + "tp_level: r", "job.yaml:4", "no r has more than 3 such nodes"),
        (start + "tp_level: rr", "job.yaml:4", "no level 'rr'"),
        (
            "gpus_per_node: 4\nparallelism: {tp: 2, dp: 5, pp: 3}\nconstraints:\n- {family: dp, within: r}",
            "job.yaml:3",
            "the dp groups keep 5 nodes together here and 3 there",
        ),
        (start + "level: r\ntp_level: m", "job.yaml:5", "nothing could be proved"),
    ):
        with pytest.raises((InvalidJob, UnknownName), match=words) as caught:
            read(text).check_names(cluster)
        assert caught.value.where == where
        assert caught.value.fix
    read(start + "level: m\ntp_level: m").check_names(cluster)


def test_defaults_are_said() -> None:
    """Without alpha and model, alpha is 0.3 and a note says so; 8 GPUs a node; slow nodes have a price."""
    found = read(START)
    assert (found.job.alpha, found.job.gpus_per_node, found.job.avoid, found.job.level) == (0.3, 8, "price", None)
    assert "0.3 by default" in found.notes[0]


def test_constraints_become_holds_and_counts() -> None:
    """`within` is hard, `level` with `weight` is soft."""
    job = read(START + "constraints: [{family: ep, within: rack}, {family: cp, level: rack, weight: 0.1}]").job
    assert job.holds == (Hold("ep", "rack"),)
    assert job.counts == (Count("cp", "rack", 0.1),)


def test_a_constraint_twice_is_one() -> None:
    """What must be kept is kept once; soft ones add up."""
    hard, soft = "{family: dp, within: rack}", "{family: pp, level: rack, weight: 0.5}"
    job = read(f"{START}constraints: [{hard}, {soft}, {hard}, {soft}]").job
    assert (job.holds, job.counts) == ((Hold("dp", "rack"),), (Count("pp", "rack", 0.5),) * 2)


def test_weighed_levels_are_eq2_with_a_weight() -> None:
    """A tenth of Eq. 2 counted in racks, as terms of the objective; the file that says everything says it again."""
    found = read(START + "alpha: 0.25\nlevels: {rack: 0.1}")
    assert found.job.soft == (Count("dp", "rack", 0.025), Count("pp", "rack", pytest.approx(0.075)))
    cluster = build_cluster(["rack"], [Node("n", ("r",), 8, 8)])
    again = job_of(job_document(Instance(cluster, found.job)), lambda *_: "")
    assert again.job.levels == found.job.levels


@pytest.mark.parametrize(
    "text", [f"{START}order: tp-cp-ep-pp-dp", "parallelism: {tp: 8, pp: 8, dp: 2, order: tp-cp-ep-pp-dp}"]
)
def test_order_stands_in_either_place(text: str) -> None:
    """`order` is a key of the job or of its parallelism."""
    assert read(text).job.parallelism.order == "tp-cp-ep-pp-dp"


def test_experts_have_a_tensor_parallelism_of_their_own() -> None:
    """`etp` is `tp` where it is left out."""
    own = read("parallelism: {tp: 8, dp: 16, ep: 8, etp: 1}").job
    assert [read(START).job.parallelism.degree("etp"), own.parallelism.degree("etp")] == [8, 1]


def test_a_model_gives_alpha_and_microbatches() -> None:
    """A described 7B on L20 wants DP alignment (alpha 1); m = gb / (mb * dp) = 1500 / 150 = 10."""
    model = "model: {hidden: 4096, layers: 32, vocab: 32000, sequence_length: 4096, global_batch: 1500, gpu: L20}"
    found = read(START + model)
    assert (found.job.alpha, found.job.microbatches) == (1.0, 10)
    assert "7B dense on L20" in found.notes[0]


def test_a_model_may_be_named() -> None:
    """The mixture of experts of the table names itself: the nearest record is its own, alpha 0.3."""
    found = read(f"{START}model: 24B MoE on H800")
    assert found.job.alpha == pytest.approx(0.3)
    assert "24B MoE on H800" in found.notes[0]


def test_the_command_line_wins() -> None:
    """Overrides replace what the file says, and nothing is noted about the file's alpha."""
    found = read(f"{START}alpha: 0.1\nlevel: a", overrides=Overrides(alpha=0.9, level="b", avoid="ignore"))
    assert (found.job.alpha, found.job.level, found.job.avoid) == (0.9, "b", "ignore")
    assert found.notes == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (START + "alhpa: 0.3", 3, "did you mean 'alpha'"),
        (START + "model: llm-7", 3, "no model is called 'llm-7'; did you mean 'llm-7b'"),
        ("parallelism: {tp: 8, ddp: 8}", 1, "did you mean"),
        (START + "alpha: 1.5", 3, "less than or equal to 1"),
        (START + "alpha: -0.1", 3, "greater than or equal to 0"),
        (START + "alpha: .nan", 3, "finite"),
        (START + "alpha: .inf", 3, "alpha"),
        (START + "alpha: high", 3, "valid number"),
        (START + "alpha: '0.3'", 3, "valid number"),
        (START + "gpus_per_node: eight", 3, "valid integer"),
        (START + "gpus_per_node: 0", 3, "greater than or equal to 1"),
        (START + "avoid: maybe", 3, "'strict', 'price' or 'ignore'"),
        (START + "order: tp-dp", 3, "tp-cp-ep-dp-pp"),
        (START + 'order: ""', 3, "tp-cp-ep-dp-pp"),
        ('parallelism: {tp: 8}\nname: "a\\e[31mb"', 2, "control characters"),
        ('parallelism: {tp: 8}\nname: "a\\nb"', 2, "control characters"),
        (START + "constraints: {family: ep, within: rack}", 3, "valid list"),
        (START + f"constraints: [{'{family: ep, within: rack}, ' * 257}]", 3, "at most 256 entries"),
        (START + "constraints:\n- {family: ep}", 4, "within"),
        (START + "constraints:\n- {family: ep, within: rack, weight: 1}", 4, "within"),
        (START + "constraints:\n- {family: xp, within: rack}", 4, "'ep'"),
        (START + "constraints:\n- {family: ep, level: rack, weight: -1}", 4, "greater than or equal to 0"),
        (START + "levels: {rack: -0.1}", 3, "greater than or equal to 0"),
        (START + "levels: {rack: .nan}", 3, "finite"),
        (START + "levels: [rack]", 3, "keys with values"),
        (START + "model: {hidden: 4096}", 3, "missing"),
        (
            START + "model:\n  {hidden: 64, layers: 1, vocab: 9, sequence_length: 8,\n  global_batch: 7}",
            5,
            "multiple of",
        ),
        ("name: x", 1, "'parallelism' is missing"),
        ("parallelism:\n  tp: 3\n  dp: 8", 2, "divide a node of 8"),
        ("parallelism:\n  tp: 8\n  dp: 0", 3, "greater than or equal to 1"),
        ("parallelism: {tp: 8, cp: 3, ep: 4, dp: 3}", 1, "expert groups of 4"),
        ("parallelism:\n  tp: 8\n  etp: 3", 3, "do not divide the 8 ranks"),
        ("parallelism:\n  tp: 8\n  etp: 0", 3, "greater than or equal to 1"),
        (
            "parallelism: {tp: 8, cp: 2, pp: 2}\norder: tp-cp-ep-pp-dp",
            2,
            "data parallelism of 2 and the other layers of 1",
        ),
        ("gpus_per_node: 4\nparallelism: {tp: 6}", 2, "neither divide a node of 4 GPUs nor fill whole nodes"),
        (
            "gpus_per_node: 4\nparallelism: {tp: 8, dp: 2}\norder: dp-tp-cp-ep-pp",
            3,
            "8 ranks of a tensor-parallel group are 2",
        ),
        ("[1, 2]", 1, "keys with values"),
        (START + "tolerations:\n- {key: a, tolerationSeconds: long}", 4, "whole number of seconds"),
        (START + "gpu_types: H100", 3, "give a list of names such as [H200, H100], or any"),
        (START + "gpu_types: []", 3, "give a list of names"),
        (START + "gpu_types: [H100, 100]", 3, "give a list of names"),
        (START + "speed: 2", 3, "keys with values are expected"),
        (START + "speed:\n  H200: 1.35\n  H100: 0", 5, "greater than 0"),
        (START + "speed:\n  H200: -1.35", 4, "greater than 0"),
        (START + "speed:\n  H200: .nan", 4, "finite"),
    ],
)
def test_mistakes_are_named_with_line_and_remedy(text: str, line: int, words: str) -> None:
    """One error, at the line of the mistake, with what to do."""
    with pytest.raises(InvalidJob) as caught:
        read(text)
    assert caught.value.where == f"job.yaml:{line}"
    assert words in str(caught.value)
    assert caught.value.fix


def test_a_job_beyond_measure_is_too_big_not_wrong() -> None:
    """4e8 nodes are refused at once (exit 3), and the limit is named; nothing of that size is built."""
    with pytest.raises(TooLarge, match=f"{MAX_CELLS:,}") as caught:
        read("parallelism: {tp: 8, dp: 400000000}")
    assert caught.value.exit_code == 3


def test_an_alpha_option_out_of_range_is_blamed_on_the_option() -> None:
    """The job file is not at fault when --alpha is."""
    with pytest.raises(InvalidJob) as caught:
        read(START, overrides=Overrides(alpha=float("nan")))
    assert caught.value.where == "--alpha"


@pytest.mark.parametrize(
    ("text", "overrides", "where"),
    [
        (START + "level: minipot", Overrides(), "job.yaml:3"),
        (START, Overrides(level="minipot"), "--level"),
        (START + "constraints:\n- {family: ep, within: minipot}", Overrides(), "job.yaml:4"),
        (START + "constraints:\n- {family: ep, level: minipot, weight: 1}", Overrides(), "job.yaml:4"),
        (START + "levels:\n  minipot: 0.1", Overrides(), "job.yaml:4"),
    ],
)
def test_a_level_that_the_cluster_lacks(text: str, overrides: Overrides, where: str) -> None:
    """Every place that names a level is checked against the cluster, with the closest name that exists."""
    cluster = build_cluster(["minipod"], [Node("n1", ("a",), 8, 8)])
    with pytest.raises(UnknownName, match="did you mean 'minipod'") as caught:
        read(text, overrides=overrides).check_names(cluster)
    assert caught.value.where == where


TYPED = build_cluster(["r"], [Node("n1", ("a",), 8, 8, gpu_type="H100"), Node("n2", ("a",), 8, 8, gpu_type="H200")])


def test_types_of_gpu_and_speeds() -> None:
    """A list is what is allowed, any one of them for all nodes; any may be mixed; left out, any one type."""
    found = read(START + "gpu_types: [H200, H100, H200]\nspeed: {H200: 1.35}")
    found.check_names(TYPED)
    assert (found.job.gpu_types, found.job.mix_types) == (("H200", "H100"), False)
    assert [found.job.speed_on(names) for names in (["H200"], ["H100"], ["H200", "H100"])] == [1.35, 1.0, 1.0]
    assert (read(START + "gpu_types: any").job.gpu_types, read(START + "gpu_types: any").job.mix_types) == (None, True)
    assert (read(START).job.gpu_types, read(START).job.mix_types, read(START).job.speed) == (None, False, ())


@pytest.mark.parametrize("keys", ["gpu_types: [H100]\nspeed: {H200: 1.35}", "gpu_types: any", "name: j"])
def test_types_survive_a_saved_placement(keys: str) -> None:
    """The job as it was understood says them as the file did."""
    job = read(f"parallelism: {{tp: 8}}\n{keys}").job
    again = job_of(job_document(Instance(TYPED, job)), lambda *_: "saved").job
    assert (again.gpu_types, again.mix_types, again.speed) == (job.gpu_types, job.mix_types, job.speed)


@pytest.mark.parametrize(
    ("text", "line"), [("gpu_types:\n- H200\n- H101\n", 5), ("gpu_types: any\nspeed: {H100: 2, H101: 1}", 4)]
)
def test_a_type_that_the_cluster_lacks(text: str, line: int) -> None:
    """Named with its line and the closest that exists; or how to say it, where the cluster says none."""
    with pytest.raises(UnknownName, match=saying("'H101'")) as caught:
        read(START + text).check_names(TYPED)
    assert caught.value.where == f"job.yaml:{line}"
    assert says(caught.value.fix, "'H100'?", "H100, H200")
    with pytest.raises(UnknownName) as caught:
        read(START + text).check_names(build_cluster(["r"], [Node("n1", ("a",), 8, 8)]))
    assert says(caught.value.fix, "--gpu-type")


def test_own_measurements_extend_the_table() -> None:
    """A record of the same model wins, with alpha = 3 / (3 + 1)."""
    model = "{hidden: 999, layers: 9, vocab: 9000, sequence_length: 900, gpu: GB300}"
    records = load_records(
        Source(
            "own.yaml",
            f"records: [{{name: ours, gpu: GB300, model: {model}, parallelism: {{tp: 8, pp: 8, dp: 150}},"
            " dp_gain: 3, pp_gain: 1}]",
        )
    )
    assert read(f"{START}model: {model}", records=records).job.alpha == 0.75


def test_a_measurement_without_gain_is_refused() -> None:
    """An alpha of 0 / 0 means nothing."""
    text = "records: [{name: a, gpu: b, model: {hidden: 1, layers: 1, vocab: 1, sequence_length: 1}, parallelism: {}, "
    with pytest.raises(InvalidInput, match="above 0"):
        load_records(Source("own.yaml", text + "dp_gain: 0, pp_gain: 0}]"))


@examples(100)
@given(
    st.text(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["parallelism", "tp", "dp", "pp", "alpha", "model", "constraints", "name", "level"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    ).map(str)
)
def test_nonsense_never_escapes_as_another_exception(text: str) -> None:
    """Any text is either a job or an ArnoldError."""
    with suppress(ArnoldError):
        assert isinstance(read(text), JobFile)


VALUES = st.sampled_from([
    None, True, 0, 1, 2, 256, -1, 0.3, 1.0, 1.5, 8.0, 1e9, 10**20, nan, inf, "", "8", "any", "strict", "dp", "rack",
    "llm-7b", "a\nb", "dedicated=vision", "x" * 300, [], ["H100"], [8], ["dedicated", 7], [0.2, 0.1], {},
    {"rack": 1}, {"rack": 0.5, "pod": 2}, {"H200": 1.35}, {"train": "18"}, {"tp": 8, "dp": 2}, {"tp": 2.0}, {"dq": 1},
    {"tp": 8, "etp": None, "order": "tp-cp-ep-dp-pp"}, {"hidden": 64, "layers": 2, "vocab": 9, "sequence_length": 8},
    [{"family": "dp", "within": "rack"}], [{"family": "pp", "level": "rack", "weight": 1}], [{"family": "dp"}],
    [{"key": "a", "operator": "Exists", "tolerationSeconds": 30}, "spot"], [{"operator": "Exists", "value": "b"}],
])  # fmt: skip
"""What somebody might write behind a key: right for some, wrong for others."""


@examples(300)
@given(
    st.fixed_dictionaries(
        {"parallelism": st.just({"tp": 8, "pp": 4}) | VALUES},
        optional={name: VALUES for name in [*JobDocument.__dataclass_fields__, "other"] if name != "parallelism"},
    )
)
def test_what_is_read_without_pydantic_is_what_pydantic_reads(data: dict[str, Any]) -> None:
    """A job file that is plainly right needs no pydantic; then both read the same, and what pydantic refuses is not."""
    try:
        found = read_plain(JobDocument, data)
    except (NotPlainError, TypeError, ValueError):
        return
    assert repr(found) == repr(read_json(JobDocument, data))


def test_a_usual_job_file_is_read_without_pydantic() -> None:
    """Every key once, as the documentation has them."""
    data = {
        "name": "llm", "gpus_per_node": 8, "parallelism": {"tp": 8, "dp": 2}, "alpha": 1, "level": "pod",
        "model": "llm-7b", "avoid": "strict", "gpu_types": ["H200"], "speed": {"H200": 1}, "levels": {"rack": 0.1},
        "constraints": [{"family": "dp", "level": "rack", "weight": 1}], "tolerations": ["spot"], "images": {"a": 18},
        "expected_hours": 4, "interruptible": True, "microbatches": 64, "data_sets": {"a": 1e9},
    }  # fmt: skip
    assert read_plain(JobDocument, data) == read_json(JobDocument, data)
