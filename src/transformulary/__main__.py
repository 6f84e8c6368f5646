"""`python -m transformulary` is the command `transformulary`."""

import sys

from transformulary.cli import main

if __name__ == "__main__":
    sys.exit(main())
