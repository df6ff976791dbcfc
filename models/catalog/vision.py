"""Image classifiers and backbones, detection, segmentation, depth."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..spec import Model, floats
from ._transformers import BATCH, from_config, pixels

_VIT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}


def _image(
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


_BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
    "out_indices": [2, 3, 4],
}


def _rt_detr() -> torch.nn.Module:
    import transformers

    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.RTDetrConfig(
        backbone_config=backbone,
        encoder_hidden_dim=32,
        encoder_in_channels=[16, 24, 32],
        encoder_ffn_dim=64,
        encoder_attention_heads=4,
        d_model=32,
        num_queries=20,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=64,
        decoder_layers=2,
        decoder_attention_heads=4,
        num_denoising=0,
        num_labels=5,
    )
    model: torch.nn.Module = transformers.RTDetrForObjectDetection(config)
    return model.eval()


def _detr() -> torch.nn.Module:
    import transformers

    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=transformers.ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16, 24, 32],
            depths=[1, 1, 1, 1],
            out_features=["stage4"],
        ),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=10,
        num_labels=5,
    )
    model: torch.nn.Module = transformers.DetrForObjectDetection(config)
    return model.eval()


MODELS = (
    _image("ViT", "ViTModel", "ViTConfig", in_tests=True, **_VIT),
    _image("DeiT", "DeiTModel", "DeiTConfig", **_VIT),
    _image("BEiT", "BeitModel", "BeitConfig", **_VIT),
    _image(
        "DINOv2",
        "Dinov2Model",
        "Dinov2Config",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    ),
    _image(
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
    _image("SigLIP vision", "SiglipVisionModel", "SiglipVisionConfig", **_VIT),
    _image("CLIP vision", "CLIPVisionModel", "CLIPVisionConfig", **_VIT),
    _image(
        "ResNet",
        "ResNetForImageClassification",
        "ResNetConfig",
        side=64,
        in_tests=True,
        embedding_size=8,
        hidden_sizes=[8, 16, 32, 64],
        depths=[1, 1, 1, 1],
    ),
    _image(
        "RegNet",
        "RegNetModel",
        "RegNetConfig",
        side=64,
        embedding_size=8,
        hidden_sizes=[16, 32, 64, 128],
        depths=[1, 1, 1, 1],
        groups_width=8,
    ),
    _image(
        "ConvNeXt",
        "ConvNextModel",
        "ConvNextConfig",
        side=64,
        hidden_sizes=[8, 16, 32, 64],
        depths=[1, 1, 1, 1],
    ),
    _image(
        "MobileNet v2",
        "MobileNetV2ForImageClassification",
        "MobileNetV2Config",
        side=64,
        depth_multiplier=0.35,
    ),
    _image(
        "EfficientNet",
        "EfficientNetModel",
        "EfficientNetConfig",
        side=64,
        in_tests=True,
        width_coefficient=0.25,
        depth_coefficient=0.3,
        hidden_dim=320,
    ),
    _image(
        "MobileViT",
        "MobileViTModel",
        "MobileViTConfig",
        side=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 64],
        image_size=64,
    ),
    _image(
        "PoolFormer",
        "PoolFormerModel",
        "PoolFormerConfig",
        side=64,
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
    ),
    _image(
        "PVT v2",
        "PvtV2Model",
        "PvtV2Config",
        side=64,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
    ),
    _image(
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
    _image(
        "FocalNet",
        "FocalNetModel",
        "FocalNetConfig",
        image_size=32,
        embed_dim=16,
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    Model("DETR", "detection", _detr, pixels(64), {"pixel_values": {0: "batch"}}, {"batch": BATCH}),
    Model("RT-DETR", "detection", _rt_detr, lambda _: {"pixel_values": floats(1, 3, 64, 64)}),
    _image(
        "YOLOS",
        "YolosForObjectDetection",
        "YolosConfig",
        family="detection",
        **{**_VIT, "image_size": [32, 32]},
        num_detection_tokens=10,
    ),
    _image(
        "SegFormer",
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        side=64,
        family="segmentation",
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16,
    ),
    _image(
        "DPT",
        "DPTForDepthEstimation",
        "DPTConfig",
        family="depth",
        **{**_VIT, "num_hidden_layers": 4},
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
        is_hybrid=False,
    ),
    _image(
        "SuperPoint",
        "SuperPointForKeypointDetection",
        "SuperPointConfig",
        side=64,
        family="keypoints",
        batch=False,
    ),
)
