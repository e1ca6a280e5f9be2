"""A stage that was sent elsewhere, and that nobody will end."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import UUID

import pytest
from prefect.exceptions import ObjectNotFound

from castaway.errors import CastawayError
from flows import elsewhere
from flows.report import Step


def test_a_run_that_was_deleted_on_the_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful:
        def read_flow_run(self, number: UUID) -> None:
            raise ObjectNotFound(OSError("404"))

    monkeypatch.setattr(elsewhere, "connect", lambda: nullcontext(Forgetful()))
    monkeypatch.setattr(elsewhere, "POLL", 0.0)
    step = Step("ppo@marooned", (), "pool gpus", 60.0, ())
    with pytest.raises(CastawayError, match="ppo@marooned failed elsewhere: its run was deleted"):
        elsewhere._end(step, UUID(int=1))
