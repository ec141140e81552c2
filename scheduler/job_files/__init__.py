"""Files about jobs: what one asks for, what was measured of it, and where it was placed.

``job_file`` comes first; its keys are those of ``job_document``.
"""
