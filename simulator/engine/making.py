"""From a record of the trace to a job of the engine."""

from __future__ import annotations

from simulator.engine.job import SimJob
from simulator.engine.room import Room
from simulator.job_record import JobRecord
from simulator.prediction.types import Prediction


def make_job(key: int, record: JobRecord, room: Room, prediction: Prediction) -> SimJob:
    """The job of a record.

    :param key: its number, in order of submission.
    :param prediction: what the scheduler is told of its run time.
    :raises Disagreement: the room could not hold it even if it were empty.
    """
    need = room.need(record)
    return SimJob(
        record,
        key,
        nodes=need.nodes,
        gpus=need.gpus,
        units=need.units,
        submitted=float(record.submit),
        priority=record.priority,
        preemptible=record.preemptible,
        prediction=prediction,
        predicted=prediction.seconds,
        predicted_high=prediction.high,
        left=float(record.duration),
    )
