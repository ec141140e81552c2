"""How many spare nodes a cluster should have: the question, its model and its answer."""
