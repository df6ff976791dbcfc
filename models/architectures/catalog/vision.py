"""Image and video encoders."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..spec import Model, floats
from ._transformers import BATCH, from_config, pixels

VIT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}


def image_model(
    name: str,
    model: str,
    config: str,
    side: int = 32,
    family: str = "image encoder",
    in_tests: bool = False,
    tolerance: float = 1e-4,
    batch: bool = True,
    **settings: Any,
) -> Model:
    """Return the row of a model of transformers that takes square images; `settings` are its configuration."""
    make = partial(from_config, model, config, **settings)
    if not batch:
        return Model(
            name,
            family,
            make,
            lambda _: {"pixel_values": floats(1, 3, side, side)},
            in_tests=in_tests,
            tolerance=tolerance,
        )
    return Model(
        name,
        family,
        make,
        pixels(side),
        {"pixel_values": {0: "batch"}},
        {"batch": BATCH},
        in_tests=in_tests,
        tolerance=tolerance,
    )


MODELS = (
    image_model("ViT", "ViTModel", "ViTConfig", **VIT),
    image_model("DeiT", "DeiTModel", "DeiTConfig", **VIT),
    image_model("BEiT", "BeitModel", "BeitConfig", **VIT),
    image_model(
        "DINOv2",
        "Dinov2Model",
        "Dinov2Config",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    ),
    image_model(
        "Swin",
        "SwinModel",
        "SwinConfig",
        in_tests=True,
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    image_model("SigLIP vision", "SiglipVisionModel", "SiglipVisionConfig", **VIT),
    image_model("CLIP vision", "CLIPVisionModel", "CLIPVisionConfig", **VIT),
    image_model(
        "ResNet",
        "ResNetForImageClassification",
        "ResNetConfig",
        side=64,
        embedding_size=8,
        hidden_sizes=[8, 16, 32, 64],
        depths=[1, 1, 1, 1],
    ),
    image_model(
        "RegNet",
        "RegNetModel",
        "RegNetConfig",
        side=64,
        embedding_size=8,
        hidden_sizes=[16, 32, 64, 128],
        depths=[1, 1, 1, 1],
        groups_width=8,
    ),
    image_model(
        "ConvNeXt",
        "ConvNextModel",
        "ConvNextConfig",
        side=64,
        hidden_sizes=[8, 16, 32, 64],
        depths=[1, 1, 1, 1],
    ),
    image_model(
        "MobileNet v2",
        "MobileNetV2ForImageClassification",
        "MobileNetV2Config",
        side=64,
        depth_multiplier=0.35,
    ),
    image_model(
        "EfficientNet",
        "EfficientNetModel",
        "EfficientNetConfig",
        side=64,
        in_tests=True,
        width_coefficient=0.25,
        depth_coefficient=0.3,
        hidden_dim=320,
    ),
    image_model(
        "MobileViT",
        "MobileViTModel",
        "MobileViTConfig",
        side=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 64],
        image_size=64,
    ),
    image_model(
        "PoolFormer",
        "PoolFormerModel",
        "PoolFormerConfig",
        side=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
    ),
    image_model(
        "PVT v2",
        "PvtV2Model",
        "PvtV2Config",
        side=64,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    image_model(
        "LeViT",
        "LevitModel",
        "LevitConfig",
        side=64,
        image_size=64,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[2, 4, 4],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    Model(
        "VideoMAE",
        "video encoder",
        partial(
            from_config, "VideoMAEModel", "VideoMAEConfig", num_frames=4, tubelet_size=2, **VIT
        ),
        lambda sizes: {"pixel_values": floats(sizes["batch"], 4, 3, 32, 32)},
        {"pixel_values": {0: "batch"}},
        {"batch": BATCH},
    ),
    image_model(
        "FocalNet",
        "FocalNetModel",
        "FocalNetConfig",
        image_size=32,
        embed_dim=16,
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
)
