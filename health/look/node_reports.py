"""What stands in reports of one node: the kernel's log, dcgmi diag, nvidia-smi, counters of InfiniBand, of DCGM.

They convict hardware, and so need the node's name: from the line itself, or the name of the file or its folder.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from ground.rows import BadRow, exporter_line
from health.collectives.diagnosis import Certainty
from health.look.evidence import Clue, GpuName, Line, NextStep, Note, TextFile, TextForm, line_numbers
from health.look.xids import RECOVERY, REMEDIES, sxid, xid

BROKEN_GPU = re.compile(
    r"uncorrectable|\bECC\b|NVLink error|fallen off|GPU is lost|hardware stack|requires reset|not yet initialized",
    re.IGNORECASE,
)
"""What of errors of CUDA is a device's, and no program's."""

_HOST = re.compile(
    r"^(?:<\d+>\d* ?)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:]{8}\S*) (?P<syslog>[\w.-]+) kernel"
    r"|^(?!kern|NVRM|nvidia|dmesg|[Ww]arn|[Ee]rr|[Ii]nfo|S?Xid)(?P<pdsh>[a-zA-Z][\w.-]*): (?=[\[<A-Z\d])"
)
_XID = re.compile(
    r"NVRM: (?:GPU at )?Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)[^)]*\): (?P<number>\d+)(?P<words>.*)"
    r"|SXid \((?:PCI:)?(?P<switch>[0-9a-fA-F:.]+)[^)]*\): (?P<snumber>\d+)(?P<swords>.*)"
    r"|NVRM: GPU (?P<fallen>[0-9a-fA-F:.]+[0-9a-fA-F]):? .*fallen off the bus"
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
        if (match := _XID.search(line.text)) is None:
            continue
        of_switch = match["switch"] is not None
        address = pci_address(match["switch"] or match["pci"] or match["fallen"])
        number, words = int(match["snumber"] or match["number"] or 79), match["swords"] or match["words"] or ""
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


def read_diag_table(text: TextFile) -> Iterator[object]:
    """Yield a clue for each GPU that a test of hardware failed on, with the warnings below it."""
    test, node, warned = "", text.node, dict[str, str]()
    failed: dict[tuple[str, int | None], list[Line]] = defaultdict(list)
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
            warned[test] = warned.get(test, "") + result
        elif verdict := re.search(r"\b(pass|fail)\b", result, re.IGNORECASE):
            passed += verdict[1].lower() == "pass"
            if verdict[1].lower() == "fail" and not SOFTWARE_TESTS.search(test):
                found = _DIAG_GPUS.findall(result)
                named = [int(number) for all_of, one in found for number in re.findall(r"\d+", all_of or one)]
                gpus: list[int | None] = [*named] or [None]
                for gpu in gpus:
                    failed[test, gpu].append(line)
    kept = {key: lines for key, lines in failed.items() if not _IN_USE.search(warned.get(key[0], ""))}
    if len(kept) < len(failed):
        yield Note("tests that failed because the GPU was in use are left out: run them on an idle node")
    yield from _diag_clues(kept, passed, text.name, node)


def read_diag_json(text: TextFile) -> Iterator[object]:
    """Yield the same from ``dcgmi diag -j``, of DCGM 2 to 4."""
    document, number = _json_of(text)
    failed: dict[tuple[str, int | None], list[Line]] = defaultdict(list)
    passed, stack = 0, [("", document)]
    while stack:
        test, value = stack.pop()
        if isinstance(value, list):
            stack += [(test, item) for item in value]
        elif isinstance(value, dict):
            name = value.get("name")
            inner = name if isinstance(name, str) else test
            status = str(value.get("status", "")).lower()
            passed += status == "pass"
            in_use = _IN_USE.search(json.dumps(value.get("warnings", "")))
            if status == "fail" and not SOFTWARE_TESTS.search(inner) and not in_use:
                of_gpu = str(value.get("entity_group", "GPU")).upper() == "GPU"
                gpus = re.findall(r"\d+", str(value.get("gpu_id", value.get("gpu_ids", value.get("entity_id", "")))))
                numbers: list[int | None] = [int(gpu) for gpu in gpus if of_gpu]
                for gpu in numbers or [None]:
                    failed[inner, gpu].append(Line(number, ""))
            stack += [(inner, item) for item in value.values() if isinstance(item, dict | list)]
    if document is None:
        yield Note("the JSON is broken or cut off: get it again")
    yield from _diag_clues(failed, passed, text.name, text.node)


def _json_of(text: TextFile) -> tuple[Any, int]:
    """Return the document that a text holds, after what a tool may print before it, and its first line."""
    for at, line in enumerate(text.lines):
        if line.text.lstrip().startswith("{"):
            try:
                return json.loads("\n".join(line.text for line in text.lines[at:])), line.number
            except (ValueError, RecursionError):
                return None, line.number
    return None, 1


def _diag_clues(
    failed: Mapping[tuple[str, int | None], list[Line]], passed: int, file: str, node: str | None
) -> Iterator[object]:
    gpus: set[int | None] = {gpu for _, gpu in failed if gpu is not None} or {None}
    for gpu in gpus:  # a test fails as a whole because it failed on a GPU
        tests = {test: lines for (test, of), lines in failed.items() if of == gpu}
        if tests:
            where = line_numbers(line for lines in tests.values() for line in lines)
            yield Clue("gpu-error", "certain", f"dcgmi diag failed: {', '.join(tests)}", file, where, node, gpu=gpu)
    if not failed and passed and node is not None:
        yield Clue("passed", "likely", f"dcgmi diag passed {passed} tests", file, (), node, clears=True)
    if failed and node is None:
        yield NextStep(f"say of which node {file} is: call it diag-NODE.txt, or put it into a folder of that name")


_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)")
_LOST = re.compile(r"Unable to determine the device handle for (?:GPU ?)?([0-9A-Fa-f:.]+).*?: (.*)")
_SETTING = re.compile(r"^(\s*)(.+?)\s*(?: : (.*))?$")
_UNREADABLE = re.compile(r"Unknown Error|GPU is lost|ERR!|requires reset", re.IGNORECASE)


def read_smi(text: TextFile) -> Iterator[object]:
    """Yield what ``nvidia-smi -q`` says of each GPU: lost, errors of memory, throttled, a narrow link."""
    settings: dict[str, list[tuple[tuple[str, ...], str, Line]]] = {}
    path: list[tuple[int, str]] = []
    current = ""
    for line in text.lines:
        if lost := _LOST.search(line.text):
            address = pci_address(lost[1].rstrip(":."))
            says = f"nvidia-smi: {lost[2].strip()[:80]}; {REMEDIES['reboot']}"
            yield Clue("gpu-error", "certain", says, text.name, (line.number,), text.node, gpu=address)
        elif found := _GPU.match(line.text):
            current, path = pci_address(found[1]), []
            settings[current] = []
            yield GpuName(text.node or text.name, current, len(settings) - 1)
        elif current and (found := _SETTING.match(line.text)):
            indent = len(found[1])
            path = [step for step in path if step[0] < indent]
            if found[3] is None:
                path.append((indent, found[2]))
            else:
                settings[current].append(((*(step[1] for step in path), found[2]), found[3].strip(), line))
    narrow = [pci for pci, values in settings.items() if _narrow(values) is not None]
    for pci, values in settings.items():
        for sure, says, line in _faults_of(values, few_narrow=len(narrow) * 2 < len(settings)):
            kind = "throttled" if "slow" in says or "width" in says else "gpu-error"
            yield Clue(kind, sure, says, text.name, (line.number,), text.node, gpu=pci)


Settings = list[tuple[tuple[str, ...], str, Line]]


def _narrow(values: Settings) -> Line | None:
    """Return the line of a PCIe link that is narrower than it can be."""
    width = {path[-1]: (value, line) for path, value, line in values if "Link Width" in path}
    most, now = width.get("Max", ("", None))[0], width.get("Current", ("", None))
    return now[1] if most.rstrip("x").isdecimal() and now[0].rstrip("x").isdecimal() and most != now[0] else None


def _faults_of(values: Settings, *, few_narrow: bool) -> Iterator[tuple[Certainty, str, Line]]:
    """Yield what convicts a GPU, and how surely."""
    unreadable = [line for _, value, line in values if _UNREADABLE.search(value)]
    if len(unreadable) > 2:
        yield "certain", f"{len(unreadable)} values cannot be read; {REMEDIES['reboot']}", unreadable[0]
    if few_narrow and (line := _narrow(values)) is not None:
        yield "likely", "the PCIe link has less width than it can have", line
    for path, value, line in values:
        name, above, small = path[-1], " ".join(path[:-1]), value.lower()
        if name == "Remapping Failure Occurred" and small == "yes":
            yield "certain", f"a row of memory could not be remapped; {REMEDIES['replace']}", line
        elif name == "SRAM Threshold Exceeded" and small == "yes":
            yield "certain", f"too many errors of SRAM; {REMEDIES['replace']}", line
        elif name == "Pending" and "Remapped Rows" in above and small == "yes":
            yield "possible", f"a row of memory waits to be remapped; {REMEDIES['reset']}", line
        elif name == "GPU Recovery Action" and small not in ("none", "n/a"):
            action, sure = next((asked for word, asked in RECOVERY.items() if word in small), RECOVERY["none"])
            if sure is not None:
                yield sure, f"the driver asks for: {value}; {REMEDIES[action]}", line
        elif name == "Reset Required" and small == "yes":
            yield "likely", f"it requires a reset; {REMEDIES['reset']}", line
        elif "Volatile" in above and "Uncorrectable" in name and value.isdecimal() and int(value):
            yield "likely", f"{value} uncorrectable errors of memory ({name}); {REMEDIES['reset']}", line
        elif "Double Bit" in above and "Volatile" in above and name == "Total" and value.isdecimal() and int(value):
            yield "likely", f"{value} double-bit errors of memory; {REMEDIES['reset']}", line
        elif (
            name in ("HW Thermal Slowdown", "HW Power Brake Slowdown", "HW Power Brake", "HW Slowdown")
            and small == "active"
        ):
            yield "likely", f"slowed down by hardware ({name})", line
        elif name == "SW Thermal Slowdown" and small == "active":
            yield "possible", f"slowed down by its temperature ({name})", line


_IB_NODE = re.compile(r'^Errors for (?:0x\w+ )?"([^"]+)"')
_IB_COUNT = re.compile(r"\[(\w+) == (\d+)")
_PM_PORT = re.compile(r'Port(?: Name)?\s*=?\s*"?([\w.-]+?)[/ ](?:HCA-\d+|mlx\w+|U\d+)|Node Name=\s*"?([\w.-]+)')
_PM_COUNT = re.compile(
    r"^\s*(\w*(?:link_downed|symbol_error|link_down|local_link_integrity|rcv_errors|recovery)\w*)\s*=\s*(0x[0-9a-fA-F]+|\d+)",
    re.IGNORECASE,
)
IB_LIMITS: Mapping[str, int] = {
    "linkdown": 5,
    "symbolerror": 10_000,
    "linkerrorrecovery": 50,
    "locallinkintegrity": 100,
}
"""Counts since they were cleared from which a port is suspected; congestion (XmitWait) is no fault of a port."""


def read_ib_counters(text: TextFile) -> Iterator[object]:
    """Yield ports of nodes whose links went down or erred often, by ibqueryerrors or ibdiagnet's pm file."""
    port, found = "", defaultdict[tuple[str, str], list[Line]](list)
    for line in text.lines:
        if head := _IB_NODE.search(line.text):
            port = head[1]
        elif head := _PM_PORT.search(line.text):
            port = head[1] or head[2]
        counts = [*_IB_COUNT.findall(line.text), *_PM_COUNT.findall(line.text)]
        for name, count in counts:
            small = name.lower().replace("_", "")
            limit = next((limit for word, limit in IB_LIMITS.items() if word in small), None)
            if port and limit is not None and int(count, 0) >= limit:
                found[port, f"{name} is {int(count, 0):,}"].append(line)
    for (of_port, says), lines in found.items():
        node, _, device = of_port.partition(" ")
        if re.search(r"switch|quantum|spine|leaf|mf0|sw-", of_port, re.IGNORECASE):
            yield Note(f"{of_port}: {says}: a port of a switch; its other end is not said")
        else:
            yield Clue(
                "network-port", "possible", f"{device or 'a port'}: {says}", text.name, line_numbers(lines), node
            )


THROTTLED = 0x8 | 0x40 | 0x80  # Bits of clock reasons: hardware slows down, by heat, by power brake


def read_exporter(text: TextFile) -> Iterator[object]:
    """Yield what one scrape of dcgm-exporter says of broken and throttled GPUs."""
    for line in text.lines:
        try:
            name, labels, value, _ = exporter_line(line.text)
        except BadRow:
            continue
        if not (name.startswith("DCGM_FI_") and labels and value and isfinite(value)):
            continue
        gpu = int(labels["gpu"]) if labels.get("gpu", "").isdecimal() else None
        node = labels.get("Hostname") or labels.get("hostname") or labels.get("node") or text.node
        name = name.removeprefix("DCGM_FI_DEV_")
        kind, sure, says = "gpu-error", None, ""
        if name == "XID_ERRORS":
            entry = xid(int(value))
            sure, says = (None, "") if entry is None else (entry.sure, f"Xid {int(value)}: {entry.says}")
        elif name == "ROW_REMAP_FAILURE":
            sure, says = "certain", "a row of memory could not be remapped"
        elif name in ("ROW_REMAP_PENDING", "UNCORRECTABLE_REMAPPED_ROWS"):
            sure, says = "possible", f"{name} is {value:g}"
        elif name == "ECC_DBE_VOL_TOTAL":
            sure, says = "likely", f"{value:g} double-bit errors of memory"
        elif name.endswith(("THROTTLE_REASONS", "EVENT_REASONS")) and int(value) & THROTTLED:
            kind, sure, says = "throttled", "likely", f"slowed down by hardware (reasons {int(value):#x})"
        if sure is not None:
            yield Clue(kind, sure, says, text.name, (line.number,), node, gpu=gpu)


NODE_REPORTS = (
    TextForm(
        "kernel-log",
        re.compile(r"NVRM: |SXid \(|segfault at .* in libnccl"),
        read_kernel_log,
    ),
    TextForm(
        "dcgmi-diag",
        re.compile(r"\|\s*Diagnostic\s*\|\s*Result|Successfully ran diagnostic|\|\s*Deployment\s"),
        read_diag_table,
        document=True,
    ),
    TextForm(
        "dcgmi-diag-json",
        re.compile(r'"DCGM (?:GPU )?Diagnostic"'),
        read_diag_json,
        document=True,
    ),
    TextForm(
        "nvidia-smi-q",
        re.compile(r"NVSMI LOG|Unable to determine the device handle for"),
        read_smi,
        document=True,
    ),
    TextForm(
        "infiniband-counters",
        re.compile(r'Errors for (?:0x\w+ )?"|ibdiagnet|Port=\d+ .*GUID=|link_downed_counter|symbol_error_counter'),
        read_ib_counters,
        document=True,
    ),
    TextForm(
        "dcgm-exporter",
        re.compile(r"^(?:# HELP )?DCGM_FI_", re.MULTILINE),
        read_exporter,
        document=True,
    ),
)
