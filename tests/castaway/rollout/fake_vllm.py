"""Stands in for the Python of a vLLM environment; --model says how healthy it is, prompt and adapter what it draws."""

import json
import os
import signal
import subprocess
import sys
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
ADAPTERS: dict[str, str] = {}  # the hashes of those that it has now, by name


class Vllm(BaseHTTPRequestHandler):
    healthy = True

    def do_GET(self) -> None:
        self._answer(200 if self.healthy else 503)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, place = body.get("lora_name"), body.get("lora_path")
        if place:
            ADAPTERS[name] = sha256(Path(place, "adapter_model.safetensors").read_bytes()).hexdigest()
        elif name:
            del ADAPTERS[name]
        self._answer(200, None if name else completion(body))

    def _answer(self, status: int, content: object = None) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """A reply of tokens of the prompt, with invented log-probabilities."""
    random, stop = Random(f"{ADAPTERS[body['model']]} {body['prompt']}"), body["stop_token_ids"][:1]
    others = sorted({*body["prompt"]} - {*body["stop_token_ids"]})
    tokens = random.choices(others, k=random.randrange(body["max_tokens"])) + stop
    logprobs = [-4 * random.random() for _ in tokens]
    return {"choices": [{"token_ids": tokens, "logprobs": {"token_logprobs": logprobs}}]}


def install(environment: Path) -> Path:
    """Make a folder that looks like an environment with vLLM."""
    python = environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    python.chmod(0o755)
    return environment


if __name__ == "__main__":
    if "-c" in sys.argv:
        print("vllm 0.32.0+cpu")
        sys.exit()
    behaviour = Path(sys.argv[sys.argv.index("--model") + 1]).name
    if behaviour == "dying":
        error = "[core.py:1512] RuntimeError: no such weights\nand so on"
        print(f"(EngineCore pid=7) ERROR 11-21 15:09:01 {error}", flush=True)
        sys.exit(3)
    subprocess.Popen([sys.executable, "-c", STUBBORN])
    Vllm.healthy = behaviour != "sick"
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Vllm)
    print(json.dumps({"arguments": sys.argv, "environment": dict(os.environ)}), flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    server.serve_forever()
