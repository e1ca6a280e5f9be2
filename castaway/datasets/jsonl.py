"""Training data as JSON lines in TRL's conversational form, written and read with declared features.

    load_dataset("data/marooned/dataset", "demonstrations")     for SFTTrainer
    load_dataset("data/marooned/dataset", "pairs")              for RewardTrainer and DPOTrainer
    load_dataset("json", data_files="data/marooned/ppo/corrections.jsonl")

A row is a dictionary. Its texts are lists of chat messages, those of a reply with the assistant's message alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset, DatasetInfo, Features, List, Value
from datasets.info import DatasetInfosDict
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCardData

from castaway.config.errors import CastawayError
from castaway.tasks.environment import Message

Row = Mapping[str, Any]

MESSAGES = List({"role": Value("string"), "content": Value("string")})
DEMONSTRATIONS = Features(prompt=MESSAGES, completion=MESSAGES, role=Value("string"))
"""A situation and the demonstrator's reply; `role` is that of the agent, such as colonist or traitor."""
PAIRS = Features(prompt=MESSAGES, chosen=MESSAGES, rejected=MESSAGES)
"""A situation, a reply that suits it, and a worse one."""
CORRECTIONS = Features(
    prompt=MESSAGES,
    completion=MESSAGES,
    chosen=MESSAGES,
    rejected=MESSAGES,
    kept=Value("string"),
    critique=Value("string"),
    penalty=Value("float64"),
    source=Value("string"),
)
"""The right reply is there twice, as `completion` for SFT and as `chosen` for DPO: one file feeds both trainers."""


def as_reply(text: str) -> list[Message]:
    return [{"role": "assistant", "content": text}]


def reply_text(messages: Sequence[Message]) -> str:
    return messages[-1]["content"]


def demonstration(prompt: Sequence[Message], reply: str, role: str) -> Row:
    """A row of `DEMONSTRATIONS`."""
    return {"prompt": list(prompt), "completion": as_reply(reply), "role": role}


def pair(prompt: Sequence[Message], chosen: str, rejected: str) -> Row:
    """A row of `PAIRS`."""
    return {"prompt": list(prompt), "chosen": as_reply(chosen), "rejected": as_reply(rejected)}


def write_rows(path: Path, rows: Iterable[Row], features: Features) -> None:
    """Write rows; equal rows give equal bytes."""
    held = list(rows)
    columns = {name: [row[name] for row in held] for name in features}
    Dataset.from_dict(columns, features=features).to_json(path, force_ascii=False, double_precision=15)


def read_rows(path: Path, features: Features) -> Dataset:
    """Read rows that `write_rows` wrote into memory; nothing is left in a cache."""
    if not path.is_file():
        raise CastawayError(f"{path} does not exist; `dvc repro` builds it")
    if path.stat().st_size == 0:
        return Dataset.from_dict({name: [] for name in features}, features=features)
    try:
        with TemporaryDirectory() as cache:
            rows = Dataset.from_json(str(path), features=features, cache_dir=cache, keep_in_memory=True)
    except Exception as error:
        raise CastawayError(f"{path} has not the columns {', '.join(features)}; build it again") from error
    assert isinstance(rows, Dataset)
    return rows


def card_header(files: Mapping[str, tuple[Features, Mapping[str, str]]]) -> str:
    """The head of a README.md that tells `load_dataset` the features and the file of each split, by configuration."""
    data = DatasetCardData()
    infos = {name: DatasetInfo(features=features, config_name=name) for name, (features, _) in files.items()}
    DatasetInfosDict(infos).to_dataset_card_data(data)
    configs = {
        name: {"data_files": [{"split": split, "path": path} for split, path in splits.items()]}
        for name, (_, splits) in files.items()
    }
    MetadataConfigs(configs).to_dataset_card_data(data)
    return f"---\n{data}\n---\n"
