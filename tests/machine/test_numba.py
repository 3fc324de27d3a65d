"""What the compiler takes of numba's private parts, as the newest release has them.

A kernel that numba compiles in another way than we ask for is noticed here first, and by its name.
"""

from __future__ import annotations

import inspect
from typing import Any

import numba
import pytest
from numba.core import config
from numba.core.registry import cpu_target

from rmqtool.machine import compiler

# Class: its methods that are replaced or called, each with what they take.
PRIVATE: dict[Any, dict[str, list[str]]] = {
    compiler.LIBRARY: {
        "_optimize_final_module": ["self"],
        "_finalize_final_module": ["self"],
        "_ensure_finalized": ["self"],
    },
    compiler.COMPILER: {"define_pipelines": ["self"], "compile_extra": ["self", "func"]},
    compiler.PASSES: {"define_nopython_pipeline": ["state", "name"]},
    compiler.MANAGER: {"add_pass": ["self", "pss", "description"], "finalize": ["self"]},
    compiler.RESOLVES: {"get_call_type": ["self", "context", "args", "kws"]},
    type(cpu_target.target_context): {"insert_user_function": ["self", "func", "fndesc", "libs"]},
}


@pytest.mark.parametrize("owner", PRIVATE, ids=lambda owner: owner.__name__)
def test_methods(owner: Any) -> None:  # noqa: ANN401 - numba's own
    """Each is there, and takes what it took."""
    found = {name: [*inspect.signature(getattr(owner, name)).parameters] for name in PRIVATE[owner]}
    assert PRIVATE[owner] == found


def test_passes() -> None:
    """What is left out of the pipeline is in it: a pass of another name would run in vain."""
    seen: list[str] = []

    class Watched(compiler.COMPILER):  # type: ignore[misc]  # of no type that is known
        def define_pipelines(self) -> Any:  # noqa: ANN401 - numba's own
            pipeline = compiler.PASSES.define_nopython_pipeline(self.state)
            seen.extend(one.name() for one, _ in pipeline.passes)
            return [pipeline]

    numba.njit("int64(int64)", pipeline_class=Watched)(lambda number: number + 1)
    assert compiler.NEEDLESS <= {*seen}


def test_settings() -> None:
    """The processor to compile for can be set."""
    assert {"CPU_NAME", "CPU_FEATURES"} <= vars(config).keys()
