# SPDX-License-Identifier: BSD-3-Clause
"""What `ib-fabric status` tells about one fabric or all of this user's."""

from __future__ import annotations

import json
from typing import Any

from . import control, daemons, spec
from .errors import FabricError
from .state import FabricDir, all_fabrics


def describe(place: FabricDir) -> dict[str, Any]:
    """One fabric as a JSON object. state: up, broken (a part has ended), dead, absent."""
    result: dict[str, Any] = {"name": place.name, "state": "absent"}
    if not place.root.is_dir():
        return result
    what = spec.Spec.from_json(place.load("spec.json"))
    net = place.load("info.json") or {}
    result |= {"directory": str(place.root), "log": str(place.log), **net}
    if what is not None:
        result |= {
            "hosts": list(what.hosts),
            "topology": what.topology,
            "opensm_options": list(what.opensm_options),
        }
        if what.softhca is not None:
            result |= {"softhca": what.softhca, "softhca_dir": str(place.softhca)}
    init = place.init()
    if init is None or not init.alive() or what is None:
        result["state"] = "dead"
        return result
    result["init"] = init.pid
    try:
        answer = control.ask(place.control, {"do": "status"})
    except FabricError as error:
        return result | {"state": "broken", "trouble": str(error)}
    fine = ("running", "not started", daemons.kStopped)
    whole = not answer["lost_hosts"] and all(s in fine for s in answer["daemons"].values())
    return result | {"state": "up" if whole else "broken", **answer}


def print_status(name: str | None, as_json: bool) -> int:
    """Prints; the exit status is 0 when every fabric that was asked for is up."""
    places = [FabricDir(name)] if name is not None else all_fabrics()
    fabrics = [describe(place) for place in places]
    if as_json:
        print(json.dumps(fabrics[0] if name is not None else {"fabrics": fabrics}, indent=1))
    elif not fabrics:
        print("no fabric is up")
    else:
        for fabric in fabrics:
            _print(fabric)
    return 0 if all(fabric["state"] == "up" for fabric in fabrics) else 1


def _print(fabric: dict[str, Any]) -> None:
    print(f"fabric {fabric['name']}: {fabric['state']}")
    for key, label in (
        ("trouble", "trouble"),
        ("topology", "topology"),
        ("switches", "switches"),
        ("hcas", "HCAs"),
        ("subnet_manager", "subnet manager"),
        ("softhca", "softhca"),
        ("init", "init process"),
        ("directory", "directory"),
    ):
        if key in fabric:
            print(f"  {label + ':':16} {fabric[key]}")
    names = fabric.get("hosts", [])
    if names:
        shown = " ".join(names[:8]) + (f" … ({len(names)})" if len(names) > 8 else "")
        print(f"  {'hosts:':16} {shown}")
    for lost in fabric.get("lost_hosts", []):
        print(f"  {'lost host:':16} {lost}")
    for daemon, state in fabric.get("daemons", {}).items():
        print(f"  {daemon + ':':16} {state}")
