# SPDX-License-Identifier: BSD-3-Clause
"""README's listing is the ring example, and its links lead somewhere."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class Readme(unittest.TestCase):
    def setUp(self) -> None:
        self.text = (ROOT / "README.md").read_text()

    def test_the_listing_is_the_example(self) -> None:
        (listing,) = re.findall(r"```c\n(.*?)```", self.text, re.DOTALL)
        ring = (ROOT / "examples" / "ring" / "ring.c").read_text()
        self.assertEqual(listing, ring)

    def test_the_example_is_short(self) -> None:
        ring = (ROOT / "examples" / "ring" / "ring.c").read_text()
        self.assertLess(len(ring.splitlines()), 60)

    def test_links_exist(self) -> None:
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
            for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
