"""What ``arnold extender serve`` is told, and refuses."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from arnold.commands.run import run
from extender.cluster_api.client import Refused, Unreachable
from extender.service.server import STALE_SECONDS, JsonLines, Readiness, TextLines
from extender.service.settings import Address, parse_address, parse_gpu_classes, parse_levels
from extender.service.web import tls_files
from ground.errors import InvalidInput
from tests.facts import saying, says


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:8888", Address("127.0.0.1", 8888), True),
        ("127.8.0.1:1", Address("127.8.0.1", 1), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:8443", Address("::1", 8443), True),
        ("0.0.0.0:8443", Address("0.0.0.0", 8443), False),
        ("[::]:8443", Address("::", 8443), False),
        ("10.0.0.7:8443", Address("10.0.0.7", 8443), False),
        ("arnold.example.com:8443", Address("arnold.example.com", 8443), False),
    ],
)
def test_addresses(text: str, address: Address, loopback: bool) -> None:
    """Loopback is what no other machine can reach, names other than localhost are not."""
    found = parse_address(text)
    assert (found, found.loopback, str(found)) == (address, loopback, text)


@pytest.mark.parametrize("text", ["", "8888", ":8888", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "::1:8888", "h:65536"])
def test_addresses_that_are_none(text: str) -> None:
    """Each is refused with how to write one."""
    with pytest.raises(InvalidInput, match="is not an address") as error:
        parse_address(text)
    assert error.value.where == "--bind"


def test_levels() -> None:
    """Labels from broad to close; auto leaves it to the presets."""
    assert parse_levels("a/pod, a/rack") == ("a/pod", "a/rack")
    assert parse_levels("auto") is None
    for text in ("", "a,,b", "a,a"):
        with pytest.raises(InvalidInput):
            parse_levels(text)


def test_classes_of_gpus() -> None:
    """Names of DeviceClasses, at least one, that an object can have."""
    assert parse_gpu_classes("gpu.nvidia.com, h100.example.com") == ("gpu.nvidia.com", "h100.example.com")
    for text in ("", "gpu.nvidia.com,", "a b", "A", "x" * 254):
        with pytest.raises(InvalidInput, match=saying("DeviceClass")):
            parse_gpu_classes(text)


def test_tls_is_all_or_nothing() -> None:
    """A loopback address may go without, any other may not, and half of it is a slip."""
    here, there = parse_address("127.0.0.1:1"), parse_address("0.0.0.0:1")
    assert tls_files(here, certificate=None, key=None, client_ca=None) is None
    for address in (here, there):
        assert tls_files(address, certificate="c", key="k", client_ca="a") is not None
        with pytest.raises(InvalidInput, match="--client-ca not given"):
            tls_files(address, certificate="c", key="k", client_ca=None)
    with pytest.raises(InvalidInput, match="anybody who reaches"):
        tls_files(there, certificate=None, key=None, client_ca=None)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--bind", "0.0.0.0:8443"], "--tls-cert"),
        (["--bind", "nowhere"], "--bind"),
        (["--levels", "a,a"], "--levels"),
        (["--domains", "power"], "--domains: 'power' is no name with a label"),
        (["--domains", "power=a,@power=b"], "--domains: @power is given twice"),
        (["--policy", "none"], "--policy"),
        (["--kubeconfig", "missing.yaml"], "missing.yaml"),
        (["--bind-timeout", "nan"], "--bind-timeout"),
        (["--tls-cert", "a", "--tls-key", "b", "--client-ca", "c"], "--tls-cert"),
    ],
)
def test_refusing_to_start(args: list[str], said: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What cannot be right ends with 2 at once, and says which option and what to do."""
    assert run(["extender", "serve", *args]) == 2
    error = capfd.readouterr().err
    assert said in error
    assert "To fix: " in error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "cannot be used"),
        ("not: [yaml", "cannot be used"),
        ("{}", "cannot be used"),
        ("[1, 2]", "cannot be used"),
        ('{"current-context": "c", "contexts": [], "clusters": [], "users": []}', "contexts"),
    ],
)
def test_kubeconfigs_that_are_wrong(content: str, said: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each kind of wrong kubeconfig is refused in one sentence, with exit code 2 and without a traceback."""
    file = tmp_path / "config"
    file.write_text(content, encoding="utf-8")
    assert run(["extender", "serve", "--kubeconfig", str(file)]) == 2
    error = capfd.readouterr().err
    assert str(file) in error
    assert said in error
    assert "To fix: " in error
    assert "Traceback" not in error


def test_logs_are_json_lines() -> None:
    """One object a line, with gang and pod; an exception is a field."""
    record = logging.makeLogRecord({"msg": "released %d", "args": (3,), "levelname": "INFO", "gang": "train/llm"})
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["gang"], line["level"]) == ("released 3", "train/llm", "info")
    assert TextLines("%(message)s").format(record) == "released 3  [gang=train/llm]"


class _Followed:
    """What readiness looks at of a reflector."""

    def __init__(self, name: str) -> None:
        self.resource = type("Resource", (), {"plural": name})()
        self.synced = False
        self.problem: Refused | Unreachable | None = None


def test_readiness() -> None:
    """Ready when all kinds are listed; not any more when one could not be followed for a minute."""
    pods, nodes, time = _Followed("pods"), _Followed("nodes"), [0.0]
    readiness = Readiness([pods, nodes], clock=lambda: time[0])  # type: ignore[list-item]
    assert len(readiness.reasons()) == 2
    pods.synced = nodes.synced = True
    assert readiness.reasons() == []
    pods.problem = Unreachable("away")
    assert readiness.reasons() == []
    time[0] += STALE_SECONDS
    (reason,) = readiness.reasons()
    assert says(reason, "pods", "away")
    assert readiness.synced()
    pods.problem = None
    assert readiness.reasons() == []


def test_readiness_of_kinds_with_one_plural() -> None:
    """PodGroups of several projects are kinds of their own: that one can be followed says nothing about another."""
    broken, fine, time = _Followed("podgroups"), _Followed("podgroups"), [0.0]
    broken.synced = fine.synced = True
    broken.problem = Unreachable("away")
    readiness = Readiness([broken, fine], clock=lambda: time[0])  # type: ignore[list-item]
    assert readiness.reasons() == []
    time[0] += STALE_SECONDS
    (reason,) = readiness.reasons()
    assert says(reason, "podgroups", "away")


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines("%(message)s")])
def test_lines_of_the_log_are_short(formatter: logging.Formatter) -> None:
    """However long a text is that came into a message, or beside it, a line stays one that can be read."""
    record = logging.makeLogRecord({"msg": "%s is wrong", "args": ("x" * 200_000,), "gang": "y" * 200_000})
    line = formatter.format(record)
    # A message has 4,096 bytes, an extra 512; the rest is time, level, logger and keys.
    assert len(line.encode()) < 5_120
    assert "xxx..." in line
    assert "yyy..." in line
