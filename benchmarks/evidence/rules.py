"""The rules of what others make of Flight Recorder dumps, for comparison."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ground.files import Source


def two_rules(sources: Sequence[Source]) -> set[int]:
    """Name a rank without any pending operation where others have some, and one whose first pending number of a
    group the others of it have completed.
    """

    def gloo(entry: dict[str, Any]) -> bool:
        """Return whether an entry is of gloo, which retires what is over."""
        return str(entry["profiling_name"]).startswith("gloo:")

    dumps = dict(map(_dump, sources))
    pending = {
        rank: sorted(
            (e for e in dump.get("entries", ()) if e["state"] != "completed" and not (gloo(e) and e["retired"])),
            key=lambda entry: entry["time_created_ns"],
        )
        for rank, dump in dumps.items()
    }
    named = {rank for rank, mine in pending.items() if not mine} if any(pending.values()) else set()
    first: dict[str, dict[int, int]] = defaultdict(dict)  # group -> rank -> its first pending number
    for rank, mine in pending.items():
        for entry in reversed(mine):
            if not entry["is_p2p"]:
                first[entry["process_group"][0]][rank] = entry["collective_seq_id"]
    for numbers in first.values():
        most = max(numbers.values())
        named |= {rank for rank, number in numbers.items() if number < most}
    return named


def _dump(source: Source) -> tuple[int, dict[str, Any]]:
    """Return a rank and what it recorded."""
    document: dict[str, Any] = json.loads(source.text)
    return int(document.get("rank", re.findall(r"\d+", source.name)[-1])), document


FR_TRACE = """
import io, json, logging, pickle, re, sys, tempfile
from pathlib import Path
from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger
from torch.distributed.flight_recorder.fr_trace import main
said = io.StringIO()
FlightRecorderLogger().logger.handlers = [logging.StreamHandler(said)]
answers = []
for folder in sorted(Path(sys.argv[1]).iterdir(), key=lambda folder: int(folder.name)):
    with tempfile.TemporaryDirectory() as place:
        for file in folder.iterdir():
            document = json.loads(file.read_text())
            rank = document.pop("rank", None)
            rank = int(re.search(r"(\\d+)[.]json$", file.name)[1]) if rank is None else rank
            document.setdefault("host_name", "host")
            Path(place, f"trace_{rank}").write_bytes(pickle.dumps(document))
        said.seek(0), said.truncate()
        try:
            main(["-p", "trace_", "--allow-incomplete-ranks", place])
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
    text = said.getvalue()
    named = {int(rank) for ranks in re.findall(r"missing ranks: [{]([0-9, ]*)[}]", text) for rank in ranks.split(",")}
    answers.append(sorted(named | {int(rank) for rank in re.findall(r"Culprit rank (\\d+)", text)}))
print("ANSWERS", json.dumps(answers))
"""
"""Runs PyTorch's ``fr_trace`` over folders: whoever it calls missing, or a culprit, is named."""


NVRX = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from nvidia_resiliency_ext.attribution.trace_analyzer.fr_attribution import CollectiveAnalyzer
answers = []
for folder in sorted(Path(sys.argv[1]).iterdir(), key=lambda folder: int(folder.name)):
    for file in folder.iterdir():  # PyTorch writes these numbers as texts in JSON, and as numbers in pickles
        document = json.loads(file.read_text())
        for status in document["pg_status"].values():
            status.update((key, int(value)) for key, value in status.items())
        file.write_text(json.dumps(document))
    options = {"fr_path": str(folder), "pattern": "*.json"}
    try:
        said = CollectiveAnalyzer(options).run_sync(options)[0]["hanging_ranks"]
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr)
        said = "[]"
    answers.append(json.loads(said.removeprefix("hanging ranks: ")))
print("ANSWERS", json.dumps(answers))
"""
"""Runs the analyser of NVIDIA's resiliency extension over folders, without the language model that it may ask."""


def fr_trace(python: str, jobs: Sequence[Sequence[Source]]) -> list[set[int]]:
    """Name the ranks that PyTorch's own analyser names in each job's dumps.

    :param python: an interpreter that has PyTorch.
    """
    return _answers([python, "-c", FR_TRACE], jobs)


def nvrx_attribution(checkout: str, jobs: Sequence[Sequence[Source]]) -> list[set[int]]:
    """Name the ranks that the analyser of NVIDIA's resiliency extension calls hanging in each job's dumps.

    :param checkout: its source, as https://github.com/NVIDIA/nvidia-resiliency-ext has it; the wheel lacks it.
    """
    return _answers([sys.executable, "-c", NVRX], jobs, str(Path(checkout, "src").resolve()))


def _answers(command: Sequence[str], jobs: Sequence[Sequence[Source]], *arguments: str) -> list[set[int]]:
    """Return what a program prints behind ``ANSWERS`` of a folder with a folder of dumps for each job, by number."""
    with TemporaryDirectory() as folder:
        for number, sources in enumerate(jobs):
            place = Path(folder, str(number))
            place.mkdir()
            for source in sources:
                (place / Path(source.name).name).write_text(source.text, encoding="utf-8")
        run = subprocess.run([*command, folder, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    answers = run.stdout.split("ANSWERS ", 1)[1]
    return [set(named) for named in json.loads(answers)]
