"""Results for other programs: tables of a replay, its Chrome trace, and placements as files that launchers read."""
