"""Where a job goes: jobs, communication groups, placement algorithms and the one evaluator."""

from scheduler.guard import check_packages

DISTRIBUTION = "arnold-scheduler"
check_packages("topology")
