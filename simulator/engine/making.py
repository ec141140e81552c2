"""From a record of the trace to a job of the engine."""

from __future__ import annotations

from simulator.engine.hooks import Predictor
from simulator.engine.job import SimJob
from simulator.engine.room import Room
from simulator.records import JobRecord


def make_job(key: int, record: JobRecord, room: Room, predictor: Predictor) -> SimJob:
    """The job of a record.

    :param key: its number, in order of submission.
    :raises Disagreement: the room could not hold it even if it were empty.
    """
    need = room.need(record)
    prediction = predictor.predict(record)
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
