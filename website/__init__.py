"""The site: every page is made from the repository, none is written here.  `python -m website` writes it."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/transformulary"
sys.path.insert(0, str(PACKAGE.parent))  # whatever is installed, the site is of this tree
