"""Decisions after a fault: whom to evict, how to find a silent culprit, what to keep warm, where backups lie.

After ByteRobust (arXiv 2509.16293).  Nothing here watches a job: each function turns evidence that is at hand (stack
dumps, failed replays, a failure rate, a placement) into one decision, and says when the evidence does not carry it.
"""
