"""Writes the site: python -m website [FOLDER], build/site unless given."""

import sys
from pathlib import Path

from website import ROOT
from website.build import build

folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build/site"
files = build(folder)
print(f"{len(files)} files in {folder}: open {folder / 'index.html'}")
