"""A harness of verifiers that runs in this process: it asks the model once, and returns.

verifiers' own chat harnesses start a program for each turn, which first fetches its packages. This one needs neither a
program nor a network. It has no tools: verifiers refuses to pair it with a task that brings some.
"""

from __future__ import annotations

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire


class ChatHarnessConfig(vf.HarnessConfig):
    """No settings of its own."""


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """One question, one answer; a conversation is asked again with all that was said."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask through the interception server, as verifiers demands; the trace holds the answer."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or ()]
        # How long a policy may think is not ours to limit: the task and the agent have time limits of their own.
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                json={"model": ctx.model, "messages": messages},
                headers={"Authorization": f"Bearer {secret}"},
            )
        failed = answer.status_code != 200
        return vf.ProgramResult(exit_code=int(failed), stdout="", stderr=answer.text if failed else "")
