#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What libibcm.so.1 exports is what libibcm 1.0.5 did, under its version, and our two calls.

usage: symbols.py LIBRARY HEADER
"""
import re
import subprocess
import sys

OF_1_0_5 = {
    f"ib_cm_{name}@@IBCM_1.0"
    for name in (
        "open_device close_device get_event ack_event create_id destroy_id attr_id listen send_req "
        "send_rep send_rtu send_dreq send_drep notify send_rej send_mra send_lap send_apr "
        "send_sidr_req send_sidr_rep init_qp_attr"
    ).split()
}
BEYOND = {
    f"ib_cm_{name}@@WIREUP_IBCM_1" for name in ("event_private_data_len", "last_error")
}


def main(library: str, header: str) -> int:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", library],
        check=True, capture_output=True, text=True, timeout=30,
    ).stdout
    found = {line.split()[0] for line in listing.splitlines() if line.split()[1] != "A"}
    dynamic = subprocess.run(
        ["readelf", "-d", library], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    with open(header, encoding="utf-8") as file:
        declared = set(re.findall(r"\b(ib_cm_\w+)\(", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)))
    wrong = []
    if len(OF_1_0_5) != 21 or found != OF_1_0_5 | BEYOND:
        wrong.append(f"exports differ: {sorted(found ^ (OF_1_0_5 | BEYOND))}")
    if declared != {name.split("@")[0] for name in OF_1_0_5 | BEYOND}:
        wrong.append(f"the header declares {sorted(declared)}")
    if "[libibcm.so.1]" not in dynamic:
        wrong.append("the library's name for programs is not libibcm.so.1")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
