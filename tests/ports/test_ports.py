"""The ports in C and in JavaScript pass the golden vectors, and a broken line of theirs does not."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import needs

PORTS = Path(__file__).parents[2] / "examples/ports"
CASES = ["6-paper", "6-gpt2", "4-causal", "5-paper", "10-paper", "10-gpt2", "10-wide"]
CASES += ["14-gpt2", "14-cold", "14-greedy"]

#: What is broken: (in C, what instead), (in JavaScript, what instead), what the port then says first.
BROKEN = {
    "epsilon outside the root": (
        ("sqrt(v + eps)", "(sqrt(v) + eps)"),
        ("Math.sqrt(v + c.config.eps)", "(Math.sqrt(v) + c.config.eps)"),
        "6-gpt2: differs first at 6.3",
    ),
    "a mask that shows the next token": (
        ("if (t_z > t_x)", "if (t_z > t_x + 1)"),
        ("tz <= tx ?", "tz <= tx + 1 ?"),
        "4-causal: differs first at 4.5",
    ),
    "scores divided by d_attn": (
        ("/= sqrt((real)K.rows)", "/= K.rows"),
        ("s / Math.sqrt(K.rows)", "s / K.rows"),
        "4-causal: differs first at 4.6:softmax",
    ),
    "heads in reverse": (
        ("(h - 1) * Y_h.rows", "(H - h) * Y_h.rows"),
        ("stacked(heads)", "stacked(heads.reverse())"),
        "5-paper: differs first at 5.3",
    ),
    "positions from 1": (
        ("column(W_p, t)", "column(W_p, t + 1)"),
        ("column(Wp, t)", "column(Wp, t + 1)"),
        "10-paper: differs first at 10.3",
    ),
    "the norm overwrites the residual": (
        ("X = sum(X, mh_attention(", "X = sum(X_tilde, mh_attention("),
        ("X = sum(X, mhAttention(", "X = sum(XTilde, mhAttention("),
        "10-paper: differs first at 10.6[l=1]",
    ),
    "GELU in its exact form": (
        ("x * (1 + tanh((real)0.7978845608028654 * (x + (real)0.044715 * x * x * x))) / 2", "GELU(x)"),
        ("gelu_tanh: (x) => (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,",
         "gelu_tanh: (x) => (x * (1 + erf(x / Math.SQRT2))) / 2,"),
        "10-gpt2: differs first at 10.8[l=1]:GELU_tanh",
    ),
    "the distribution after the first token": (
        ("column(P, ell + i - 1)", "column(P, i)"),
        ("column(P, ell + i - 2)", "column(P, i - 1)"),
        "14-gpt2: differs first at 14.4[i=1]",
    ),
    "the uniform number counted from the other end": (
        ("sample(q, u.at[i])", "sample(q, 1 - u.at[i])"),
        ("sample(q, u[i - 1])", "sample(q, 1 - u[i - 1])"),
        "14-gpt2: differs first at 14.5[i=1]",
    ),
}  # fmt: skip

PORT = pytest.mark.parametrize(
    ("language", "options"), [("c", []), ("c", ["-DREAL=float"]), ("js", [])], ids=["C", "C in single precision", "JS"]
)


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def compiled(folder, *options):
    """The C port in `folder`, compiled; any warning is an error."""
    strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    program = folder / "gpt2"
    done = run(needs.c_compiler(), *strict, *options, "-o", program, folder / "gpt2.c", folder / "vectors.c", "-lm")
    assert done.stderr == ""
    return program


def copied(language, folder):
    return Path(shutil.copytree(PORTS / language, folder / language))


def command(language, folder, *options):
    """How to run the port in `folder`."""
    return [compiled(folder, *options)] if language == "c" else [needs.node(), folder / "gpt2.mjs"]


def verdicts(output):
    """The lines that say how a case ended."""
    return re.findall(r"^\S+: .*", output, re.MULTILINE)


def used(line):
    """How much of what a value may be off by it is off by."""
    found = re.search(r"error (\S+), allowed (\S+)", line)
    error, allowed = map(float, found.groups()) if found else (0, 0)
    return error / allowed if allowed else error


@PORT
def test_a_port_agrees(language, options, vectors, tmp_path):
    """Every case of a GPT-2 agrees in every value, in the port's precision, at less than a third of what is allowed."""
    port = command(language, copied(language, tmp_path), *options)

    done = run(*port, vectors)

    assert (done.stderr, done.returncode) == ("", 0)
    assert [line.partition(":")[0] for line in verdicts(done.stdout) if line.endswith("values agree")] == CASES
    assert [line for line in done.stdout.splitlines() if used(line) > 1 / 3] == []


@pytest.mark.parametrize("language", ["c", "js"])
def test_a_port_compares_every_line(language, vectors, tmp_path):
    """Of every line of Algorithms 4, 5, 6, 10 and 14 that makes a new value, a port compares it in every case."""
    port = command(language, copied(language, tmp_path))
    norm = ["6.1", "6.2", "6.3"]
    attention = ["4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "4.6:softmax"]
    heads = [*(f"5.2/{line}" for line in attention), "5.2", "5.3", "5.4"]
    lines = ["10.1", "10.3", "10.5", "10.6", "10.7", "10.8", "10.8:GELU_tanh", "10.10", "10.11", "10.11:logits"]
    norms = [f"{line}/{inner}" for line in ("10.5", "10.7", "10.10") for inner in norm]

    done = run(*port, vectors)

    seen = re.findall(r"^10-gpt2 +(\S+) +\d+ values", done.stdout, re.MULTILINE)
    assert sorted(seen) == sorted([*lines, *norms, *(f"10.6/{inner}" for inner in heads)])


@pytest.mark.parametrize("fault", BROKEN)
@PORT
def test_a_broken_line_is_named(language, options, fault, vectors, tmp_path):
    """One wrong statement: the exit status is 1, and the first difference named is at its line."""
    folder = copied(language, tmp_path)
    file = folder / {"c": "gpt2.c", "js": "gpt2.mjs"}[language]
    old, new = BROKEN[fault][0 if language == "c" else 1]
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))

    done = run(*command(language, folder, *options), vectors)

    assert next(line for line in verdicts(done.stdout) if "differs" in line) == BROKEN[fault][2]
    assert done.returncode == 1


@pytest.mark.parametrize("language", ["c", "js"])
def test_no_vectors(language, tmp_path):
    """Without vectors a port says so in one line and exits with 2."""
    done = run(*command(language, copied(language, tmp_path)), tmp_path / "nowhere")

    assert (done.stdout, len(done.stderr.splitlines()), done.returncode) == ("", 1, 2)
    assert "nowhere" in done.stderr
