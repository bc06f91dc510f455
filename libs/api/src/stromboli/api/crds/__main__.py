"""Write the CRD manifests into a directory, or check that those in it are up to date."""

import argparse
import difflib
import sys
from pathlib import Path

from stromboli.api.crds.manifests import manifests


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stromboli.api.crds", description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", metavar="DIR", type=Path, help="write the manifests to DIR")
    mode.add_argument("--check", metavar="DIR", type=Path, help="fail if those in DIR differ")
    options = parser.parse_args(arguments)
    return write(options.write) if options.write else check(options.check)


def write(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in manifests().items():
        (directory / name).write_text(text, encoding="utf-8")
        print(f"wrote {directory / name}")
    return 0


def check(directory: Path) -> int:
    """0 if the directory holds exactly our manifests; otherwise 1, and what differs."""
    wanted = manifests()
    present = {path.name: path for path in directory.glob("*.yaml")}
    stale = 0
    for name in sorted(wanted | present):
        if name not in present:
            print(f"{name}: missing from {directory}")
        elif name not in wanted:
            print(f"{name}: no kind of ours has this manifest")
        elif (difference := _difference(present[name], wanted[name])) != "":
            print(f"{name}: differs from the types\n{difference}")
        else:
            continue
        stale += 1
    if stale:
        print(f"{stale} manifest(s) out of date: python -m stromboli.api.crds --write {directory}")
    return 1 if stale else 0


def _difference(path: Path, wanted: str) -> str:
    found = path.read_text(encoding="utf-8")
    lines = difflib.unified_diff(
        found.splitlines(), wanted.splitlines(), "in the file", "from the types", lineterm="", n=1
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
