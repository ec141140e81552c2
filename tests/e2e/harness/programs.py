"""The programs of a control plane: those the user has, else built from Go modules once and kept outside the checkout.

No release of Kubernetes publishes all four parts for every machine, but its Go modules are public: the module in
``tests/e2e/control_plane`` makes one program of them.  Building takes minutes, so the result is cached, keyed by the
module's files and the Go version: it is built again only when one of them changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Command = tuple[str, ...]
"""A program and its first arguments."""

Say = Callable[[str], None]
"""Tells whoever waits for a build how it goes."""

PARTS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
MODULE = Path(__file__).parents[1] / "control_plane"
KUBERNETES = "v1.36.3"
KWOK = ("sigs.k8s.io/kwok/cmd/kwok", "v0.8.0")
CACHE = "ARNOLD_CONTROL_PLANE_CACHE"
"""Environment variable: the folder to keep what was built in."""

_PATIENCE = 30.0
"""Seconds between two words about a build that goes on."""


class Unavailable(Exception):
    """There is no control plane to be had on this machine, and why."""


class Unfetched(RuntimeError):
    """Go's modules cannot be had here now: the network, or what stands between, refuses them."""


_REFUSED = re.compile(
    r"dial tcp|no such host|i/o timeout|connection re|TLS handshake|: (?:403|404|410|429|5\d\d) |invalid version"
)
"""In what Go says of a module that it could not fetch."""


def find_programs(say: Say) -> Mapping[str, Command]:
    """How to call each part: from the folder KUBEBUILDER_ASSETS, and what it lacks from our own build.

    :raises Unavailable: a part is in neither, as there is no Go toolchain that could build it.
    :raises RuntimeError: the build failed.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    given = {part: (str(Path(assets) / part),) for part in PARTS if assets and (Path(assets) / part).is_file()}
    missing = [part for part in PARTS if part not in given]
    if not missing:
        return given
    try:
        built = _build_parts("go", KUBERNETES, say)
    except Unavailable as reason:
        has_not = f"KUBEBUILDER_ASSETS has no {', '.join(missing)}" if assets else "KUBEBUILDER_ASSETS is not set"
        raise Unavailable(f"no control plane to test on: {has_not}, and {reason}") from None
    return {part: given.get(part, (str(built), part)) for part in PARTS}


def find_release(minor: str, say: Say) -> Mapping[str, Command]:
    """How to call each part of another release, always of our own build: ``v1.33.mod`` pins what 1.33 is built from.

    :raises Unavailable: there is no Go toolchain that could build it.
    :raises RuntimeError: the build failed.
    """
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / f"v{minor}.mod").read_text(encoding="utf-8"))
    assert pinned is not None, f"v{minor}.mod names no release of Kubernetes"
    built = _build_parts(f"v{minor}", pinned[1], say)
    return {part: (str(built), part) for part in PARTS}


def _build_parts(pins: str, release: str, say: Say) -> Path:
    link = f"-X k8s.io/component-base/version.gitVersion={release}"
    return from_folder(MODULE, ".", say, pins=pins, link=link)


def find_kwok(say: Say) -> Path:
    """The program that plays kubelets: the user's, or one that is built.

    :raises Unavailable: there is none, as there is no Go toolchain that could build it.
    :raises RuntimeError: the build failed.
    """
    if found := shutil.which("kwok"):
        return Path(found)
    try:
        return from_module(*KWOK, say)
    except Unavailable as reason:
        raise Unavailable(f"no nodes to test on: kwok is not on the PATH, and {reason}") from None


def from_module(package: str, version: str, say: Say, *, tags: str = "") -> Path:
    """A program that ``go install PACKAGE@VERSION`` builds.

    :param tags: of the build, such as those that leave parts out.
    :raises Unavailable: no Go toolchain.
    :raises RuntimeError: the build failed.
    """
    go, go_version = _go()

    def build(folder: Path) -> None:
        install = [go, "install", "-trimpath", "-tags", tags, "-ldflags", "-s -w", f"{package}@{version}"]
        _run(install, say, what=package, cwd=folder, GOBIN=str(folder))
        (built,) = folder.iterdir()
        built.rename(folder / "program")

    return _cached(f"{package.replace('/', '-')}-{version}-{_digest(go_version.encode())}", build) / "program"


def from_folder(module: Path, package: str, say: Say, *, pins: str = "go", link: str = "") -> Path:
    """A program of a module in this checkout, which pins all that it is built from.

    :param module: folder of its ``go.mod``.
    :param package: of the module or of its tools; ``.`` = what the folder holds.
    :param pins: the module's files of versions, without their endings: ``go`` = ``go.mod``, ``go.sum``; a build tag.
    :param link: more flags for the linker.
    :raises Unavailable: no Go toolchain.
    :raises RuntimeError: the build failed.
    """
    go, go_version = _go()
    sources = sorted([*module.glob("*.go"), *(module / f"{pins}.{ending}" for ending in ("mod", "sum"))])
    key = _digest(go_version.encode(), link.encode(), *(file.read_bytes() for file in sources))

    def build(folder: Path) -> None:
        versions = ["-modfile", f"{pins}.mod", "-tags", pins]
        flags = ["-trimpath", "-buildvcs=false", *versions, "-ldflags", f"-s -w {link}".strip()]
        command = [go, "build", *flags, "-o", str(folder / "program"), package]
        _run(command, say, what=module.name, cwd=module)

    name = "-".join(filter(None, (module.name, Path(package).name, key)))
    return _cached(name, build) / "program"


def module_folder(module: str, version: str) -> Path:
    """Where the source of a Go module lies: for the resource definitions that come with it.

    :raises Unavailable: no Go toolchain.
    :raises Unfetched: it cannot be had.
    """
    go, _ = _go()
    download = [go, "mod", "download", "-json", f"{module}@{version}"]
    done = subprocess.run(download, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unfetched(f"{' '.join(download)} failed:\n{done.stdout}{done.stderr}")
    found = re.search(r'"Dir": "([^"]+)"', done.stdout)
    if found is None:
        raise RuntimeError(f"{' '.join(download)} named no folder: {done.stdout}")
    return Path(found[1])


def _go() -> tuple[str, str]:
    """The toolchain, and what it says it is."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("there is no Go toolchain to build it with")
    version = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout.strip()
    number = re.search(r"go1\.(\d+)", version)
    if number and int(number[1]) < 21:
        raise Unavailable(f"{version} is too old to build it with: from 1.21 on, Go fetches the version that it needs")
    return go, version


def _run(command: list[str], say: Say, *, what: str, cwd: Path, **variables: str) -> None:
    """Run a build behind everything else that the machine does."""
    say(f"building {what} from Go modules; this takes minutes, and is kept for the next time")
    started = time.monotonic()
    environment = os.environ | {"CGO_ENABLED": "0"} | variables
    nice = ["nice", "-n", "19"] if shutil.which("nice") else []
    with tempfile.TemporaryFile("w+") as output:
        build = subprocess.Popen([*nice, *command], cwd=cwd, env=environment, stdout=output, stderr=output)
        try:
            while True:
                try:
                    build.wait(_PATIENCE)
                    break
                except subprocess.TimeoutExpired:
                    say(f"building {what}: {time.monotonic() - started:.0f} s so far")
        finally:
            build.kill()
        if build.returncode:
            output.seek(0)
            said = output.read()[-4000:]
            raise (Unfetched if _REFUSED.search(said) else RuntimeError)(f"{' '.join(command)} failed:\n{said}")
    say(f"built {what} in {time.monotonic() - started:.0f} s")


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


def _cached(name: str, build: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, filled by ``build`` when it is not there yet."""
    place = cache() / name
    with _alone(place.with_name(f"{name}.lock")):
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                folder = Path(scratch) / "folder"
                folder.mkdir()
                build(folder)
                folder.rename(place)
    return place


def cache() -> Path:
    """The folder to keep what was built in."""
    if chosen := os.environ.get(CACHE):
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arnold-scheduler" / "control-plane"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Only one process of this machine builds the same thing."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
