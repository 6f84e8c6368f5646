"""Writes the site: python -m website [FOLDER], build/site unless given."""

import argparse
import sys
from pathlib import Path

from transformulary.errors import UserError
from transformulary.files import check_file
from website import ROOT
from website.build import build


def main(words: list[str]) -> int:
    """Write the site; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m website", description="Writes the site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/site", help="default: build/site")
    folder = parser.parse_args(words).folder
    try:
        check_file(folder / "index.html")
        files = build(folder)
    except (UserError, OSError) as error:
        print(f"python -m website: {error}", file=sys.stderr)
        return 2
    print(f"{len(files)} files in {folder}: open {folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
