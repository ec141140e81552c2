"""What queue policies (:mod:`scheduler.queue`) are told of the cluster, in rows of the fleet's table."""
