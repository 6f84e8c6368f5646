"""What a reader makes of a printed formula: its text alone, read with a reader's precedence, computed from 1.

From loose to tight:  ∨   ∧   = ≠ ≤ < ≥   + −   ⊙   mod /   product by juxtaposition or ·   powers, transposes.
A big sum reaches as far as a product or a fraction.  This knows nothing of the code that prints.
"""

import re
import unicodedata
from functools import cache

import numpy as np

from transformulary.oracle import notation
from transformulary.oracle.theta import embeddings, matrices, norm, sharing

FUNCTIONS = {
    name: getattr(notation, name)
    for name in ("softmax", "GELU", "GELU_tanh", "ReLU", "SiLU", "exp", "log", "sin", "cos", "tanh", "ramp")
} | {
    "length": len, "max": np.maximum, "min": np.minimum, "joined": notation.joined,
    "matrices": matrices,
    "sharing": sharing, "embeddings": embeddings, "likeliest": notation.likeliest, "nucleus": notation.nucleus,
    "bucket": lambda delta, Mask: notation.bucket(delta, lambda t_z, t_x: Mask(t_z + 1, t_x + 1)),
    "argmax": lambda p: int(np.argmax(p)) + 1,
}  # fmt: skip
ONES = object()  # the row of ones in b 1ᵀ
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789−")
LETTER = r"(?:[A-Za-zα-ωΦℓ𝓦∞])[\u0302\u0303]?′?"
TOKEN = re.compile(
    rf"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<word>[A-Za-z]{{2,}}(?:_[A-Za-z0-9]+)*)|(?P<letter>{LETTER})"
    r"|(?P<low>_(?:[A-Za-z0-9ℓ]+|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}))|(?P<high>\^(?:[A-Za-z0-9ℓ]+|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}))"
    r"|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)|(?P<sign>[][(){}|,;:√Σ+−⊙·/=≠≤≥<>∧∨¬∇ᵀ⌈⌉⌊⌋‖…≡∈∝]))"
)
#: Letters whose superscripts are part of the symbol; on others they are powers.
NAMED_ABOVE = set("Wb𝓦YγβuvB")


def tokens(text):
    """[(kind, text)] of a formula.  Raises SyntaxError at what no reader knows."""
    text, at, found = unicodedata.normalize("NFD", text).replace("≠", "≠"), 0, []
    text = text.replace("=\u0338", "≠")
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if not match:
            raise SyntaxError(f"cannot read {text[at:]!r}")
        found.append((match.lastgroup, match[match.lastgroup].lstrip("_^")))
        at = match.end()
    return found


@cache
def compiled(text):
    """The formula as a function of the reader's names: env -> value."""
    reader = _Reader(tokens(text))
    value = reader.disjunction()
    if reader.now != (None, None):
        raise SyntaxError(f"left over in {text!r}: {reader.now[1]}")
    return value


def evaluate(text, env):
    return compiled(text)(env)


def product(a, b):
    """Juxtaposition: a matrix product, or a product with a number."""
    if b is ONES:
        return a[:, None]
    return a * b if np.ndim(a) == 0 or np.ndim(b) == 0 or hasattr(b, "leaves") else a @ b


class _Reader:
    def __init__(self, found):
        self.tokens, self.at = found, 0

    @property
    def now(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None)

    def sees(self, *signs):
        return self.now[0] == "sign" and self.now[1] in signs

    def take(self, sign=None):
        text = self.now[1]
        if sign is not None and text != sign:
            raise SyntaxError(f"expected {sign}, found {text}")
        self.at += 1
        return text

    def chain(self, below, **operators):
        left = below()
        while self.sees(*OPERATORS[below.__name__]):
            left = _binary(OPERATIONS[self.take()], left, below())
        return left

    def disjunction(self):
        return self.chain(self.conjunction)

    def conjunction(self):
        return self.chain(self.relation)

    def relation(self):
        return self.chain(self.sum)

    def sum(self):
        if self.sees("−", "¬"):
            sign, first = self.take(), self.hadamard()
            left = (lambda env: -first(env)) if sign == "−" else (lambda env: not first(env))
        else:
            left = self.hadamard()
        while self.sees("+", "−"):
            left = _binary(OPERATIONS[self.take()], left, self.hadamard())
        return left

    def hadamard(self):
        return self.chain(self.fraction)

    def fraction(self):
        left = self.product()
        while self.sees("/") or self.now == ("word", "mod"):
            op = self.take()
            left = _binary(OPERATIONS[op], left, self.big() if self.sees("Σ") else self.power())
        return left

    def product(self):
        left = self.power()
        while (
            self.sees("·", "√", "(", "[", "∇", "Σ", "⌈", "⌊")
            or self.now[0] in ("number", "letter")
            or (self.now[0] == "word" and self.now[1] != "mod")
        ):
            if self.sees("·"):
                self.take()
            left = _binary(product, left, self.power())
        return left

    def power(self):
        if self.sees("√"):
            self.take()
            inside = self.power()
            return lambda env: np.sqrt(inside(env))
        base = self.atom()
        while self.sees("ᵀ") or self.now[0] in ("raised", "high"):
            kind, text = self.now
            self.take()
            if kind == "sign":
                base = _transposed(base)
            else:
                exponent = compiled(text.translate(RAISED) if kind == "raised" else text.strip("{}"))
                base = _binary(lambda a, b: a ** (b + 0.0), base, exponent)
        return base

    def big(self):
        """Σ_{t=1..n} body, Σ_{t∈T} body."""
        self.take("Σ")
        where = self.take().strip("{}")
        body = self.fraction()
        if ".." in where:
            name, last = re.fullmatch(r"(\w+)=1\.\.(.+)", where).groups()
            count = compiled(last)
            return lambda env: sum(body(env | {name: i}) for i in range(1, int(count(env)) + 1))
        name, places = where.split("∈")
        chosen = compiled(places)
        return lambda env: sum(body(env | {name: i}) for i in chosen(env))

    def atom(self):
        kind, text = self.now
        if kind == "sign":
            return self.bracketed()
        self.take()
        if kind == "number":
            if text == "1" and self.sees("ᵀ"):
                self.take()
                return lambda env: ONES
            return lambda env: float(text) if "." in text else int(text)
        if kind == "word":
            return self.indexed(self.called(text))
        low = self.take() if self.now[0] == "low" else ""
        named = self.now[0] in ("high", "raised") and text in NAMED_ABOVE and (low or text in "𝓦Yγβ" or text in "uvB")
        high = self.take().translate(RAISED) if named else ""
        symbol = (text, low.strip("{}"), high.strip("{}"))
        if self.sees("(") and text in "PΦ" and self.tokens[self.at + 1][1] in "θx":
            self.take("(")
            inside = self.disjunction()
            self.take(")")
            if text == "Φ":
                return lambda env: notation.Phi(inside(env))
            return self.indexed(lambda env: env["P(θ)"](env))
        return self.indexed(lambda env: env.symbol(*symbol))

    def bracketed(self):
        sign = self.take()
        if sign == "Σ":
            self.at -= 1
            return self.big()
        if sign == "∇":
            self.take(), self.take("(")
            theta = self.disjunction()
            self.take(")")
            return lambda env: env["∇loss"](env, theta(env))
        if sign == "{":
            return self.chosen()
        if sign == "‖":
            of = self.disjunction()
            self.take("‖")
            return lambda env: norm(of(env))
        if sign == "[" and self.sees("["):
            return self.iverson()
        items, separator, start = [], None, self.at
        if sign not in "([⌈⌊":
            raise SyntaxError(f"a formula does not begin with {sign} in {self.tokens}")
        closing = {"(": ")", "[": "]", "⌈": "⌉", "⌊": "⌋"}[sign]
        while not self.sees(closing):
            items.append(None if self.sees("…") and self.take() else self.disjunction())
            if self.sees(",", ";"):
                separator = self.take()
        self.take(closing)
        if sign == "⌈":
            return lambda env: int(np.ceil(items[0](env)))
        if sign == "⌊":
            return lambda env: int(np.floor(items[0](env)))
        if sign == "(":
            return items[0] if len(items) == 1 else lambda env: tuple(item(env) for item in items)
        if None in items:
            letters = list(dict.fromkeys(text for kind, text in self.tokens[start : self.at] if kind == "letter"))
            family = [letter for letter in letters if letter in ("e", "Y", "a", "b")]
            return self.indexed(lambda env: env.all_members(family, separator, items[-1]))
        return self.indexed(lambda env: env.listed(items, separator))

    def iverson(self):
        """[[condition]]"""
        self.take("[")
        condition = self.disjunction()
        self.take("]"), self.take("]")
        return lambda env: int(condition(env))

    def chosen(self):
        """{t ∈ [n] : condition}"""
        name = self.take()
        self.take("∈"), self.take("[")
        count = self.disjunction()
        self.take("]"), self.take(":")
        condition = self.disjunction()
        self.take("}")
        return lambda env: {i for i in range(1, count(env) + 1) if condition(env | {name: i})}

    def called(self, name):
        """A word: a function with its arguments, or a name."""
        if name == "log" and not self.sees("("):
            inside = self.power()
            return lambda env: notation.log(inside(env))
        if not self.sees("("):
            return lambda env: env.word(name)
        self.take("(")
        arguments = []
        while not self.sees(")"):
            arguments.append(self.argument())
            if self.sees(",", "|"):
                self.take()
        self.take(")")
        return lambda env: env.call(name, [a(env) for a in arguments])

    def argument(self):
        """An argument; Mask ≡ 1 and Mask[t,t′] = [[…]] are rules."""
        if self.now == ("word", "Mask") and self.tokens[self.at + 1][1] in ("≡", "[") and self.is_rule():
            return self.rule()
        return self.disjunction()

    def is_rule(self):
        ahead = [text for _, text in self.tokens[self.at + 1 : self.at + 7]]
        return ahead[:1] == ["≡"] or (ahead[2:3] == [","] and ahead[5:] == ["="])

    def rule(self):
        self.take("Mask")
        if self.sees("≡"):
            self.take(), self.take("1")
            return lambda env: lambda t_z, t_x: True
        while self.take() != "=":
            pass
        self.take("["), self.take("[")
        inside = self.disjunction()
        self.take("]"), self.take("]")
        return lambda env: lambda t_z, t_x: inside(env | {"t": t_z, "t′": t_x})

    def indexed(self, base):
        """base[i,j], base[:,j], base[i:j]: from 1, ends included; [[…]] is a factor."""
        if not self.sees("[") or self.tokens[self.at + 1][1] == "[":
            return base
        self.take("[")
        places, at = [], [None, None]
        while True:
            at = [None if self.sees(":", ",", "]") else self.disjunction(), None]
            if self.sees(":"):
                self.take()
                at = [at[0], None if self.sees(",", "]") else self.disjunction(), "range"]
            places.append(at)
            if self.take() == "]":
                break
        return self.indexed(lambda env: _entry(base(env), [_place(p, env) for p in places]))


def _place(place, env):
    first, last, *is_range = place
    if is_range:
        return slice(first(env) - 1 if first else None, last(env) if last else None)
    return int(first(env)) - 1


def _entry(base, places):
    if callable(base):  # a mask
        return base(*(i + 1 for i in places))
    if any(type(i) is int and i < 0 for i in places):
        raise IndexError("indices begin at 1")
    return base[tuple(places)] if len(places) > 1 else base[places[0]]


def _binary(operation, a, b):
    return lambda env: operation(a(env), b(env))


def _transposed(a):
    return lambda env: a(env).T


OPERATORS = {"conjunction": ("∨",), "relation": ("∧",), "sum": ("=", "≠", "≤", "≥", "<", ">", "∈"), "fraction": ("⊙",)}
OPERATIONS = {
    "∨": lambda a, b: a or b,
    "∧": lambda a, b: a and b,
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "≤": lambda a, b: a <= b,
    "≥": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "∈": lambda a, b: a in b,
    "+": lambda a, b: a + b,
    "−": lambda a, b: a - b,
    "⊙": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
}
