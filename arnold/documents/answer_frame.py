"""The frame of texts about placements, of about fifteen lines: the answer and how sure it is, where it is, what was
assumed, what to do next.  ``-v`` prints what is folded and left out of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from arnold.console.output import GOOD, SO_SO, Console, is_verbose, plain, print_rows, print_sentences
from ground.quantities import capitalised, decimal, plural
from scheduler.job import FAMILIES, Family
from scheduler.outcome import Instance, proof_in_words
from scheduler.placement.admission import held_nodes

LONGEST, SHORT = 40, 3  # Most rows of a table, and most sentences of a list: with -v, and without
FEW = 2  # Sentences of a list that is folded: they are longer than rows
LONGEST_NAMES = 72  # Most characters of a list of nodes without -v
COLOURS = {"optimal": GOOD, "feasible": SO_SO}  # Of verdicts; all others are bad


class Frame:
    """The text of an answer, short, or with ``-v`` whole: what is folded or left out is named in its last line."""

    def __init__(self, out: Console, verdict: str, style: str, *, timing: str = "") -> None:
        """Print the verdict, with ``timing``: by what it was found, and in how many seconds."""
        from rich.text import Text

        from arnold.console.fitted_table import AnswerPage

        self.out, self.whole = out, is_verbose() or isinstance(out, AnswerPage)
        self.longest_names = None if self.whole else LONGEST_NAMES
        self._under_v: list[str] = []
        out.print(Text(verdict, style) + Text(f"  ({timing})" if timing else "", "dim"))

    def shown(self, rows: int, what: str, most: int = SHORT) -> int:
        """Return how many of so many rows or sentences are shown; where not all are, ``-v`` has them.

        A fold of one is none: it would take the line of what it leaves out.
        """
        most = LONGEST if self.whole else most
        if rows <= most + 1:
            return rows
        if not self.whole:
            self._under_v.append(f"all {rows:,} {what}")
        return most

    def rows(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        title: str,
        left: Sequence[str],
        spare: Sequence[str] = (),
        bold: Collection[int] = (),
        most: int = SHORT,
    ) -> None:
        """Print a table, folded to so many rows."""
        most = self.shown(len(rows), title.lower(), most)
        print_rows(self.out, headers, rows, title=title, left=left, spare=spare, bold=bold, most=most)

    def sentences(self, title: str, sentences: Sequence[str], what: str = "reasons", most: int = FEW) -> None:
        """Print a list, folded."""
        most = self.shown(len(sentences), what, most)
        more = [f"{len(sentences) - most:,} more"] if len(sentences) > most else []
        print_sentences(self.out, title, [*sentences[:most], *more])

    def details(self, title: str, sentences: Sequence[str]) -> None:
        """Print a list with ``-v`` alone."""
        if self.shows(title, sentences):
            print_sentences(self.out, capitalised(title), sentences)

    def shows(self, title: str, details: Sequence[object]) -> bool:
        """Return whether details are shown; else they are named as left out, where there are any."""
        if details and not self.whole:
            self._under_v.append(title)
        return bool(details) and self.whole

    def levels(self, spread: Mapping[str, Mapping[Family, int]]) -> None:
        """Print the largest spread of a group for every level and family, with ``-v`` alone."""
        if self.shows("every level", [*spread]):
            print_levels(self.out, spread)

    def end(self, assumed: Sequence[str], then: str) -> None:
        """Print what was assumed, a line each kind, and the command to go on with; then what ``-v`` has more."""
        from rich.text import Text

        print_sentences(self.out, "Assumed", [*dict.fromkeys(assumed)])
        if then:
            self.out.print(plain(f"Next: {then}"), soft_wrap=True)  # typed as it stands, it is one line
        if self._under_v:
            self.out.print(Text(f"-v shows {', '.join(self._under_v)}", "dim"))


def print_levels(out: Console, spread: Mapping[str, Mapping[Family, int]]) -> None:
    """Print the largest spread of a group for every level and family."""
    rows = [(level, *(of[family] for family in FAMILIES)) for level, of in spread.items()]
    print_rows(out, ("largest spread at", *FAMILIES), rows, title="Every level and family")


def passed_over(instance: Instance) -> list[str]:
    """Return how many nodes the job may not have, by what holds them, the commonest first; and the slow ones.

    Notes of the cluster's readers name the options that would admit them.
    """
    held = Counter(held_nodes(instance.cluster, instance.job))
    if not held:
        return []
    kinds = ", ".join(f"{nodes:,} {why}" for why, nodes in held.most_common())
    return [f"{held.total():,} of {len(instance.cluster):,} nodes passed over: {kinds}"]


def print_head(out: Console, instance: Instance) -> None:
    """Print one line about the job, one about the cluster."""
    from rich.text import Text

    job, cluster, level = instance.job, instance.cluster, instance.level
    grid = job.grid
    size = f": {grid.rows} x {grid.columns} cells, {grid.cells:,} nodes of {job.gpus_per_node} GPUs; "
    out.print(Text(job.name, "bold") + Text(size + f"alpha {decimal(job.alpha)}, beta {decimal(job.beta)}"))
    out.print(
        f"{instance.source}: {len(cluster):,} nodes, {int(instance.usable.sum()):,} usable; "
        f"spread counts {plural(len(level), level.name)}"
    )


def proof_clause(proved_to: str | None) -> str:
    """Return what is proved, to end a sentence with; empty = not even the objective."""
    return "" if proved_to is None else f"; {proof_in_words(proved_to)}"
