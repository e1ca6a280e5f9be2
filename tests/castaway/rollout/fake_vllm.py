"""Stands in for the Python of a vLLM environment: it says which build it has, and serves /health as --model says."""

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503 if behaviour == "sick" else 200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


if "-c" in sys.argv:
    print("vllm 0.32.0+cpu")
    sys.exit()
behaviour = Path(sys.argv[sys.argv.index("--model") + 1]).name
if behaviour == "dying":
    print("(EngineCore pid=7) ERROR 11-21 15:09:01 [core.py:1512] RuntimeError: no such weights\nand so on", flush=True)
    sys.exit(3)
subprocess.Popen([sys.executable, "-c", STUBBORN])
port = int(sys.argv[sys.argv.index("--port") + 1])
server = HTTPServer(("127.0.0.1", port), Health)
print(json.dumps({"arguments": sys.argv, "environment": dict(os.environ)}), flush=True)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
server.serve_forever()
