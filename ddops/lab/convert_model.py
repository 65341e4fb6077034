"""Runs inside the engine's environment: a GGUF of SmolLM2 becomes a Hugging Face folder.

    python convert_model.py FOLDER_OF_GGUF FILE OUT

The weights are stored as bfloat16, and float32 serves them exactly: every bfloat16 is a float32.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

# what the GGUF says of itself under Hugging Face's names; the rest would be of the quantization
KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
)
# <|im_start|>, <|im_end|>; the GGUF's tokenizer calls both ends <|im_start|>
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def main(source: str, file: str, out: str) -> int:
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    dequantized = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    config = dequantized.config.to_dict()
    model = LlamaForCausalLM(LlamaConfig(**{key: config[key] for key in KEYS}, **IDS)).to(torch.bfloat16)
    model.load_state_dict(dequantized.state_dict())
    model.config.dtype = torch.bfloat16
    model.generation_config = GenerationConfig(**IDS)
    model.save_pretrained(out)
    tokenizer.eos_token = "<|im_end|>"  # noqa: S105
    tokenizer.save_pretrained(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
