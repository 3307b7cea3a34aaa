#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gate: the listing in the README is the example that is built and run, and it is short.

usage: readme_listing.py README SOURCE LINES
"""

import sys


def problem(readme, source, limit):
    """What is wrong, or None."""
    if f"```c\n{source}```\n" not in readme:
        return "the README's listing is not the file; copy it again"
    lines = source.count("\n")
    return None if lines < limit else f"{lines} lines, fewer than {limit} were promised"


def main(arguments):
    if len(arguments) != 3:
        raise SystemExit(__doc__)
    texts = []
    for path in arguments[:2]:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    wrong = problem(*texts, int(arguments[2]))
    if wrong:
        print(f"{arguments[1]}: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
