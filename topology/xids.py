"""Xid errors of NVIDIA's drivers that convict no device: a program causes them, or nothing follows from them."""

from collections.abc import Mapping
from itertools import takewhile

_ROWS = """
8 the GPU stopped processing
11 25 32 invalid or corrupted push buffer
13 exception of the graphics engine
31 page fault
37 38 error of the driver's firmware
39-41 70-72 75-77 85 126-135 exception of a copy engine
43 the GPU stopped processing
44 fault of the graphics engine during a context switch
45 clean-up before it is due, after another error
60 68 82-84 86 88 89 96-105 139 142 exception of an engine for video or images
63 a row of memory is remapped, or a page retired, at the next reset
66 67 illegal access by the driver
69 exception of the graphics engine's class
78 a virtual GPU did not start
80 corrupted data were sent to the GPU
92 many single-bit ECC errors
93 the InfoROM is written too often
106 107 test message
121 error of the link between CPU and GPU (C2C), corrected
137 fault of an access over NVLink
141 error of CUDA's fast path
160 161 a channel is retired, or could not be
"""


def numbered(rows: str) -> dict[int, str]:
    """Return what is said of each number, out of lines such as ``39-41 85 exception of a copy engine``."""
    said = {}
    for row in rows.strip().splitlines():
        words = row.split()
        spans = [*takewhile(lambda word: word[0].isdecimal(), words)]
        for first, _, last in (span.partition("-") for span in spans):
            for number in range(int(first), int(last or first) + 1):
                said[number] = " ".join(words[len(spans) :])
    return said


PROGRAM_XIDS: Mapping[int, str] = numbered(_ROWS)
"""Errors that NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors) answers with a restart of the program, or with
nothing: number -> what it says.
"""
