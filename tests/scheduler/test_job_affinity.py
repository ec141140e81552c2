"""The one rule for alpha: what the job says, else what its model gives, else the default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.affinity import NAMED_MODELS, RECORDS, Model, Record, affinity, job_affinity, named_model
from scheduler.job import DEFAULT_ALPHA, Job, Parallelism
from tests.facts import saying

MODELS = st.none() | st.sampled_from(list(NAMED_MODELS.values()))
DEGREES = st.builds(lambda dp, pp: Parallelism(tp=8, dp=dp, pp=pp), st.integers(1, 64), st.integers(1, 16))


@given(DEGREES, st.none() | st.floats(0, 1), MODELS, st.none() | st.integers(1, 64))
def test_what_the_job_says_wins_over_its_model_and_that_over_the_default(
    parallelism: Parallelism, alpha: float | None, model: Model | None, steps: int | None
) -> None:
    """For any job; the reason is said where the job itself does not say alpha."""
    known = job_affinity(parallelism, alpha=alpha, model=model, microbatches=steps)
    if alpha is not None:
        assert known.alpha == alpha
    elif model is not None:
        assert known.alpha == affinity(model, parallelism, RECORDS).alpha
    else:
        assert known.alpha == DEFAULT_ALPHA
    assert known.microbatches == steps
    assert (known.reason == "") == (alpha is not None)


def test_the_default_is_the_value_of_the_papers_mixture_of_experts() -> None:
    """The paper used 0 and 0.3; the more even of the two, of which a Job that is made without alpha has it too."""
    published = {round(record.alpha, 9) for record in RECORDS if "24B" in record.name}
    assert published == {0.0, 0.3}
    assert Job("j", Parallelism()).alpha == DEFAULT_ALPHA == max(published)


def test_own_measurements_come_before_the_built_in_ones() -> None:
    """A record of the same model and grid is nearest: 3 / (3 + 1)."""
    grid, model = Parallelism(tp=8, dp=16, pp=4), named_model("llm-20b")
    own = Record("ours", "H100", model, grid, dp_gain=3.0, pp_gain=1.0, published="measured")
    assert job_affinity(grid, model=model, records=[own]).alpha == 0.75


def test_a_name_that_no_model_has_says_which_there_are() -> None:
    """With the nearest of them."""
    with pytest.raises(InvalidJob, match=saying("'llm-7'")) as caught:
        named_model("llm-7")
    assert "did you mean 'llm-7b'?" in caught.value.fix
    assert "24B MoE on H800" in caught.value.fix
