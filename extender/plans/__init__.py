"""What is stored in the cluster: plans of gangs, and reservations for large ones that were announced."""
