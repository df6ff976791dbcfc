"""Operators that have a converter and are not tried, with the reason."""

from __future__ import annotations

_NAMES = {
    "it only moves, copies or shapes what it is given": """
        _conj _unsafe_view _unsafe_index.Tensor alias as_strided atleast_1d atleast_1d.Sequence
        atleast_2d atleast_2d.Sequence atleast_3d atleast_3d.Sequence broadcast_to chunk clone col2im
        concat concatenate conj contiguous detach diagonal diagonal_copy expand expand_as
        flatten.using_ints im2col index.Tensor lift_fresh_copy mH mT narrow pad permute pixel_shuffle
        pixel_unshuffle reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d
        repeat_interleave.Tensor repeat_interleave.self_int reshape resolve_conj resolve_neg select.int
        select_scatter slice.Tensor slice_scatter split split.Tensor split_with_sizes squeeze
        squeeze.dim stack sym_size.int sym_storage_offset t transpose.int type_as unbind.int
        unflatten.int unfold unsafe_split.Tensor unsqueeze view view_as view_copy
    """,
    "it makes numbers of no tensor": """
        arange arange.start arange.start_step blackman_window empty.memory_format empty_like
        empty_strided fill.Scalar fill.Tensor full full_like hamming_window hann_window linspace
        new_empty new_empty_strided new_full new_ones new_zeros ones ones_like scalar_tensor tensor.bool
        tensor.float tensor.int zeros zeros_like
    """,
    "it is random, or plain where it is not": """
        bernoulli bernoulli.p dropout multinomial native_dropout normal.Tensor_Tensor
        normal.Tensor_float normal.float_Tensor normal.float_float normal_functional rand rand_like
        randint randint.low randint_like randint_like.low_dtype randn randn_like
    """,
    "another name, or form, of an operator that is tried": """
        _native_batch_norm_legit _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional
        _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_for_cpu bitwise_and.Scalar_Tensor
        bitwise_left_shift.Scalar_Tensor bitwise_or.Scalar_Tensor bitwise_right_shift.Scalar_Tensor
        bitwise_xor.Scalar_Tensor conv2d conv3d divide.Scalar divide.Tensor eq greater.Tensor
        greater_equal.Tensor less.Tensor less_equal.Tensor linalg_cross linalg_det
        max_pool1d_with_indices mul multiply.Scalar multiply.Tensor native_batch_norm native_group_norm
        ne special_erf special_erfc special_expm1 special_sinc subtract.Scalar subtract.Tensor
        true_divide.Scalar true_divide.Tensor upsample_bicubic2d.vec upsample_bilinear2d.vec
        upsample_nearest1d.vec upsample_nearest2d upsample_nearest2d.vec upsample_nearest3d
        upsample_nearest3d.vec upsample_trilinear3d upsample_trilinear3d.vec where.Scalar
    """,
    "it reads a number, or the shape of its result depends on numbers: it stays in PyTorch": """
        _local_scalar_dense _unique _unique2 bincount is_nonzero masked_scatter unique_consecutive
        unique_dim
    """,
    "they make or take complex numbers: special values were not tried": """
        _fft_c2c _fft_c2r _fft_r2c complex polar stft view_as_complex view_as_complex_copy view_as_real
        view_as_real_copy
    """,
    "for training only": """
        hardtanh_backward
    """,
    "it is made of many operators: special values were not tried": """
        _embedding_bag _embedding_bag_forward_only _grouped_mm _upsample_bicubic2d_aa
        _upsample_bilinear2d_aa bilinear cross_entropy_loss einsum embedding_bag
        embedding_bag.padding_idx embedding_renorm fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine.tensor_qparams grid_sampler grid_sampler_2d gru.input histc
        logdet lstm.input nll_loss nll_loss_forward
    """,
}
LEFT_OUT = {reason: names.split() for reason, names in _NAMES.items()}
