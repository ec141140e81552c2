"""How much to buy, and when to order it: the question, the demand as it grows, and its answer."""
