"""The drafter that the checkout carries: whole, of the shape that its configuration tells, and named to lab hosts."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ddops import resources
from ddops.lab import clients, drafter, engine
from ddops.lab.config import LabConfig

FOLDER = resources.folder("kernels_patch") / "drafters/smollm2-135m-instruct"


def header(path: Path) -> dict[str, Any]:
    """The tensors that a safetensors file says it has, and proof that it has all of them."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    found.pop("__metadata__", None)
    assert len(data) == 8 + length + max(tensor["data_offsets"][1] for tensor in found.values())
    return found


def test_it_is_what_its_checksums_say() -> None:
    for line in (FOLDER / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name


def test_its_weights_are_of_the_shape_that_it_tells() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    tensors = header(FOLDER / "model.safetensors")
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query, key = (config[f"num_{n}_heads"] * config["head_dim"] for n in ("attention", "key_value"))
    expected = {"fc": [hidden, 5 * hidden], "hidden_norm": [hidden], "norm": [hidden]}
    for n in range(config["num_hidden_layers"]):
        layer = f"layers.{n}"
        expected |= {f"{layer}.{norm}": [hidden] for norm in ("input_layernorm", "post_attention_layernorm")}
        expected |= {f"{layer}.self_attn.{n}_norm": [config["head_dim"]] for n in "qk"}
        expected |= {f"{layer}.self_attn.q_proj": [query, hidden], f"{layer}.self_attn.o_proj": [hidden, query]}
        expected |= {f"{layer}.self_attn.{n}_proj": [key, hidden] for n in "kv"}
        expected |= {f"{layer}.mlp.{n}_proj": [inner, hidden] for n in ("gate", "up")}
        expected[f"{layer}.mlp.down_proj"] = [hidden, inner]
    assert {name.removesuffix(".weight"): tensor["shape"] for name, tensor in tensors.items()} == expected
    assert {tensor["dtype"] for tensor in tensors.values()} == {"BF16"}
    assert config["dflash_config"] == {"mask_token_id": 4, "target_layer_ids": [1, 8, 14, 21, 27]}


def test_lab_hosts_have_it_and_their_site_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDOPS_LAB_DIR", str(tmp_path))
    config = LabConfig.from_environment()
    assert (str(FOLDER), drafter.DRAFTER) in engine.binds(tmp_path)
    assert clients.site(config, [])["drafter"] == drafter.DRAFTER

    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / name)
    assert [target for _, target in engine.binds(tmp_path)] == [engine.ENGINE, engine.MODEL]
    assert "drafter" not in clients.site(config, [])
