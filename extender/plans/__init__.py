"""Plans of gangs: node and pod of each rank, spread, bound, lease; and how they are stored in the cluster."""
