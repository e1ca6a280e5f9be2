"""What is shown while a build runs."""

from pathlib import Path

import pytest
from rich.console import Console

from flows.display import Display
from flows.logs import last_lines, last_text, new_log
from flows.steps import Outcome, Step

STEP = Step("correction_sft@tic_tac_toe", (), "cpu", 1.0, ())
NOISE = """\
Running stage 'sft@marooned':
> python -m flows sft@marooned
/site-packages/transformers/training_args.py:1541: FutureWarning: `old` is deprecated and will be removed in v6.
  warnings.warn(f"`{old}` is deprecated and will be removed in v6.", FutureWarning)

Updating lock file 'dvc.lock'

Use `dvc push` to send your updates to remote storage.
"""


def test_the_last_of_a_log_is_what_a_terminal_would_show(tmp_path: Path) -> None:
    log = new_log(tmp_path, "sft@marooned")
    assert last_text(log) == ""
    log.write_bytes(b"first\n\nppo:  1%\rppo: 50%\r\x1b[1mppo\x1b[0m: 99%\r\n[bold] \xff\n")
    assert last_lines(log, 2) == ["ppo: 99%", "[bold] \ufffd"]
    log.write_bytes(b"first\n 7/9 steps\r")
    assert last_text(log) == "7/9 steps"
    assert last_lines(tmp_path / "missing", 1) == []
    assert new_log(tmp_path, "sft@marooned").read_bytes() == b""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("step 7 of 9\n", "step 7 of 9"),
        ("ppo:  10%|\u2588         | 1/10 [02:00<07:01, 46.83s/step, invalid=0.12]", "ppo 10 %, 1/10, 07:01 left"),
        ("  0%|          | 0/2358 [00:00<?, ?it/s]", "0 %, 0/2358"),
    ],
)
def test_noise_is_no_progress(tmp_path: Path, said: str, shown: str) -> None:
    log = new_log(tmp_path, STEP.address)
    log.write_text(f"{said}\n{NOISE}", "utf-8")
    assert last_text(log) == shown
    display, console = Display(tmp_path), Console(width=80)
    display.started(STEP)
    with console.capture() as capture:
        console.print(display.table())
    assert capture.get().rstrip() == f"correction_sft@tic_tac_toe  0:00  {shown}".rstrip()
    display.ended(Outcome(STEP, "Ran", 14.2))
    assert display.table().row_count == 0


def test_without_a_terminal_a_stage_has_a_line_at_its_start_and_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    display = Display(tmp_path, 3)
    new_log(tmp_path, STEP.address).write_text("the cause\n")
    display.started(STEP)
    display.ended(Outcome(STEP, "Ran", 14.24, "changed: ppo.steps, tasks.tic_tac_toe.correction_sft.epochs"))
    display.ended(Outcome(STEP, "Skipped", message="needs ppo@tic_tac_toe"))
    display.ended(Outcome(STEP, "Failed", 1.0, "it failed"))
    assert capsys.readouterr().out.split("\n") == [
        "correction_sft@tic_tac_toe  started",
        "1/3  correction_sft@tic_tac_toe  Ran  14.2 s  changed: ppo.steps, epochs",
        "2/3  correction_sft@tic_tac_toe  Skipped  needs ppo@tic_tac_toe",
        "3/3  correction_sft@tic_tac_toe  Failed  1.0 s",
        "  it failed",
        "    the cause",
        "  the full log is scratch/logs/correction_sft@tic_tac_toe.log",
        "",
    ]
