# SPDX-License-Identifier: BSD-3-Clause
"""The command line of ib-fabric."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from . import commands, control, enter, hosts, launch, spec, topology, topology_write
from .errors import FabricError
from .state import DEFAULT_NAME, FabricDir
from .status import print_status

_USAGE = """ib-fabric - an InfiniBand fabric of several hosts on one machine, without hardware

  ib-fabric up [--name NAME] [--hosts N] [--topology FILE] [opensm options]
  ib-fabric exec [--name NAME] [--preload LIB] HOST -- COMMAND…
  ib-fabric mpirun [--name NAME] [--preload LIB] ARGUMENTS OF MPIRUN…
  ib-fabric status [--name NAME] [--json]
  ib-fabric sm [--name NAME] [--on HOST] stop | kill | start [opensm options]
  ib-fabric sm [--name NAME] lid HOST[:PORT] LID
  ib-fabric sim [--name NAME] COMMAND OF IBSIM'S CONSOLE
  ib-fabric down [--name NAME] [--all]
"""


def _parser(command: str, usage: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"ib-fabric {command}", usage=usage, allow_abbrev=False, add_help=True
    )
    parser.add_argument("--name", default=DEFAULT_NAME, help="the fabric's name")
    return parser


def _up(args: Sequence[str]) -> int:
    parser = _parser("up", "ib-fabric up [options] [opensm options]")
    parser.add_argument("--hosts", type=int, metavar="N", help="active hosts (default 4, or all)")
    parser.add_argument("--topology", metavar="FILE", help="in ibnetdiscover's format")
    parser.add_argument("--no-opensm", action="store_true", help="without subnet manager")
    parser.add_argument("--no-softhca", action="store_true", help="without agent and HCAs")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    given, options = parser.parse_known_args(args)
    place = FabricDir(given.name)
    net, what = _plan(given, options)
    began = time.monotonic()

    def say(text: str) -> None:
        if not given.quiet:
            print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    with place.lock():
        if place.alive():
            old = spec.Spec.from_json(place.load("spec.json"))
            trouble = _trouble(place)
            if old == what and trouble is None:
                say(f"fabric {place.name} is up already: {_hosts_text(what)}")
                return 0
            say(f"restarting fabric {place.name}: {trouble or 'it was started with other options'}")
        _down(place)
        place.create()
        place.net.write_text(topology_write.write_net(net), encoding="utf-8")
        place.etc_hosts.write_text(hosts.etc_hosts(what.hosts), encoding="ascii")
        commands.write_mpi_files(place, what.hosts)
        launch.launch(place, what, net, given.timeout, say)
        place.save("spec.json", what.to_json())
        place.save("info.json", _info(net, what))
        say(f"fabric {place.name} is up: {_hosts_text(what)}")
    return 0


def _plan(given: argparse.Namespace, options: list[str]) -> tuple[topology.Topology, spec.Spec]:
    """The topology and the parameters that `up` was asked for, validated."""
    if given.topology is not None:
        net = topology.load(given.topology)
    else:
        net = topology_write.generate(given.hosts if given.hosts is not None else 4)
    names = [host.name for host in net.hosts()]
    wanted = given.hosts if given.hosts is not None else len(names)
    if not 1 <= wanted <= len(names):
        raise FabricError(f"--hosts {wanted}: {net.path} has {len(names)} hosts")
    if hosts.kHead in names:
        raise FabricError(f"{net.path}: no host may be named {hosts.kHead}; mpirun runs there")
    if wanted > hosts.kMaxHosts:
        raise FabricError(f"{wanted} hosts: at most {hosts.kMaxHosts} can be active; use --hosts")
    for host in net.hosts()[:wanted]:
        if host.linked_ports() == 0:
            raise FabricError(f"{net.path}:{host.hcas[0].line}: host {host.name} has no cable")
    softhca = None if given.no_softhca else spec.softhca_dir()
    return net, spec.Spec(
        hosts=tuple(names[:wanted]),
        net_digest=spec.digest(topology_write.write_net(net)),
        topology=net.path,
        opensm=not given.no_opensm,
        opensm_options=tuple(spec.opensm_options(options)),
        softhca=str(softhca) if softhca is not None else None,
        softhca_stamp=spec.softhca_stamp(softhca) if softhca is not None else "",
    )


def _info(net: topology.Topology, what: spec.Spec) -> dict[str, object]:
    """What `status` tells of the fabric beyond its parameters."""
    return {
        "switches": net.count(topology.SWITCH),
        "hcas": net.count(topology.HCA),
        "subnet_manager": spec.opensm_version() if what.opensm else None,
    }


def _hosts_text(what: spec.Spec) -> str:
    names = what.hosts
    return names[0] if len(names) == 1 else f"{len(names)} hosts, {names[0]} … {names[-1]}"


def _trouble(place: FabricDir) -> str | None:
    """Why a fabric whose init lives is not healthy; None when it is."""
    try:
        answer = control.ask(place.control, {"do": "status"})
    except FabricError as error:
        return str(error)
    for name, state in answer["daemons"].items():
        if state not in ("running", "not started"):
            return f"{name} {state}"
    if answer["lost_hosts"]:
        return f"host {answer['lost_hosts'][0]} is gone"
    return None


def _down(place: FabricDir) -> bool:
    """Ends a fabric and removes what it left; False if there was none."""
    if not place.root.exists():
        return False
    init = place.init()
    if init is not None and not init.kill(10.0):
        raise FabricError(
            f"process {init.pid}, the init of fabric {place.name}, does not end within 10 s "
            "of SIGKILL: some process of it hangs in the kernel"
        )
    place.remove()
    return True


def _running(name: str) -> tuple[FabricDir, spec.Spec]:
    place = FabricDir(name)
    what = spec.Spec.from_json(place.load("spec.json")) if place.alive() else None
    if what is None:
        raise FabricError(f"fabric {name} is not up: start it with 'ib-fabric up --name {name}'")
    return place, what


def _exec(args: Sequence[str]) -> int:
    parser = _parser("exec", "ib-fabric exec [--name NAME] [--preload LIB] HOST -- COMMAND…")
    parser.add_argument("--preload", action="append", default=[], metavar="LIB")
    parser.add_argument("host")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(args)
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("no command given")
    place, what = _running(given.name)
    env = commands.host_environment(place, given.host, what.softhca is not None)
    preload = commands.preload_value(what, given.preload)
    if preload:
        env["LD_PRELOAD"] = preload
    return enter.run(place, given.host, command, env)


def _mpirun(args: Sequence[str]) -> int:
    name, preload, rest = _split_mpirun(args)
    place, what = _running(name)
    commands.working_directory_exists()
    env = commands.mpirun_environment(place, what.softhca is not None, rest)
    argv = commands.mpirun_arguments(rest, commands.preload_value(what, preload))
    return enter.run(place, hosts.kHead, argv, env)


def _split_mpirun(args: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Our options stand first; the rest is mpirun's and is not looked into."""
    name, preload, rest = DEFAULT_NAME, [], list(args)
    while rest and rest[0].partition("=")[0] in ("--name", "--preload"):
        option, equals, value = rest.pop(0).partition("=")
        if not equals:
            if not rest:
                raise FabricError(f"{option} needs a value", 2)
            value = rest.pop(0)
        if option == "--name":
            name = value
        else:
            preload.append(value)
    return name, preload, rest


def _status(args: Sequence[str]) -> int:
    parser = _parser("status", "ib-fabric status [--name NAME] [--json]")
    parser.set_defaults(name=None)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(args)
    return print_status(given.name, given.json)


def _down_command(args: Sequence[str]) -> int:
    from .state import all_fabrics

    parser = _parser("down", "ib-fabric down [--name NAME] [--all]")
    parser.add_argument("--all", action="store_true", help="every fabric of yours")
    given = parser.parse_args(args)
    for place in all_fabrics() if given.all else [FabricDir(given.name)]:
        with place.lock():
            found = _down(place)
        print(f"fabric {place.name} {'is down' if found else 'was not up'}")
    return 0


def _sm(args: Sequence[str]) -> int:
    usage = (
        "ib-fabric sm [--name NAME] [--on HOST] stop | kill | start [opensm options]\n"
        "       ib-fabric sm [--name NAME] lid HOST[:PORT] LID"
    )
    parser = _parser("sm", usage)
    parser.add_argument("--on", metavar="HOST", help="whose subnet manager (default the first's)")
    parser.add_argument("action", choices=("stop", "kill", "start", "lid"))
    given, options = parser.parse_known_args(args)
    request: dict[str, object] = {"do": f"sm-{given.action}", "host": given.on}
    if given.action == "start":
        request["options"] = spec.opensm_options(options)
    elif given.action == "lid":
        if len(options) != 2 or not options[1].isdigit():
            parser.error("lid takes HOST or HOST:PORT, and a LID")
        host, _, port = options[0].partition(":")
        request |= {"host": host, "port": int(port or 1), "lid": int(options[1])}
    elif options:
        parser.error(f"{given.action} takes no options: {' '.join(options)}")
    place, _ = _running(given.name)
    print(control.ask(place.control, request)["message"])
    return 0


def _sim(args: Sequence[str]) -> int:
    parser = _parser("sim", "ib-fabric sim [--name NAME] COMMAND…")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(args)
    place, _ = _running(given.name)
    request = {"do": "sim", "command": " ".join(given.command)}
    sys.stdout.write(control.ask(place.control, request)["output"])
    return 0


_COMMANDS = {
    "up": _up,
    "exec": _exec,
    "mpirun": _mpirun,
    "status": _status,
    "down": _down_command,
    "sm": _sm,
    "sim": _sim,
}


def main(argv: Sequence[str]) -> int:
    """Returns the exit status; 2 for wrong usage."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0 if argv else 2
    command = _COMMANDS.get(argv[0])
    if command is None:
        print(f"ib-fabric: unknown command {argv[0]!r}\n{_USAGE}", end="", file=sys.stderr)
        return 2
    try:
        return command(argv[1:])
    except FabricError as error:
        print(f"ib-fabric: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
