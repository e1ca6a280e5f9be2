"""Environments of verifiers as tasks for Castaway, and Castaway's tasks as a verifiers environment.

verifiers finds a taskset, an environment and a harness by the id `castaway-verifiers`: they are what `__all__` names.
"""

from castaway_verifiers.clash import demand

demand("verifiers")

from castaway_verifiers.export import CastawayEnv, CastawayTaskset  # noqa: E402
from castaway_verifiers.harness import ChatHarness  # noqa: E402

__all__ = ["CastawayEnv", "CastawayTaskset", "ChatHarness"]
