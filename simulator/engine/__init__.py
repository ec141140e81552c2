"""The event engine: time goes from instant to instant, and at the end of each the production scheduler decides.

``engine`` is the simulation (peek, step, run), ``simulated_cluster`` what is and what will happen: jobs that wait and
run (``simulator.sim_job``) on what ``simulator.pools`` gives them.  ``round_cluster`` drives the dispatch pass of
``scheduler.queue``, which decides which job is asked when.  ``hooks`` are where paces and incidents come in.
"""
