"""A wheel that brings its kernels compiled, so that the first run on a machine does not wait.

    RMQTOOL_KERNELS=x86-64,x86-64-v2,x86-64-v3 python -m build --wheel

Without that variable the wheel is as ever: for every Python and processor, compiled at the first
run. With it the wheel is for the minor release of the Python that builds it and the processors
named. What it brings is used only where Python, numba, LLVM and every source are the same (see
`rmqtool.machine.stamp`); anywhere else the kernels are compiled as ever.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED: Final = "RMQTOOL_KERNELS"  # levels of processors, names of rmqtool.machine.machine_code
INSIDE: Final = "rmqtool/machine/__pycache__/kernels"  # where `cache.installed` looks
COMPILE: Final = "import sys; from rmqtool.machine.warm_up import *; for_level(*sys.argv[1:])"


class CompiledKernels(BuildHookInterface):
    """Puts machine code into a wheel, if it is asked for."""

    def dependencies(self) -> list[str]:
        """Give what has to be there while it compiles: what a user has."""
        return self.metadata.core.dependencies if os.environ.get(WANTED) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels of this tree, and add them."""
        levels = os.environ.get(WANTED, "")
        if not levels or version == "editable":
            return
        self._directory = tempfile.TemporaryDirectory(prefix="rmqtool-kernels-")
        for level in levels.split(","):
            words = [sys.executable, "-c", COMPILE, level, self._directory.name]
            subprocess.run(words, check=True, cwd=self.root, env={**os.environ, "PYTHONPATH": "."})  # noqa: S603 - our own interpreter
        for path in Path(self._directory.name).iterdir():
            build_data["force_include"][str(path)] = f"{INSIDE}/{path.name}"
        build_data["pure_python"] = False
        # The code calls nothing: no C library, no interface of Python.
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["tag"] = f"{python}-none-manylinux_2_17_{platform.machine()}"

    def finalize(self, *_: object) -> None:
        """Remove what has been packed."""
        if os.environ.get(WANTED):
            self._directory.cleanup()
