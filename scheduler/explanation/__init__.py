"""Why a placement cannot be better, why a job does not fit, what would help, and what slow nodes cost."""
