"""The programs for Slurm's own hooks, run as it runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from time import time

import pytest

NODE_HEALTH, NODE_KEEPER = (
    Path(__file__).parents[2] / "manifests" / "slurm" / name for name in ("node_health", "node_keeper")
)
NOW = round(time())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"{NOW} faulty GPU 3 ECC\n", 1),
        (f"{NOW} faulty GPU 3 ECC", 1),
        (f"{NOW} faulty GPU 3 ECC\r\n", 1),
        (f"{NOW} ok\n", 0),
        (f"{NOW - 7200} faulty GPU 3 ECC\n", 0),
        ("faulty GPU 3 ECC\n", 0),
        ("$(exit 9) faulty x\n", 0),
        ("", 0),
        (None, 0),
    ],
    ids=[
        *("faulty", "no end of line", "of Windows", "in order", "of two hours ago"),
        *("without a time", "hostile", "empty", "no file"),
    ],
)
def test_a_node_answers_from_a_file_alone(tmp_path: Path, line: str | None, code: int) -> None:
    """Nothing is on PATH, so no program can be started; without a fresh verdict the job starts."""
    file = tmp_path / "verdict"
    if line is not None:
        file.write_bytes(line.encode())
    environment = {"PATH": str(tmp_path), "ARNOLD_VERDICT": str(file)}
    done = subprocess.run(
        ["/bin/bash", str(NODE_HEALTH)], env=environment, capture_output=True, text=True, check=False, timeout=10
    )
    assert (done.returncode, done.stderr) == (code, "arnold: GPU 3 ECC\n" if code else "")


SCONTROL = """\
#!/bin/bash
cat >/dev/null # as a program would that reads what it is given
echo "$*" >> "$SAID"
[ "$1 $2" = "show node" ] && echo "NodeName=$3 State=IDLE+DRAIN Reason=arnold: slow "
exit 0
"""


@pytest.mark.parametrize("end", ["\n", ""], ids=["with an end", "without one"])
def test_every_line_of_the_keeper_is_done(tmp_path: Path, end: str) -> None:
    """Two nodes that we drained are resumed, the last though its line has no end; a program that reads its standard
    input leaves the lines behind it alone.
    """
    scontrol, said = tmp_path / "scontrol", tmp_path / "said"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    lines = "\n".join(f"resume\t{node}\t-\t-" for node in ("n01", "n02")) + end
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SAID": str(said)}
    done = subprocess.run(
        ["/bin/bash", str(NODE_KEEPER)],
        input=lines,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    assert (done.returncode, done.stderr) == (0, "")
    updates = [line for line in said.read_text().splitlines() if line.startswith("update")]
    assert updates == [f"update NodeName={node} State=RESUME" for node in ("n01", "n02")]
