"""A prompt that the server refuses costs one reply; a server that fails is an error of one sentence."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from castaway.config.errors import CastawayError
from castaway.rollout.sampling import SamplingRules
from castaway.rollout.served_policy import ServedPolicy
from castaway.tasks.environment import Prompt
from tests.castaway.rl.small import student

LONGEST = 40


class Completions(BaseHTTPRequestHandler):
    """Replies with the tokens 5 and 1; refuses long prompts, and fails for one of two tokens."""

    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        self.send_response(500 if len(prompt) == 2 else 400 if len(prompt) > LONGEST else 200)
        self.end_headers()
        choice = {"token_ids": [5, 1], "logprobs": {"token_logprobs": [-0.5, -0.25]}}
        self.wfile.write(json.dumps({"choices": [choice]} if len(prompt) <= LONGEST else "too long").encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def policy() -> Iterator[ServedPolicy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _, tokenizer = student()
    rules = SamplingRules(1.0, 8, tokenizer.stops, tokenizer.pad)
    yield ServedPolicy(f"http://127.0.0.1:{server.server_port}/v1", tokenizer, rules)
    server.shutdown()
    server.server_close()


def prompt(words: int) -> Prompt:
    return Prompt("walker", "walker", ({"role": "user", "content": "which way " * words},), None)


def test_a_refused_prompt_costs_one_reply(policy: ServedPolicy) -> None:
    with pytest.warns(UserWarning, match=r"1 of 3 prompts were refused: .*too long"):
        first, refused, last = policy([prompt(1), prompt(100), prompt(1)])
    assert first == last and (first.tokens, first.logprobs) == ([5, 1], [-0.5, -0.25])
    assert refused.text == "" and not refused.cut_off and len(refused.prompt_tokens) > LONGEST
    # It was put there with certainty: the importance of its token is what the policy itself gives it.
    assert len(refused.tokens) == 1 and refused.logprobs == [0.0]
    with pytest.warns(UserWarning, match="1 of 1 prompts"):
        assert policy([prompt(100)]) == [refused], "the last of a round too"


@pytest.mark.parametrize("rows", [[[1] * 50, [1] * 60], [[1], [1, 2]]])
def test_a_server_that_takes_none_or_fails_is_an_error(policy: ServedPolicy, rows: list[list[int]]) -> None:
    with pytest.raises(CastawayError, match=r"the sampler at http://127.* failed .*; look into its log"):
        policy.draw(rows)
