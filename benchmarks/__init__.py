"""How good and how fast: every line of benchmarks.md of the docs, each by one command of ``python -m benchmarks``."""
