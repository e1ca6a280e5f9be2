"""Installs one of Castaway's two environments from its lock, or locks anew; the Makefile is what calls it.

`install.py .venv` and `install.py .venv-vllm` install what the lock of that environment names, with the `uv` that the
lock pins, and refuse a file whose hash is not in the lock. `install.py lock [--upgrade]` writes the locks. It needs
nothing but Python's standard library, and is run by the Python of `.venv`.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {".venv": "setup/requirements.lock", ".venv-vllm": "setup/vllm.lock"}
TORCH = "setup/torch.lock"
UV = Path(sys.executable).parent / "uv"

# uv reads nothing of pip's configuration, and these are what it calls the same settings.
FROM_PIP = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
}

# What torch's build for CUDA asks for. It comes with that build, on a host with a GPU, and has no place in a lock that
# every host installs; what these ask for in turn is left out with them.
ONLY_CUDA = (
    "cuda-bindings",
    "cuda-toolkit",
    "nvidia-cudnn-cu13",
    "nvidia-cusparselt-cu13",
    "nvidia-nccl-cu13",
    "nvidia-nvshmem-cu13",
    "triton",
)


def uv_environment(pip_config: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What uv runs with: pip's configuration, as `pip config list` prints it, unless uv has a setting of its own."""
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # As pip reads them: the later one holds.
        for line in pip_config.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(f"{section}.") and value:
                settings[name.removeprefix(f"{section}.")] = ast.literal_eval(value)
    # pip takes the newest file of all its indexes, where uv would look no further than the first that knows the name.
    result = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, (variable, separator) in FROM_PIP.items():
        if settings.get(name, "").split():
            result[variable] = separator.join(settings[name].split())
    result |= environment
    # Said to uv for torch alone, below.
    result.pop("UV_TORCH_BACKEND", None)
    return result


def torch_backend(environment: Mapping[str, str]) -> str:
    """Which build of torch to fetch: what the user says, or else CUDA only where there is an NVIDIA GPU."""
    nvidia = shutil.which("nvidia-smi") or Path("/proc/driver/nvidia/version").exists()
    return environment.get("UV_TORCH_BACKEND") or ("auto" if nvidia else "cpu")


def pinned(lock: str, package: str) -> tuple[str, str]:
    """The version that a lock pins a package to, and the whole of its entry."""
    entry = re.search(rf"^{package}==(\S+).*\n(?: .*\n)*", (ROOT / lock).read_text(), re.MULTILINE)
    if not entry:
        sys.exit(f"{lock} does not pin {package}; write the lock again with `make lock`.")
    return entry[1], entry[0]


def installed(python: Path, package: str) -> str:
    """The version of a package that is installed for a Python, or nothing."""
    probe = "import importlib.metadata as m, sys; print(*(d.version for d in m.distributions(name=sys.argv[1])))"
    return subprocess.check_output([python, "-I", "-c", probe, package], text=True).strip()


def get_uv() -> None:
    """Have pip install the uv that the lock pins, unless it is there."""
    version, entry = pinned(LOCKS[".venv"], "uv")
    if installed(Path(sys.executable), "uv") == version:
        return
    pip = [sys.executable, "-I", "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    if subprocess.run([*pip, "--require-hashes", "-r", "/dev/stdin"], input=entry, text=True).returncode:
        sys.exit(f"pip could not install uv {version} into .venv; what it says above tells why.")


def install(name: str, environment: dict[str, str]) -> None:
    """Install an environment: first what its lock names, then torch, and into .venv Castaway itself."""
    python = ROOT / name / "bin" / "python"
    command = [UV, "pip", "install", "--quiet", "--python", python]
    # What is built from source is built with the locked setuptools.
    built = ["--build-constraints", LOCKS[".venv"], "--require-build-hashes"]

    def run(what: str, *arguments: str) -> None:
        if subprocess.run([*command, *arguments], cwd=ROOT, env=environment).returncode:
            sys.exit(f"uv could not install {what} into {name}; what it says above tells why.")

    lock = ["--no-deps", "--require-hashes", "-r"]
    run(LOCKS[name], *built, *lock, LOCKS[name])
    version = pinned(TORCH, "torch")[0].partition("+")[0]
    backend = torch_backend(os.environ)
    # A torch that is there at the pinned version stays, whatever its build.
    if installed(python, "torch").partition("+")[0] == version:
        pass
    elif backend != "cpu":
        run("torch", "--torch-backend", backend, f"torch=={version}")
    # Where pip is pointed at the build for CPUs, it comes from there, and elsewhere from PyTorch's own index.
    elif subprocess.run([*command, *lock, TORCH], cwd=ROOT, env=environment, capture_output=True).returncode:
        run("torch", "--torch-backend", "cpu", *lock, TORCH)
    if name == ".venv":
        # What an earlier set-up left in this folder would hide the new entry points from whoever runs in it.
        shutil.rmtree(ROOT / "castaway.egg-info", ignore_errors=True)
        run("Castaway", *built, "--no-deps", "--editable", ".")
        start_once(python, environment)
    elif sys.dont_write_bytecode:
        subprocess.run([python, "-m", "compileall", "-qq", "-j0", ROOT / name / "lib"], check=False)


def start_once(python: Path, environment: dict[str, str]) -> None:
    """Import what stages and servers import, which is compiled thereby, and make the empty store of Prefect.

    The first build would wait for both. Where Python may not keep what it compiles, each process would compile it anew:
    a stage then takes 16 seconds to start instead of 6.
    """
    with tempfile.TemporaryDirectory() as home:
        store = f"sqlite+aiosqlite:///{ROOT}/.venv/prefect.db"
        own = {"PREFECT_HOME": home, "PREFECT_API_DATABASE_CONNECTION_URL": store, "PYTHONDONTWRITEBYTECODE": ""}
        quiet = {"DO_NOT_TRACK": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
        programs = [
            subprocess.Popen([python, "-c", program], env={**environment, **own, **quiet}, stderr=subprocess.DEVNULL)
            for program in (STAGE, SERVER)
        ]
        for process in programs:
            process.wait()


STAGE = "import stages.base, stages.dataset, stages.ppo, stages.evaluate"
SERVER = """
import asyncio
import dvc.cli, dvc.commands.repro, dvc.repo, mlflow.store.tracking.sqlalchemy_store
import prefect.server.api.server, uvicorn
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def lock(environment: dict[str, str], *arguments: str) -> None:
    """Write both locks: what they pin stays where it still fits, unless `--upgrade` is among the arguments."""
    # Another index may hold some of a version's files only, and the lock needs the hashes of all.
    environment = {name: value for name, value in environment.items() if name != "UV_INDEX"}
    command = [
        *(UV, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
        *("--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"),
        *("--no-emit-package", "torch", "--excludes", "/dev/stdin"),
    ]
    for name, source in (
        (".venv", ["pyproject.toml", "--extra", "dev", *arguments]),
        (".venv-vllm", ["constraints-vllm.txt", "--no-deps", "--no-annotate"]),
    ):
        whole = [*command, *source, "--output-file", LOCKS[name]]
        if subprocess.run(whole, cwd=ROOT, env=environment, input="\n".join(ONLY_CUDA), text=True).returncode:
            sys.exit(f"uv could not write {LOCKS[name]}; what it says above tells why.")


def main(task: str, *arguments: str) -> None:
    """Do what the command line says."""
    get_uv()
    config = subprocess.check_output([sys.executable, "-m", "pip", "config", "list"], text=True)
    environment = uv_environment(config, os.environ)
    if task == "lock":
        lock(environment, *arguments)
    else:
        install(task, environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
