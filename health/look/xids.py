"""What Xid and SXid errors of NVIDIA's drivers say of a GPU or NVSwitch, and what to do.

Facts of NVIDIA's public catalogue (docs.nvidia.com/deploy/xid-errors, Fabric Manager's user guide for SXid).  An error
that the catalogue answers with a restart of the program, or with nothing, convicts nothing (:mod:`topology.xids`), but
for contained ECC errors; nor does one that is not listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from health.collectives.diagnosis import Certainty
from topology.xids import PROGRAM_XIDS, numbered

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
46 the GPU stopped processing | reset likely
48 double-bit ECC error | reset certain
54 auxiliary power is not connected | replace likely
61 breakpoint of the GPU's microcontroller | reset possible
62 169 halt of the GPU's microcontroller | reset certain
64 a row of memory could not be remapped, or a page not retired | reset certain
74 NVLink error | test likely
79 the GPU has fallen off the bus | reboot certain
94 contained ECC error | restart likely
95 uncontained ECC error | reset certain
109 time-out of a context switch | reset possible
110 security fault | reset likely
119 the GPU's system processor (GSP) does not answer | reset certain
120 error of the GPU's system processor (GSP) | reset certain
122-124 the GPU's flash memory (SPI) cannot be read or written | test possible
136 the training of an NVLink failed | reset likely
140 unrecovered ECC error | reset certain
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
167 fatal time-out of PCIe | reboot likely
171 uncorrectable error of DRAM | reset certain
172 uncorrectable error of SRAM | reset certain
"""
NVLINK_5 = range(144, 151)
"""Errors that say in their line whether they are fatal; one that is not was dealt with."""


def _catalogue() -> dict[int, Xid]:
    catalogue = {number: Xid(says, "ignore", None) for number, says in PROGRAM_XIDS.items()}
    for number, row in numbered(_ROWS).items():
        says, answer = row.split(" | ")
        action, sure = answer.split()
        catalogue[number] = Xid(says, action, sure)  # type: ignore[arg-type]
    return catalogue


XIDS = _catalogue()

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
