"""How fragmented a cluster is over time, and what that costs a job: the question and its answer."""
