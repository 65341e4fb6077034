"""The real SGLang on the CPU, started by a test: a server in its own process group, asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_OVERLAY = _HERE.parents[1] / "kernels_patch"


_PLANTED_DRAFTER = _HERE / "planted" / "planted_drafter.py"


def folder_for_python(root: Path, *plugins: Path) -> Path:
    """The overlay and plug-ins, the planted drafter by default, as SGLang finds them: modules and a dist-info each."""
    plugins = plugins or (_PLANTED_DRAFTER,)
    project = tomllib.loads((_OVERLAY / "pyproject.toml").read_text())["project"]
    found = {project["name"]: project["entry-points"]}
    for plugin in plugins:
        name = plugin.stem.replace("_", "-")
        found[name] = {"sglang.srt.plugins": {name: f"{plugin.stem}:load"}}
    for name, groups in found.items():
        info = root / f"{name.replace('-', '_')}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))
    (root / "ddops_overlay").symlink_to(_OVERLAY / "ddops_overlay")
    for plugin in plugins:
        (root / plugin.name).symlink_to(plugin)
    return root


def write_drafter(folder: Path, target: dict[str, Any], block: int = 8) -> Path:
    """A DFlash drafter with random weights for the target of that configuration."""
    import torch
    from safetensors.torch import save_file

    hidden, inner, heads, kv, dim = target["hidden_size"], 256, 4, 2, 32
    layers = [1, target["num_hidden_layers"] - 2]
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=generator) * 0.02

    prefix = "layers.0."
    weights = {
        "fc.weight": normal(hidden, len(layers) * hidden),
        "hidden_norm.weight": torch.ones(hidden),
        "norm.weight": torch.ones(hidden),
        prefix + "self_attn.q_proj.weight": normal(heads * dim, hidden),
        prefix + "self_attn.k_proj.weight": normal(kv * dim, hidden),
        prefix + "self_attn.v_proj.weight": normal(kv * dim, hidden),
        prefix + "self_attn.o_proj.weight": normal(hidden, heads * dim),
        prefix + "self_attn.q_norm.weight": torch.ones(dim),
        prefix + "self_attn.k_norm.weight": torch.ones(dim),
        prefix + "input_layernorm.weight": torch.ones(hidden),
        prefix + "post_attention_layernorm.weight": torch.ones(hidden),
        prefix + "mlp.gate_proj.weight": normal(inner, hidden),
        prefix + "mlp.up_proj.weight": normal(inner, hidden),
        prefix + "mlp.down_proj.weight": normal(hidden, inner),
    }
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": dim,
        "num_hidden_layers": 1,
        "num_target_layers": target["num_hidden_layers"],
        "vocab_size": target["vocab_size"],
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": target["max_position_embeddings"],
        "attention_bias": False,
        "torch_dtype": "float32",
        "block_size": block,
        "dflash_config": {"mask_token_id": 0, "target_layer_ids": layers},
    }
    folder.mkdir()
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class Server:
    def __init__(
        self, log: Path, model: str, python_path: Path, settings: dict[str, Any], *arguments: str, **environment: str
    ) -> None:
        self.log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        fixed = "--device cpu --attention-backend torch_native --dtype float32 --max-total-tokens 6000"
        more = "--max-running-requests 8 --skip-server-warmup --host 127.0.0.1"
        command = [sys.executable, "-m", "sglang.launch_server", "--model-path", model, *fixed.split(), *more.split()]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port), *arguments],
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={
                    **os.environ,
                    "SGLANG_USE_CPU_ENGINE": "1",
                    "OMP_NUM_THREADS": "1",
                    "HF_HUB_OFFLINE": "1",
                    "PYTHONPATH": str(python_path),
                    "SGLANG_PLUGINS": "ddops-overlay,ddops-cpu,planted-drafter",
                    "DDOPS_OVERLAY": json.dumps({"platform": "cpu", **settings}),
                    **environment,
                },
            )

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def reports(self) -> list[dict[str, Any]]:
        lines = [line for line in self.text().splitlines() if line.startswith('{"ddops_overlay"')]
        return [json.loads(line)["ddops_overlay"] for line in lines]

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while "fired up" not in self.text():
            assert self._process.poll() is None, self.text()[-3000:]
            assert time.monotonic() < end, self.text()[-3000:]
            time.sleep(0.2)

    def generate(self, prompt: list[int], **params: Any) -> dict[str, Any]:
        body = {"input_ids": prompt, "sampling_params": {"temperature": 0, **params}}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        answer: dict[str, Any] = json.load(urllib.request.urlopen(request, timeout=300))  # noqa: S310 - http, above
        return answer

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
