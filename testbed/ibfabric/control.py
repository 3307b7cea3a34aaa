# SPDX-License-Identifier: BSD-3-Clause
"""The conversation with a fabric's init: one JSON object each way on a unix socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import FabricError

kMaxMessage = 1 << 20
_ANSWER_DEADLINE = 45.0
_REQUEST_DEADLINE = 2.0


def listen(path: Path) -> socket.socket:
    """The init's end. Only the fabric's owner may connect."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.bind(str(path))
    os.chmod(path, 0o600)
    listener.listen(16)
    return listener


def answer(listener: socket.socket, handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Serves one client; a client that is silent, too loud or gone is dropped."""
    try:
        client, _ = listener.accept()
    except OSError:
        return
    with client:
        client.settimeout(_REQUEST_DEADLINE)
        try:
            request = json.loads(_receive(client))
            if not isinstance(request, dict):
                raise ValueError("not an object")
            reply = handle(request)
        except (OSError, ValueError) as error:
            reply = {"error": str(error)}
        with contextlib.suppress(OSError):
            client.sendall(json.dumps(reply).encode() + b"\n")


def ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Sends a request to the init and returns its answer; FabricError when it has none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_ANSWER_DEADLINE)
            client.connect(str(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(_receive(client))
    except (OSError, ValueError) as error:
        raise FabricError(f"the fabric's init does not answer on {path}: {error}") from None
    if not isinstance(reply, dict):
        raise FabricError(f"the fabric's init gave a strange answer on {path}")
    if "error" in reply:
        raise FabricError(str(reply["error"]))
    return reply


def _receive(peer: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = peer.recv(65536)
        if not part:
            raise OSError("the other end closed the connection")
        data += part
        if len(data) > kMaxMessage:
            raise OSError(f"more than {kMaxMessage} bytes without an end")
    return data
