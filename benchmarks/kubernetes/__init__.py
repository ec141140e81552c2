"""Arnold on a real control plane, the one of ``tests/e2e``: how fast, how large, how soon after a crash."""
