"""How to split a cache between jobs: the question and its model."""
