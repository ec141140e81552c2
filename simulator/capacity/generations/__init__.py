"""Which jobs should run on which generation of GPUs: the question, its replays and its answer."""
