"""Clusters of Kubernetes as kubectl prints them, with HyperNodes of Volcano, and clusters of kind.

``kubernetes_cluster`` comes first.  The objects and the rules about them are :mod:`topology.kubernetes`.
"""
