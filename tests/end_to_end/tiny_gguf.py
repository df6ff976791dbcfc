"""A GGUF file like that of SmolLM2, with two small layers of random weights and a tokenizer of bytes."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, INNER, HEADS, KEY_HEADS, LAYERS = 32, 64, 4, 2, 2
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokens() -> list[str]:
    """Characters for all bytes, as GPT-2's tokenizer writes them: printable ones stand for themselves."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (byte for byte in range(256) if byte not in printable)
    characters = {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [characters.get(byte, chr(byte)) for byte in range(256)]


def write(path: Path) -> None:
    vocabulary = [*SPECIAL, *byte_tokens(), "he", "Ġt"]
    numbers = np.random.default_rng(0)
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_name("tiny")
    file.add_block_count(LAYERS)
    file.add_context_length(1024)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KEY_HEADS)
    file.add_rope_freq_base(10000.0)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(vocabulary))
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("smollm")
    file.add_token_list(vocabulary)
    kinds = gguf.TokenType
    ordinary = len(vocabulary) - len(SPECIAL)
    file.add_token_types([kinds.CONTROL] * len(SPECIAL) + [kinds.NORMAL] * ordinary)
    file.add_token_merges(["h e", "Ġ t"])
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_pad_token_id(2)
    file.add_chat_template(TEMPLATE)

    def add(name: str, *shape: int) -> None:
        values = numbers.normal(0, 0.3, shape) if len(shape) > 1 else np.ones(shape)
        file.add_tensor(f"{name}.weight", values.astype(np.float32))

    add("token_embd", len(vocabulary), WIDTH)
    # Not the same as token_embd, or a token of random weights is followed by itself.
    add("output", len(vocabulary), WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm", WIDTH)
        add(f"{block}.attn_q", WIDTH, WIDTH)
        add(f"{block}.attn_k", WIDTH * KEY_HEADS // HEADS, WIDTH)
        add(f"{block}.attn_v", WIDTH * KEY_HEADS // HEADS, WIDTH)
        add(f"{block}.attn_output", WIDTH, WIDTH)
        add(f"{block}.ffn_norm", WIDTH)
        add(f"{block}.ffn_gate", INNER, WIDTH)
        add(f"{block}.ffn_up", INNER, WIDTH)
        add(f"{block}.ffn_down", WIDTH, INNER)
    add("output_norm", WIDTH)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
