"""Without bitsandbytes; with it, tests/nf4 looks at weights in 4 bits."""

from pathlib import Path

import pytest

from castaway.config.errors import CastawayError
from castaway.models import four_bit
from castaway.models.policy import load_model


def test_without_bitsandbytes_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(four_bit, "find_spec", lambda name: None)
    with pytest.raises(CastawayError, match=r"^dtype: nf4 needs the package bitsandbytes; install it with"):
        load_model(tmp_path, dtype="nf4")
