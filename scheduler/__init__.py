"""Where a job goes: jobs, communication groups, placement algorithms and the one evaluator."""

import os
import sys

from scheduler.guard import check_packages

DISTRIBUTION = "arnold-scheduler"
if os.path.basename((sys.argv or [""])[0]) != "arnold":  # noqa: PTH119 - the command starts without pathlib
    # The command checks for itself, so that it can tell without a traceback.
    check_packages("topology")
