"""What goes wrong with nodes, when, and what it costs a training job.

Published rates and mixes (:mod:`~simulator.failures.rates`, :mod:`~simulator.failures.failure_kinds`), a seeded process
that draws failures, repairs and slow spells from them (:mod:`~simulator.failures.failure_process`), and the effective
training time ratio (ETTR) of one job: by formula (:mod:`~simulator.failures.expected_ettr`), with spares
(:mod:`~simulator.failures.spare_nodes`), and by Monte Carlo
(:mod:`~simulator.failures.monte_carlo`).  Nothing here knows where a job runs.
"""
