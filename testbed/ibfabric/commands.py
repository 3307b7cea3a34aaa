# SPDX-License-Identifier: BSD-3-Clause
"""Environment and arguments of what runs on a host: one command, or an MPI job over all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from . import hosts, spec
from .errors import FabricError
from .state import FabricDir

kSlots = 256  # of each host: a test asks for as many ranks as it likes

# What Open MPI is told by default. As environment, so that any option of the command line
# (--map-by, --hostfile, --mca btl …) takes precedence by Open MPI's own rules.
_MCA = {
    "btl": "tcp,self",
    "pml": "ob1",
    "osc": "^ucx",
    "btl_tcp_if_include": "eth0",
    "oob_tcp_if_include": "eth0",
    "hwloc_base_binding_policy": "none",
    "rmaps_base_oversubscribe": "1",
    # The hosts share this machine's cores, which Open MPI cannot know.
    "mpi_yield_when_idle": "1",
}
_MAPPING_OPTIONS = (
    "--map-by",
    "-map-by",
    "--rankfile",
    "-rankfile",
    "-rf",
    "--npernode",
    "-npernode",
    "--ppr",
    "-ppr",
    "-N",
    "--bynode",
    "-bynode",
    "--byslot",
    "-byslot",
    "--bycore",
    "-bycore",
)


def host_environment(place: FabricDir, host: str, softhca: bool) -> dict[str, str]:
    """The caller's environment with what belongs to the host set right."""
    env = dict(os.environ)
    env["TMPDIR"] = hosts.kTmpDir
    env.pop("XDG_RUNTIME_DIR", None)  # lies in the /run that the host does not have
    if softhca:
        env["SOFTHCA_DIR"] = str(place.softhca)
        env["SOFTHCA_HOST"] = host
    return env


def preload_value(what: spec.Spec, first: Sequence[str]) -> str:
    """LD_PRELOAD: sanitizers' libraries must come first, then the caller's, then softhca."""
    libraries = [*first, *os.environ.get("LD_PRELOAD", "").split()]
    if what.softhca is not None:
        libraries.append(f"{what.softhca}/libsofthca.so")
    for library in libraries:
        if ":" in library or " " in library:
            raise FabricError(f"LD_PRELOAD cannot hold {library!r}: no spaces or colons")
    return " ".join(libraries)


def write_mpi_files(place: FabricDir, names: Sequence[str]) -> None:
    """The host file and the remote shell that Open MPI uses, both made by `up`."""
    lines = [f"{name} slots={kSlots}" for name in names]
    place.hostfile.write_text("\n".join(lines) + "\n", encoding="ascii")
    # Called as: rsh HOST COMMAND…; runs inside the fabric, on the head.
    place.rsh.write_text(
        "#!/bin/sh\n"
        "# Open MPI's remote shell: enters the host's namespaces through its holder.\n"
        'host=$1; shift\n'
        f"holder=$(cat '{place.pids}/'\"$host\") || exit 1\n"
        f"[ -z \"$SOFTHCA_DIR\" ] || export SOFTHCA_HOST=\"$host\"\n"
        f"export TMPDIR={hosts.kTmpDir}\n"
        'exec nsenter --target "$holder" --net --uts --mount -- sh -c "cd \\"\\$PWD\\"; $*"\n',
        encoding="ascii",
    )


def mpirun_environment(place: FabricDir, softhca: bool, args: Sequence[str]) -> dict[str, str]:
    """mpirun's own environment, on the head. LD_PRELOAD is for the ranks alone."""
    env = host_environment(place, hosts.kHead, softhca)
    env.pop("LD_PRELOAD", None)
    env.pop("SOFTHCA_HOST", None)  # the remote shell sets it on each host
    settings = dict(_MCA)
    settings["orte_default_hostfile"] = str(place.hostfile)
    settings["plm_rsh_agent"] = f"/bin/sh {place.rsh}"  # /tmp may be mounted noexec
    if not any(arg in _MAPPING_OPTIONS for arg in args):
        settings["rmaps_base_mapping_policy"] = "node"
    for name, value in settings.items():
        env.setdefault(f"OMPI_MCA_{name}", value)
    # Inside, an ordinary user is root too, of nothing but the fabric.
    env["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
    env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def mpirun_arguments(args: Sequence[str], preload: str) -> list[str]:
    """The command line: each application context of it (apart by ':') gets LD_PRELOAD."""
    export = ["-x", f"LD_PRELOAD={preload}"] if preload else []
    result = [spec.program("mpirun", "openmpi-bin"), *export]
    for arg in args:
        result.append(arg)
        if arg == ":":
            result += export
    return result


def working_directory_exists() -> None:
    """mpirun changes to the caller's directory on every host; it must be there on all."""
    path = Path.cwd()
    if path.is_relative_to("/run") or path.is_relative_to("/dev/shm"):
        raise FabricError(f"{path} does not exist on the hosts, which have their own: cd elsewhere")
