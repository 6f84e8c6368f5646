"""The picture of attention."""

import struct
import subprocess
import sys

import numpy as np
import pytest

from transformulary.errors import MissingExtra
from transformulary.view import attention_png, whole
from transformulary.view.image import LETTERS, _drawable, _shortened, draw
from view.examples import HOSTILE, weights


def size(png):
    """Width and height of a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize(("L", "H", "ell"), [(1, 1, 1), (1, 1, 22), (2, 3, 22), (1, 1, 500)])
def test_any_prompt_has_a_picture(L, H, ell):
    """One head or many, one token or hundreds, signs that others take for markup: a picture without a warning."""
    tokens = (HOSTILE * ell)[:ell]

    png = attention_png([whole(tokens, weights(L, H, ell))], "".join(HOSTILE))

    width, height = size(png)
    assert 500 < width < 2000
    assert 300 < height < 2000


def test_the_same_picture_twice():
    """Equal weights give equal bytes."""
    first, second = (attention_png([whole(["a", "b"], weights(1, 2, 2))]) for _ in range(2))

    assert first == second


def test_the_picture_shows_its_colours():
    """The cell of weight 1 is drawn in the last colour of the map, and a masked one not at all."""
    from io import BytesIO

    from matplotlib.image import imread

    from transformulary.view.colours import LIGHT, palette

    png = attention_png([whole(["a", "b"], [np.array([[[1.0, 0.0], [0.5, 0.5]]])])])

    pixels = (255 * imread(BytesIO(png))[..., :3]).round().astype(int).reshape(-1, 3)
    count = {tuple(colour): n for colour, n in zip(*np.unique(pixels, axis=0, return_counts=True), strict=True)}
    full, half = tuple(palette(LIGHT)[255].tolist()), tuple(palette(LIGHT)[181].tolist())
    assert 2 == round(count[half] / count[full])


def test_a_character_without_a_glyph_is_its_number():
    """What the font lacks is written as a number, and nothing else changes."""
    assert "$x_1^2$ ⟨U+65E5⟩" == _drawable("$x_1^2$ 日")


def test_text_is_literal():
    """No label and no title is read as mathematics or TeX: '$x_1$' is five characters."""
    from matplotlib.text import Text

    figure = draw([whole(["$x_1$"], weights(1, 1, 1))], "$a^2$")

    texts = [text for text in figure.findobj(Text) if "$" in text.get_text() and text.get_visible()]
    assert ["$a^2$", "$x_1$", "$x_1$"] == sorted(text.get_text() for text in texts)
    assert not any(text.get_parse_math() or text.get_usetex() for text in texts)


@pytest.mark.parametrize("label", ["", "a" * LETTERS, "a" * (LETTERS + 1), "a" * 1000])
def test_labels_are_short(label):
    """A long token is cut, and says so."""
    assert len(_shortened(label)) <= LETTERS
    assert (_shortened(label) == label) == (len(label) <= LETTERS)


def test_plotting_elsewhere_is_left_alone():
    """Nothing global changes: pyplot is not imported, so neither its figures nor its backend are touched."""
    code = """if True:
        import sys
        from transformulary.view import attention_png, whole
        before = "matplotlib" in sys.modules
        attention_png([whole(["a"], [[[[1.0]]]])])
        assert (before, "matplotlib.pyplot" in sys.modules) == (False, False)"""

    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True)

    assert (0, b"") == (done.returncode, done.stderr)


def test_matplotlib_is_asked_for_by_name(monkeypatch):
    """Without matplotlib the error is the line that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingExtra, match=r"pip install 'transformulary\[plot\]'"):
        attention_png([whole(["a"], weights(1, 1, 1))])


def test_three_kinds_of_attention_are_one_picture():
    """One below the other, each panel as wide and as high as its weights, and named."""
    stacks = [
        whole(["a"] * 4, weights(1, 2, 4, causal=False), kind="encoder", line="8.5"),
        whole(["b"] * 2, weights(1, 1, 2), kind="decoder", line="8.14"),
        whole(["b"] * 2, [np.full((1, 2, 4), 0.25)], ["a"] * 4, "cross", "8.16"),
    ]

    figure = draw(stacks, "Three")

    panels = [axes for axes in figure.axes if axes.get_title()]
    names = [
        "encoder: layer 1, head 1",
        "encoder: layer 1, head 2",
        "decoder: layer 1, head 1",
        "cross: layer 1, head 1",
    ]
    assert names == [panel.get_title() for panel in panels]
    assert [(4, 4), (4, 4), (2, 2), (2, 4)] == [panel.images[0].get_array().shape for panel in panels]
    boxes = [panel.get_position().bounds for panel in panels]
    heights = [bottom for _, bottom, _, _ in boxes]
    assert heights == sorted(heights, reverse=True)
    width, height = figure.get_size_inches()
    assert boxes[3][2] * width == pytest.approx(2 * boxes[3][3] * height)
    assert "run by lines 5, 14, 16 of Algorithm 8" in "".join(text.get_text() for text in figure.texts)
