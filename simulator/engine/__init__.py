"""The event engine: an agenda, the state of jobs and nodes, and the loop that asks the production scheduler.

``loop`` is the engine, ``turn`` its end of an instant, ``room`` what it needs of a cluster (``counted``: GPUs alone;
``placed``: nodes in domains), ``hooks`` where paces, incidents and measurements come in, ``run`` the way
from the start to the end with somebody watching.
"""
