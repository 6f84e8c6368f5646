"""The generated parts of the documents."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_documents_are_up_to_date():
    """What stands in the documents is what the code says today (`make docs` writes it)."""
    done = subprocess.run([sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True)

    assert (done.stdout, done.returncode) == ("", 0)


def test_the_table_has_fifteen_algorithms():
    """README lists Algorithms 1 to 15, once each, in order."""
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == [str(number) for number in range(1, 16)]
