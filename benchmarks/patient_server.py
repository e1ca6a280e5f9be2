"""A simulated teacher server with a fixed time per question: `python -m benchmarks.patient_server SECONDS`.

It answers one question every SECONDS seconds, in the order of arrival, like a server on a remote GPU: the waiting uses
no core of this machine. Its verdicts on legality are always correct. It prints its port, and ends when its standard
input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys

LEGAL = "legal_actions"


class Queue:
    """Computes when the answer to a question is ready: a fixed time after its arrival, or after the previous answer."""

    free = 0.0
    """When all answers so far are ready, in seconds of the event loop's clock."""

    async def wait(self, seconds: float) -> None:
        """Wait until the answer to a question that arrives now is ready."""
        now = asyncio.get_running_loop().time()
        self.free = max(now, self.free) + seconds
        await asyncio.sleep(self.free - now)


QUEUE = Queue()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the questions of one connection, one after another."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            question = json.loads(await reader.readexactly(length))
            await QUEUE.wait(float(sys.argv[1]))
            message = {"content": json.dumps(verdict(question["messages"][1]["content"]))}
            body = json.dumps({"model": question["model"], "choices": [{"message": message}]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def verdict(content: str) -> dict[str, object]:
    """A verdict that is correct about legality, with the first legal action as the correction."""
    data = json.loads(content.removeprefix("<data>\n").removesuffix("\n</data>"))
    said = [line.removeprefix("ACTION: ") for line in data["answered"].split("\n") if line.startswith("ACTION: ")]
    valid = bool(said) and said[0] in data[LEGAL]
    return {
        "valid": valid,
        "action": said[0] if valid else data[LEGAL][0],
        "penalty": 0 if valid else -1,
        "critique": "",
    }


async def serve() -> None:
    """Serve until standard input is closed."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
