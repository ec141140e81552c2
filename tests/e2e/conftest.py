"""The control plane that the tests of this folder share.

All of them run one after the other in one worker (they share its nodes), beside the other tests.  They are skipped,
with the reason, where neither KUBEBUILDER_ASSETS nor a Go toolchain provides the programs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness.arnold import install
from tests.e2e.harness.nodes import namespace as namespace_object
from tests.e2e.harness.plane import ControlPlane
from tests.e2e.harness.programs import Unavailable, find_kwok, find_programs

HERE = Path(__file__).parent
LAST_LINES = 40  # of a program's log; a gang's whole way is about ten
_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one worker, so that there is one control plane at a time."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("control-plane"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the programs that the test ran said last: a machine elsewhere is gone by then."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("shared_plane")
    if report.failed and isinstance(plane, ControlPlane):
        for log in sorted(plane.folder.glob("arnold-*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            report.sections.append((f"the end of {log.name}", "\n".join(lines[-LAST_LINES:])))
    return report


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Tells whoever waits for the tests, past pytest's capture, how a build goes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def to_stderr(message: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{message}", file=sys.stderr, flush=True)

    return to_stderr


@pytest.fixture(scope="session")
def shared_plane(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Iterator[ControlPlane]:
    """One control plane for all tests of this folder."""
    try:
        programs, kwok = find_programs(say), find_kwok(say)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ControlPlane(programs, tmp_path_factory.mktemp("control-plane") / "plane", kwok=kwok) as plane:
        yield plane


@pytest.fixture
def plane(shared_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, empty before and after each test."""
    shared_plane.sweep()
    yield shared_plane
    shared_plane.sweep()


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    """The name of a namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    plane.admin.create(namespace_object(name))
    return name


@pytest.fixture(scope="session")
def installed(shared_plane: ControlPlane) -> None:
    """Arnold's manifests are applied, once."""
    install(shared_plane)


@pytest.fixture
def arnold_plane(plane: ControlPlane, installed: None) -> ControlPlane:
    """The control plane with Arnold's manifests applied; nothing of Arnold runs yet."""
    return plane
