"""What kube-scheduler asks and is told: Filter and Preempt as pure functions of state, request and time."""
