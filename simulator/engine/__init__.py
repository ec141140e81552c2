"""The event engine: time goes from instant to instant, and at the end of each the production scheduler decides.

``engine`` is the simulation (peek, step, run), ``simulated_cluster`` what is and what will happen: jobs that wait and
run (``sim_job``) on GPUs alone (``pools``) or on nodes in domains (``node_pool``).  ``hooks`` are where paces and
incidents come in.  Which job is asked when is decided by the dispatch pass of ``scheduler.queue``.
"""
