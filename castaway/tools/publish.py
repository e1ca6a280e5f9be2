"""Uploads the merged model of a run to the Hugging Face Hub, with a model card that says what made it.

The card is the one in the model's folder, with the results of the evaluation and the lineage below it. Nothing in the
repository is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from castaway.errors import CastawayError
from castaway.metrics.cells import from_file
from castaway.metrics.results import results_table
from castaway.tools.lineage import show
from castaway.tools.lineage.ancestry import ancestry
from castaway.tools.lineage.locked import locked_stages

CARD = "README.md"
KEPT = (".safetensors", ".json", ".jinja", ".txt", ".model")
"""Endings of the files of a model that are uploaded."""


@dataclass(frozen=True)
class Upload:
    """What is uploaded."""

    files: Mapping[str, Path]
    """Name in the repository of the Hub to the file."""
    card: str

    @property
    def size(self) -> int:
        """Bytes of all files, without the card."""
        return sum(path.stat().st_size for path in self.files.values())


def upload_of(root: Path, run: str) -> Upload:
    """The files and the card of a run's merged model.

    Raises:
        CastawayError: the model is not here, was not evaluated, or has no lineage.
    """
    folder = root / "data" / run / "merge"
    if not (folder / "config.json").is_file():
        raise CastawayError(f"{folder} holds no model; `dvc repro merge@{run}` or `dvc pull merge@{run}` brings it")
    files = {path.name: path for path in sorted(folder.iterdir()) if path.suffix in KEPT}
    card = (folder / CARD).read_text("utf-8") if (folder / CARD).is_file() else f"# {run}\n"
    results = from_file(root / "data" / run / "metrics" / "evaluate.json", results_table)
    tree = show.text(show.grow(ancestry(root, locked_stages(root), f"merge@{run}")))
    parts = [card.rstrip(), "## Results on held-out episodes", results, "## What made it", f"```text\n{tree}\n```"]
    return Upload(files, "\n\n".join(parts) + "\n")


def publish(upload: Upload, repository: str, *, private: bool, message: str) -> str:
    """Create the repository on the Hub if need be, upload all in one commit, and return the commit's address.

    Args:
        upload: what.
        repository: `OWNER/NAME`.
        private: of a repository that is created.
        message: of the commit.

    Raises:
        CastawayError: the Hub refused, or could not be reached.
    """
    from httpx2 import HTTPError  # the Hub's client lets its errors through
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HFValidationError

    api = HfApi()
    operations = [CommitOperationAdd(name, path) for name, path in upload.files.items()]
    operations.append(CommitOperationAdd(CARD, upload.card.encode()))
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.create_commit(repository, operations, commit_message=message).commit_url)
    except (HTTPError, HFValidationError, OSError) as error:
        reason = " ".join(str(error).split())
        raise CastawayError(
            f"{repository} was not uploaded to {api.endpoint}: {reason}; set HF_TOKEN to a token that may write there"
        ) from None
