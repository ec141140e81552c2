"""``arnold flags``: slow and faulty nodes, in a store that remembers and on the nodes of a Kubernetes cluster."""
