"""``arnold study generations``: queues that know types of GPU, in replays."""

from __future__ import annotations

from arnold.commands.capacity_questions import question_command
from simulator.capacity.generations import GenerationsQuestion

command = question_command("generations", GenerationsQuestion)
