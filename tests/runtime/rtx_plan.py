"""Run as a program: writes a TensorRT-RTX plan of [1 to 16, 8] relu, for SM86 and SM120, to a file.

A process of its own, since a failed build can change the next one in the same process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorrt_rtx as trt


def main(path: str) -> None:
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(0)
    network.name = "relu"
    x = network.add_input("in_0", trt.DataType.FLOAT, (-1, 8))
    y = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    y.name = "out_0"
    network.mark_output(y)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("in_0", (1, 8), (4, 8), (16, 8))
    config.add_optimization_profile(profile)
    targets = (trt.ComputeCapability.SM86, trt.ComputeCapability.SM120)
    config.num_compute_capabilities = len(targets)
    for index, target in enumerate(targets):
        config.set_compute_capability(target, index)
    Path(path).write_bytes(builder.build_serialized_network(network, config))


if __name__ == "__main__":
    main(sys.argv[1])
