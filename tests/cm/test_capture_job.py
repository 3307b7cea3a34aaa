# SPDX-License-Identifier: BSD-3-Clause
"""WIREUP_CM_CAPTURE in a job: a file a rank, and what one rank sent another received."""
import collections
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "e2e"))
from fabric import BUILD, EXAMPLES, Fabric  # noqa: E402

RANKS = 4
FIELDS = (
    "_ws.col.Info",
    "frame.packet_flags_direction",
    "infiniband.mad.transactionid",
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
    "frame.comment",
)


class CaptureJob(unittest.TestCase):
    def frames(self, file: Path) -> "list[dict[str, str]]":
        words = ["timeout", "-k", "5", "60", "tshark", "-n", "-r", file, "-T", "fields"]
        words += ["--disable-protocol", "infiniband_sdp", "-E", "separator=|"]
        for field in FIELDS:
            words += ["-e", field]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [
            dict(zip(FIELDS, line.split("|"), strict=True)) for line in done.stdout.splitlines()
        ]

    def test_ranks_capture_what_they_say_and_hear(self) -> None:
        with (
            tempfile.TemporaryDirectory(dir=BUILD / "tests" / "cm") as directory,
            Fabric("--hosts", 2, name="cmcap") as fabric,
        ):
            done = fabric.mpirun(
                "-n", RANKS, "-x", f"WIREUP_CM_CAPTURE={directory}/%r.pcapng",
                EXAMPLES / "connect_all",
            )  # fmt: skip
            self.assertEqual(done.status, 0, done.all)
            files = sorted(Path(directory).iterdir())
            self.assertEqual([file.name for file in files], [f"{r}.pcapng" for r in range(RANKS)])
            seen = {file: self.frames(file) for file in files}

        sent: "collections.Counter[tuple[str, ...]]" = collections.Counter()
        received: "collections.Counter[tuple[str, ...]]" = collections.Counter()
        kinds: "collections.Counter[str]" = collections.Counter()
        for rows in seen.values():
            for row in rows:
                self.assertRegex(row["_ws.col.Info"], "^CM: ")
                self.assertRegex(row["frame.comment"], "^QP 0x[0-9a-f]{6} to QP 0x[0-9a-f]{6}")
                self.assertNotIn("QP 0x000001", row["frame.comment"], "the real ones")
                key = tuple(row[field] for field in FIELDS[2:5]) + (row["_ws.col.Info"],)
                if int(row["frame.packet_flags_direction"], 0) == 2:
                    sent[key] += 1
                    kinds[row["_ws.col.Info"]] += 1
                else:
                    received[key] += 1
        # The fabric loses nothing; a rank that has left takes nothing, though.
        self.assertEqual(received - sent, collections.Counter(), "heard, and said by nobody")
        pairs = RANKS * (RANKS - 1) // 2
        for name in ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest"):
            self.assertGreaterEqual(kinds[f"CM: {name}"], pairs, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
