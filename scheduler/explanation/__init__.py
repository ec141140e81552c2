"""Why a placement cannot be better, why a job does not fit, what would help, and what slow nodes cost.

``cheaper_pairs`` is of jobs that were placed, ``remedies`` of those that were not.
"""
