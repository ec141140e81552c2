"""Readers of trace formats, one for each, and what several of them share.

``simulator.traces.trace_loading`` says what a reader is; ``swf`` is a short one, ``job_table_readers`` has our own
formats.
"""
