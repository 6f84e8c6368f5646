"""Write docs/real-mistakes.md; with --logits, say what `conform` makes of each mistake from the logits alone.

python bench/real_mistakes.py [--logits]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import torch  # noqa: E402

from conform.real import REAL  # noqa: E402
from conform.real_mistakes import page  # noqa: E402
from conform.test_faults import LOGITS  # noqa: E402
from conform.test_real_mistakes import report_of  # noqa: E402
from transformulary.files import write_atomically  # noqa: E402


def main():
    """One line per mistake: its key, and the names that `conform` gives (none is right)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--logits", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    write_atomically(ROOT / "docs" / "real-mistakes.md", page())
    for mistake in REAL if args.logits else ():
        named = [fault.key for fault in report_of(mistake, LOGITS).faults]
        print(mistake.key, "named: " + ", ".join(named) if any(named) else "nothing named", flush=True)


if __name__ == "__main__":
    main()
