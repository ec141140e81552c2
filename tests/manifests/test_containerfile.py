"""The Containerfile: no engine builds it here, so each step is checked, and the steps that make the wheel are run.

`.ci/run` carries the other steps out too, which downloads what Arnold needs.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from tests.case_counts import every_fourth
from tests.manifests.containerfile import (
    ROOT,
    carry_out,
    default_arguments,
    files_of_packages,
    make_wheel,
    packages,
    reaches_the_builder,
    stages,
)
from tests.manifests.rendering import MANIFESTS


def test_stages_use_one_python() -> None:
    """The wheel is built by the Python that runs it, and its own metadata allows that one."""
    bases = [stage[0].words[0] for stage in stages()]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    number = bases[0].partition(":")[2].partition("-")[0]
    assert f"Python :: {number}" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_what_is_copied_is_there() -> None:
    """Every file that is copied from the checkout exists, and the ignore file lets it through to the builder."""
    steps = [step for stage in stages() for step in stage if step.word == "COPY" and step.source is None]
    copied = [name for step in steps for name in step.words[:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert reaches_the_builder(name)


def test_nothing_else_reaches_the_builder() -> None:
    """Neither history nor environments, tests or compiled files, wherever they lie."""
    for path in (".git/HEAD", ".venv/bin/python", "tests/conftest.py", "arnold/commands/__pycache__/run.pyc", "secret"):
        assert not reaches_the_builder(path)


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
    return make_wheel(tmp_path_factory.mktemp("image"))


def test_wheel_of_the_image_is_whole(wheel: Path) -> None:
    """Every file of the seven packages is in it, data files and type markers included, and nothing else is."""
    assert packages() == ["arnold", "extender", "ground", "health", "scheduler", "simulator", "slurm", "topology"]
    ours = files_of_packages()
    # Code alone would not do: type markers, templates, styles and scripts of pages are files of packages too.
    assert {".py", ".typed", ".j2", ".css", ".js"} <= {Path("x" + name.rpartition("/")[2]).suffix for name in ours}
    with zipfile.ZipFile(wheel) as opened:
        assert {name for name in opened.namelist() if ".dist-info/" not in name} == ours


def test_wheel_says_what_it_is(wheel: Path) -> None:
    """Licence and command are in the metadata."""
    with zipfile.ZipFile(wheel) as opened:
        files = {Path(name).name: opened.read(name).decode() for name in opened.namelist() if ".dist-info/" in name}
    assert "Apache License" in files["LICENSE"]
    assert "License-Expression: Apache-2.0" in files["METADATA"]
    assert "arnold = arnold.main:main" in files["entry_points.txt"]


def test_image_gets_the_wheel_and_what_was_tested(wheel: Path) -> None:
    """The second stage installs the wheel alone, then what it needs, all of which the lock pins with hashes."""
    (step,) = [step for step in stages()[-1] if step.word == "RUN"]
    installs = [shlex.split(part) for part in step.text.split("&&") if " install " in part]
    assert [words[-1] for words in installs] == ["pip>=26.3", "/tmp/dist/*.whl", "arnold-scheduler[kubernetes,tables]"]
    assert "--no-deps" in installs[1]
    assert installs[2][installs[2].index("--constraint") + 1] == "/tmp/runtime.lock"
    lock = (ROOT / "runtime.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==\S+.*\\\n +--hash=(sha256):", lock, flags=re.MULTILINE))
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(opened.read(name))
    # The name by which pip finds what is installed already: with another it would look for it elsewhere.
    assert metadata["Name"] == "arnold-scheduler"
    needed = [
        line
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line or re.search(r'extra == "(kubernetes|tables)"', line)
    ]
    assert needed
    assert {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in needed} <= set(pinned)


@pytest.fixture(scope="module")
def arnold(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment that has the image's wheel, and this environment's libraries but not its Arnold."""
    place = tmp_path_factory.mktemp("environment")
    for command in (
        ["-m", "venv", "--without-pip", str(place)],
        ["-m", "pip", "--python", f"{place}/bin/python", "install", "--quiet", "--no-deps", "--no-compile", str(wheel)],
    ):
        subprocess.run([sys.executable, *command], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # A folder named in a .pth file is searched, the .pth files in it are not read: a checkout installed there in
    # editable form stays out.
    libraries = [folder for folder in sys.path if folder.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    return place / "bin" / "arnold"


CLUSTER = "node,minipod,gpus\nn1,a,8\nn2,a,8\nn3,b,8\nn4,b,8\n"
JOB = "name: small\nparallelism: {tp: 8, dp: 2}\n"
TRACE = "job_id,submit_time,duration,gpus,alpha\nfirst,0,3600,16,0.3\nsecond,60,600,32,0.3\n"


CALLS = [
    (["schema"], "capacity spares"),
    (["topology", "validate", "cluster.csv"], "4 nodes"),
    (["simulate", "--cluster", "cluster.csv", "--trace", "jobs.csv", "--html", "page.html"], "2 of 2 jobs ended"),
    (["place", "--cluster", "cluster.csv", "--job", "job.yaml"], "proved optimal"),
    (default_arguments(), "simulate"),
]
"""Arguments, and what is said then, among other things; the first and the last are always called."""


@pytest.mark.many_cases
@pytest.mark.parametrize(("arguments", "says"), every_fourth(CALLS))
def test_command_of_the_image_runs(arnold: Path, arguments: list[str], says: str, tmp_path: Path) -> None:
    """What the image runs by itself, every command imported once (`schema` does), and a command of each package."""
    for name, text in (("cluster.csv", CLUSTER), ("job.yaml", JOB), ("jobs.csv", TRACE)):
        (tmp_path / name).write_text(text)
    done = subprocess.run([arnold, *arguments], cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    assert done.stderr == ""


NATIVE = MANIFESTS / "native"


def program_of_the_image(built: Path, image: Path) -> Path:
    """The one file of the scheduler's image, of which ``built`` is what the first stage leaves."""
    first, last = stages(NATIVE)
    carry_out(last, image, others={first[0].words[-1]: built}, environment={}, context=NATIVE)
    (program,) = (file for file in image.rglob("*") if file.is_file())
    return program


def test_image_of_the_scheduler_is_called_as_its_deployment_does(tmp_path: Path) -> None:
    """Its one program is where the first stage builds it; Deployment and entry point call it, as nobody."""
    first, last = stages(NATIVE)
    (build,) = [step.text for step in first if step.word == "RUN"]
    target = tmp_path / "program" / shlex.split(build)[shlex.split(build).index("-o") + 1].lstrip("/")
    target.parent.mkdir(parents=True)
    target.write_text("")
    program = program_of_the_image(tmp_path / "program", tmp_path / "image")
    step = {step.word: step.text for step in last}
    deployment = yaml.safe_load((MANIFESTS / "base" / "scheduler.yaml").read_text(encoding="utf-8").split("---")[0])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (
        f"{step['ENV'].removeprefix('PATH=')}/{container['command'][0]}"
        == f"/{program.relative_to(tmp_path / 'image')}"
    )
    assert step["ENTRYPOINT"] == f'["/{program.relative_to(tmp_path / "image")}"]'
    assert int(step["USER"].partition(":")[0]) == deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"]


@pytest.mark.control_plane
@pytest.mark.parametrize("pins", ["go", "v1.37"])
def test_the_plug_in_is_built_of_the_release_it_says(pins: str, tmp_path: Path) -> None:
    """The first stage of the scheduler's image makes the program of the second, which knows its release."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go toolchain to build it with")
    first, built = stages(NATIVE)[0], tmp_path / "program"
    carry_out(first, built, others={}, environment={"PINS": pins, "CGO_ENABLED": "0"}, context=NATIVE)
    program = program_of_the_image(built, tmp_path / "image")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", (NATIVE / f"{pins}.mod").read_text(encoding="utf-8"))
    assert pinned is not None
    assert said == f"Kubernetes {pinned[1]}\n"
