"""What `make setup` installs: all of it once, all of it needed, all of it checked, and no CUDA."""

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
MAIN, TORCH, VLLM = (f"setup/{name}.lock" for name in ("requirements", "torch", "vllm"))
LOCKS = (MAIN, TORCH, VLLM)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY = re.compile(r"^(?P<pin>[^\s#].*?)(?: \\)?\n(?P<rest>(?: .*\n)*)", re.MULTILINE)

# What the code needs without importing it.
NOT_IMPORTED = {
    "accelerate": "the trainers of transformers and TRL run on it",
    "pytest-xdist": "pytest's option --numprocesses",
    "ruff": "a command",
    "mypy": "a command",
    "uv": "a command",
}


def entries(lock: str) -> list[tuple[Requirement, str]]:
    """Each pin of a lock, with the lines below it: its hashes, and by which packages it is needed."""
    return [(Requirement(found["pin"]), found["rest"]) for found in ENTRY.finditer((ROOT / lock).read_text())]


def versions(lock: str) -> dict[str, set[Version]]:
    """The versions of each package, whatever their build."""
    result: dict[str, set[Version]] = {}
    for pin, _ in entries(lock):
        (only,) = pin.specifier
        assert only.operator == "==", f"{lock}: {pin} is no pin"
        result.setdefault(canonicalize_name(pin.name), set()).add(Version(Version(only.version).public))
    return result


def required() -> list[Requirement]:
    """What pyproject.toml asks for, with the extras that set-up installs."""
    extras = PROJECT["optional-dependencies"]
    texts = PROJECT["dependencies"] + [text for name in extras if name != "nf4" for text in extras[name]]
    return [Requirement(text) for text in texts if not text.startswith("castaway")]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_one_version_and_a_hash_and_none_is_cuda_or_an_index_or_a_path(lock: str) -> None:
    assert {name: both for name, both in versions(lock).items() if len(both) != 1} == {}
    assert [pin for pin, rest in entries(lock) if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest)] == []
    text = (ROOT / lock).read_text()
    assert [pin.name for pin, _ in entries(lock) if re.match("nvidia|cuda|triton|cupy", pin.name)] == []
    assert not re.search(r"://|^-|find-links|index-url| @ |\+(cu|rocm)\d", text, re.MULTILINE)


def test_what_pyproject_asks_for_is_locked_at_that_version() -> None:
    locked = versions(MAIN) | versions(TORCH)
    for requirement in required():
        (version,) = locked[canonicalize_name(requirement.name)]
        assert str(requirement.specifier) == f"=={version}", f"{requirement}: write the locks again with `make lock`"


def test_the_tests_of_weights_in_4_bits_run_with_the_bitsandbytes_of_the_extra() -> None:
    (requirement,) = map(Requirement, PROJECT["optional-dependencies"]["nf4"])
    assert f"/bitsandbytes-{str(requirement.specifier).removeprefix('==')}\n" in (ROOT / "Makefile").read_text()


def test_the_torch_of_both_environments_is_the_same() -> None:
    pins = re.findall("(.+)==(.+)", (ROOT / "constraints-vllm.txt").read_text())
    wanted = {canonicalize_name(name): {Version(version)} for name, version in pins}
    assert wanted == versions(VLLM) | versions(TORCH), "write the locks again with `make lock`"


def test_no_requirement_of_ours_is_unused() -> None:
    imported = set()
    for folder in ("castaway", "stages", "flows", "benchmarks", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    modules = {".".join(name.split(".")[: depth + 1]) for name in imported for depth in range(name.count(".") + 1)}
    tops = packages_distributions()
    used = {canonicalize_name(package) for module in modules for package in tops.get(module, ())}
    unused = {canonicalize_name(requirement.name) for requirement in required()} - used
    assert unused == NOT_IMPORTED.keys()
