"""The Containerfile carried out in a folder, where no container engine is.

Everything is read from the Containerfile and its ignore file: what reaches the builder, what is copied, what is run.  A
stage's file system is a folder, so absolute paths of an instruction are taken below it.  Base images and users are not
there: ``python`` is the one that runs this.

``python -m tests.manifests.containerfile FOLDER`` does it all, which downloads what Arnold needs, and prints the
command that the image calls.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]

OFFLINE: Mapping[str, str] = {"PIP_NO_BUILD_ISOLATION": "false"}
"""Makes pip build with this environment's build tools and fetch none.  (``false`` is pip's spelling of yes.)"""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, its continued lines joined."""

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments, flags left out."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    @property
    def source(self) -> str | None:
        """The stage that a COPY copies from; ``None`` = the checkout."""
        found = re.search(r"--from=(\S+)", self.text)
        return None if found is None else found[1]


Stage = list[Step]


def stages(context: Path = ROOT) -> list[Stage]:
    """The instructions of each stage, which begins with FROM.

    :param context: the folder of the Containerfile, from which it copies.
    """
    found: list[Stage] = []
    text = (context / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            if word == "FROM":
                found.append([])
            found[-1].append(Step(word, rest.strip()))
    return found


def reaches_the_builder(path: str) -> bool:
    """Whether the ignore file lets a file of the checkout through: the last pattern that it or a folder above matches.

    :param path: relative to the checkout.
    """
    through = True
    folders = path.split("/")
    prefixes = ["/".join(folders[: i + 1]) for i in range(len(folders))]
    for line in (ROOT / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            regex = _regex(pattern.removeprefix("!"))
            if any(regex.fullmatch(prefix) for prefix in prefixes):
                through = pattern.startswith("!")
    return through


def _regex(pattern: str) -> re.Pattern[str]:
    """A pattern of an ignore file: ``*`` stays inside a folder, ``**/`` is any number of folders."""
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.strip("/"))
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts))


def carry_out(
    stage: Stage, root: Path, *, others: Mapping[str, Path], environment: Mapping[str, str], context: Path = ROOT
) -> None:
    """Do what a stage says, below ``root``.

    :param others: file systems of earlier stages, by name.
    :param environment: variables besides those of this process, and arguments of the build.
    :param context: the folder from which it copies.
    :raises RuntimeError: an instruction failed; with what it printed.
    """
    here = root
    here.mkdir(parents=True)
    for step in stage[1:]:
        if step.word == "WORKDIR":
            here = root / step.text.lstrip("/")
            here.mkdir(parents=True, exist_ok=True)
        elif step.word == "ARG":
            name, _, default = step.text.partition("=")
            environment = {name: default, **environment}
        elif step.word == "COPY":
            _copy(step, root=root, here=here, others=others, context=context)
        elif step.word == "RUN":
            _run(_below(step.text, root), here, environment)


def _copy(step: Step, *, root: Path, here: Path, others: Mapping[str, Path], context: Path) -> None:
    *sources, target = step.words
    into = root / target.lstrip("/") if target.startswith("/") else here / target
    origin = context if step.source is None else others[step.source]
    for source in (found for name in sources for found in sorted(origin.glob(name.lstrip("/")))):
        files = [file for file in source.rglob("*") if file.is_file()] if source.is_dir() else [source]
        for file in files:
            if origin == ROOT and not reaches_the_builder(file.relative_to(ROOT).as_posix()):
                continue
            # Of a folder the contents are copied; a file keeps its name where the target is a folder.
            end = file.relative_to(source) if source.is_dir() else Path(file.name if target.endswith("/") else "")
            (into / end).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, into / end)


def _below(command: str, root: Path) -> str:
    """A command with its absolute paths below ``root``."""
    return re.sub(r"(?<!\S)/(?=\w)", f"{root}/", command)


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", **environment}
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}\n{done.stdout}{done.stderr}")


def packages() -> list[str]:
    """Top-level packages that ``pyproject.toml`` ships."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    found = (folder.parent.name for folder in ROOT.glob("*/__init__.py"))
    return sorted(name for name in found if any(fnmatch(name, pattern) for pattern in patterns))


def files_of_packages() -> set[str]:
    """Every file of theirs, data files and type markers included."""
    return {
        file.relative_to(ROOT).as_posix()
        for package in packages()
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def make_wheel(folder: Path, environment: Mapping[str, str] = OFFLINE) -> Path:
    """The wheel that the first stage leaves for the second."""
    first, last = stages()
    root = folder / "wheel"
    carry_out(first, root, others={}, environment=environment)
    (source,) = [step.words[0] for step in last if step.word == "COPY" and step.source is not None]
    (wheel,) = (root / source.lstrip("/")).glob("*.whl")
    return wheel


def make_image(folder: Path) -> list[str]:
    """Both stages; downloads what Arnold needs.

    :returns: the command that the image calls.
    """
    first, last = stages()
    make_wheel(folder, environment={})
    name = first[0].words[-1]
    carry_out(last, folder / "image", others={name: folder / "wheel"}, environment={})
    (entry,) = [json.loads(step.text) for step in last if step.word == "ENTRYPOINT"]
    return [_below(word, folder / "image") for word in entry]


def default_arguments() -> list[str]:
    """What the image's command is called with where nothing is said."""
    (arguments,) = [json.loads(step.text) for step in stages()[-1] if step.word == "CMD"]
    return list(arguments)


if __name__ == "__main__":
    print(shlex.join(make_image(Path(sys.argv[1]).resolve())))
