"""Names that others chose, of files, folders and machines: every format shows them, and none obeys them."""

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from pseudocode.published import CONFIGS
from pseudocode.test_tex import log_of
from transformulary.paper.practice import Practice, Training
from transformulary.pseudocode import FORMATS, describe, diff, run
from transformulary.pseudocode.nodes import Head
from transformulary.pseudocode.prose import prose

NAMES = [
    "<script>alert(1)</script>",
    "[l](u) ![i](u) <http://x.y>",
    "# `a` ``b`` *c* _d_ __e__ ~~f~~ a_b",
    "a | b & c &amp; $x$ \\ %d {e} ^f ~g",
    "a\x1b[31m\x00\nb\r\x7f\u202ec",
    "``` --- ''quoted'' \"q\" é ß 中 \udcff",
]
PAPER = CONFIGS["paper 10"]


def pages(name, form):
    """The name where names stand: a title, both sides of a difference, a fact in a sentence and in what is typed."""
    head = Head(name, (prose("A file {name} and `{name}`.", name=name),), (("", name), ("H", "1")))
    same = diff(PAPER, PAPER, form, (name, name))
    return [
        describe(PAPER, format=form, name=name),
        diff(PAPER, CONFIGS["Llama"], form, (name, "b")),
        same,
        run(PAPER, Practice(training=Training(N_steps=1)), form, head),
    ]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_moves_a_terminal(name, form):
    """No control character of a name is in a page, and no line of its own."""
    for page in pages(name, form):
        assert {"\n"} >= {c for c in page if not (c.isprintable() or c in "\u2061\u2062\u2063")}


class Seen(HTMLParser):
    """The tags of a page, and what is read of it."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.words = set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.words += data


def visible(name):
    """A name as it is to be read."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@pytest.mark.parametrize("name", NAMES)
def test_markdown(name):
    """Rendered with HTML allowed, a page reads as the name does, and has the tags of any other page."""
    render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
    for page, usual in zip(pages(name, "markdown"), pages("a name", "markdown"), strict=True):
        seen, tags = Seen(render(page)), Seen(render(usual)).tags

        assert tags == seen.tags
        assert visible(name) in seen.words


@pytest.mark.parametrize("name", NAMES)
def test_html(name):
    """A page reads as the name does, and has the tags of any other page."""
    for page, usual in zip(pages(name, "html"), pages("a name", "html"), strict=True):
        assert Seen(usual).tags == Seen(page).tags
        assert visible(name) in Seen(page).words


def test_latex(tmp_path):
    """A document with all these names compiles, and no letter is missing."""
    name = " ".join(NAMES)
    for n, page in enumerate(pages(name, "latex")):
        (tmp_path / str(n)).mkdir()
        log = log_of(page, tmp_path / str(n))

        assert "Missing character" not in log
    assert r"\textless{}script\textgreater{}alert(1)" in page
    assert r"a \textbar{} b \& c" in page
    assert r"\textbackslash{}xe9" in page
