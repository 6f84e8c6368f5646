"""How names of the source are set: the one table of notation.

A name is a LaTeX command without backslash: a base letter, then suffixes.  `tilde` and `hat` are accents, a
digit goes above (gamma_1), anything else below (ell_max, W_mlp1).  An index goes where there is room.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from transformulary.pseudocode.nodes import Node, Sym

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eta": "η",
    "theta": "θ",
    "tau": "τ",
    "omega": "ω",
    "pi": "π",
    "ell": "ℓ",
    "Phi": "Φ",
    "Delta": "Δ",
    "inf": "∞",
    "naturals": "ℕ",
    "reals": "ℝ",
    "integers": "ℤ",
}
ACCENTS = {"tilde": "\u0303", "hat": "\u0302"}
#: A bundle of parameters, calligraphic in the paper: name -> the words above it.
BUNDLES = {"W": "", "W_enc": "enc", "W_dec": "dec", "W_ed": "e/d"}

#: Names whose values are token ids: from 0 in the source, from 1 in print.
TOKENS = frozenset({"x", "z", "s", "x_hat", "x_tilde", "y", "mask_token", "bos_token", "eos_token"})
#: Names that are numbers, or lists of numbers: a product with one of them is no product of arrays.
SCALARS = frozenset({"alpha", "eta", "m", "tau", "omega", "delta", "a", "b", "g"})
#: Functions whose values are numbers where lines use them as factors.
SCALAR_FUNCTIONS = frozenset({"sqrt", "sin", "cos", "log"})
#: Arguments that are not printed: the choices of the model, and the source of chance.
HIDDEN = frozenset({"c", "rng"})
#: Functions that are printed under another name.
FUNCTIONS = {"len": "length"}


@dataclass(frozen=True)
class Letters:
    """What a symbol is made of: a base with an accent, what is below it, what is above."""

    base: str
    low: str = ""
    high: str = ""


def letters(name: str) -> Letters:
    """The parts of a symbol; a trailing underscore (a family handed in: e_ of Algorithm 3) is not printed."""
    if name in BUNDLES:
        return Letters("𝓦", high=BUNDLES[name])
    if name.endswith("_token") or name == "Mask":
        return Letters(name)
    base, *suffixes = name.rstrip("_").split("_")
    base, low, high = GREEK.get(base, base), "", ""
    for suffix in suffixes:
        if suffix in ACCENTS:
            base = unicodedata.normalize("NFC", base + ACCENTS[suffix])
        elif suffix == "prime":
            base += "′"
        elif suffix.isdigit():
            high = suffix
        else:
            low = suffix
    return Letters(base, low, high)


def member(name: str, index: Node | tuple[Node, ...], above: bool = False) -> Sym:
    """One member of a family: e_t, W_l, gamma_l^1, W_mlp1^l; above where there is no room below, or for a head."""
    index = index if isinstance(index, tuple) else (index,)
    return Sym(name, high=index) if above or letters(name).low else Sym(name, low=index)
