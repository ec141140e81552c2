"""JSON of ``arnold recover``, a module for each of its commands."""
