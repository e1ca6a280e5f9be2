"""A model that begins with copying goes on as the text before went on, untrained."""

from pathlib import Path

import pytest
import torch

from castaway.models.copying import begin_with_copying
from castaway.models.tiny import new_model, train_tokenizer
from castaway.tasks.registry import read_params

SHIPPED = read_params(Path(__file__).parents[3] / "params.yaml").base
TOKENIZER = train_tokenizer(["a b c"] * 3, 300, [f"word{number}" for number in range(1500)])


@pytest.mark.parametrize(("size", "least"), [({}, 0.4), ({"hidden_size": 64, "layers": 2}, 0.1)])
def test_what_followed_once_is_expected_again(size: dict[str, int], least: float) -> None:
    torch.manual_seed(1)
    model = new_model(SHIPPED.model_copy(update=size), TOKENIZER).eval()
    words = torch.randint(300, len(TOKENIZER), (32, 20))
    twice = torch.cat([words, words], dim=1)

    def found() -> float:
        with torch.inference_mode():
            expected = model(twice).logits[:, 20:-1].argmax(-1)
        return float((expected == twice[:, 21:]).float().mean())

    assert found() < 0.02
    begin_with_copying(model)
    assert found() > least


def test_the_two_heads_look_where_they_should() -> None:
    torch.manual_seed(1)
    model = new_model(SHIPPED, TOKENIZER).eval()
    begin_with_copying(model)
    model.set_attn_implementation("eager")
    words = torch.randint(300, len(TOKENIZER), (16, 20))
    with torch.inference_mode():
        first, second, *_ = model(torch.cat([words, words], dim=1), output_attentions=True).attentions
    place = torch.arange(21, 39)
    assert first[:, 0, place, place - 1].mean() > 0.9
    assert second[:, 0, place, place - 19].mean() > 0.4
