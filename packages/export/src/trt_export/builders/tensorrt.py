"""The builder of TensorRT and TensorRT-RTX engines: one code path, run in fresh processes (tensorrt_worker.py)."""

import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trt_export.builders.base import (
    Binding,
    Builder,
    BuildRequest,
    NodeRefusal,
    NodesRefused,
    build_for_rtx,
)
from trt_export.builders.plan_file import Plan, take_plan
from trt_export.errors import BuildFailedError, ComputeCapabilityError, MissingBuilderError
from trt_export.hints import hint

_WORKER = Path(__file__).with_name("tensorrt_worker.py")

# Members of TensorRT's DataType by torch's names: by name because their numbers differ between TensorRT versions.
_TRT_DTYPES = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "int64": "INT64",
    "int32": "INT32",
    "int8": "INT8",
    "uint8": "UINT8",
    "bool": "BOOL",
}

# SM75 (Turing) is asked for by name only: TensorRT-RTX builds just some types for it.
_NOT_BY_DEFAULT = frozenset({"NONE", "CURRENT", "SM75"})


class TensorRTBuilder(Builder):
    """Makes `tensorrt` and `tensorrt-rtx` plans.

    `tensorrt-rtx` builds ahead of time, with no GPU, for stated compute capabilities (`"8.6"`, `"86"`, `"sm_86"`);
    None means all that it can build every type for. `tensorrt` builds for the GPU of this machine.

    Raises:
        MissingBuilderError: the package is not installed.
        ComputeCapabilityError: a capability is malformed, unknown to the package, or stated for `tensorrt`.
    """

    refused_dtypes: Mapping[str, str] = {
        "float64": "TensorRT would compute float64 as float32: convert the model to float32",
        "int16": "TensorRT has no int16",
    }

    def __init__(self, name: str, compute_capabilities: Sequence[str] | None = None) -> None:
        self.name = name
        self._module = name.replace("-", "_")
        if importlib.util.find_spec(self._module) is None:
            raise MissingBuilderError(
                f'builder {name} needs the package {name}, which is not installed: pip install "trt-export[{name}]"'
            )
        description = _describe(self._module, _search_path())
        self.version: str = description["version"]
        self.compute_capabilities = self._capabilities(
            description["compute_capabilities"], compute_capabilities
        )

    def _capabilities(self, known: Sequence[str], stated: Sequence[str] | None) -> tuple[str, ...]:
        """Return members of the library's enumeration; none for `tensorrt`."""
        if self.name == "tensorrt":
            if stated is not None:
                raise ComputeCapabilityError(
                    "builder tensorrt builds for the GPU of this machine and takes no compute capabilities: leave"
                    f" {hint('them', '--compute-capability')} out, or build ahead of time ({build_for_rtx()})"
                )
            return ()
        if stated is None:
            return tuple(name for name in known if name not in _NOT_BY_DEFAULT)
        offered = [name for name in known if name.startswith("SM")]
        listed = ", ".join(_dotted(name) for name in offered)
        if isinstance(stated, str) or not isinstance(stated, Collection) or not stated:
            raise ComputeCapabilityError(
                f"expected a list of compute capabilities, found {stated!r}; {self.name} {self.version} offers {listed}"
            )
        members = []
        for text in stated:
            match = re.fullmatch(r"(?:sm_?)?(\d+)\.?(\d)", str(text).strip().lower())
            member = f"SM{match[1]}{match[2]}" if match else ""
            if member not in offered:
                raise ComputeCapabilityError(
                    f"{self.name} {self.version} cannot build for compute capability {text!r}; it offers {listed}"
                )
            if member not in members:
                members.append(member)
        return tuple(members)

    def device(self, tensors_on: str) -> str:
        """Return the device of the tensors if it is a GPU; an engine of a program on the CPU is for `"cuda:0"`."""
        if tensors_on.startswith("cuda"):
            return tensors_on if ":" in tensors_on else f"{tensors_on}:0"
        return "cuda:0"

    def provenance(self) -> dict[str, Any]:
        """Return the builder's name, the library's version and the compute capabilities as `"8.6"`."""
        made = {"builder": self.name, "builder_version": self.version}
        if not self.compute_capabilities:
            return made
        return made | {
            "compute_capabilities": [_dotted(name) for name in self.compute_capabilities]
        }

    def check(self, request: BuildRequest) -> list[NodeRefusal]:
        """Let the parser read the model, without building an engine."""
        with tempfile.TemporaryDirectory(prefix="trt-export-") as directory:
            return self._run("check", request, Path(directory))

    def build(self, request: BuildRequest) -> Plan:
        """Build the engine in a fresh process.

        Raises:
            NodesRefused: the parser refuses nodes, or no engine came of the model.
            BuildFailedError: the library cannot work here; its messages are in the error.
        """
        with tempfile.TemporaryDirectory(prefix="trt-export-") as directory:
            refusals = self._run("build", request, Path(directory))
            if refusals:
                raise NodesRefused(refusals)
            return take_plan(Path(directory, "plan"))

    def _run(self, task: str, request: BuildRequest, directory: Path) -> list[NodeRefusal]:
        try:
            model = request.model.write(directory)
        except OSError as error:
            raise BuildFailedError(
                f"cannot write the {request.model.weights_size} bytes of weights of {request.name} to {directory}: "
                f"{error}; set TMPDIR to a directory with room"
            ) from error
        reply = _ask(
            {
                "module": self._module,
                "path": _search_path(),
                "task": task,
                "name": request.name,
                "model": str(model),
                "plan": str(directory / "plan"),
                "inputs": [self._binding(binding, request) for binding in request.inputs],
                "outputs": [self._binding(binding, request) for binding in request.outputs],
                "compute_capabilities": self.compute_capabilities,
            },
            directory,
        )
        log = "\n  ".join(reply["messages"])
        if "error" in reply:
            raise BuildFailedError(f"{self.name} {self.version}: {reply['error']}\n  {log}")
        if "failure" in reply:
            reason = f"{reply['failure']}: {reply['messages'][-1] if reply['messages'] else 'it says no reason'}"
            return [NodeRefusal(request.model.named_node(log), f"{self.name}: {reason}")]
        return [
            NodeRefusal(node or request.model.named_node(reason), f"{self.name}: {reason}")
            for node, reason in reply["refusals"]
        ]

    def _binding(self, binding: Binding, request: BuildRequest) -> dict[str, Any]:
        producer = request.model.producer(binding.name)
        return asdict(binding) | {"trt_dtype": _TRT_DTYPES[binding.dtype], "producer": producer}


@functools.cache
def _describe(module: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Ask a fresh process for the library's version and compute capabilities; they do not change while we run."""
    with tempfile.TemporaryDirectory(prefix="trt-export-") as directory:
        reply = _ask({"module": module, "path": path, "task": "describe"}, Path(directory))
    if "error" in reply:
        log = "\n  ".join(reply["messages"])
        raise MissingBuilderError(
            f"the package {module} is installed and does not work: {reply['error']}\n  {log}"
        )
    return reply


def _search_path() -> tuple[str, ...]:
    """Return where this process looks for modules: `-I` hides PYTHONPATH and the user's site from the worker."""
    return tuple(os.path.abspath(entry) for entry in sys.path)


def _ask(request: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Run the worker; one that dies is a reply too, with the end of what it wrote to stderr."""
    request_path, reply_path = directory / "request.json", directory / "reply.json"
    request_path.write_text(json.dumps(request), encoding="utf-8")
    command = [sys.executable, "-I", str(_WORKER), str(request_path), str(reply_path)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0 or not reply_path.exists():
        stderr = done.stderr.decode(errors="replace").strip().splitlines()[-20:]
        if done.returncode < 0:
            return {"failure": f"its process died of signal {-done.returncode}", "messages": stderr}
        return {"error": f"its process ended with exit code {done.returncode}", "messages": stderr}
    reply: dict[str, Any] = json.loads(reply_path.read_text(encoding="utf-8"))
    return reply


def _dotted(member: str) -> str:
    """`"SM86"` as `"8.6"`."""
    return f"{member[2:-1]}.{member[-1]}"
