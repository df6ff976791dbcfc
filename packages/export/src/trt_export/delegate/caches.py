"""Takes lowered programs out of caches that would keep them, and so their plans, for the life of the process.

torch (2.13) caches what a fake tensor op gave by its arguments, among which is the module of a delegate
(`FakeTensorMode.cache`, and `ShapeEnv.fake_tensor_cache` where sizes are symbols); ExecuTorch (1.4) caches comparisons
of graph nodes without a bound (`is_same_node`). An entry that is gone is only computed again.
"""

from collections.abc import Iterable
from typing import Any

from executorch.exir.backend import utils
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram


def forget(programs: Iterable[ExportedProgram]) -> None:
    """Take what belongs to delegates out of the caches; the programs themselves do not change."""
    clear = getattr(utils.is_same_node, "cache_clear", None)
    if clear is not None:
        clear()
    caches = [getattr(FakeTensorMode, "cache", {})]
    for program in programs:
        for node in program.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, FakeTensor) and value.fake_mode.shape_env is not None:
                caches.append(getattr(value.fake_mode.shape_env, "fake_tensor_cache", {}))
    for cache in {id(cache): cache for cache in caches}.values():
        # In steps that no other thread can come between: torch may be tracing in one.
        for key in list(cache):
            if _has_delegate(key):
                cache.pop(key, None)


def _has_delegate(key: Any) -> bool:
    return any(isinstance(item, LoweredBackendModule) for item in getattr(key, "key", ()))
