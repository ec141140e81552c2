"""Much data in little text: deflated and in base64; the page's script unpacks it (``unpack`` in simulation.js)."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from typing import Any

import numpy as np

from topology.cluster import IntArray


def packed_json(value: Any) -> str:
    """Return a value as JSON, deflated."""
    return _packed(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def packed_frames(owner: IntArray, share: np.ndarray[Any, np.dtype[np.uint8]]) -> str:
    """Return both tables of a map: owners as differences from the frame before, int32 little-endian, then shares.

    :param owner: shape [frames, nodes].
    :param share: shape [frames, nodes].
    """
    change = np.diff(owner, axis=0, prepend=np.zeros((1, owner.shape[1]), dtype=np.int32))
    return _packed(change.astype("<i4").tobytes() + share.tobytes())


def _packed(data: bytes) -> str:
    return b64encode(zlib.compress(data, 9)).decode("ascii")
