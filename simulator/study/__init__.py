"""Many replays: policies x algorithms x clusters x scales of load x seeds.

``plan`` says which runs, ``one`` makes one of them a row, ``executors`` where they run, ``sweep`` that none is run
twice, ``rows`` the file of rows, ``groups`` what they say together.
"""
