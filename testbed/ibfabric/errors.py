# SPDX-License-Identifier: BSD-3-Clause
"""The one error a user of ib-fabric sees: a message that says what failed and what to do."""

from __future__ import annotations


class FabricError(Exception):
    """A failure with a message for the user; `status` is the exit status of the command."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
