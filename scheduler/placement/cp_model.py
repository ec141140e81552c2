"""Models of CP-SAT, and its solver, without pandas.

``ortools.sat.python.cp_model`` imports pandas, for series of variables that nothing here makes: most of the time that
its import takes.  These classes are its own as far as they are used, over the same compiled part, and keep its names:
the same calls make the same model (``tests/scheduler/placement/test_cp_model.py``), a little sooner, as no method gets
a second name.  The import is left to those who make a model.
"""

from collections.abc import Iterable
from typing import Any, Self

from ortools.sat.python import cp_model_helper as compiled
from ortools.util.python.sorted_interval_list import Domain

from scheduler.work_clock import stoppable

BoundedLinearExpression = compiled.BoundedLinearExpression
Constraint = compiled.Constraint
CpSolverStatus = compiled.CpSolverStatus
IntVar = compiled.IntVar
LinearExpr = compiled.LinearExpr
Literal = compiled.Literal
LinearExprT = LinearExpr | IntVar | int
LiteralT = Literal | int | bool

FEASIBLE = CpSolverStatus.FEASIBLE
INFEASIBLE = CpSolverStatus.INFEASIBLE
MODEL_INVALID = CpSolverStatus.MODEL_INVALID
OPTIMAL = CpSolverStatus.OPTIMAL

_OF_LITERALS = "_add_bool_argument_constraint"


class CpModel(compiled.CpBaseModel):
    """A model: variables, constraints, an objective and a hint."""

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def proto(self) -> compiled.CpModelProto:
        """The model as CP-SAT has it."""
        proto: compiled.CpModelProto = self.model_proto
        return proto

    def new_int_var(self, lower: int, upper: int, name: str) -> IntVar:
        """Return a new variable with a value from ``lower`` to ``upper``."""
        return IntVar(self.proto).with_name(name).with_domain(Domain(lower, upper))

    def new_bool_var(self, name: str) -> IntVar:
        """Return a new variable that is 0 or 1."""
        return self.new_int_var(0, 1, name)

    def new_constant(self, value: int) -> IntVar:
        """Return a variable with one value, the same one for the same value."""
        return IntVar(self.proto, self.get_or_make_index_from_constant(value))

    def clone(self) -> Self:
        """Return a copy, whose variables have the same indices."""
        copy = type(self)()
        copy.proto.copy_from(self.proto)
        copy.rebuild_constant_map()
        return copy

    def own(self, variable: IntVar) -> IntVar:
        """Return the variable that stands here for one of a model that this is a copy of."""
        return IntVar(self.proto, variable.index)

    def add(self, constraint: BoundedLinearExpression | bool) -> Constraint:
        """Add a linear constraint; one of numbers alone always holds, or never; raise TypeError: it is neither."""
        if isinstance(constraint, BoundedLinearExpression):
            return self._constraint("_add_bounded_linear_expression", constraint)
        if not self.is_boolean_value(constraint):
            raise TypeError(f"a constraint is a comparison, not a {type(constraint).__name__}")
        return self.add_bool_or(*([True] if constraint else []))

    def add_bool_or(self, *literals: LiteralT | Iterable[LiteralT]) -> Constraint:
        """Say that one of some literals is true, or several."""
        return self._constraint(_OF_LITERALS, compiled.BoolArgumentConstraint.bool_or, *literals)

    def add_at_most_one(self, literals: Iterable[LiteralT]) -> Constraint:
        """Say that no two of some literals are true."""
        return self._constraint(_OF_LITERALS, compiled.BoolArgumentConstraint.at_most_one, *literals)

    def add_exactly_one(self, literals: Iterable[LiteralT]) -> Constraint:
        """Say that one of some literals is true, and no other."""
        return self._constraint(_OF_LITERALS, compiled.BoolArgumentConstraint.exactly_one, *literals)

    def add_implication(self, condition: LiteralT, then: LiteralT) -> Constraint:
        """Say that a literal is true where another one is."""
        implied = self._constraint(_OF_LITERALS, compiled.BoolArgumentConstraint.bool_and, then)
        implied.only_enforce_if(condition)
        return implied

    def add_multiplication_equality(self, product: LinearExprT, factors: Iterable[LinearExprT]) -> Constraint:
        """Say that an expression is the product of others."""
        kind = compiled.LinearArgumentConstraint.prod
        return self._constraint("_add_linear_argument_constraint", kind, product, *factors)

    def minimize(self, objective: LinearExprT) -> None:
        """Ask for the least value of an expression, in place of any other objective."""
        self._set_objective(objective, sign=1)

    def maximize(self, objective: LinearExprT) -> None:
        """Ask for the largest value of an expression, in place of any other objective."""
        self._set_objective(objective, sign=-1)

    def clear_objective(self) -> None:
        """Ask for any solution."""
        self.proto.clear_objective()

    def add_hint(self, variable: Literal, value: int) -> None:
        """Suggest the value of a variable, or of a literal."""
        negated = variable.index < 0
        hint = self.proto.solution_hint
        hint.vars.append(-variable.index - 1 if negated else variable.index)
        hint.values.append(int(value) ^ negated)

    def clear_hints(self) -> None:
        """Take all suggestions back."""
        self.proto.clear_solution_hint()

    def _constraint(self, method: str, *arguments: Any) -> Constraint:
        """Add a constraint by a method of the compiled part that its stub does not declare."""
        added: Constraint = getattr(self, method)(*arguments)
        return added

    def _set_objective(self, expression: LinearExprT, *, sign: int) -> None:
        """Set the objective: the least value of ``sign`` times an expression of whole numbers."""
        self.clear_objective()
        objective = self.proto.objective
        objective.scaling_factor = float(sign)
        if isinstance(expression, LinearExpr):
            terms = compiled.FlatIntExpr(expression)
            objective.vars.extend([variable.index for variable in terms.vars])
            objective.coeffs.extend([sign * coefficient for coefficient in terms.coeffs])
            objective.offset = sign * terms.offset
        else:
            objective.offset = sign * int(expression)


class CpSolver:
    """One run of the solver, with its parameters; after :meth:`solve` its answer."""

    def __init__(self) -> None:
        self.parameters = compiled.SatParameters()
        self._response: Any = None

    def solve(self, model: CpModel) -> CpSolverStatus:
        """Search, until all clocks are ended at the most, and return how the search ended."""
        run = compiled.SolveWrapper()
        run.set_parameters(self.parameters)
        with stoppable(run.stop_search):
            self._response = run.solve(model.proto)  # type: ignore[no-untyped-call]
        status: CpSolverStatus = self._response.status
        return status

    @property
    def response_proto(self) -> compiled.CpSolverResponse:
        """The whole answer."""
        response: compiled.CpSolverResponse = self._response
        return response

    @property
    def wall_time(self) -> float:
        """Seconds of the clock that the search took."""
        return float(self._response.wall_time)

    @property
    def objective_value(self) -> float:
        """The objective of the solution."""
        return float(self._response.objective_value)

    @property
    def best_objective_bound(self) -> float:
        """The least (largest) objective that the search has not ruled out."""
        return float(self._response.best_objective_bound)

    def value(self, expression: LinearExprT) -> int:
        """Return the value of an expression in the solution."""
        return compiled.ResponseHelper.value(self._response, expression)

    def boolean_value(self, literal: LiteralT) -> bool:
        """Return the value of a literal in the solution."""
        return compiled.ResponseHelper.boolean_value(self._response, literal)
