"""transformulary translate."""

import io
import json
import sys

import pytest

from generate.answering import LINES, save_marian, sentencepiece
from nn.models import model
from transformulary import cli, load, models, translate
from transformulary.generate import Beam, EDInference, Sampling, translated
from transformulary.generate.edinference import Hypothesis
from transformulary.generate.translation import answer_defaults, spelled
from transformulary.paper import EDTransformerConfig
from transformulary.tokens import Tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_marian(tmp_path_factory.mktemp("marian"), num_beams=3)


def run(capsys, *words):
    """What a command prints, line by line."""
    status = cli.main(["translate", *words])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out.splitlines()


def test_lines_in_their_order(folder, capsys, tmp_path):
    """A line for each text, in the order of the texts, however they are given and put together."""
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    loaded = load(folder)
    frame = answer_defaults(loaded).frame
    right = []
    for line in LINES:
        z = loaded.tokenizer.framed(line).ids
        (found,) = EDInference(loaded.model, [z], 11, Beam(N_beam=3), frame=frame, ids=loaded.tokenizer.ids)
        right.append(loaded.tokenizer.decode(found.x[1 : -1 if found.x[-1] == 0 else None]))

    assert len({*right}) > 2
    assert right == run(capsys, folder, *LINES)
    assert right == run(capsys, folder, "--file", str(tmp_path / "lines.txt"), "--batch", "2")
    assert right == translate(loaded, LINES)


def test_standard_input(folder, capsys, monkeypatch):
    """Without texts, each line of standard input is one."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))

    assert translate(load(folder), LINES) == run(capsys, folder)


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (["--beam", "5"], Beam(N_beam=5)),
        (["--alpha", "2", "--until", "certain"], Beam(N_beam=3, alpha=2, until="certain")),
        (["--beam", "1"], Sampling(tau=0)),
        (["--temperature", "0"], Sampling(tau=0)),
        (["--sample"], Sampling()),
        (["--top-k", "5"], Sampling(top_k=5)),
        (["--temperature", "2", "--top-k", "9", "--top-p", "0.9"], Sampling(tau=2, top_k=9, top_p=0.9)),
    ],
)
def test_what_is_asked_for(words, how, folder, capsys):
    """The options are the values that Python takes; what is not given is what the model's files say."""
    found = [json.loads(line) for line in run(capsys, folder, *LINES, *words, "--seed", "3", "--json", "--max", "6")]

    right = list(translated(load(folder), LINES, how, 6, seed=3))
    assert [vars(one) for one in right] == [{k: v for k, v in one.items() if k != "source"} for one in found]
    assert LINES == [one["source"] for one in found]
    assert {"stop", "length"} >= {one["finish_reason"] for one in found}


def test_the_seed_of_a_text(folder):
    """The n-th text is answered as it is alone with the seed that is n more, whatever it is read with."""
    loaded = load(folder)

    together = translate(loaded, LINES, Sampling(tau=2), seed=7, batch=2)

    assert together == [translate(loaded, line, Sampling(tau=2), seed=7 + n)[0] for n, line in enumerate(LINES)]
    assert together != translate(loaded, LINES, Sampling(tau=2), seed=8, batch=2)


def test_what_the_files_say(tmp_path, capsys):
    """Forced tokens are obeyed and not told, and one at the end is a cut; what is suppressed never comes; it draws."""
    folder = save_marian(tmp_path, do_sample=True, forced_bos_token_id=5, forced_eos_token_id=0, max_length=5)
    loaded = load(folder)
    pad = loaded.tokenizer.vocabulary["<pad>"]

    for line in run(capsys, folder, *LINES, "--seed", "0", "--json"):
        one = json.loads(line)
        begin, first, *middle, last = one["tokens"]
        assert (begin, first, last, one["finish_reason"]) == (pad, 5, 0, "stop" if len(middle) < 2 else "length")
        assert not {pad, 0} & {*middle}
        assert one["text"] == loaded.tokenizer.decode(middle)


def test_special_tokens_are_no_text(folder):
    """A special token in the middle of an answer is one of its tokens, and nothing of its text."""
    loaded = load(folder)
    pad = loaded.tokenizer.vocabulary["<pad>"]

    one = spelled(loaded, answer_defaults(loaded), Hypothesis([pad, 5, pad, 6, 0], -1.0), 9)

    assert (one.tokens, one.text) == ([pad, 5, pad, 6, 0], loaded.tokenizer.decode([5, 6]))


def test_the_answers_pieces(folder):
    """An answer is cut by the target's pieces, a text by the source's."""
    tokenizer = load(folder).tokenizer
    line = "the cat sat on the mat"

    assert tokenizer.framed(line).ids != tokenizer.answer(line)
    target = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.content["target.spm"])
    assert [*(tokenizer.vocabulary.get(p, 1) for p in target.encode(line, out_type=str)), 0] == tokenizer.answer(line)


def test_ids_alone(tmp_path, capsys):
    """A model without a vocabulary answers ids with ids; the start token is its bos_token."""
    models.save(tmp_path, model(EDTransformerConfig(N_V=9, ell_max=8, L_enc=1, L_dec=1, H=2, d_e=8, d_mlp=8)))
    (tmp_path / "generation_config.json").write_text('{"bos_token_id": 7, "eos_token_id": 8}')

    (line,) = run(capsys, str(tmp_path), "--tokens", "1,2,3", "--json", "--max", "4")

    one = json.loads(line)
    assert one["tokens"][0] == 7
    shown = one["tokens"][1 : -1 if one["finish_reason"] == "stop" else None]
    assert one["text"] == " ".join(map(str, shown))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beam", "0"], "N_beam = 0 is outside [1, 256]"),
        (["--beam", "100000"], "N_beam = 100000 is outside [1, 256]"),
        (
            ["--beam", "2", "--sample"],
            "--beam searches for an answer; --sample, --temperature, --top-k and --top-p draw one",
        ),
        (["--until", "maybe"], "invalid choice: 'maybe'"),
        (["--alpha", "99"], "alpha = 99.0 is outside"),
        (["--temperature", "-1"], "temperature = -1.0"),
        (["--max", "0"], "argument --max: '0' is no number of tokens; one is the least"),
        (["--seed", "-1", "--sample"], "seed = -1 is outside"),
        (["--batch", "0"], "batch = 0: at least one text is read at a time"),
    ],
)
def test_bad_input(words, message, folder, capsys):
    """One line on stderr, nothing on stdout, exit status 2."""
    status = cli.main(["translate", folder, "dogs", *words])
    out, err = capsys.readouterr()

    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_generate_names_the_verb(folder, capsys):
    """`generate` has nothing to continue with an encoder-decoder, and says what to call instead."""
    assert cli.main(["generate", folder, "--prompt", "dogs"]) == 2
    assert "holds a marian, which is no decoder: `translate` is for such models." in capsys.readouterr().err


def test_no_encoder_decoder(tmp_path, capsys):
    """A decoder does not answer: it continues."""
    from cli.test_generate import save

    folder = save(tmp_path, Tokenizer.train("bytepairs", ["My grandma " * 9]))

    assert cli.main(["translate", folder, "My"]) == 2
    assert "holds a gpt2, and `translate` needs an encoder-decoder." in capsys.readouterr().err
