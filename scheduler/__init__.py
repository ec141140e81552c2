"""Where a job goes: jobs, communication groups, placement algorithms and the one evaluator."""

DISTRIBUTION = "arnold-scheduler"
