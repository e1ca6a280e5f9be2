"""The commit of a run, and whether the code differs from it."""

import subprocess
from pathlib import Path

from flows.revision import revision


def test_a_revision_is_dirty_by_code_and_params_not_by_what_stages_write(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")

    assert revision(tmp_path) == "none"
    for path in ("dvc.lock", "data/metrics.json", "params.yaml", "stages/sft.py"):
        write(path, "1\n")
    write(".gitignore", "*.pyc\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=all")
    clean = revision(tmp_path)
    assert len(clean) == 40
    for path in ("dvc.lock", "data/metrics.json", "data/new.json", "notes.txt", "stages/sft.pyc"):
        write(path, "2\n")
        assert revision(tmp_path) == clean, path
    # A new module is imported like any other, though git does not track it.
    write("stages/new.py", "2\n")
    assert revision(tmp_path) == f"{clean}+dirty"
    (tmp_path / "stages/new.py").unlink()
    assert revision(tmp_path) == clean
    write("params.yaml", "2\n")
    assert revision(tmp_path) == f"{clean}+dirty"
