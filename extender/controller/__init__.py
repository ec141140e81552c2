"""The gang controller: what to do next, as pure decisions, and the loop that does it."""
