"""Write the reference page and the CEL policies, or check that they are up to date."""

import argparse
import sys
from pathlib import Path

from stromboli.admitting.reference import generated


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stromboli.admitting.reference", description=__doc__
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", metavar="ROOT", type=Path, help="write into this working copy")
    mode.add_argument("--check", metavar="ROOT", type=Path, help="fail if files there differ")
    options = parser.parse_args(arguments)
    return write(options.write) if options.write else check(options.check)


def write(root: Path) -> int:
    for name, text in generated().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        print(f"wrote {root / name}")
    return 0


def check(root: Path) -> int:
    """0 if every file is as it would be written; otherwise 1, and which are not."""
    stale = [
        name
        for name, text in generated().items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]
    for name in stale:
        print(f"{name}: differs from the rules")
    if stale:
        print(f"out of date: python -m stromboli.admitting.reference --write {root}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
