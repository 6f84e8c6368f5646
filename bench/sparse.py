"""Time of attention under GPT-3's sparse masks: the kernel that sees every pair, and ours in parts.

    python bench/sparse.py [--ell 1024 2048 4096 8192] [--runs 5] [--H 4] [--d 64] [--device cpu]

Prints a Markdown table: for each mask and length, milliseconds forwards and backwards (medians; the two take turns, so
that what else the machine does strikes both), and how much longer twice the length takes.  One sequence, float32,
random numbers; on the processor one thread and its time of processor, so that a busy machine matters little.
"""

import argparse
import time
from statistics import median

import torch

from transformulary.nn.places import Filled
from transformulary.nn.scores import Dense
from transformulary.nn.sparse import in_parts
from transformulary.paper import Causal, Fixed, Local, Mask, Strided

MASKS = (Causal(), Local(128), Strided(64), Local(64) | Strided(64), Fixed(64, 4))


def kernels(mask: Mask, ell: int, device: torch.device) -> dict[str, object]:
    """Name -> what computes attention; in parts only where there are any."""
    places = Filled()
    cheapest = places.cheapest(mask, ell, ell)
    options = {"attn_mask": places.allowed(mask, ell, ell, device)} if cheapest is None else cheapest
    return {"dense": Dense(ell, options), "parts": in_parts(mask, places, ell, ell, device)}


def once(kernel, Q, K, V):
    """(seconds forwards, seconds backwards)"""
    marks = [now(Q)]
    Y = kernel.attend(Q, K, V, Q.shape[-1] ** -0.5, 0.0)
    marks.append(now(Q))
    torch.autograd.grad(Y.sum(), (Q, K, V))
    marks.append(now(Q))
    return marks[1] - marks[0], marks[2] - marks[1]


def now(Q: torch.Tensor) -> float:
    """Time of processor; on an accelerator the clock, when it has done what it was told."""
    if Q.is_cuda:
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def measured(mask: Mask, ell: int, args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Kernel -> median milliseconds forwards and backwards."""
    device = torch.device(args.device)
    Q, K, V = (torch.randn(1, args.H, ell, args.d, device=device, requires_grad=True) for _ in range(3))
    ours = {name: kernel for name, kernel in kernels(mask, ell, device).items() if kernel}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ours}
    for run in range(args.runs + 1):
        for name, kernel in ours.items():
            seconds = once(kernel, Q, K, V)
            if run:  # the first one warms up
                times[name].append(seconds)
    return {name: tuple(1000 * median(column) for column in zip(*rows, strict=True)) for name, rows in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ell", type=int, nargs="+", default=[1024, 2048, 4096, 8192], help="lengths, in tokens")
    parser.add_argument("--runs", type=int, default=5, help="of each kernel (default: 5)")
    parser.add_argument("--H", type=int, default=4, help="heads (default: 4)")
    parser.add_argument("--d", type=int, default=64, help="width of a head (default: 64)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    print(f"torch {torch.__version__}, {args.device}, H = {args.H}, d_attn = {args.d}; forwards + backwards, ms\n")
    print("| mask | length | dense | x | in parts | x |\n|---|---|---|---|---|---|")
    for mask in MASKS:
        before: dict[str, float] = {}
        for ell in args.ell:
            row = [str(mask).replace("|", "\\|"), f"{ell:,}"]
            times = measured(mask, ell, args)
            for name in ("dense", "parts"):
                if name not in times:
                    row += ["-", ""]
                    continue
                total = sum(times[name])
                longer = f"{total / before[name]:.1f}" if name in before else ""
                row += [f"{times[name][0]:.1f} + {times[name][1]:.1f}", longer]
                before[name] = total
            print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
