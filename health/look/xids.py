"""What Xid and SXid errors of NVIDIA's drivers say of a GPU or NVSwitch, and what to do.

Facts of NVIDIA's public catalogue (docs.nvidia.com/deploy/xid-errors, Fabric Manager's user guide for SXid).  An error
that the catalogue answers with a restart of the program, or with nothing, convicts nothing, but for contained ECC
errors; nor does one that is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from health.collectives.diagnosis import Certainty
from topology.flags import PROGRAM_XIDS

Action = Literal["restart", "reset", "reboot", "replace", "test", "ignore"]
REMEDIES: Mapping[Action, str] = {
    "restart": "start the job again, and reset the GPU when it is idle",
    "reset": "reset the GPU (nvidia-smi --gpu-reset), and replace it if it comes back",
    "reboot": "reboot the node, and replace the GPU if it comes back",
    "replace": "take the node out and have the part replaced",
    "test": "run dcgmi diag -r 3 on the node before it is used again",
    "ignore": "nothing to do for the node: look at the program",
}


class Xid(NamedTuple):
    """One entry of the catalogue."""

    says: str
    action: Action
    sure: Certainty | None  # that hardware is at fault; None = it convicts nothing


_ROWS = """
8 the GPU stopped processing | ignore
11 25 32 invalid or corrupted push buffer | ignore
13 exception of the graphics engine | ignore
31 page fault | ignore
37 38 error of the driver's firmware | ignore
39-41 70-72 75-77 85 126-135 exception of a copy engine | ignore
43 the GPU stopped processing | ignore
44 fault of the graphics engine during a context switch | ignore
45 clean-up before it is due, after another error | ignore
46 the GPU stopped processing | reset likely
48 double-bit ECC error | reset certain
54 auxiliary power is not connected | replace likely
60 68 82-84 86 88 89 96-105 139 142 exception of an engine for video or images | ignore
61 breakpoint of the GPU's microcontroller | reset possible
62 169 halt of the GPU's microcontroller | reset certain
63 a row of memory is remapped, or a page retired, at the next reset | ignore
64 a row of memory could not be remapped, or a page not retired | reset certain
66 67 illegal access by the driver | ignore
69 exception of the graphics engine's class | ignore
74 NVLink error | test likely
78 a virtual GPU did not start | ignore
79 the GPU has fallen off the bus | reboot certain
80 corrupted data were sent to the GPU | ignore
92 many single-bit ECC errors | ignore
93 the InfoROM is written too often | ignore
94 contained ECC error | restart likely
95 uncontained ECC error | reset certain
106 107 test message | ignore
109 time-out of a context switch | reset possible
110 security fault | reset likely
119 the GPU's system processor (GSP) does not answer | reset certain
120 error of the GPU's system processor (GSP) | reset certain
121 error of the link between CPU and GPU (C2C), corrected | ignore
122-124 the GPU's flash memory (SPI) cannot be read or written | test possible
136 the training of an NVLink failed | reset likely
137 fault of an access over NVLink | ignore
140 unrecovered ECC error | reset certain
141 error of CUDA's fast path | ignore
143 the GPU could not be initialised | reset certain
144 NVLink error (SAW) | reset likely
145 NVLink error (RLW) | reset likely
146 NVLink error (TLW) | reset likely
147 NVLink error (TREX) | reset likely
148 NVLink error (NVLPW) | reset likely
149 NVLink error (NETIR) | reset likely
150 NVLink error (MSE) | reset likely
151 error of a key rotation | reboot possible
155 error of NVLink, as software defines it | reset possible
156 a resource of the GPU is retired | reset possible
157 a resource of the GPU could not be retired | test possible
158 fatal time-out of the GPU | reset certain
160 161 a channel is retired, or could not be | ignore
167 fatal time-out of PCIe | reboot likely
171 uncorrectable error of DRAM | reset certain
172 uncorrectable error of SRAM | reset certain
"""
NVLINK_5 = range(144, 151)
"""Errors that say in their line whether they are fatal; one that is not was dealt with."""


def _catalogue() -> dict[int, Xid]:
    catalogue = {}
    for row in _ROWS.strip().splitlines():
        left, right = row.split(" | ")
        numbers = [word for word in left.split() if word[0].isdecimal()]
        says = " ".join(left.split()[len(numbers) :])
        action, *sure = right.split()
        for first, _, last in (span.partition("-") for span in numbers):
            for number in range(int(first), int(last or first) + 1):
                catalogue[number] = Xid(says, action, sure[0] if sure else None)  # type: ignore[arg-type]
    return catalogue


XIDS = _catalogue()
assert {number for number, entry in XIDS.items() if entry.sure is None} == PROGRAM_XIDS

RECOVERY: Mapping[str, tuple[Action, Certainty | None]] = {
    "none": ("ignore", None),
    "reset": ("reset", "certain"),
    "reboot": ("reboot", "certain"),
    "drain": ("reset", "likely"),
}
"""By the word that stands in an Xid 154, or in nvidia-smi's GPU Recovery Action: what the driver asks for."""


def xid(number: int, lines: Sequence[str] = ("",)) -> Xid | None:
    """Return the entry of an Xid error; ``None`` = it is not listed.

    :param lines: what follows its number in each line, the last one last: 154 says what the driver wants done by now,
        errors of NVLink 5 whether they are fatal.
    """
    if number == 154:
        asked = lines[-1].lower().rpartition("to")[2]
        for word, (action, sure) in RECOVERY.items():
            if word in asked and "unknown" not in asked:
                return Xid("the driver asks for recovery", action, sure)
    if number in NVLINK_5 and all("nonfatal" in words.lower().replace("-", "") for words in lines):
        return XIDS[number]._replace(action="ignore", sure=None)
    return XIDS.get(number)


def sxid(number: int, lines: Sequence[str]) -> Xid:
    """Return what an error of an NVSwitch says; a fatal one needs a reset of all GPUs and switches.

    :param lines: what follows its number in each line: the first of several says whether it is fatal.
    """
    fatal = [match[0] for words in lines if (match := re.search(r"\b(?:Non-|Always.)?fatal", words, re.IGNORECASE))]
    if any(not word.lower().startswith("non") for word in fatal):
        return Xid(f"fatal error {number} of an NVSwitch", "reset", "likely")
    if fatal:
        return Xid(f"non-fatal error {number} of an NVSwitch", "ignore", None)
    return Xid(f"error {number} of an NVSwitch", "test", None)
