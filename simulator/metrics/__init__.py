"""What a run was like, each number by a formula of docs/metrics.md.  Metrics know jobs and time, and no policy."""
