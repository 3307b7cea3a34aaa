#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gate: the arrows between the folders, as the #include lines have them.

The arrows are read from cmake/WireupModule.cmake, where the link dependencies are checked against
them too. Besides: softhca and src do not know each other, examples and the two adapters see the
public header only, engines and parsers include nothing of the system.

usage: include_arrows.py ROOT
"""

import os
import re
import sys

SOURCE = re.compile(r"\.(h|hpp|c|cpp)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ARROWS = re.compile(r'^set\(WIREUP_ARROWS_(\w+) "([^"]*)"\)', re.MULTILINE)

# Files of a module that shares its folder with another, without their endings.
BY_NAME = {
    f"acm/server/{name}": "acm_client_protocol"
    for name in "client_layout client_message client_reply client_status netlink_message".split()
}
# Folders that are modules of their own.
OWN_MODULE = {"engine", "files", "identity"}
# Held to the rules of an engine.
PURE = re.compile(r"_(engine|files|identity)$|^acm_client_protocol$")
# What an engine may include of the system: the parts of the C++ library that only compute, and the
# names of error numbers.
ENGINE_SYSTEM = set(
    "algorithm array bit bitset cctype cerrno charconv chrono cinttypes climits cmath compare concepts "
    "cstdarg cstddef cstdint cstdio cstdlib cstring deque functional initializer_list iterator "
    "limits list map memory new numeric optional queue ratio set span string string_view "
    "system_error tuple type_traits unordered_map unordered_set utility variant vector "
    "tl/expected.hpp".split())
# Headers of base that touch the world.
DRIVERS_ONLY = {"base/clock.hpp", "base/unique_fd.hpp", "base/text_file.hpp"}
# A foreign library belongs to one folder.
FOREIGN = {
    "pmix.h": "src/pmix/driver/",
    "infiniband/umad.h": "src/umad/",
    "rdma/rdma_cma.h": "src/rdmacm/",
}
PUBLIC = re.compile(r"wireup/wireup\.hp{0,2}$")
FRAMEWORKS = {
    "ompi_component": re.compile(r"^(opal|ompi|orte|oshmem|ompi_config|opal_config|mpi)[/.]"),
    "dapl_provider": re.compile(r"^(dat|dat2|dapl)[/_.]"),
}


def read_arrows(root):
    with open(os.path.join(root, "cmake/WireupModule.cmake"), encoding="utf-8") as file:
        arrows = {name: set(filter(None, uses.split(";"))) for name, uses in ARROWS.findall(file.read())}
    if "base" not in arrows:
        raise SystemExit("include_arrows: no arrows found in cmake/WireupModule.cmake")
    return arrows


def module_of(path):
    """The module that a path below src/ belongs to: 'cm_engine' for cm/engine/…, else its folder."""
    module = BY_NAME.get(os.path.splitext(path)[0])
    if module:
        return module
    parts = path.split("/")
    return "_".join(parts[:2]) if len(parts) > 2 and parts[1] in OWN_MODULE else parts[0]


def sources(root):
    for top in ("src", "include", "softhca", "examples", "tools", "ompi_component", "dapl_provider"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if SOURCE.search(name):
                    yield os.path.relpath(os.path.join(folder, name), root)


class Scan:
    def __init__(self, root):
        self.root = root
        self.arrows = read_arrows(root)
        self.found = []
        self.files = 0

    def is_of(self, top, path):
        return os.path.isfile(os.path.join(self.root, top, path))

    def run(self):
        for source in sources(self.root):
            self.files += 1
            with open(os.path.join(self.root, source), encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    match = INCLUDE.match(line)
                    if match:
                        why = self.why_not(source, match.group(2), match.group(1) == '"')
                        if why:
                            self.found.append(f"{source}:{number}: {match.group(2)}: {why}")
        return self.found

    def why_not(self, source, target, quoted):
        """Why `source` may not include `target`, or None."""
        top = source.split("/")[0]
        beside = quoted and os.path.isfile(
            os.path.join(self.root, os.path.dirname(source), target))
        if beside and ".." not in target:
            return None
        if ".." in target.split("/"):
            return "includes are written from the top of their tree, without '..'"
        for header, owner in FOREIGN.items():
            if target == header and top == "src" and not source.startswith(owner):
                return f"only {owner} may use this library"
        of_src = self.is_of("src", target)
        of_softhca = target.startswith("softhca/")
        if top == "src":
            return self.why_not_src(source[len("src/"):], target, of_src, of_softhca)
        if top == "softhca":
            if of_src or PUBLIC.search(target):
                return "softhca knows nothing of wireup"
            if quoted and not of_softhca:
                return "no such header in softhca"
            return None
        if top == "include":
            return "a public header may not use internal ones" if of_src or of_softhca else None
        if top == "tools":
            if of_softhca:
                return "product code does not know softhca"
            if of_src and not target.startswith(
                    ("base/", "mad/", "settings/", "api/", "acm/client/", "acm/server/",
                     "cm/driver/")):
                return ("tools may use src/api, src/settings, src/acm/client, src/acm/server and "
                        "src/cm/driver only")
            return None
        # examples and the adapters
        if of_src or of_softhca:
            return "only include/wireup of ours may be used here"
        if top in FRAMEWORKS and quoted and not PUBLIC.search(target) and \
                not FRAMEWORKS[top].search(target):
            return "neither the public header nor one of the framework's"
        return None

    def why_not_src(self, source, target, of_src, of_softhca):
        module = module_of(source)
        if of_softhca:
            return "product code does not know softhca"
        if of_src:
            used = module_of(target)
            if used != module and used not in self.arrows.get(module, set()):
                return f"{module} may not use {used} (cmake/WireupModule.cmake has the arrows)"
            if PURE.search(module) and target in DRIVERS_ONLY:
                return "an engine has no clock and no descriptor"
            return None
        if PUBLIC.search(target):
            return None if module == "api" else "only src/api knows the public interface"
        if PURE.search(module) and target not in ENGINE_SYSTEM:
            return "not on the list of what an engine may include"
        return None


def main(arguments):
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    scan = Scan(arguments[0])
    found = scan.run()
    for sentence in found:
        print(sentence)
    print(f"include_arrows: {scan.files} files, {len(found)} violations")
    if scan.files == 0:
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
