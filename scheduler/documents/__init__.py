"""Documents at the edges, as pydantic models: job and characterisation files in, one JSON document a command out."""
