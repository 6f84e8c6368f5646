"""How names of the source are set: the one table of notation.

A name is a LaTeX command without backslash: a base letter, then suffixes.  `tilde`, `hat` and `prime` are
accents, a digit goes above (gamma_1), anything else below (ell_max, W_mlp1), and above where that is taken (W_e_z).
An index goes where there is room.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from transformulary.paper import SYMBOLS
from transformulary.pseudocode.nodes import Node, Sym

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
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
ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "prime": "′"}
#: A bundle of parameters, calligraphic in the paper: name -> the words above it.
BUNDLES = {"W": "", "W_enc": "enc", "W_dec": "dec", "W_ed": "e/d"}

#: Names that are words, underscore and all.
WORDS = frozenset({"Mask", "clock", "stop", "mask_token", "bos_token", "eos_token"})
#: Names that share a letter: the set of tokens is V, as are the values of Algorithm 4.
SAME = {"vocabulary": "V"}
#: Names of vectors, matrices and sequences, bold in print, as the table of symbols has them.
ARRAYS = {s.name for s in SYMBOLS.values() if r"\boldsymbol" in s.latex}

#: Names whose values are token ids: from 0 in the source, from 1 in print.
TOKENS = frozenset({"x", "z", "s", "x_hat", "x_tilde", "y", "mask_token", "bos_token", "eos_token"})
#: Names that are numbers unless `arrays` says otherwise: a product with one of them is no product of arrays, and they
#: are not bold.  (v is the variance of Algorithm 6; v_t of Algorithm 3 is a member of a family, and no name by itself.)
SCALARS = frozenset({"alpha", "eta", "m", "v", "tau", "omega", "delta", "a", "b", "g"})
#: Functions whose values are numbers where lines use them as factors.
SCALAR_FUNCTIONS = frozenset({"sqrt", "sin", "cos", "log", "uniform", "iverson", "min", "max"})
#: Arguments that are not printed: the choices of the model, and the source of chance.
HIDDEN = frozenset({"c", "how", "rng", "clock"})
#: Functions that are printed under another name.
FUNCTIONS = {"len": "length", "drop": "dropout"}


@dataclass(frozen=True)
class Letters:
    """What a symbol is made of.

    letter  "W", or the name of a letter that ASCII lacks: "gamma", "ell", "reals"; a whole word if it is one
    accent  "tilde", "hat", "prime" or ""
    low     what is below it: "e", "mlp1"
    high    what is above it: "1", "enc"
    style   "bold" for vectors and matrices, "calligraphic" for a bundle of them, "upright" for words, or ""
    """

    letter: str
    accent: str = ""
    low: str = ""
    high: str = ""
    style: str = ""

    @property
    def base(self) -> str:
        """The letter with its accent, in Unicode."""
        if self.style == "calligraphic":
            return "𝓦"
        return unicodedata.normalize("NFC", GREEK.get(self.letter, self.letter) + ACCENTS.get(self.accent, ""))


@lru_cache(maxsize=1024)
def letters(name: str, plain: bool | None = None) -> Letters:
    """The parts of a symbol; a trailing underscore (a family handed in: e_ of Algorithm 3) is not printed.

    plain   not bold, or bold, whatever the name usually is
    """
    if name in BUNDLES:
        return Letters("W", high=BUNDLES[name], style="calligraphic")
    if name in WORDS:
        return Letters(name, style="upright")
    letter, *suffixes = SAME.get(name, name).rstrip("_").split("_")
    parts = {"accent": "", "low": "", "high": ""}
    for suffix in suffixes:
        parts["accent" if suffix in ACCENTS else "high" if suffix.isdigit() or parts["low"] else "low"] = suffix
    word = len(letter) > 1 and letter not in GREEK
    bold = name.rstrip("_") in ARRAYS if plain is None else not plain
    return Letters(letter, **parts, style="bold" if bold else "upright" if word else "")


def member(name: str, index: Node | tuple[Node, ...], above: bool = False) -> Sym:
    """One member of a family: e_t, W_l, gamma_l^1, W_mlp1^l; above where there is no room below, or for a head."""
    index = index if isinstance(index, tuple) else (index,)
    return Sym(name, high=index) if above or letters(name).low else Sym(name, low=index)
