"""The tiny base model: a Llama of about a million parameters with its own tokenizer, chat template and training text.

It replaces an instruct model where there is no GPU or network: same code, same files, a tiny fraction of the size.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from castaway.config.bases import BaseTextParams
from castaway.config.sections import BaseParams
from castaway.models.rotary import use_in_llama
from castaway.tasks.draws import place_of
from castaway.tasks.environment import Message, Prompt, ids_in_a_row
from castaway.tasks.registry import load_task
from castaway.tasks.task import Task

PAD, END = "<|pad|>", "<|end|>"
SPECIAL_TOKENS = [PAD, END, "<|system|>", "<|user|>", "<|assistant|>"]
CONTEXT = 512  # maximum number of tokens of the tiny model

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|' + message['role'] + '|>' -}}"
    "{%- if message['role'] == 'assistant' -%}"
    "{%- generation -%}{{- message['content'] + '<|end|>' -}}{%- endgeneration -%}"
    "{%- else -%}{{- message['content'] + '<|end|>' -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""Every message ends with the stop token. It is inside the `generation` block, so the loss on replies includes it."""


def train_tokenizer(texts: Iterable[str], vocabulary: int, words: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer for any Unicode text; each of `words`, with its leading space, is one token more."""
    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(r"\n| ?[^\s]+|\s"), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if words:
        tokenizer.model = _with_whole_words(tokenizer, byte_level, words)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def _with_whole_words(tokenizer: Tokenizer, byte_level: pre_tokenizers.ByteLevel, words: Iterable[str]) -> models.BPE:
    """The tokenizer's BPE model with `words` added; it looks up a whole word before it merges, as Llama 3's does."""
    learned = json.loads(tokenizer.to_str())["model"]
    vocabulary = dict(learned["vocab"])
    for word in words:
        ((piece, _),) = byte_level.pre_tokenize_str(f" {word}")
        vocabulary.setdefault(piece, len(vocabulary))
    return models.BPE(vocabulary, [tuple(merge) for merge in learned["merges"]], ignore_merges=True)


def new_model(params: BaseParams, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """An untrained model of the size given by the parameters, initialised from torch's global generator."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=params.hidden_size,
        intermediate_size=3 * params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        num_key_value_heads=params.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        # The usual 0.02 is for widths of thousands; at this width, the first minutes of training would learn nothing.
        initializer_range=params.hidden_size**-0.5,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    use_in_llama()
    return LlamaForCausalLM(config)


@dataclass(frozen=True, slots=True)
class Document:
    """A situation with one or more replies; the first is the demonstrator's."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


def scripted_documents(params: BaseParams, text: BaseTextParams, seed: int) -> list[Document]:
    """The turns of scripted episodes of all tasks in `text`; some of the replies (`params.slips`) break the format."""
    return [
        document
        for name, own in text.text.items()
        for document in _documents(params, text.synthetic_share, load_task(name, own.game), own.episodes, seed)
    ]


def task_words(text: BaseTextParams) -> list[str]:
    tasks = [load_task(name, own.game) for name, own in text.text.items()]
    return sorted({word for task in tasks for word in task.vocabulary()})


def _documents(params: BaseParams, share: float, task: Task[Any], episodes: int, seed: int) -> Iterator[Document]:
    environment = task.make()
    # These ids are below those of the dataset stage, so pretraining sees no episode of the dataset.
    for task_id in ids_in_a_row(task.training_ids(), place_of("base text", seed), episodes):
        random = Random(task_id)
        environment.reset(task_id, task.scripted_seat)
        play = task.demonstrator(random, params.random_action_rate)
        while not environment.done:
            actions = {}
            for prompt in environment.prompts():
                reply = play(prompt)
                actions[prompt.agent] = reply.action
                # A synthetic situation replaces only the text: the episode goes on with the action in the real one.
                shown: Prompt = prompt
                if task.makes_synthetic and random.random() < share:
                    shown = task.synthetic(environment, prompt, random)
                    reply = play(shown)
                replies = [reply, *task.practice(shown.observation, random, params.practice)]
                texts = [task.slip(one, random) if random.random() < params.slips else str(one) for one in replies]
                yield Document(shown.messages, tuple(texts))
            environment.step(actions)
