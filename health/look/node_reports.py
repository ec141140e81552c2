"""What stands in reports of one node: the kernel's log, dcgmi diag, nvidia-smi, counters of InfiniBand, of DCGM.

They convict hardware, and so need the node's name: from the line itself, or the name of the file or its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from health.look.evidence import Clue, Line, NextStep, Note, TextFile, TextForm, line_numbers
from health.look.xids import REMEDIES, sxid, xid

_HOST = re.compile(
    r"^(?:<\d+>\d* ?)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:]{8}\S*) (?P<syslog>[\w.-]+) kernel"
    r"|^(?P<pdsh>[a-zA-Z][\w.-]*): (?=[\[<A-Z\d])"
)
_XID = re.compile(
    r"NVRM: (?:GPU at )?Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d+)(?P<words>.*)"
    r"|SXid \((?:PCI:)?(?P<switch>[0-9a-fA-F:.]+)\): (?P<snumber>\d+)(?P<swords>.*)"
)


def pci_address(text: str) -> str:
    """Return a PCI address as the kernel writes it: ``0000:9b:00``."""
    domain, bus, device = ["0", *text.lower().split(":")][-3:]
    return f"{int(domain, 16):04x}:{bus:0>2}:{device.partition('.')[0]:0>2}"


def node_of(line: Line, text: TextFile) -> str | None:
    """Return the node that a line of a kernel's log is of: syslog and pdsh name it, dmesg does not."""
    host = _HOST.match(line.text)
    return (host["syslog"] or host["pdsh"]) if host else text.node


def read_kernel_log(text: TextFile) -> Iterator[object]:
    """Yield a clue for each GPU or switch with an error of each number that convicts."""
    seen: dict[tuple[str | None, str, int, bool], list[tuple[Line, str]]] = {}
    for line in text.lines:
        if (found := _XID.search(line.text)) is None:
            continue
        of_switch = found["switch"] is not None
        address = pci_address(found["switch"] or found["pci"])
        number, words = int(found["snumber"] or found["number"]), found["swords"] or found["words"] or ""
        seen.setdefault((node_of(line, text), address, number, of_switch), []).append((line, words))
    passed_over = []
    for (node, address, number, of_switch), lines in seen.items():
        entry = sxid(number, lines[-1][1]) if of_switch else xid(number, lines[-1][1])
        name = f"{'SXid' if of_switch else 'Xid'} {number}"
        if entry is None or entry.sure is None:
            why = "not listed" if entry is None else f"{entry.says}, which a program can cause or which follows another"
            passed_over.append(f"{name} ({why})")
            continue
        times = f" {len(lines):,} times" if len(lines) > 1 else ""
        says = f"{name} on {address}{times}: {entry.says}; {REMEDIES[entry.action]}"
        kind, gpu = ("nvswitch", None) if of_switch else ("gpu-error", address)
        where = line_numbers(line for line, _ in lines)
        yield Clue(kind, entry.sure, says, text.name, where, node, gpu=gpu)
        if node is None:
            yield NextStep(
                f"say of which node {text.name} is: call it dmesg-NODE.txt, or put it into a folder of that name"
            )
    if passed_over:
        yield Note(f"no evidence against hardware: {', '.join(dict.fromkeys(passed_over))}")


NODE_REPORTS = (
    TextForm(
        "kernel-log",
        "the kernel's log (dmesg, journalctl -k, syslog)",
        re.compile(r"NVRM: |SXid \(|segfault at .* in libnccl"),
        read_kernel_log,
    ),
)
