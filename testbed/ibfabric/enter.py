# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command inside a fabric as if it had been run here: input, output, signals, status."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from . import hosts, linux
from .errors import FabricError
from .state import FabricDir

_FABRIC = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWPID
)
_HOST = (("net", linux.CLONE_NEWNET), ("uts", linux.CLONE_NEWUTS), ("mnt", linux.CLONE_NEWNS))

# Passed on to the command. SIGKILL cannot be: the kernel kills the command with us.
_FORWARDED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGCONT,
        signal.SIGTSTP,
    }
)


def run(place: FabricDir, host: str | None, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs `argv` on a host (None: beside the hosts, where the daemons are).

    Returns its exit status, or 128 + the signal that ended it, as a shell does. The command
    gets its own process group, so that a signal reaches it once, and the terminal if we have it.
    """
    directory = os.getcwd()
    us = os.pidfd_open(os.getpid())
    _join(place, host)
    terminal = _Terminal()
    blocked = {*_FORWARDED, signal.SIGCHLD, signal.SIGTTOU}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    child = os.fork()
    if child == 0:
        _become(argv, env, directory, us, before)
    os.close(us)
    _own_group(child)
    terminal.give(child)
    try:
        status = _attend(child, terminal)
    finally:
        terminal.take_back()
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL and not place.alive():
        print(f"ib-fabric: fabric {place.name} went down while {argv[0]} ran", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _join(place: FabricDir, host: str | None) -> None:
    init = place.init()
    pidfd = init.open() if init is not None else None
    if pidfd is None:
        raise FabricError(
            f"fabric {place.name} is not up: start it with 'ib-fabric up --name {place.name}'"
        )
    try:
        linux.setns(pidfd, _FABRIC)
    except OSError as error:
        raise FabricError(f"cannot enter fabric {place.name}: {error}") from None
    finally:
        os.close(pidfd)
    if host is not None:
        _join_host(place, host)


def _join_host(place: FabricDir, host: str) -> None:
    if "/" in host or not (place.pids / host).is_file():
        known = sorted(e.name for e in place.pids.iterdir() if e.name != hosts.kHead)
        shown = ", ".join(known[:12]) + (" …" if len(known) > 12 else "")
        raise FabricError(f"fabric {place.name} has no host {host!r}; its hosts: {shown}")
    try:
        holder = int((place.pids / host).read_text(encoding="ascii"))
        fds = [(os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY), flag) for kind, flag in _HOST]
        for fd, flag in fds:
            linux.setns(fd, flag)
            os.close(fd)
    except (OSError, ValueError) as error:
        raise FabricError(
            f"cannot enter host {host} of fabric {place.name}: {error}; "
            f"'ib-fabric up --name {place.name}' heals a broken fabric"
        ) from None


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    caller: int,
    mask: set[signal.Signals | int],
) -> NoReturn:
    """The child: becomes the command, or says why it cannot."""
    status = 126
    try:
        os.setpgid(0, 0)
        linux.die_with_parent(signal.SIGKILL)
        poll = select.poll()
        poll.register(caller, select.POLLIN)
        if poll.poll(0):  # the caller ended before the line above took effect
            os._exit(128 + signal.SIGKILL)
        # Joining a mount namespace moved us to its root.
        os.chdir(directory)
        # Python ignores these; the command must not.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(argv[0], list(argv), env)
    except FileNotFoundError as error:
        status = 127
        print(f"ib-fabric: {error.filename or argv[0]}: {error.strerror}", file=sys.stderr)
    except OSError as error:
        print(f"ib-fabric: {argv[0]}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


def _own_group(child: int) -> None:
    """Done by both, so that it is done whoever comes first."""
    try:
        os.setpgid(child, child)
    except (PermissionError, ProcessLookupError):
        return  # it has run exec, or ended: it did it itself


def _attend(child: int, terminal: _Terminal) -> int:
    """Passes signals on until the command has ended; its wait status."""
    watched = {*_FORWARDED, signal.SIGCHLD}
    while True:
        info = signal.sigwaitinfo(watched)
        if info.si_signo != signal.SIGCHLD:
            _send(child, info.si_signo)
            continue
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            continue
        if os.WIFSTOPPED(status):
            # Stopped from its terminal: stop too, and go on with it.
            terminal.take_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            terminal.give(child)
            _send(child, signal.SIGCONT)
            continue
        return status


def _send(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        return  # it has just ended; SIGCHLD follows


class _Terminal:
    """The controlling terminal, when we are its foreground."""

    def __init__(self) -> None:
        self.fd: int | None = None
        try:
            if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
                self.fd = 0
        except OSError:
            self.fd = None

    def give(self, group: int) -> None:
        if self.fd is not None:
            _set_foreground(self.fd, group)

    def take_back(self) -> None:
        if self.fd is not None:
            _set_foreground(self.fd, os.getpgrp())


def _set_foreground(fd: int, group: int) -> None:
    try:
        os.tcsetpgrp(fd, group)
    except OSError:
        return  # the terminal is gone, or the group has ended
