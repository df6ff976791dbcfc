"""Models with an output per place of an image: detection, segmentation, depth, keypoints, super-resolution."""

from __future__ import annotations

import torch

from ..spec import Model, Sizes, floats
from ._transformers import BATCH, pixels
from .vision import VIT, image_model


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


def _sam() -> torch.nn.Module:
    import transformers

    config = transformers.SamConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "mlp_dim": 64,
            "output_channels": 16,
            "image_size": 64,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "num_pos_feats": 8,
        },
        prompt_encoder_config={
            "hidden_size": 16,
            "image_size": 64,
            "patch_size": 8,
            "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": 16,
            "mlp_dim": 32,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 16,
        },
    )
    model: torch.nn.Module = transformers.SamModel(config)
    for parameter in model.parameters():  # with transformers' own, the masks are nearly zero
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def _pixels_and_points(sizes: Sizes) -> dict[str, torch.Tensor]:
    batch = sizes["batch"]
    return {
        "pixel_values": floats(batch, 3, 64, 64),
        "input_points": floats(batch, 1, 2, 2).abs() * 20,
        "input_labels": torch.ones(batch, 1, 2, dtype=torch.int64),
    }


def _deformable_detr() -> torch.nn.Module:
    import transformers

    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=transformers.ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16, 24, 32],
            depths=[1, 1, 1, 1],
            out_features=["stage3", "stage4"],
        ),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_feature_levels=2,
        num_queries=10,
        num_labels=5,
    )
    model: torch.nn.Module = transformers.DeformableDetrForObjectDetection(config)
    return model.eval()


def _depth_anything() -> torch.nn.Module:
    import transformers

    config = transformers.DepthAnythingConfig(
        backbone_config=transformers.Dinov2Config(
            hidden_size=32,
            num_hidden_layers=4,
            num_attention_heads=4,
            image_size=56,
            patch_size=14,
            out_features=["stage1", "stage2", "stage3", "stage4"],
            reshape_hidden_states=False,
        ),
        reassemble_hidden_size=32,
        patch_size=14,
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
        head_hidden_size=8,
    )
    model: torch.nn.Module = transformers.DepthAnythingForDepthEstimation(config)
    return model.eval()


MODELS = (
    Model("DETR", "detection", _detr, pixels(64), {"pixel_values": {0: "batch"}}, {"batch": BATCH}),
    Model(
        "Deformable DETR",
        "detection",
        _deformable_detr,
        pixels(64),
        {"pixel_values": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model("RT-DETR", "detection", _rt_detr, lambda _: {"pixel_values": floats(1, 3, 64, 64)}),
    image_model(
        "YOLOS",
        "YolosForObjectDetection",
        "YolosConfig",
        family="detection",
        **{**VIT, "image_size": [32, 32]},
        num_detection_tokens=10,
    ),
    image_model(
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
    Model(
        "SAM",
        "segmentation",
        _sam,
        _pixels_and_points,
        {"pixel_values": {0: "batch"}, "input_points": {0: "batch"}, "input_labels": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "Depth Anything",
        "depth",
        _depth_anything,
        pixels(56),
        {"pixel_values": {0: "batch"}},
        {"batch": BATCH},
    ),
    image_model(
        "Swin2SR",
        "Swin2SRForImageSuperResolution",
        "Swin2SRConfig",
        family="super-resolution",
        image_size=32,
        patch_size=1,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=8,
        upscale=2,
    ),
    image_model(
        "DPT",
        "DPTForDepthEstimation",
        "DPTConfig",
        family="depth",
        **{**VIT, "num_hidden_layers": 4},
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16,
        is_hybrid=False,
    ),
    image_model(
        "SuperPoint",
        "SuperPointForKeypointDetection",
        "SuperPointConfig",
        side=64,
        family="keypoints",
        batch=False,
    ),
)
