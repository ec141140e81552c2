"""A real browser without a window that stays open, for pages that change: driven through its pipe.

:mod:`tests.browser` opens pages by a clock that goes on where scripts only wait; a stream of events never lets it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser import BROWSERS, FLAGS

END = b"\0"  # of each message


class LiveBrowser:
    """One tab, by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

    def __init__(self, ask: int, answer: int) -> None:
        self._ask, self._answer, self._rest = ask, answer, b""
        self._number, self._session = 0, dict[str, str]()
        self.faults: list[str] = []
        """What was thrown, or refused by the security policy."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something, and return its answer."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._ask, json.dumps(asked).encode() + END)
        while True:
            message = self._read()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return dict(message["result"])
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.faults.append(json.dumps(message["params"]))

    def _read(self) -> dict[str, Any]:
        while END not in self._rest:
            more = os.read(self._answer, 2**20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(END)
        return dict(json.loads(message))

    def open(self, address: str, *, width: int = 1280, dark: bool = False) -> None:
        """Open a page on a screen so wide."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)

    def script(self, expression: str) -> Any:
        """The value of an expression in the page, whatever its security policy; awaited where it must be."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of the first element that is meant; empty = there is none."""
        return str(self.script(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"))

    def picture(self) -> bytes:
        """All of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])


@contextmanager
def live_browser(folder: Path) -> Iterator[LiveBrowser]:
    """Open a browser while the block runs; skips where none is installed.

    :param folder: of the browser's own files.
    """
    program = next((there for name in BROWSERS if (there := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed: pages cannot be looked at in a browser")
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    # it reads from descriptor 3 and writes to 4; the first pipe has the lowest numbers that were free
    move = f"import os, sys; os.dup2({in_read}, 3); os.dup2({out_write}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    moved = [sys.executable, "-c", move]
    flags = [flag for flag in FLAGS if flag not in ("--dump-dom", "--enable-logging=stderr")]
    command = [*moved, program, *flags, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
    running = subprocess.Popen(command, pass_fds=(in_read, out_write), stderr=subprocess.DEVNULL)
    os.close(in_read)
    os.close(out_write)
    try:
        yield LiveBrowser(in_write, out_read)
    finally:
        os.close(in_write)
        os.close(out_read)
        running.terminate()
        running.wait(timeout=30)
