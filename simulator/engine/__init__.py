"""The event engine: time goes from instant to instant, and at the end of each the production scheduler decides.

``engine`` is the simulation (peek, step, run), ``event_queue`` what will happen; ``pools`` and ``node_pool`` are the
cluster, as GPUs alone or as nodes in domains; ``sim_job`` is a job and all that has happened to it; ``hooks`` are where
paces, incidents and measurements come in; ``supervision`` watches a run, ``snapshot`` saves and restores one.  Which
job is asked when is decided by the dispatch pass of ``scheduler.queue``.
"""
