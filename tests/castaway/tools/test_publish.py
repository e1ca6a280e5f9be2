"""A model is uploaded over HTTP to a local stand-in of the Hub's API, by the Hub's own client."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from castaway.errors import CastawayError
from castaway.tools.publish import publish, upload_of

LOCK = """\
schema: '2.0'
stages:
  merge@one:
    cmd: 'python -m flows merge@one # merge: '
    outs: [{path: data/one/merge, md5: mmmmmmmm1}]
"""
RATES = {"success_rate": 0.5, "success_rate_low": 0.4, "success_rate_high": 0.6, "episodes": 100, "mean_return": 1.0}
FIGURES = {**RATES, "invalid_rate": 0.01, "invalid_rate_low": 0.0, "invalid_rate_high": 0.02}


class Hub(ThreadingHTTPServer):
    """What the client needs of the Hub: create a repository, and take a commit."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []
        self.created: dict[str, object] = {}
        self.files: dict[str, bytes] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(self.path)
        if self.headers.get("Authorization") != "Bearer hf_right":
            self._answer({"error": "You may not write here"}, 403)
        elif self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            self._answer({"url": f"{self.server.address}/you/one", "name": "you/one"})
        elif self.path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            self._answer({"files": [{**one, "uploadMode": "regular", "shouldIgnore": False} for one in files]})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        else:
            assert self.path == "/api/models/you/one/commit/main"
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    self.server.files[value["path"]] = base64.b64decode(value["content"])
            self._answer({"commitUrl": f"{self.server.address}/you/one/commit/{'a' * 40}", "commitOid": "a" * 40})

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self._answer({"error": "not here"}, 404)

    def _answer(self, content: object, status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    def write(path: str, text: str) -> None:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    evaluated = json.dumps({"sft": FIGURES, "final": FIGURES})
    write("dvc.lock", LOCK)
    write("params.yaml", "seed: 1\n")
    write("data/one/merge/README.md", "---\nlibrary_name: transformers\n---\n\n# Castaway: one\n")
    write("data/one/merge/config.json", "{}")
    write("data/one/merge/model.safetensors", "weights")
    write("data/one/merge/notes.bak", "no part of it")
    write("data/one/metrics/evaluate.json", evaluated)
    record = {"run_id": "therun", "revision": "c" * 40, "stage_key": "x", "began": "2026-01-02"}
    write("data/one/runs/merge.json", json.dumps({**record, "outputs": {"data/one/merge": "mmmmmmmm1"}}))
    return tmp_path


def pushed(root: Path, hub: Hub, *options: str, token: str = "hf_right") -> subprocess.CompletedProcess[str]:
    hidden = {"HF_HUB_OFFLINE", "HF_TOKEN"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [sys.executable, "-m", "castaway.cli.main", "push", "one", "you/one", "--root", str(root), *options],
        env={**kept, "HF_ENDPOINT": hub.address, "HF_TOKEN": token, "HF_HOME": str(root / "hub")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_uploaded_with_its_lineage(root: Path, hub: Hub) -> None:
    before = {path: hashlib.md5(path.read_bytes()).hexdigest() for path in root.glob("data/**/*.*")}
    done = pushed(root, hub, "--yes")
    assert (done.returncode, done.stdout) == (0, f"{hub.address}/you/one/commit/{'a' * 40}\n"), done.stderr
    assert (hub.created["name"], hub.created["organization"]) == ("one", "you")
    assert hub.created.get("visibility") == "private" or hub.created.get("private") is True
    assert set(hub.files) == {"README.md", "config.json", "model.safetensors"}
    assert hub.files["model.safetensors"] == b"weights"
    card = hub.files["README.md"].decode()
    assert card.startswith("---\nlibrary_name: transformers\n---")
    assert "50.0 % (40.0 to 60.0)" in card
    assert "data/one/merge" in card and "mmmmmmmm1" in card and "therun" in card
    assert before == {path: hashlib.md5(path.read_bytes()).hexdigest() for path in root.glob("data/**/*.*")}


def test_nothing_is_uploaded_unless_asked(root: Path, hub: Hub) -> None:
    done = pushed(root, hub)
    assert done.returncode == 0 and done.stdout.endswith("nothing was uploaded; --yes does it\n")
    assert "model.safetensors" in done.stdout and "therun" in done.stdout
    assert hub.asked == []


def test_a_refusal_is_one_sentence(root: Path, hub: Hub) -> None:
    done = pushed(root, hub, "--yes", token="hf_wrong")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"you/one was not uploaded to {hub.address}" in done.stderr and "HF_TOKEN" in done.stderr
    assert hub.files == {}


def test_what_is_missing_is_told(root: Path) -> None:
    with pytest.raises(CastawayError, match=r"two/merge holds no model; `dvc repro merge@two`"):
        upload_of(root, "two")
    with pytest.raises(CastawayError, match="a b was not uploaded"):
        publish(upload_of(root, "one"), "a b", private=True, message="x")
