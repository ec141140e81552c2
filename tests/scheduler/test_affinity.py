"""Alpha from a model description."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.affinity import RECORDS, Experts, Model, Record, affinity, model_microbatches, volumes
from scheduler.job import Parallelism
from tests.case_counts import examples
from tests.facts import says

SEVEN_B = Model(hidden=4096, layers=32, vocab=32_000, sequence_length=4096)
GRID = Parallelism(tp=8, pp=8, dp=8)


def test_a_7b_model_reduces_2_gb_and_sends_30_mb() -> None:
    """The paper's own check value: DP about 2 GB, PP about 30 MB."""
    sizes = volumes(SEVEN_B, GRID)
    assert sizes.dp == pytest.approx(2e9, rel=0.1)
    assert sizes.pp == pytest.approx(30e6, rel=0.15)


def test_the_dp_volume_follows_the_formula_of_the_paper() -> None:
    """h(V+s) + (l/pp)(4h^2 + 2h + 8h^2 + 7h) parameters of 2 bytes, with numbers small enough to do by hand."""
    # h=2, V=3, s=5, l=4, pp=2: 2*(3+5) + 2*(12*4 + 9*2) = 16 + 132 = 148 parameters; PP: mb*s*h = 3*5*2 values.
    sizes = volumes(Model(hidden=2, layers=4, vocab=3, sequence_length=5, micro_batch=3), Parallelism(pp=2, dp=4))
    assert sizes.dp == sizes.weights == 2 * 148
    assert sizes.pp == 2 * 30
    assert sizes.r1 == pytest.approx(3 * 296 / (296 + 60))
    assert sizes.r2 == pytest.approx(296 / 60)


def test_experts_are_reduced_by_share_and_compute_by_top_k() -> None:
    """An expert-parallel rank reduces E / ep experts; a token is computed by top_k of them."""
    # h=2, inner width 3: an expert has 2*2*3 + 3 + 2 = 17 parameters; layer norm and router 2*2 + 2*8 = 20.
    # Outside the MLP: h(V+s) + l(4h^2 + 2h) = 2*(1+1) + 20 = 24.
    model = Model(hidden=2, layers=1, vocab=1, sequence_length=1, moe=Experts(experts=8, top_k=2, ffn_hidden=3))
    sizes = volumes(model, Parallelism(dp=4, ep=4))
    assert sizes.dp == 2 * (24 + 20 + 17 * 8 / 4)
    assert sizes.weights == 2 * (24 + 20 + 17 * 2)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_model_of_the_table_finds_itself(record: Record) -> None:
    """The nearest record of a measured job is its own, at distance nothing."""
    assert affinity(record.model, record.parallelism, RECORDS).record == record


@pytest.mark.parametrize(
    ("name", "alpha"),
    [("24B dense on H800", 0.0), ("24B MoE on H800", 0.3), ("7B dense on L20", 1.0), ("14B dense on L20", 0.0)],
)
def test_the_table_holds_the_published_points(name: str, alpha: float) -> None:
    """Alpha as the paper used it: 24B dense 0, 24B MoE 0.3; on L20 the 7B wants DP aligned, the 14B PP."""
    record = next(record for record in RECORDS if record.name == name)
    assert record.alpha == pytest.approx(alpha)


def test_records_of_the_own_gpu_win_over_nearer_ones_of_another() -> None:
    """A 7B model on H800 is closest to the 7B measured on L20, but H800 records are asked first."""
    on_l20 = affinity(SEVEN_B, GRID, RECORDS)
    on_h800 = affinity(Model(**{**_fields(SEVEN_B), "gpu": "h800"}), GRID, RECORDS)
    assert on_l20.record is not None
    assert on_l20.record.gpu == "L20"
    assert on_h800.record is not None
    assert on_h800.record.gpu == "H800"


def test_an_unknown_gpu_is_said() -> None:
    """Without a record of the GPU the nearest of any is used, and the user is told."""
    found = affinity(Model(**{**_fields(SEVEN_B), "gpu": "TPU"}), GRID, RECORDS)
    assert "nothing is recorded for TPU" in found.reason


MIXTURE = Model(hidden=5120, layers=32, vocab=32_000, sequence_length=4096, gpu="L20", moe=Experts(experts=64, top_k=4))


def test_a_mixture_of_experts_takes_no_record_of_a_dense_model() -> None:
    """14B dense on L20, of the model's own GPU, is nearest in r1 and r2, which know no traffic of experts: that of the
    only mixture counts, whose alpha of 0.3 is the default; and the note says all of it.
    """
    derived = affinity(MIXTURE, Parallelism(pp=2, dp=128, ep=64), RECORDS)
    assert (derived.record.name, derived.alpha) == ("24B MoE on H800", pytest.approx(0.3))
    for words in ("as by default", "14B dense on L20", "is a dense model and this job a mixture of experts"):
        assert words in derived.reason
    assert says(derived.reason, "nothing", "L20")
    # nor does a dense model take that of a mixture, be it its own in all but the experts
    own = Record(
        "ours", "L20", MIXTURE, Parallelism(tp=8, pp=2, dp=64, ep=64), dp_gain=1.0, pp_gain=1.0, published="measured"
    )
    dense = affinity(SEVEN_B, GRID, (own, *RECORDS))
    assert dense.record.model.moe is None
    # an own record of a mixture is of its kind
    assert affinity(MIXTURE, Parallelism(pp=2, dp=128, ep=64), (own, *RECORDS)).record is own


def test_one_dimension_alone_decides() -> None:
    """Without stages only DP groups can be aligned, with one replica only PP groups."""
    assert affinity(SEVEN_B, Parallelism(tp=8, dp=8), RECORDS).alpha == 1.0
    assert affinity(SEVEN_B, Parallelism(tp=8, pp=8), RECORDS).alpha == 0.0


def test_microbatches() -> None:
    """There are m = gb / (mb * dp); a batch that does not divide is refused, an unknown one leaves m unknown."""
    assert model_microbatches(Model(**{**_fields(SEVEN_B), "global_batch": 512, "micro_batch": 4}), GRID) == 16
    assert model_microbatches(SEVEN_B, GRID) is None
    with pytest.raises(InvalidJob, match="does not divide"):
        model_microbatches(Model(**{**_fields(SEVEN_B), "global_batch": 510, "micro_batch": 4}), GRID)


@examples(50)
@given(
    hidden=st.integers(1, 10**5),
    layers=st.integers(1, 500),
    vocab=st.integers(1, 10**6),
    pp=st.integers(2, 64),
    dp=st.integers(2, 512),
)
def test_alpha_is_always_a_share(hidden: int, layers: int, vocab: int, pp: int, dp: int) -> None:
    """Whatever the model, alpha is one of the table's values, within [0, 1]."""
    model = Model(hidden=hidden, layers=layers, vocab=vocab, sequence_length=4096)
    found = affinity(model, Parallelism(tp=8, pp=pp, dp=dp), RECORDS)
    assert found.alpha in {record.alpha for record in RECORDS}
    assert 0.0 <= found.alpha <= 1.0


def _fields(model: Model) -> dict[str, object]:
    return {name: getattr(model, name) for name in Model.__slots__}
