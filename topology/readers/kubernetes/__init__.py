"""Kubernetes as kubectl prints it: nodes, pods, claims and devices; HyperNodes of Volcano; clusters of kind."""
