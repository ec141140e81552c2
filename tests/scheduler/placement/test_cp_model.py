"""Models of CP-SAT that are made without pandas: the same as those of OR-Tools' own Python module."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model as theirs

from scheduler.placement import cp_model as ours


def build(module: Any) -> Any:
    """Make a model by every call that both modules have."""
    model = module.CpModel()
    x, y = model.new_int_var(-2, 7, "x"), model.new_int_var(0, int(np.int64(9)), "")
    a, b, c = (model.new_bool_var(name) for name in "abc")
    one, again = model.new_constant(3), model.new_constant(3)
    assert one.index == again.index
    model.add(2 * x - y + 4 <= 5).only_enforce_if(a)
    model.add(x + y != one)
    model.add(x > y).only_enforce_if([~b, c])
    model.add(True)  # of numbers alone
    model.add(sum([]) == 1).only_enforce_if(c)
    model.add_bool_or(a, ~b)
    model.add_bool_or([a, True, c])
    model.add_at_most_one([a, b, c])
    model.add_exactly_one(literal for literal in (a, b, c))
    model.add_implication(a, ~c)
    model.add_multiplication_equality(y, [x, x - 1])
    model.add_hint(a, True)
    model.clear_hints()
    model.add_hint(b, False)
    model.add_hint(~c, False)
    return model, x, y, (a, b, c)


def test_the_same_calls_make_the_same_model() -> None:
    """Constraint by constraint, with the hint, what is left of a hint taken back, and each kind of objective."""
    mine, x, y, (a, _, c) = build(ours)
    other, x_too, y_too, (a_too, _, c_too) = build(theirs)
    assert str(mine.proto) == str(other.proto)
    assert len(mine.proto.constraints) == 11
    for sense in ("minimize", "maximize"):
        getattr(mine, sense)(3 * x - 2 * y + a - c + 5)
        getattr(other, sense)(3 * x_too - 2 * y_too + a_too - c_too + 5)
        assert str(mine.proto) == str(other.proto)
    mine.minimize(7)  # a sum of no terms
    other.minimize(7)
    assert str(mine.proto) == str(other.proto)
    mine.clear_objective()
    other.clear_objective()
    assert str(mine.proto) == str(other.proto)


def test_the_same_answer() -> None:
    """Status, values and bounds of one model, of which the least of 3 x - 2 y is to be found, are those of theirs."""
    answers = []
    for module in (ours, theirs):
        model, x, y, literals = build(module)
        model.minimize(3 * x - 2 * y)
        solver = module.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(model)
        assert status == module.OPTIMAL
        assert solver.wall_time >= 0.0
        values = [solver.value(x), solver.value(y), solver.value(x + 2 * y - 1)]
        truths = [solver.boolean_value(literal) for literal in (*literals, ~literals[0])]
        answers.append((solver.objective_value, solver.best_objective_bound, values, truths))
    assert answers[0] == answers[1]
    # y = x (x - 1) <= 9 leaves x in -2..3, and x + y != 3: x = -2 with y = 6 has 3 x - 2 y = -18, the least of all
    assert answers[0][:2] == (-18.0, -18.0)


def test_a_copy_has_variables_of_its_own() -> None:
    """What is added to a copy is not in the model, and constants of the copy are still shared."""
    model = ours.CpModel()
    x, three = model.new_int_var(0, 9, "x"), model.new_constant(3)
    copy = model.clone()
    copy.add(copy.own(x) == copy.new_constant(3))
    assert copy.new_constant(3).index == three.index
    assert len(model.proto.constraints) == 0
    solver = ours.CpSolver()
    assert solver.solve(copy) == ours.OPTIMAL
    assert solver.value(copy.own(x)) == 3


def test_a_constraint_is_a_comparison() -> None:
    """An expression by itself says nothing."""
    model = ours.CpModel()
    with pytest.raises(TypeError, match="comparison"):
        model.add(model.new_bool_var("") + 1)  # type: ignore[arg-type]


def test_searches_import_no_other_models() -> None:
    """The one door is this module: the verifier, which shares nothing with the search, has OR-Tools' own."""
    folder = Path(ours.__file__).parents[1]
    importing = {
        path.relative_to(folder).parts[0]
        for path in folder.rglob("*.py")
        if re.search(r"(?:from|import) ortools\.sat\.python(?:\.| import )cp_model\b", path.read_text("utf-8"))
    }
    assert importing == {"verification"}


def test_no_search_needs_pandas() -> None:
    """Where pandas cannot be imported, jobs are placed that need models of the solver."""
    code = """
import sys
sys.modules["pandas"] = None  # what Python itself takes for "not to be found"
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits
from topology.generate import fragment, minipods
cluster = fragment(minipods(minipods=6, nodes=60, rack_nodes=4, unevenness=0.5), 0.5, seed=0)
free = int(cluster.idle.sum())
job = Job("j", Parallelism(tp=8, dp=free // 4, pp=4), alpha=0.3)
outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(clock="work", seconds=5.0))
print(outcome.status, "scheduler.placement.cp_model" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["optimal", "True"]
