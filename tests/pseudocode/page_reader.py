"""A reader who executes printed pages: nothing but their text, indices from 1, in float64.

`Book(pages)` reads rendered algorithms; `book.run("DTransformer", x, theta)` does what they say.  Every value
that a line makes is kept in `book.seen["10.6"]`, in order.
"""

import re
import unicodedata
from collections import defaultdict

import numpy as np

from pseudocode.formula_reader import FUNCTIONS, compiled
from transformulary.oracle import notation, theta

SIZES = {"ℓ_max": "ell_max", "ℓ_gen": "ell_gen", "ℓ_train": "ell_train"}
CONSTANTS = {"∞": np.inf, "π": np.pi}
GREEK = {"γ": "gamma", "β": "beta", "η": "eta", "τ": "tau"}
#: Parameters of every head that all layers have in common.
SHARED = {"B_enc", "B_dec"}
#: Functions that draw; tokens and places are counted from 1 on a page.
DRAWN = {
    "uniform": notation.uniform,
    "chosen": lambda *given: {t + 1 for t in notation.chosen(*given)},
    "corrupted": lambda v, mask, *given: notation.corrupted(v - 1, mask - 1, *given) + 1,
}
BUNDLES = {"": "W", "enc": "W_enc", "dec": "W_dec", "e/d": "W_ed"}


class Book:
    """Pages by the names of their algorithms.

    config  where symbols of sizes get their numbers
    told    hyperparameters, token ids (from 1) and the source of chance of training and inference, by name
    """

    def __init__(self, pages, config, **told):
        self.config, self.told, self.seen = config, told, defaultdict(list)
        self.pages = defaultdict(list)
        for page in map(Page, pages):
            self.pages[page.name].append(page)

    def run(self, name, *arguments):
        page = next(page for page in self.pages[name] if not page.steps or arguments[0] in page.steps)
        if name == "MHAttention" and len(arguments) == 3:  # E4
            arguments = (arguments[0], *arguments)
        assert len(arguments) == len(page.parameters), f"{name} takes {page.parameters}"
        env = Env(self, page)
        for parameter, value in zip(page.parameters, arguments, strict=True):
            letter, _, family = parameter.partition("_{1:")
            if family:
                env.families[letter] = dict(enumerate(value, 1))
                if letter not in page.parameters:
                    env[letter] = value
                env[family.rstrip("}")] = len(value)
            else:
                env[parameter] = value
        for parameter, size in (("X", "ℓ_x"), ("Z", "ℓ_z")):
            if parameter in env:
                env[size] = env[parameter].shape[1]
        if "e" in env:
            env["d"] = env["d_in"] = len(env["e"])
        return env.block(page.lines, 0)


class Page:
    """One printed algorithm: its name, what its title takes, and (label, depth, words) of its lines."""

    def __init__(self, text):
        text = unicodedata.normalize("NFD", text).replace("=\u0338", "≠")
        title, *rows = whole(text).splitlines()
        found = re.fullmatch(r"Algorithm (\w+): .+? ← (\w+)\((.*)\), [a-z ]+ \[PH22\]", title)
        self.number, self.name, inside = found.groups()
        self.parameters = re.split(r", | \| ", inside)
        steps = re.search(r"Input: i ∈ \{(\d+)(?:.*?(\d+))?\}", text)
        self.steps = steps and range(int(steps[1]), int(steps[2] or steps[1]) + 1)
        self.remarks = [row.strip() for row in rows if row.strip().startswith("Mask_l")]
        numbered = (re.fullmatch(r"([ \d]{3}[\da-z])  ((?:    )*)(\S.*)", row) for row in rows)
        self.lines = [(row[1].strip(), len(row[2]) // 4, row[3]) for row in numbered if row and row[1].strip()]


def whole(text):
    """A page whose broken lines are joined again: what goes on stands two steps deeper than where the line began."""
    joined = []
    for row in text.splitlines():
        begins = re.match(r"[ \d]{3}[\da-z]  +|\s*", joined[-1]).end() if joined else 0
        if joined and re.match(r"\s*", row).end() == begins + 8:
            joined[-1] += f" {row.strip()}"
        else:
            joined.append(row)
    return "\n".join(joined)


class Env(dict):
    """The names of one execution of one page."""

    def __init__(self, book, page, values=(), families=None):
        super().__init__(values)
        self.book, self.page, self.families = book, page, {} if families is None else families

    def __or__(self, other):
        return Env(self.book, self.page, {**self, **other}, self.families)

    # lines

    def block(self, lines, depth):
        """Execute lines of one depth with what they govern; returns the value of `return`."""
        at = 0
        while at < len(lines):
            label, _, words = lines[at]
            end = at + 1
            while end < len(lines) and lines[end][1] > depth:
                end += 1
            inner = lines[at + 1 : end]
            if loop := re.fullmatch(r"for (\w) = (.*) do", words):
                last = self.value(loop[2].rpartition("…, ")[2].rpartition(", " * ("…" not in loop[2]) or "…")[2])
                for i in range(1, int(last) + 1):
                    self[loop[1]] = i
                    if (value := self.block(inner, depth + 1)) is not None:
                        return value
                end = self.ended(lines, end, depth)
            elif loop := re.fullmatch(r"for (\w) ∈ (\S+) do", words):
                for i in self.value(loop[2]):
                    self[loop[1]] = i
                    self.block(inner, depth + 1)
                end = self.ended(lines, end, depth)
            elif loop := re.fullmatch(r"while (.*) do", words):
                while self.value(loop[1]):
                    self.block(inner, depth + 1)
                end = self.ended(lines, end, depth)
            elif words.endswith(":"):
                self.each(words, inner[0][2], inner[0][0])
            elif found := re.fullmatch(r"if (.*) then return (.*)", words):
                if self.value(found[1]):
                    return self.keep(label, self.value(found[2]))
            elif words.startswith("return "):
                value = self.value(words.removeprefix("return ").partition(" = ")[2] or words.removeprefix("return "))
                return self.keep(label, value)
            else:
                self.line(label, words)
            at = end
        return None

    def ended(self, lines, at, depth):
        assert lines[at][1:] == (depth, "end"), f"a loop of {self.page.name} has no end"
        return at + 1

    def line(self, label, words):
        if words.startswith("for "):
            head, _, body = words.partition(": ")
            self.each(head + ":", body, label)
        elif words.startswith("∀"):
            self.all_entries(label, words.partition(": ")[2])
        elif words.startswith("sample"):
            p, tau = re.fullmatch(r"sample a token y from (?:q ∝ )?(\w+?)(?:\^\{1/(.*)\})?", words).groups()
            q = notation.proportional(self.value(p), self.value(tau)) if tau else self.value(p)
            self["y"] = notation.sample(q, self.book.told["rng"]) + 1
        elif found := re.fullmatch(r"append (.*) to (\w)", words):
            self[found[2]] = [*self[found[2]], self.value(found[1])]
        elif found := re.fullmatch(r"put (\w) in random order", words):
            self[found[1]] = notation.shuffled(self[found[1]], self.book.told["rng"])
        elif found := re.fullmatch(r"(\S+) ← (\S+) with probability (\S+), else (\S+)", words):
            target, a, p, b = found.groups()
            self.assign(target, notation.randomly(*map(self.value, (a, b, p)), self.book.told["rng"]))
        elif words.startswith("P(θ) ←"):
            self["P(θ)"] = compiled(words.removeprefix("P(θ) ← "))
        elif words.startswith("loss(θ) ="):
            loss = compiled(words.removeprefix("loss(θ) = "))
            self["∇loss"] = lambda env, at: theta.gradient(lambda new: loss(env | {"θ": new}), at)
        else:
            target, _, value = words.partition(" ← ")
            self.assign(target, self.keep(label, self.value(value)))

    def each(self, head, body, label):
        """for t ∈ [n]: target ← value"""
        index, count = re.fullmatch(r"for (\w) ∈ \[(.*)\]:", head).groups()
        target, _, value = body.partition(" ← ")
        members = {i: (self | {index: i}).value(value) for i in range(1, self.value(count) + 1)}
        letter = re.match(r".[\u0302\u0303]?", target)[0]
        if target == f"{letter}[:,{index}]":
            self[letter] = self.keep(label, np.stack(list(members.values()), axis=1))
        elif target == f"{letter}[{index}]":
            self[letter] = self.keep(label, np.array(list(members.values())))
        else:
            assert target in (f"{letter}_{index}", f"{letter}^{index}"), target
            self.families[letter] = members
            for value in members.values() if index == "h" else ():
                self.keep(label, value)

    def all_entries(self, label, body):
        """∀t_z, t_x: S[t_z,t_x] ← …, perhaps only if something"""
        found = re.fullmatch(r"(?:if (.*) then )?S\[t_z,t_x\] ← (.*)", body)
        S = np.array(self.get("S", np.zeros((self["ℓ_z"], self["ℓ_x"]))))
        for t_z, t_x in np.ndindex(S.shape):
            here = self | {"t_z": t_z + 1, "t_x": t_x + 1}
            if not found[1] or here.value(found[1]):
                S[t_z, t_x] = here.value(found[2])
        self["S"] = self.keep(label, S)

    def assign(self, target, value):
        """x ← value; (θ, ω) ← two values; a list of sequences is a family, x_n; x̃_n is what is assigned."""
        if target in ("x\u0303_n", "x\u0303_n[t]"):
            masked = self.families.setdefault("x\u0303", {})
            if target == "x\u0303_n":
                masked[self["n"]] = dict(enumerate(value, 1))
            else:
                masked.setdefault(self["n"], {})[self["t"]] = value
            return
        if target.startswith("("):
            for name, part in zip(target.strip("()").split(", "), value, strict=True):
                self.assign(name, part)
            return
        self[target] = value
        self.families.pop(target, None)
        self.families.pop(f"{target}\u0303", None)  # another x has its own x̃
        if isinstance(value, list) and value and isinstance(value[0], list):
            self.families[target] = dict(enumerate(value, 1))

    def keep(self, label, value):
        if isinstance(value, np.ndarray) and value.ndim:
            self.book.seen[f"{self.page.number}.{label}"].append(value)
        return value

    # what formulas ask for

    def value(self, text):
        return compiled(text)(self)

    def symbol(self, base, low, high):
        name = base + (f"_{low}" if low else "")
        if not high and name in self:
            return self[name]
        if base in self.families and (low or high):
            return self.member(base, self.value(low or high))
        if base in CONSTANTS:
            return CONSTANTS[base]
        return self.parameter(base, low, high) if (found := self.told(name)) is None else found

    def member(self, family, index):
        found = self.families[family][index]
        return [found[t] for t in sorted(found)] if isinstance(found, dict) else found

    def told(self, name):
        """A size of the config, or a hyperparameter."""
        name = SIZES.get(name, GREEK.get(name, name))
        return self.book.told.get(name, getattr(self.book.config, name, None))

    def parameter(self, base, low, high):
        """The array of θ, 𝓦 or W_qkv that a symbol names, its layer or head being a name of now."""
        if base == "𝓦":
            return getattr(self["θ"] if "θ" in self else self["θ̂"], BUNDLES[high])[self.value(low) - 1]
        if (base, low) == ("W", "qkv"):
            heads = [self.value(h) - 1 for h in high.split(",")]
            return theta.W_qkv(self["𝓦"], heads[0], heads[-1])
        parts = [part for part in (low, high) if part and part != "l"]
        name = "_".join([GREEK.get(base, base), *(p for part in parts for p in part.split(",") if p != "l")])
        holder = next(self[h] for h in ("W_qkv", "𝓦", "θ") if h in self)
        found = vars(holder)[name]
        return found[self["l"] - 1] if isinstance(found, list) and name not in SHARED else found

    def word(self, name):
        if name == "Mask_l":
            return next(rule for which, rule in self.masks() if which(self["l"]))
        return self[name] if name in self else self.told(name)

    def masks(self):
        for remark in self.page.remarks:
            rule, which = re.fullmatch(r"Mask_l(.*) for l (.*)", remark).groups()
            which = {"odd": "mod 2 = 1", "even": "mod 2 = 0"}.get(which, which)
            yield (lambda l, which=which: self.holds(which, l)), compiled(f"rule(Mask{rule})")(RuleOf(self))

    def holds(self, which, l):
        """What is said of layers, of one layer: mod 2 = 1, ≤ 3, ∈ {1, …, 4, 7}, mod 5 ∈ {0, 1}."""
        if "∈" not in which:
            return compiled(f"l {which}")(self | {"l": l})
        what, members = re.fullmatch(r"(.*?)∈ \{(.*)\}", which).groups()
        runs = re.findall(r"(\d+)(?:, …, (\d+))?", members)
        return compiled(f"l {what}".strip())(self | {"l": l}) in {
            n for first, last in runs for n in range(int(first), int(last or first) + 1)
        }

    def call(self, name, arguments):
        if name in self.book.pages:
            return self.book.run(name, *arguments)
        if name in DRAWN:
            return DRAWN[name](*arguments, self.book.told["rng"])
        return self.book.told[name](*arguments) if name in self.book.told else FUNCTIONS[name](*arguments)

    def listed(self, items, separator):
        """[a; b] one on top of the other; [x, y] a sequence of tokens."""
        values = [item(self) for item in items]
        if len(values) == 1 and isinstance(values[0], np.ndarray):
            return values[0]
        if separator == ";":
            return np.concatenate([np.atleast_1d(v) for v in values])
        return [token for v in values for token in (v if isinstance(v, list) else [v])]

    def all_members(self, letters, separator, last):
        """[e_1, e_2, …, e_n], [Y¹; …; Y^H] or [a[1]; b[1]; …]"""
        if len(letters) == 2:
            return np.array([x for pair in zip(self[letters[0]], self[letters[1]], strict=True) for x in pair])
        members = [self.families[letters[0]][i] for i in sorted(self.families[letters[0]])]
        assert last(self) is members[-1], "the last member printed is not the last"
        return np.stack(members, axis=1) if separator == "," else np.concatenate(members)


class RuleOf(Env):
    """An environment in which rule(Mask…) is the rule itself."""

    def __init__(self, env):
        super().__init__(env.book, env.page, env, env.families)

    def call(self, name, arguments):
        return arguments[0] if name == "rule" else super().call(name, arguments)
