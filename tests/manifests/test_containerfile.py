"""The Containerfile: no engine builds it here, so each step is checked, and the steps that make the wheel are run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from tests.manifests.rendering import MANIFESTS

ROOT = MANIFESTS.parent


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, its continued lines joined."""

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments, flags left out."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]


def stages() -> list[list[Step]]:
    """The instructions of each stage, which begins with FROM."""
    found: list[list[Step]] = []
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            if word == "FROM":
                found.append([])
            found[-1].append(Step(word, rest.strip()))
    return found


def test_stages_use_one_python() -> None:
    """The wheel is built by the Python that runs it, and its own metadata allows that one."""
    bases = [stage[0].words[0] for stage in stages()]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    number = bases[0].partition(":")[2].partition("-")[0]
    assert f"Python :: {number}" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_what_is_copied_is_there() -> None:
    """Every file that is copied from the checkout exists, and the ignore file lets it through to the builder."""
    ignored = (ROOT / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    copied = [
        name
        for stage in stages()
        for step in stage
        if step.word == "COPY" and "--from" not in step.text
        for name in step.words[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_image_runs_as_nobody_and_calls_arnold() -> None:
    """The user is a number without rights, the same as in the manifests, and the entry point is the command."""
    last = {step.word: step.text for step in stages()[-1]}
    user = last["USER"].partition(":")[0]
    deployment = yaml.safe_load((MANIFESTS / "base" / "extender.yaml").read_text(encoding="utf-8").split("---")[0])
    assert int(user) == deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] > 0
    assert last["ENTRYPOINT"] == '["/opt/arnold/bin/arnold"]'


def test_script_of_the_certificates_finds_its_python() -> None:
    """The Job that makes certificates calls the Python of the image's environment."""
    install = next(step.text for step in stages()[-1] if step.word == "RUN")
    assert "-m venv /opt/arnold " in install
    job = list(yaml.safe_load_all((MANIFESTS / "overlays/self-signed/certificates.yaml").read_text(encoding="utf-8")))[
        -1
    ]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == "/opt/arnold/bin/python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made by the instructions of the first stage in a folder that stands for its file system."""
    root = tmp_path_factory.mktemp("image")
    here = root
    for step in stages()[0][1:]:
        if step.word == "WORKDIR":
            here = root / step.text.lstrip("/")
            here.mkdir(parents=True)
        elif step.word == "COPY":
            target = here / step.words[-1]
            for name in step.words[:-1]:
                if (ROOT / name).is_dir():  # its contents are copied, as COPY does
                    shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / name, target)
        elif step.word == "RUN":
            _run(step.text.replace("/dist", str(root / "dist")), here)
    (file,) = (root / "dist").glob("*.whl")
    return file


def test_image_gets_the_wheel_and_what_was_tested(wheel: Path) -> None:
    """The second stage installs the wheel alone, then what it needs, all of which the lock pins with hashes."""
    (step,) = [step for step in stages()[-1] if step.word == "RUN"]
    installs = [shlex.split(part) for part in step.text.split("&&") if " install " in part]
    assert [words[-1] for words in installs] == ["pip>=26.3", "/tmp/dist/*.whl", "arnold-scheduler"]
    assert "--no-deps" in installs[1]
    assert installs[2][installs[2].index("--constraint") + 1] == "/tmp/requirements.lock"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==\S+.*\\\n +--hash=(sha256):", lock, flags=re.MULTILINE))
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(opened.read(name))
    # The name by which pip finds what is installed already: with another it would look for it elsewhere.
    assert metadata["Name"] == "arnold-scheduler"
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert needed
    assert {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in needed} <= set(pinned)


def test_wheel_brings_the_entry_point(wheel: Path, tmp_path: Path) -> None:
    """Installed into an environment, the wheel alone makes the command that the image calls."""
    _run(f"python -m venv --without-pip {tmp_path}/arnold", tmp_path)
    _run(f"python -m pip --python {tmp_path}/arnold/bin/python install --quiet --no-deps {wheel}", tmp_path)
    assert (tmp_path / "arnold" / "bin" / "arnold").is_file()


def _run(command: str, folder: Path) -> None:
    """Run an instruction with this environment's Python and build tools, without fetching any."""
    environment = os.environ | {"PIP_NO_BUILD_ISOLATION": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = command.replace("python -m", f"{sys.executable} -m", 1)
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
