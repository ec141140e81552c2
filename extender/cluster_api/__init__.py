"""The door to the Kubernetes client: list and watch, writes with flow control, leader election, events."""
