"""Many replays: policies x algorithms x clusters x scales of load x seeds.

``study_run`` says which runs and makes a row of each, ``scheduler.study.executors`` where they run,
``replay_sweep`` that none is run twice, ``study_file`` the file of rows, ``compared`` what they say together.
"""
