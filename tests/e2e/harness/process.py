"""A program that runs beside the tests: started until it is ready, stopped, killed, started again."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.error import HTTPError

from tests.e2e.harness.client import ClosingSocket
from tests.e2e.harness.waiting import WaitedTooLong, wait_until


class Process:
    """One program with fixed arguments, so that it comes back as it was.

    :param ready: whether it answers; asked until it does.
    :param log: file that its output goes to, all starts one after the other.
    :param environment: variables beside those of this process.
    :param folder: where it runs; ``None`` = where this process does.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self._folder = folder
        self.command = list(command)
        self._environment = os.environ | (environment or {})
        self.log = log
        self._ready = ready
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._running is not None and self._running.poll() is None

    @property
    def pid(self) -> int:
        """Its process number."""
        assert self._running is not None, f"{self.name} was never started"
        return self._running.pid

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))

    def start(self, *, wait: bool = True) -> None:
        """Start it.

        :param wait: return when it is ready, not before.
        :raises RuntimeError: it ended, or was not ready in time; says the end of its log.
        """
        assert not self.alive, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [*_end_with_parent(), *self.command],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, *, seconds: float = 120.0) -> None:
        """Wait until it answers.

        :raises RuntimeError: it ended, or did not in time; says the end of its log.
        """
        try:
            wait_until(lambda: not self.alive or self._ready(), f"{self.name} to be ready", seconds=seconds, every=0.05)
        except WaitedTooLong as error:
            raise RuntimeError(f"{error}\n{self.last_words()}") from None
        if not self.alive:
            raise RuntimeError(f"{self.name} ended at once\n{self.last_words()}")

    def stop(self, *, seconds: float = 30.0) -> int:
        """Ask it to end (SIGTERM), and end it (SIGKILL) when it does not.

        :return: its exit status.
        """
        return self._end(signal.SIGTERM, seconds=seconds)

    def kill(self) -> None:
        """End it at once, wherever it is (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def last_words(self, lines: int = 25) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _end(self, how: signal.Signals, *, seconds: float = 30.0) -> int:
        if self._running is None:
            return 0
        if self.alive:
            os.kill(self.pid, how)
        try:
            return self._running.wait(seconds)
        except subprocess.TimeoutExpired:
            self._running.kill()
            return self._running.wait()


class Healthy:
    """Whether a part's own health page says yes; its certificate is its own."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> bool:
        """Ask."""
        anybody = ssl.create_default_context()
        anybody.sslsocket_class = ClosingSocket
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(self._url, timeout=5.0, context=anybody) as answer:
                return bool(answer.status == 200)
        except HTTPError as refusal:
            refusal.close()
            return False
        except OSError:
            return False


def _end_with_parent() -> list[str]:
    """Starts the program such that a test run that is killed leaves nothing behind, where Linux has the means."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
