"""How good and how fast: every line of docs/benchmarks.md, each by one command of ``python -m benchmarks``."""
