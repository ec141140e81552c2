"""Many replays: policies x algorithms x clusters x scales of load x seeds.

``study_plan`` says which runs, ``run_row`` makes a row of each, ``scheduler.study.executors`` where they run,
``replay_sweep`` that none is run twice, ``study_file`` the file of rows, ``groups`` what they say together.
"""
