"""Uploads the merged model of a run to the Hugging Face Hub, with a model card that says what made it.

The card is the one in the model's folder, with the results of the evaluation and the lineage below it. Nothing in the
repository is changed.
"""

from collections.abc import Mapping
from pathlib import Path

from castaway.config.errors import CastawayError
from castaway.metrics.built import from_stage, locked_stages
from castaway.metrics.markdown import table
from castaway.metrics.results import results_table
from castaway.tools.lineage import ancestry

CARD = "README.md"
KEPT = (".safetensors", ".json", ".jinja", ".txt", ".model")  # endings of the files of a model that are uploaded


LOCAL = ("base_model: tiny", "How well it plays is in ")
"""Beginnings of lines that say something in the clone alone: there is no such model on the Hub, and no such file."""


def upload_of(root: Path, run: str, repository: str) -> tuple[dict[str, Path], str]:
    """The files of a run's merged model by name, and its card for the repository on the Hub.

    Raises:
        CastawayError: the model is not here, or not evaluated.
    """
    folder = root / "data" / run / "merge"
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model; `dvc repro merge@{run}` or `dvc pull merge@{run}` brings it")
    files = {path.name: path for path in sorted(folder.iterdir()) if path.suffix in KEPT}
    card = (folder / CARD).read_text("utf-8") if (folder / CARD).is_file() else f"# {run}\n"
    card = "\n".join(line for line in card.split("\n") if not line.startswith(LOCAL))
    card = card.replace(f'"data/{run}/merge"', f'"{repository}"')
    results = from_stage(root, run, "evaluate", results_table)
    ancestors = [
        [one.stage, one.outputs.get(one.artifact, ""), one.run or "unknown", one.commit]
        for one in ancestry(root, locked_stages(root), f"merge@{run}")
    ]
    lineage = table(["stage", "md5 of its output", "MLflow run", "commit"], ancestors, figures=False)
    parts = [card.rstrip(), "## Results on held-out episodes", results, "## What made it", lineage]
    return files, "\n\n".join(parts) + "\n"


def publish(files: Mapping[str, Path], card: str, repository: str, *, private: bool, message: str) -> str:
    """Create the repository `OWNER/NAME` on the Hub if need be, upload all in one commit, and return its address."""
    from httpx2 import HTTPError  # the Hub's client lets its errors through
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HFValidationError

    api = HfApi()
    operations = [CommitOperationAdd(name, path) for name, path in files.items()]
    operations.append(CommitOperationAdd(CARD, card.encode()))
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.create_commit(repository, operations, commit_message=message).commit_url)
    except (HTTPError, HFValidationError, OSError) as error:
        reason = " ".join(str(error).split())
        raise CastawayError(
            f"{repository} was not uploaded to {api.endpoint}: {reason}; set HF_TOKEN to a token that may write there"
        ) from None
