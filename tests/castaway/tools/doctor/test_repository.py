"""A real git repository: clean, changed, or none."""

from pathlib import Path

from castaway.tools.doctor.repository import repository
from tests.miniature import run


def test_what_differs_from_the_commit_is_a_warning(tmp_path: Path) -> None:
    for name in ("castaway.py", "dvc.lock", "data/metrics.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")
    run(tmp_path, "git", "init", "-q")
    (found,) = repository(tmp_path)
    assert found.state == "failed"
    run(tmp_path, "git", "add", "-A")
    run(tmp_path, "git", "commit", "-qm", "Everything")
    index = (tmp_path / ".git" / "index").read_bytes()
    assert repository(tmp_path)[0].state == "ok"
    # What a build writes, and what nobody has added, is no change of the code.
    for name in ("dvc.lock", "data/metrics.json", "notes.txt"):
        (tmp_path / name).write_text("2\n")
    assert repository(tmp_path)[0].state == "ok"
    (tmp_path / "castaway.py").write_text("2\n")
    (found,) = repository(tmp_path)
    assert found.state == "warning" and found.found.endswith("1 files differ from it: castaway.py")
    assert (tmp_path / ".git" / "index").read_bytes() == index


def test_a_folder_outside_git_has_failed(tmp_path: Path) -> None:
    (found,) = repository(tmp_path)
    assert found.state == "failed" and "git" in found.found and "\n" not in found.found
