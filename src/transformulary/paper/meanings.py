"""What a letter means in one algorithm, where the tables of symbols say what it means elsewhere."""

#: Algorithms whose result has two halves, a above b.
HALVES = ("2h", "2t", "4d", "4r")
#: (algorithm, symbol) -> its meaning there.
MEANINGS = {
    ("1", "v"): "a token",
    ("2", "ell"): "a place in the sequence",
    ("2s", "ell"): "a place in the sequence",
    ("2v", "ell"): "a place in the sequence",
    ("2h", "ell"): "a place in the sequence",
    ("2t", "ell"): "a place in the sequence",
    ("4r", "ell"): "a place in the sequence",
    ("4r", "T"): "length of the sequence",
    ("4r", "g"): "by how much the base grows with the length of the sequence",
    ("4r", "r"): "how far a frequency is slowed down (yarn) or kept (llama3), from 0 to 1",
    **{(number, "a"): "the sines: odd places of the result" for number in ("2s", "2v")},
    **{(number, "b"): "the cosines: even places of the result" for number in ("2s", "2v")},
    **{(number, "a"): "the first half of the result, a number for each frequency" for number in HALVES},
    **{(number, "b"): "the second half of the result, a number for each frequency" for number in HALVES},
    ("3", "e_"): "the vectors of the context",
    ("3", "v"): "values: what the tokens of the context tell",
    ("3", "u"): "place of a token of the context",
    **{(number, "d"): "width of the vector: d_e, or that of a query or key" for number in ("6", "6r")},
    ("6", "v"): "variance of the elements of one vector",
    ("6r", "v"): "mean square of the elements of one vector",
    **{
        (number, "omega"): "what the optimiser remembers"
        for number in ("11", "12", "13", "13a", "13d", "13m", "13r", "13u")
    },
    ("11", "B"): "a batch: the numbers of the pairs that an update learns from",
    **{(number, "u"): "a token" for number in ("14", "15")},
    ("13b", "a"): "where the batch begins",
    ("13b", "b"): "where the batch ends",
    ("13c", "a"): "where the window begins",
    ("13c", "b"): "where the window ends",
    ("13c", "delta"): "by how much the first window is cut short",
    ("13d", "m"): "mean of the gradient",
    ("13d", "v"): "mean of its square",
    ("13e", "a"): "how far the way down has gone, then the rate as a fraction of its peak",
    ("14", "q"): "the distribution that the token is drawn from",
    ("15", "q"): "the distribution that the token is drawn from",
}
