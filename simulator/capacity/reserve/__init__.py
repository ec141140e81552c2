"""Which zone to reserve for an announced job, and when: the question, its replays and its answer."""
