"""The drafter, as plain PyTorch for training; the engine runs the same weights through SGLang's DFlashDraftModel.

A block is [root, MASK, MASK, ...] at positions p, p + 1, ... Its queries see the context before p and the whole block,
in both directions; what comes out at place k of the block is the proposal for position p + k. The context is not
computed by the drafter's layers: each layer projects its keys and values straight from what the target's layers said
(the outputs of ``taps``, joined, through ``fc`` and a norm).

Source: arXiv 2602.06036; SGLang's models/dflash.py for names and the order of norms.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .shape import Shape


class Norm(nn.Module):
    """RMS norm over the last dimension, in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


def rotation(positions: torch.Tensor, dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cos and sin [..., dim / 2] float32 of int positions [...]."""
    frequencies = theta ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float32) / dim)
    angles = positions[..., None].float() * frequencies
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates x [b, n, heads, dim] by cos and sin [b, n, dim / 2], first half against second (NeoX)."""
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, :, None], sin[:, :, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)
        self.q_norm = Norm(shape.head_dim, shape.eps)
        self.k_norm = Norm(shape.head_dim, shape.eps)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, context: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """x [b, n, H] at positions [b, n]; context [b, L, H] at 0 ... L - 1; mask [b, n, L + n] bool, True: seen."""
        b, n, _ = x.shape
        length, dim = context.shape[1], self.shape.head_dim
        source = torch.cat((context, x), dim=1)
        queries = self.q_norm(self.q_proj(x).view(b, n, -1, dim))
        keys = self.k_norm(self.k_proj(source).view(b, length + n, -1, dim))
        values = self.v_proj(source).view(b, length + n, -1, dim)
        before = torch.arange(length, device=x.device).expand(b, length)
        everywhere = torch.cat((before, positions), dim=1)
        queries = rotate(queries, *rotation(positions, dim, self.shape.rope_theta))
        keys = rotate(keys, *rotation(everywhere, dim, self.shape.rope_theta))
        shared = self.shape.heads // self.shape.kv_heads
        keys, values = keys.repeat_interleave(shared, dim=2), values.repeat_interleave(shared, dim=2)
        out = F.scaled_dot_product_attention(
            queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask[:, None]
        )
        joined: torch.Tensor = self.o_proj(out.transpose(1, 2).reshape(b, n, -1))
        return joined


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Mlp(shape)
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, context: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        # the context comes in as it is, through no norm of the layer's own
        x = x + self.self_attn(self.input_layernorm(x), positions, context, mask)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Drafter(nn.Module):
    """Its parameters have the names that SGLang looks for; it has no embedding and no head: they are the target's."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(len(shape.taps) * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm = Norm(shape.hidden, shape.eps)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)

    def forward(
        self, blocks: torch.Tensor, roots: torch.Tensor, tapped: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Returns what the head makes tokens of, [b, A, block, H].

        blocks [b, A, block, H], the target's embeddings of roots and masks; roots [b, A] int64, the positions of the
        roots; tapped [b, L, K H], the outputs of the target's tapped layers; lengths [b] int64, tokens of each text.
        """
        b, count, block, hidden = blocks.shape
        steps = torch.arange(block, device=blocks.device)
        positions = (roots[..., None] + steps).reshape(b, count * block)
        mask = seen(roots, tapped.shape[1], lengths, block)
        context = self.hidden_norm(self.fc(tapped))
        x = blocks.reshape(b, count * block, hidden)
        for layer in self.layers:
            x = layer(x, positions, context, mask)
        out: torch.Tensor = self.norm(x)
        return out.view(b, count, block, hidden)


def seen(roots: torch.Tensor, length: int, lengths: torch.Tensor, block: int) -> torch.Tensor:
    """Returns who sees whom, [b, A block, L + A block] bool: the context strictly before a root, and its own block.

    roots [b, A] int64, lengths [b] int64. The root's own place in the context is not seen: the target has not computed
    it when the root is its newest token.
    """
    b, count = roots.shape
    places = torch.arange(length, device=roots.device)
    before = (places < roots[..., None]) & (places < lengths[:, None, None])
    before = before.repeat_interleave(block, dim=1)
    owner = torch.arange(count, device=roots.device).repeat_interleave(block)
    own = (owner[:, None] == owner[None, :]).expand(b, -1, -1)
    return torch.cat((before, own), dim=2)
