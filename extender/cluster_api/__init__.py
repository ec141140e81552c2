"""The door to the Kubernetes client: list and watch, writes with flow control, leader election, events.

It knows kinds of objects by name and nothing of gangs.  Of the official client it uses the connection and the
credentials, and passes objects on as bytes; :mod:`extender.cluster_api.client` says why.
"""
