"""Machines of a job compared with each other, after Minder (arXiv 2411.01791, NSDI '25).

Healthy machines of a job look alike.  A machine whose metrics stay far from those of its peers, for minutes, is at
fault; the same holds for the times of training steps.  ``docs/health/peers.md`` says what each step does, what it is
worth, and when not to believe it.
"""

from health.peers.denoise import DENOISERS, load_denoiser
from health.peers.peers_verdict import PeersVerdict, judge
from health.peers.pipeline import ComparisonSettings, detect
from health.peers.recording_files import SampleColumns, load_recording
from health.peers.streams import MetricRecording, Samples

__all__ = [
    "DENOISERS",
    "ComparisonSettings",
    "MetricRecording",
    "PeersVerdict",
    "SampleColumns",
    "Samples",
    "detect",
    "judge",
    "load_denoiser",
    "load_recording",
]
