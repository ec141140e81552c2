"""Kubernetes as kubectl prints it: nodes, pods, claims and devices; HyperNodes of Volcano; clusters of kind.

``kubernetes_cluster`` comes first.  Objects and the rules about them are also those of the live cluster (``extender``).
"""
