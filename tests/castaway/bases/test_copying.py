"""A model that begins with copying goes on as the text before went on, untrained."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from castaway.bases.copying import begin_with_copying
from castaway.bases.tiny import new_model, train_tokenizer
from castaway.config.params import Params
from tests.shipped import PARAMS

TOKENIZER = train_tokenizer(["a b c"] * 3, 300, [f"word{number}" for number in range(1500)])


@pytest.mark.parametrize(("size", "least"), [({}, 0.4), ({"hidden_size": 64, "layers": 2}, 0.1)])
def test_what_followed_once_is_expected_again(size: dict[str, int], least: float) -> None:
    torch.manual_seed(1)
    model = new_model(PARAMS.base.model_copy(update=size), TOKENIZER).eval()
    words = torch.randint(300, len(TOKENIZER), (32, 20))
    twice = torch.cat([words, words], dim=1)

    def found() -> float:
        with torch.inference_mode():
            expected = model(twice).logits[:, 20:-1].argmax(-1)
        return float((expected == twice[:, 21:]).float().mean())

    assert found() < 0.02
    begin_with_copying(model)
    assert found() > least


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 20), st.booleans(), st.sampled_from(["copying", "drawn"]))
def test_every_size_that_is_accepted_can_be_built(
    layers: int, heads: int, size: int, uneven: bool, attention: str
) -> None:
    others = {name: getattr(PARAMS, name) for name in Params.model_fields}
    base = {**PARAMS.base.model_dump(), "layers": layers, "heads": heads, "hidden_size": heads * size + uneven}
    bases = {name: one.model_copy(update={"attention": attention}) for name, one in PARAMS.bases.items()}
    try:
        params = Params.model_validate({**others, "base": base, "bases": bases})
    except ValueError:
        return
    model = new_model(params.base, TOKENIZER)
    if attention == "copying":
        begin_with_copying(model)
    tokens = torch.arange(12)[None]
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())
