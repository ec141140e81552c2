"""How large minipods should be: the question, the throughput that it costs, and its answer."""
