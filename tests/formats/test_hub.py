"""`hf://org/name` downloads what a model needs, and only where it is said; whatever prevents that is one line."""

import http.server
import json
import threading

import pytest

from formats.theirs import made
from transformulary.errors import CheckpointError, MissingExtra
from transformulary.formats import config_of, hub, open_source
from transformulary.formats.sources import COPIED
from transformulary.models import load

huggingface_hub = pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The hub, as far as a download asks it: the list of the files of `folder`, and each of them."""

    folder, asked = None, set()

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        what = self.path.partition("?")[0]
        name = what.rpartition("/")[2]
        if what.startswith("/api/models/org/tiny/tree/"):
            files = [{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "1"} for f in self.files()]
            self.answer(json.dumps(files).encode())
        elif what.startswith("/api/models/org/tiny"):
            about = {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": f.name} for f in self.files()]}
            self.answer(json.dumps(about).encode())
        elif what.startswith(f"/org/tiny/resolve/{COMMIT}/") and (self.folder / name).is_file():
            self.asked.add(name)
            self.answer((self.folder / name).read_bytes(), ETag=f'"{name}"')
        else:
            self.answer(b'{"error": "no such repository"}', 404, **{"X-Error-Code": "RepoNotFound"})

    def files(self):
        return sorted(self.folder.iterdir())

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A hub on this machine that has one model, org/tiny, and an empty cache."""
    made("llama").save_pretrained(tmp_path / "hub")
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "merges.txt", "chat_template.jinja"):
        (tmp_path / "hub" / name).write_text("not read")
    Hub.folder, Hub.asked = tmp_path / "hub", set()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Hub
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloaded(served, tmp_path):
    """Config, vocabulary and one form of the parameters come; then the model is found by its name alone."""
    fast = load("hf://org/tiny").model

    assert {"config.json", "generation_config.json", "model.safetensors", "merges.txt", "chat_template.jinja"} == (
        served.asked
    )
    assert open_source("org/tiny").folder == tmp_path / "cache" / "models--org--tiny" / "snapshots" / COMMIT
    assert fast.config == config_of("org/tiny")


def test_a_config_alone(served):
    """To describe a model its parameters are not needed."""
    config = config_of("hf://org/tiny")

    assert config == config_of(served.folder)
    assert "model.safetensors" not in served.asked


def test_nothing_without_being_told(served):
    """A name is looked for on this machine only; the message says how to download it."""
    with pytest.raises(CheckpointError, match=r"no such model. Nothing is downloaded unless you say hf://org/tiny"):
        load("org/tiny")

    assert served.asked == set()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hf://org/unknown", "hf://org/unknown cannot be downloaded .*RepositoryNotFoundError"),
        ("hf://", "hf:// cannot be downloaded"),
        ("hf://a/b/c", "hf://a/b/c cannot be downloaded"),
        ("hf://../../etc", "hf://../../etc cannot be downloaded"),
    ],
)
def test_not_there(served, url, message):
    """What the hub does not have, and what is no name, is one line."""
    with pytest.raises(CheckpointError, match=f"^{message}") as error:
        load(url)

    assert "\n" not in str(error.value)


def test_no_network(served, monkeypatch):
    """Offline, whether by the network's will or the user's, one line says so and where else models are found."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"\(OfflineModeIsEnabled: .* found by org/tiny, without hf://"):
        load("hf://org/tiny")


def test_nobody_there(served, monkeypatch):
    """A hub that does not answer is one line."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")

    with pytest.raises(CheckpointError, match=r"hf://org/tiny cannot be downloaded \(.*Connect") as error:
        load("hf://org/tiny")
    assert "\n" not in str(error.value)


def test_without_the_library(monkeypatch):
    """Without huggingface_hub the message is what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"needs huggingface_hub.*pip install 'transformulary\[hub\]'"):
        load("hf://org/tiny")


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["pytorch_model.bin", "flax_model.msgpack"], ["pytorch_model.bin"]),
        (
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"],
        ),
        (["onnx/model.safetensors", "model.fp16.safetensors", "pytorch_model.bin"], ["pytorch_model.bin"]),
        (["source.spm", "README.md", "spiece.model", "merges.txt", "training_args.bin"], None),
    ],
)
def test_what_is_needed(files, wanted):
    """One form of the parameters, at the top of the repository; what makes a vocabulary; nothing else."""
    found = list(hub.needed(files, COPIED, ("model.safetensors", "pytorch_model.bin")))

    assert found == (wanted or ["merges.txt", "source.spm", "spiece.model"])
