# SPDX-License-Identifier: BSD-3-Clause
"""What tshark reads in a capture is what we wrote: every field of the messages that it knows, the
names of all, and the CRCs by another implementation."""
import ipaddress
import os
import struct
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("WIREUP_BUILD", ROOT / "build" / "release")).resolve()
PROGRAM = BUILD / "tests" / "cm" / "cm_capture_all"

#: tshark's name of each message, by the specification's.
NAMES = {
    "REQ": "ConnectRequest",
    "MRA": "MsgRcptAck",
    "REJ": "ConnectReject",
    "REP": "ConnectReply",
    "RTU": "ReadyToUse",
    "DREQ": "DisconnectRequest",
    "DREP": "DisconnectReply",
    "SIDR_REQ": "ServiceIDResReq",
    "SIDR_REP": "ServiceIDResReqResp",
    "LAP": "LoadAlternatePath",
    "APR": "AlternatePathResponse",
}


def misread(field: str, expected: "dict[str, str]") -> int:
    """What tshark 4.0 makes of two fields of a REQ's paths: it takes three bytes for the four that
    begin with the flow label, and the first of them for the packet rate, which is the fourth. A
    tshark that reads them right passes too; tests/mad has their bytes."""
    name = field.rpartition("_")
    flow_label = int(expected.get(f"{name[0]}_flowlabel", 0))
    return {"flowlabel": flow_label >> 8, "pktrate": flow_label >> 12 & 0x3F}.get(name[2], -1)


def run(*command: object) -> str:
    # tshark warns of root on its standard error; what it cannot do is in its status.
    done = subprocess.run(
        ["timeout", "-k", "5", "100", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": tempfile.gettempdir()},
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def agree(shown: str, expected: str) -> bool:
    """Whether what tshark shows is the number, or the bytes ("0x..."), that we expect."""
    if not expected.startswith("0x"):
        return int(shown, 0) == int(expected)
    if ":" in shown:
        return ipaddress.IPv6Address(shown).packed.hex() == expected[2:]
    return shown == expected[2:]


def packets(file: Path) -> "list[bytes]":
    """From the LRH to the VCRC each, by a reader of this test's own."""
    data = file.read_bytes()
    found = []
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length >= 12 and length % 4 == 0 and at + length <= len(data)
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            record = data[at + 28 : at + 28 + captured]
            found.append(record[16:])
        at += length
    return found


def vcrc(data: bytes) -> int:
    """x^16 + x^12 + x^3 + x + 1, a bit at a time, the lowest bit of each byte first."""
    rest = 0xFFFF
    for byte in data:
        for bit in range(8):
            top = rest >> 15 ^ (byte >> bit & 1)
            rest = (rest << 1 & 0xFFFF) ^ (0x100B if top else 0)
    rest ^= 0xFFFF
    return int(f"{rest:016b}"[::-1], 2)


def icrc(data: bytes) -> int:
    masked = bytearray(data)
    if data[1] & 3 == 3:
        masked[0:8] = b"\xff" * 8
        masked[8] |= 0x0F
        masked[9:12] = b"\xff" * 3
        masked[15] = 0xFF
        masked[48 + 4] = 0xFF
    else:
        masked[0] |= 0xF0
        masked[8 + 4] = 0xFF
    return zlib.crc32(bytes(masked))


class Capture(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.file = Path(directory.name) / "all.pcapng"
        #: By frame: field, what it should be.
        cls.expected: "dict[int, dict[str, str]]" = {}
        for line in run(PROGRAM, cls.file).splitlines():
            frame, field, value = line.split(" ", 2)
            cls.expected.setdefault(int(frame), {})[field] = value

    def tshark(self, fields: "list[str]") -> "list[dict[str, str]]":
        """By frame: field, what tshark says, for the fields that the frame has."""
        # Private data that look like SDP's would be handed to its dissector.
        words = ["tshark", "-n", "-r", self.file, "--disable-protocol", "infiniband_sdp"]
        words += ["-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=;"]
        for field in fields:
            words += ["-e", field]
        rows = [line.split("|") for line in run(*words).splitlines()]
        return [{n: v for n, v in zip(fields, row, strict=True) if v} for row in rows]

    def test_every_message_has_its_name(self) -> None:
        rows = self.tshark(["_ws.col.Info", "frame.comment"])
        self.assertEqual(len(rows), len(self.expected))
        for frame, row in enumerate(rows, 1):
            expected = self.expected[frame]
            self.assertEqual(row["_ws.col.Info"], f"CM: {NAMES[expected['name']]}")
            self.assertEqual(row["frame.comment"], expected["comment"])
        self.assertEqual({e["name"] for e in self.expected.values()}, set(NAMES))

    def test_every_field_has_our_value(self) -> None:
        fields = {f for expected in self.expected.values() for f in expected}
        fields -= {"name", "comment"}
        rows = self.tshark(sorted(fields))
        self.assertEqual(len(rows), len(self.expected))
        for frame, row in enumerate(rows, 1):
            for field in fields:
                # A field that is not ours to expect must not be there either.
                expected = self.expected[frame].get(field)
                with self.subTest(frame=frame, name=self.expected[frame]["name"], field=field):
                    self.assertEqual(field in row, expected is not None, row.get(field))
                    if expected is not None:
                        self.assertTrue(
                            agree(row[field], expected)
                            or row[field] == f"0x{misread(field, self.expected[frame]):08x}",
                            f"{row[field]} {expected}",
                        )

    def test_no_packet_is_malformed(self) -> None:
        self.assertEqual(run("tshark", "-n", "-r", self.file, "-Y", "_ws.malformed"), "")

    def test_the_crcs_are_right(self) -> None:
        found = packets(self.file)
        self.assertEqual(len(found), len(self.expected))
        shown = self.tshark(["infiniband.invariant.crc", "infiniband.variant.crc"])
        for packet, row in zip(found, shown, strict=True):
            self.assertEqual(int.from_bytes(packet[-6:-2], "little"), icrc(packet[:-6]))
            self.assertEqual(int.from_bytes(packet[-2:], "little"), vcrc(packet[:-2]))
            # And they are where tshark looks for them.
            self.assertEqual(int(row["infiniband.invariant.crc"], 0).to_bytes(4), packet[-6:-2])
            self.assertEqual(int(row["infiniband.variant.crc"], 0).to_bytes(2), packet[-2:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
