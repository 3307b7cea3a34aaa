# SPDX-License-Identifier: BSD-3-Clause
"""The few system calls that Python 3.11 does not offer: namespaces, mounts, prctl."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

# <linux/sockios.h>, <linux/if.h>
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_IFF_UP = 0x1
_IFREQ_SIZE = 40

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Moves this process into new namespaces (CLONE_NEWPID: its next children)."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare({flags:#x})")


def setns(fd: int, flags: int) -> None:
    """Joins the namespaces `flags` of a pidfd, or the one namespace of an nsfs descriptor."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)), f"setns({flags:#x})")


def mount(source: str, target: str, fstype: str | None, flags: int, data: str = "") -> None:
    """mount(2); `fstype` None for binds and propagation changes."""
    kind = fstype.encode() if fstype is not None else None
    _check(
        _libc.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), data.encode()),
        f"mount {fstype or 'bind'} on {target}",
    )


def sethostname(name: str) -> None:
    """Sets the host name of the current UTS namespace."""
    raw = name.encode()
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), f"sethostname({name})")


def die_with_parent(signal_number: int) -> None:
    """Asks the kernel to send `signal_number` to this process when its parent thread ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def set_process_name(name: str) -> None:
    """Sets the name that ps and /proc/PID/comm show (15 characters)."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl(PR_SET_NAME)")


def bring_up(interface: str, address: str | None = None, netmask: str | None = None) -> None:
    """Gives a network interface its IPv4 address, if any, and switches it on.

    By ioctl: a fabric of 64 hosts would otherwise run 64 times `ip`.
    """
    name = interface.encode().ljust(16, b"\0")

    def request(code: int, payload: bytes) -> bytes:
        return fcntl.ioctl(control, code, (name + payload).ljust(_IFREQ_SIZE, b"\0"))

    def inet(text: str) -> bytes:
        return struct.pack("=HH", socket.AF_INET, 0) + socket.inet_aton(text)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address is not None and netmask is not None:
            request(_SIOCSIFADDR, inet(address))
            request(_SIOCSIFNETMASK, inet(netmask))
        (flags,) = struct.unpack_from("=H", request(_SIOCGIFFLAGS, b""), 16)
        request(_SIOCSIFFLAGS, struct.pack("=H", flags | _IFF_UP))
