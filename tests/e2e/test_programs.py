"""Where the programs of the control plane come from, and what is said when there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness.programs import PARTS, Unavailable, find_programs
from tests.facts import saying


def _quiet(_: str) -> None:
    pass


def _fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def test_users_own_programs_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all parts in the folder that KUBEBUILDER_ASSETS names, nothing is built: no Go is needed."""
    _fill(tmp_path, *PARTS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert find_programs(_quiet) == {part: (str(tmp_path / part),) for part in PARTS}


def test_reason_when_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go, the reason names both ways that are missing."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match=saying("KUBEBUILDER_ASSETS", "Go toolchain")):
        find_programs(_quiet)


def test_reason_when_the_folder_lacks_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What envtest brings, etcd and kube-apiserver, is not enough without Go; the missing parts are named."""
    _fill(tmp_path, "etcd", "kube-apiserver")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match=saying("kube-scheduler, kube-controller-manager", "Go")):
        find_programs(_quiet)


def test_go_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Go from before toolchains were fetched cannot build the modules, and is named."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    go.chmod(0o755)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"go1\.19\.8 .* is too old"):
        find_programs(_quiet)
