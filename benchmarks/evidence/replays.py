"""Silent faults: is the machine that computes wrongly named, in how few runs of parts of its job."""

from collections.abc import Iterator
from statistics import mean

import numpy as np

from benchmarks.evidence.naming import HEADER, Naming, rows
from benchmarks.report import section
from benchmarks.report import table as markdown
from health.recovery.two_phase_replay import ReplayPlan, Replays, replay

PLANS = {"16 machines": ReplayPlan(4, 4, 1), "128": ReplayPlan(4, 32, 2), "1,000": ReplayPlan(8, 125, 5)}
NOISE = (0.0, 0.01, 0.03, 0.05)
# Times that each part is run -> culprits -> most runs
MOST_RUNS = {1: {0: 8, 1: 8, 2: 8}, 2: {0: 3, 1: 3, 2: 5}, 3: {0: 3, 1: 3, 2: 5}}
JOBS = 10  # For each seed of the options


def table(*, seeds: int, **_: object) -> str:
    """Healthy parts that fail and parts with a culprit that pass, as often by chance; each run is planned by those
    before it, and a job is left alone once nothing more is to be asked.
    """
    sections = []
    for title, plan in PLANS.items():
        lines = []
        for repeats, most in MOST_RUNS.items():
            for noise in NOISE:
                for culprits in most:
                    jobs = list(
                        searches(plan, culprits, noise, repeats=repeats, most=most[culprits], jobs=seeds * JOBS)
                    )
                    (line,) = rows(f"{noise:.0%}", (naming for naming, _ in jobs))
                    lines.append(
                        [str(repeats), *line[1:], f"{mean(runs for _, runs in jobs):.1f}", str(most[culprits])]
                    )
        head = ["times", "noise", "jobs", *HEADER[1:], "runs", "at most"]
        sections.append(section(f"{title}, {plan.groups} parts of {plan.group_size}", markdown(head, lines)))
    return "\n".join(["# Silent faults: machine named from runs of a job in parts\n", *sections])


def searches(
    plan: ReplayPlan, culprits: int, noise: float, *, repeats: int, most: int, jobs: int
) -> Iterator[tuple[Naming, int]]:
    """For each job who is at fault and who is named, and how many runs it took."""
    for seed in range(jobs):
        rng = np.random.default_rng(seed)
        guilty = frozenset(rng.choice(plan.machines, culprits, replace=False).tolist())
        replays = search(plan, guilty, noise, rng, repeats=repeats, most=most)
        yield Naming(str(culprits), guilty, frozenset(replays.culprits)), len(replays.runs)


def search(
    plan: ReplayPlan, guilty: frozenset[int], noise: float, rng: np.random.Generator, *, repeats: int, most: int
) -> Replays:
    """What is known after two runs and as many more as are asked for; any outcome is wrong with a chance, noise."""
    replays = replay(plan, {}, repeats=repeats)
    while len(replays.runs) < most and (len(replays.runs) < 2 or not replays.settled):
        failed = {}
        for number, group in enumerate(replays.next_groups):
            chance = noise if guilty.isdisjoint(group) else 1 - noise
            failed[number] = int((rng.random(repeats) < chance).sum())
        replays = replays.after(failed)
    return replays
