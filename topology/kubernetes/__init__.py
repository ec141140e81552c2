"""Objects of Kubernetes and what they say of GPUs, places, health and pods; alike in files and on a live cluster.

``objects`` comes first.  Readers of files are :mod:`topology.readers.kubernetes`.
"""
