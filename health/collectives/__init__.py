"""Collectives, after Mycroft (arXiv 2509.03018): which rank makes a job's collectives stand still or slow.

Readers of public traces and of our own three-counter progress lines; a trigger that watches a few ranks; stalled groups
and who waits for whom; the counters of the flows of the group that everything waits for.
"""

from health.collectives.diagnosis import Diagnosis, diagnose, diagnose_snapshot
from health.collectives.diagnosis_text import verdict
from health.collectives.flagging import flags_of, withheld
from health.collectives.reading import CONVERTER, FORMATS, diagnose_files, read_trace
from health.collectives.trigger import TriggerSettings

__all__ = [
    "CONVERTER",
    "FORMATS",
    "Diagnosis",
    "TriggerSettings",
    "diagnose",
    "diagnose_files",
    "diagnose_snapshot",
    "flags_of",
    "read_trace",
    "verdict",
    "withheld",
]
