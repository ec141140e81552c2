"""What ``arnold capacity`` prints with ``--json``, a module for each question."""
