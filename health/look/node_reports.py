"""What stands in reports of one node: the kernel's log, dcgmi diag, nvidia-smi, counters of InfiniBand, of DCGM.

They convict hardware, and so need the node's name: from the line itself, or the name of the file or its folder.  What
Xid and SXid errors say of a GPU or NVSwitch, and what to do, is in NVIDIA's public catalogue
(docs.nvidia.com/deploy/xid-errors, Fabric Manager's user guide for SXid).  An error that it answers with a restart of
the program, or with nothing, convicts nothing (:mod:`topology.xids`), but for contained ECC errors; nor does one that
is not listed.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Literal, NamedTuple

from ground.rows import BadRow, exporter_line
from health.collectives.diagnosis import Certainty
from health.look.evidence import Clue, GpuName, Line, Note, TextFile, TextForm, clue_by, line_rules, where
from health.peers.sample_sources import BLANKS, MOST_BLANK
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


XIDS = {number: Xid(says, "ignore", None) for number, says in PROGRAM_XIDS.items()}
XIDS |= {number: Xid(*re.split(r" \| | (?=\w+$)", row)) for number, row in numbered(_ROWS).items()}  # type: ignore[arg-type]

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


BROKEN_GPU = (
    r"(?i:uncorrectable|\becc\b|nvlink error|fallen off|gpu is lost|hardware stack|requires reset|not yet initialized)"
)
"""What of errors of CUDA is a device's, and no program's."""

_HOST = re.compile(
    r"^(?:<\d+>\d* ?)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}[.\d]*"
    r"|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ][\d:]{8}\S*(?: [A-Z]{3,4})?|\[ *\d+\.\d+\]) (?P<syslog>[\w.-]+) kernel\b"
    r'|^\{.*"_HOSTNAME" ?: ?"(?P<journald>[\w.-]+)"'
    r"|^(?!kern|NVRM|nvidia|dmesg|[Ww]arn|[Ee]rr|[Ii]nfo|S?Xid)(?P<pdsh>[a-zA-Z][\w.-]*): (?=[\[<A-Z\d])"
)
"""The node that a line of a kernel's log is of: syslog, journald and pdsh name it, dmesg does not."""
_PCI = r"(?:[0-9a-fA-F]{1,8}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}(?:\.\d)?"
_XID = re.compile(
    rf"(?P<name>S?Xid) \((?:PCI:)?(?P<pci>{_PCI})[^)]*\): (?P<number>\d+)(?P<words>.*)"
    rf"|NVRM: GPU (?:at PCI:)?(?P<fallen>{_PCI}):? .*fallen off the bus"
)


def pci_address(text: str) -> str:
    """Return a PCI address as the kernel writes it: ``0000:9b:00``."""
    domain, bus, device = ["0", *text.lower().split(":")][-3:]
    return f"{int(domain, 16):04x}:{bus:0>2}:{device.partition('.')[0]:0>2}"


def read_kernel_log(text: TextFile) -> Iterator[object]:
    """Yield a clue for each GPU or switch with an error of each number that convicts."""
    errors = defaultdict[tuple[str | None, str, str], list[tuple[Line, str]]](list)
    for line in text.lines:
        if match := _XID.search(line.text):
            host, name = _HOST.match(line.text), f"{match['name'] or 'Xid'} {match['number'] or 79}"
            node = next(filter(None, host.groups())) if host else text.node
            errors[node, pci_address(match["pci"] or match["fallen"]), name].append((line, match["words"] or ""))
    passed_over = dict[str, None]()
    for (node, address, name), of_error in errors.items():
        of_switch, number = name.startswith("S"), int(name.split()[1])
        entry = (sxid if of_switch else xid)(number, [words for _, words in of_error])
        if entry is None or entry.sure is None:
            why = "not listed" if entry is None else f"{entry.says}, which a program can cause or which follows another"
            passed_over[f"{name} ({why})"] = None
            continue
        times = f" {len(of_error):,} times" if len(of_error) > 1 else ""
        says = f"{name} on {address}{times}: {entry.says}; {REMEDIES[entry.action]}"
        kind, gpu = ("nvswitch", None) if of_switch else ("gpu-error", address)
        yield Clue(kind, entry.sure, says, *where(*(line for line, _ in of_error)), node, gpu=gpu)
    if passed_over:
        yield Note(f"no evidence against hardware: {', '.join(passed_over)}")


_IN_USE = re.compile(r"busy or unavailable|in use|utili[sz]ation|MCUTIL|allocat|persistence", re.IGNORECASE)
"""Warnings of a test that could not be run as it should be: they convict nothing."""
_DIAG_ROW = re.compile(r"^\|\s*(.*?)\s*\|\s*(.*?)\s*\|\s*$")
_DIAG_GPUS = re.compile(r"GPUs?:?\s*([\d, ]+)|\bGPU(\d+): (?:Fail|FAIL)")
SOFTWARE_TESTS = re.compile(
    r"denylist|blacklist|librar|permission|persistence|environment|graphics process|software|metadata|version|driver"
    r"|detected|deployment|\bos\b|cuda main|fabric manager|inforom version",
    re.IGNORECASE,
)
"""Tests of dcgmi diag that look at how the node is set up."""
_Failures = list[tuple[str, int | None, Line]]  # A test of hardware that failed, the GPU it names, where it says so


def read_diag_table(text: TextFile) -> Iterator[object]:
    """Yield a clue for each GPU that a test of hardware failed on, with the warnings below it."""
    test, node, warned = "", text.node, defaultdict[str, str](str)
    failed: _Failures = []
    passed, in_warning = 0, False
    for line in text.lines:
        if (row := _DIAG_ROW.match(line.text)) is None:
            continue
        name, result = row[1].strip("-+ "), row[2]
        small = name.lower()
        if small in ("hostname", "host name"):
            node = result
        if small:
            in_warning = small.startswith(("warning", "error", "info"))
            test = test if in_warning else name
        if in_warning:
            warned[test] += result
        elif verdict := re.search(r"\b(pass|fail)\b", result, re.IGNORECASE):
            if SOFTWARE_TESTS.search(test):
                continue
            passed += verdict[1].lower() == "pass"
            if verdict[1].lower() == "fail":
                gpus = re.findall(r"\d+", " ".join(map(" ".join, _DIAG_GPUS.findall(result))))
                failed += [(test, gpu, line) for gpu in map(int, gpus)] or [(test, None, line)]
    kept = [failure for failure in failed if not _IN_USE.search(warned[failure[0]])]
    if len(kept) < len(failed):
        yield Note("tests that failed because the GPU was in use are left out: run them on an idle node")
    yield from _diag_clues(kept, passed, text.name, node)


def read_diag_json(text: TextFile) -> Iterator[object]:
    """Yield the same from ``dcgmi diag -j``, of DCGM 2 to 4."""
    # a tool may print something before the document
    at, first = next(((k, line) for k, line in enumerate(text.lines) if line.text.lstrip().startswith("{")), (0, None))
    failed: _Failures = []
    passed, stack = 0, []
    try:
        stack.append(("", json.loads("\n".join(line.text for line in text.lines[at:]))))
    except (ValueError, RecursionError):
        yield Note("the JSON is broken or cut off: get it again")
    while stack and first:
        test, value = stack.pop()
        if isinstance(value, list):
            stack += [(test, item) for item in value]
        elif isinstance(value, dict):
            test = value["name"] if isinstance(value.get("name"), str) else test
            status = "" if SOFTWARE_TESTS.search(test) else str(value.get("status", "")).lower()
            passed += status == "pass"
            in_use = _IN_USE.search(json.dumps(value.get("warnings", "")))
            if status == "fail" and not in_use:
                of_gpu = str(value.get("entity_group", "GPU")).upper() == "GPU"
                named = str(value.get("gpu_id", value.get("gpu_ids", value.get("entity_id", "")))) if of_gpu else ""
                failed += [(test, int(gpu), first) for gpu in re.findall(r"\d+", named)] or [(test, None, first)]
            stack += [(test, item) for item in value.values() if isinstance(item, dict | list)]
    yield from _diag_clues(failed, passed, text.name, text.node)


def _diag_clues(failed: _Failures, passed: int, file: str, node: str | None) -> Iterator[object]:
    for test, gpu, line in failed:
        # a test fails as a whole because it failed on a GPU
        if gpu is not None or all(of is None for _, of, _ in failed):
            yield Clue("gpu-error", "certain", f"dcgmi diag failed: {test}", *where(line), node, gpu=gpu)
    if not failed and passed and node is not None:
        yield Clue("passed", "likely", f"dcgmi diag passed {passed} tests", file, (), node, clears=True)


_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)")
_LOST = re.compile(rf"Unable to determine the device handle for (?:GPU ?(?:\d+: *)?)?({_PCI})\b.*?: (.*)")
_SETTING = re.compile(r"^(\s*)(.+?)\s*(?: : (.*))?$")
_WIDTH = re.compile(r"/Link Width/(Max|Current): (\d+)x?$")
_UNREADABLE = re.compile(r": .*(?:Unknown Error|GPU is lost|ERR!|requires reset)", re.IGNORECASE)
_SMI = line_rules(rf"""
    gpu-error certain: a row of memory was not remapped; {REMEDIES["replace"]}
        /Remapping Failure Occurred: yes$
    gpu-error certain: too many errors of SRAM; {REMEDIES["replace"]}
        /SRAM Threshold Exceeded: yes$
    gpu-error possible: a row of memory waits to be remapped; {REMEDIES["reset"]}
        /Remapped Rows/.*Pending: yes$
    gpu-error likely: it requires a reset; {REMEDIES["reset"]}
        /Reset Required: yes$
    gpu-error likely: {{count}} errors of memory that are not corrected ({{name}}); {REMEDIES["reset"]}
        Volatile.*/(?P<name>[^/]*Uncorrectable[^/]*|Double Bit/.*Total): (?P<count>0*[1-9]\d*)$
    throttled likely: slowed down by hardware ({{name}})
        /(?P<name>HW (?:Thermal |Power Brake )?Slowdown|HW Power Brake): active$
    throttled possible: slowed down by its temperature
        /SW Thermal Slowdown: active$
""")
"""Settings of a GPU by their path, ``/ECC Errors/Volatile/SRAM Correctable: 0``, values in lower case."""


def read_smi(text: TextFile) -> Iterator[object]:
    """Yield what ``nvidia-smi -q`` says of each GPU: lost, errors of memory, throttled, a narrow link."""
    settings: dict[str, list[Line]] = {}
    path: list[tuple[int, str]] = []
    for line in text.lines:
        if lost := _LOST.search(line.text):
            says = f"nvidia-smi: {lost[2].strip()[:80]}; {REMEDIES['reboot']}"
            yield Clue("gpu-error", "certain", says, *where(line), text.node, gpu=pci_address(lost[1]))
        elif gpu := _GPU.match(line.text):
            settings[pci_address(gpu[1])], path = [], []
            yield GpuName(text.node or text.name, pci_address(gpu[1]), len(settings) - 1)
        elif settings and (row := _SETTING.match(line.text)):
            path = [*(step for step in path if step[0] < len(row[1])), (len(row[1]), row[2])]
            if row[3] is not None:
                names = "".join(f"/{name}" for _, name in path)
                settings[next(reversed(settings))].append(line._replace(text=f"{names}: {row[3].strip().lower()}"))
    narrow = {pci: width for pci, lines in settings.items() if (width := _narrow(lines)) is not None}
    for pci, lines in settings.items():
        unreadable = [line for line in lines if _UNREADABLE.search(line.text)]
        if len(unreadable) > 2:
            says = f"{len(unreadable)} values cannot be read; {REMEDIES['reboot']}"
            yield Clue("gpu-error", "certain", says, *where(unreadable[0]), text.node, gpu=pci)
        if pci in narrow and len(narrow) * 2 < len(settings):
            says = "the PCIe link has less width than it can have"
            yield Clue("throttled", "likely", says, *where(narrow[pci]), text.node, gpu=pci)
        for line in lines:
            if clue := clue_by(_SMI, line, node=text.node, gpu=pci):
                yield clue
            elif "/GPU Recovery Action: " in line.text:
                asked = xid(154, [line.text.partition(": ")[2]])
                if asked is not None and asked.sure is not None:
                    says = f"{asked.says}; {REMEDIES[asked.action]}"
                    yield Clue("gpu-error", asked.sure, says, *where(line), text.node, gpu=pci)


def _narrow(settings: list[Line]) -> Line | None:
    """Return the line of a PCIe link that is narrower than it can be."""
    width = {match[1]: (match[2], line) for line in settings if (match := _WIDTH.search(line.text))}
    return width["Current"][1] if len(width) == 2 and width["Max"][0] != width["Current"][0] else None


_IB_NODE = re.compile(r'^Errors for (?:0x\w+ )?"([^"]+)"')
_PM_PORT = re.compile(
    r'(?:Port(?: Name)?\s*=?|dev=\d+)\s*"?([\w.-]+?)[/ ](?:HCA-\d+|mlx\w+|U\d+)|Node Name=\s*"?([\w.-]+)'
)
_OWN_PORT = re.compile(r"# Port (?:extended )?counters: Lid")  # of perfquery, which names no node
_COUNT = re.compile(r"\[(\w+) == (\d+)|^\s*(\w+)\s*(?:=|:\.*)\s*(0x[0-9a-fA-F]+|\d+)")
IB_LIMITS = {"linkdown": 5, "symbolerror": 10_000, "linkerrorrecovery": 50, "locallinkintegrity": 100}
"""Counts since they were cleared from which a port is suspected; congestion (XmitWait) is no fault of a port."""


def read_ib_counters(text: TextFile) -> Iterator[object]:
    """Yield ports of nodes whose links went down or erred often, by ibqueryerrors, ibdiagnet or perfquery."""
    port: str | None = None
    for line in text.lines:
        if head := _IB_NODE.search(line.text) or _PM_PORT.search(line.text):
            port = next(filter(None, head.groups()))
        elif _OWN_PORT.search(line.text):
            port = text.node or ""
        for name, count in (filter(None, counter) for counter in _COUNT.findall(line.text)):
            small = name.lower().replace("_", "")
            limit = next((limit for word, limit in IB_LIMITS.items() if word in small), None)
            if port is None or limit is None or int(count, 0) < limit:
                continue
            says = f"{name} is {int(count, 0):,}"
            node, _, device = port.partition(" ")
            if re.search(r"switch|quantum|spine|leaf|mf0|sw-", port, re.IGNORECASE):
                yield Note(f"{port}: {says}: a port of a switch; its other end is not said")
            else:
                yield Clue("network-port", "possible", f"{device or 'a port'}: {says}", *where(line), node or None)


THROTTLED = 0x8 | 0x40 | 0x80  # Bits of clock reasons: hardware slows down, by heat, by power brake
_EXPORTED = line_rules(r"""
    gpu-error certain: a row of memory was not remapped
        ^ROW_REMAP_FAILURE .
    gpu-error possible: {name} is {count}
        ^(?P<name>ROW_REMAP_PENDING|UNCORRECTABLE_REMAPPED_ROWS) (?P<count>.*)
    gpu-error likely: {count} double-bit errors of memory
        ^ECC_DBE_VOL_TOTAL (?P<count>.*)
    throttled likely: slowed down by hardware (reasons {bits})
        _REASONS throttled by (?P<bits>.*)
""")
"""Fields of DCGM with their values, which are not 0."""


def read_exporter(text: TextFile) -> Iterator[object]:
    """Yield what one scrape of dcgm-exporter says of broken and throttled GPUs."""
    for line in text.lines:
        try:
            name, labels, value, _ = exporter_line(line.text)
        except BadRow:
            continue
        blank = any(abs(value - blank) <= MOST_BLANK for blank in BLANKS)
        if not (name.startswith("DCGM_FI_") and labels and 0.0 < value < inf) or blank:
            continue
        gpu = int(labels["gpu"]) if labels.get("gpu", "").isdecimal() else None
        node = labels.get("Hostname") or labels.get("hostname") or labels.get("node") or text.node
        name, is_value = name.removeprefix("DCGM_FI_DEV_"), f"{value:g}"
        if name.endswith(("THROTTLE_REASONS", "EVENT_REASONS")):
            is_value = f"throttled by {int(value):#x}" if int(value) & THROTTLED else "none"
        if name == "XID_ERRORS":
            entry = xid(int(value))
            if entry is not None and entry.sure is not None:
                yield Clue("gpu-error", entry.sure, f"Xid {int(value)}: {entry.says}", *where(line), node, gpu=gpu)
        elif clue := clue_by(_EXPORTED, line._replace(text=f"{name} {is_value}"), node=node, gpu=gpu):
            yield clue


NODE_REPORTS = (
    TextForm("kernel-log", r"NVRM: |SXid \(|segfault at .* in libnccl", read_kernel_log),
    TextForm(
        "dcgmi-diag",
        r"\|\s*Diagnostic\s*\|\s*Result|Successfully ran diagnostic|\|\s*Deployment\s",
        read_diag_table,
        document=True,
    ),
    TextForm("dcgmi-diag-json", r'"DCGM (?:GPU )?Diagnostic"', read_diag_json, document=True),
    TextForm("nvidia-smi-q", r"NVSMI LOG|Unable to determine the device handle for", read_smi, document=True),
    TextForm(
        "infiniband-counters",
        r'Errors for (?:0x\w+ )?"|ibdiagnet|Port=\d+ .*GUID=|link_downed_counter|symbol_error_counter'
        r"|# Port (?:extended )?counters: Lid|Performance Monitor counter",
        read_ib_counters,
        document=True,
    ),
    TextForm("dcgm-exporter", r"^(?:# HELP )?DCGM_FI_", read_exporter, document=True),
)
