"""How long a job will run, learnt from the jobs that ended before it was submitted."""
