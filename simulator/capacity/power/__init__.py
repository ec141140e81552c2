"""How the power of training swings at racks, power domains and the site: the question and its answer."""
