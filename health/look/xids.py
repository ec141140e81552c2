"""What Xid and SXid errors of NVIDIA's drivers say of a GPU or NVSwitch, and what to do.

Facts of NVIDIA's public catalogue (docs.nvidia.com/deploy/xid-errors, Fabric Manager's user guide for SXid).  An error
that a program can cause, or that follows another, convicts nothing; nor does one that is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from health.collectives.diagnosis import Certainty
from topology.flags import PROGRAM_XIDS

Action = Literal["reset", "reboot", "replace", "test", "ignore"]
REMEDIES: Mapping[Action, str] = {
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
13 exception of the graphics engine | ignore
31 page fault | ignore
32 invalid or corrupted push buffer | ignore
38 error of the driver's firmware | test
43 the GPU stopped processing | ignore
45 clean-up before it is due, after another error | ignore
46 the GPU stopped processing | reset likely
48 double-bit ECC error | reset certain
61 breakpoint of the GPU's microcontroller | reset likely
62 halt of the GPU's microcontroller | reset certain
63 a row of memory is remapped, or a page retired, at the next reset | reset possible
64 a row of memory could not be remapped, or a page not retired | replace certain
68 exception of the video decoder | ignore
69 exception of the graphics engine's class | ignore
74 NVLink error | test likely
79 the GPU has fallen off the bus | reboot certain
92 many single-bit ECC errors | test possible
93 the InfoROM is written too often | ignore
94 contained ECC error | reset likely
95 uncontained ECC error | reset certain
109 time-out of a context switch | reset possible
110 security fault | reboot likely
119 the GPU's system processor (GSP) does not answer | reset certain
120 error of the GPU's system processor (GSP) | reset certain
121 error of the link between CPU and GPU (C2C) | reset likely
122 the power controller cannot be read (SPI) | test possible
123 the power controller cannot be written (SPI) | test possible
136 the training of an NVLink failed | reset likely
137 fault of an access over NVLink | ignore
140 unrecovered ECC error | reset certain
143 the GPU could not be initialised | reboot certain
144 NVLink error (SAW) | reset likely
145 NVLink error (RLW) | reset likely
146 NVLink error (TLW) | reset likely
147 NVLink error (TREX) | reset likely
148 NVLink error (NVLPW) | reset likely
149 NVLink error (NETIR) | reset likely
150 NVLink error (MSE) | reset likely
155 error of NVLink, as software defines it | reset possible
156 a resource of the GPU is retired | reset possible
157 a resource of the GPU could not be retired | replace likely
158 fatal time-out of the GPU | reset certain
171 uncorrectable error of DRAM | reset certain
172 uncorrectable error of SRAM | reset certain
"""


def _catalogue() -> dict[int, Xid]:
    catalogue = {}
    for row in _ROWS.strip().splitlines():
        left, right = row.split(" | ")
        number, says = left.split(" ", 1)
        action, *sure = right.split()
        catalogue[int(number)] = Xid(says, action, sure[0] if sure else None)  # type: ignore[arg-type]
    return catalogue


XIDS = _catalogue()
assert all(XIDS[number].sure is None for number in PROGRAM_XIDS)

RECOVERY: Mapping[str, tuple[Action, Certainty | None]] = {
    "none": ("ignore", None),
    "reset": ("reset", "certain"),
    "reboot": ("reboot", "certain"),
    "drain": ("reset", "likely"),
}
"""By the word that stands in an Xid 154, or in nvidia-smi's GPU Recovery Action: what the driver asks for."""


def xid(number: int, words: str = "") -> Xid | None:
    """Return the entry of an Xid error; ``None`` = it is not listed.

    :param words: what follows its number: 154 says by them what the driver wants done.
    """
    if number == 154:
        asked = words.lower().rpartition("to")[2]
        for word, (action, sure) in RECOVERY.items():
            if word in asked and "unknown" not in asked:
                return Xid("the driver asks for recovery", action, sure)
    return XIDS.get(number)


def sxid(number: int, words: str) -> Xid:
    """Return what an error of an NVSwitch says; fatal and always-fatal ones need a reset of all GPUs and switches."""
    if "Non-fatal" in words or "non-fatal" in words:
        return Xid(f"non-fatal error {number} of an NVSwitch", "ignore", None)
    if "Fatal" in words:
        return Xid(f"fatal error {number} of an NVSwitch", "reset", "likely")
    return Xid(f"error {number} of an NVSwitch", "test", None)
