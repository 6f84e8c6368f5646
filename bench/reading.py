"""Time of the commands that read: `show`, `describe`, `diff`, `symbols`, `presets`, each with Python's own start.

    python bench/reading.py [--runs 11]

Prints a Markdown table: for each command the median and the least of its seconds on the clock and of its seconds of
processor time.  The commands take turns, so that what else the machine does strikes all of them; its load is printed.
The modules are compiled before, as they are where the package is installed; nothing else is kept from run to run.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
LLAMA = {"model_type": "llama", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "rope_theta": 500000.0,
         "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}  # fmt: skip
COMMANDS = (
    "--version",
    "show 10",
    "show --all",
    "symbols",
    "presets",
    "describe gpt2-small",
    "describe gpt3-175b",
    "describe gpt3-175b --format html",
    "describe FOLDER",
    "describe TRAINED --run",
    "diff paper gpt2",
    "diff transformer llama-3.1",
)


def once(words, compiled):
    """(seconds on the clock, seconds of processor time) of one run; `compiled` is the folder of compiled modules."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "transformulary", *words], stdout=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    assert status == 0, words
    return clock, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11, help="of each command (default: 11)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folders = {"FOLDER": folder, "TRAINED": f"{folder}/trained"}
        Path(folder, "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
        Path(folder, "text.txt").write_text(__doc__ * 9, encoding="utf-8")
        once(["train", f"{folder}/text.txt", "--out", folders["TRAINED"], "--steps", "1"], f"{folder}/compiled")
        load = os.getloadavg()[0]
        times = {c: [] for c in COMMANDS}
        for turn in range(args.runs + 1):
            for command in COMMANDS:
                taken = once([folders.get(word, word) for word in command.split()], f"{folder}/compiled")
                if turn:  # the first one compiles
                    times[command].append(taken)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}, {args.runs} runs each.\n")
    print("| command | clock: median | least | processor: median | least |\n| --- | ---: | ---: | ---: | ---: |")
    for command, measured in times.items():
        cells = [f"{pick(column):.2f} s" for column in zip(*measured, strict=True) for pick in (median, min)]
        print(f"| `{command}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
