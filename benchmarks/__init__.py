"""How good and how fast: every figure of benchmarks.md of the docs, by one command of ``python -m benchmarks``."""
