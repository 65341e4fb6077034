"""The drafter's own model and training, on a tiny target with random weights."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed here: run with the engine's Python (conftest)")
transformers = pytest.importorskip("transformers", reason="transformers is the engine's")

from ddops_drafter import acceptance, checkpoint, corpus, shape, training  # noqa: E402
from ddops_drafter.answers import Text, answer, encode  # noqa: E402
from ddops_drafter.corpus import Prompt  # noqa: E402
from ddops_drafter.loss import loss, roots_of, wanted  # noqa: E402
from ddops_drafter.model import Drafter, seen  # noqa: E402

torch.set_num_threads(1)  # all of it is small: threads would wait for each other

CONFIG = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 4, "vocab_size": 50, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": True,
}  # fmt: skip
SHAPE = shape.for_target(CONFIG, layers=2, block=5, taps=(0, 2), mask_token=3)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
    return made.eval().requires_grad_(False)


@pytest.fixture
def drafter() -> Drafter:
    torch.manual_seed(1)
    return Drafter(SHAPE)


def texts(count: int, length: int = 24) -> list[Text]:
    """Texts that go up in steps of their own: foreseeable from what came before."""
    made = []
    for n in range(count):
        step = 1 + n % 3
        made.append(Text([4 + (n + step * i) % 46 for i in range(length)], 4, n % 5 == 0))
    return made


def test_a_block_sees_what_is_before_its_root_and_itself_in_both_directions(drafter: Drafter) -> None:
    generator = torch.Generator().manual_seed(2)
    blocks = torch.randn((1, 2, 5, 32), generator=generator)
    roots, lengths = torch.tensor([[6, 9]]), torch.tensor([12])
    tapped = torch.randn((1, 14, 64), generator=generator)

    def changed(places: dict[str, Any]) -> list[bool]:
        other_blocks, other_tapped = blocks.clone(), tapped.clone()
        if "tap" in places:
            other_tapped[0, places["tap"]] += 1
        if "block" in places:
            other_blocks[0, places["block"][0], places["block"][1]] += 1
        was = drafter(blocks, roots, tapped, lengths)
        now = drafter(other_blocks, roots, other_tapped, lengths)
        return [not torch.allclose(was[0, a], now[0, a], atol=1e-6) for a in range(2)]

    assert changed({"tap": 5}) == [True, True]
    assert changed({"tap": 6}) == [False, True], "the root's own place is not computed yet when it is drafted from"
    assert changed({"tap": 9}) == [False, False]
    assert changed({"block": (0, 4)}) == [True, False]
    late = blocks.clone()
    late[0, 0, 4] += 1
    first = drafter(late, roots, tapped, lengths)[0, 0, 0] - drafter(blocks, roots, tapped, lengths)[0, 0, 0]
    assert float(first.abs().max()) > 1e-5, "the last place is seen by the first"


def test_padding_is_seen_by_nobody() -> None:
    mask = seen(torch.tensor([[3]]), 8, torch.tensor([2]), 2)
    assert mask[0].tolist() == [[True, True, *[False] * 6, True, True]] * 2


def test_positions_rotate_as_the_targets_own(model: Any) -> None:
    from ddops_drafter.model import rotate, rotation
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    x = torch.randn((1, 5, 4, 8))
    positions = torch.arange(3, 8)[None]
    cos, sin = model.model.rotary_emb(x, positions)
    theirs, _ = apply_rotary_pos_emb(x.transpose(1, 2), x.transpose(1, 2), cos, sin)
    ours = rotate(x, *rotation(positions, 8, 10000.0))
    torch.testing.assert_close(ours, theirs.transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_roots_lie_where_the_next_token_is_the_targets() -> None:
    generator = torch.Generator().manual_seed(3)
    starts, lengths = torch.tensor([4, 10]), torch.tensor([6, 30])
    roots = roots_of(starts, lengths, 500, generator)
    assert (roots[0] == 4).all()
    assert (int(roots[1].min()), int(roots[1].max())) == (10, 28)


def test_what_follows_a_root_ends_with_the_text() -> None:
    ids = torch.tensor([[5, 6, 7, 8, 0, 0]])
    assert wanted(ids, torch.tensor([[1, 2]]), torch.tensor([4]), 3).tolist() == [[[7, 8, -100], [8, -100, -100]]]


def test_the_loss_is_weighted_by_place_and_leaves_out_what_is_not_there() -> None:
    logits = torch.zeros((1, 3, 4))
    logits[0, 0, 2] = 2.0
    tokens = torch.tensor([[2, 1, -100]])
    first, second = float(-torch.log_softmax(logits[0, 0], -1)[2]), float(torch.log(torch.tensor(4.0)))
    weight = float(torch.exp(torch.tensor(-0.5)))
    assert float(loss(logits, tokens, 2.0)) == pytest.approx((first + weight * second) / (1 + weight), abs=1e-5)


def test_a_walk_counts_what_a_server_would_emit() -> None:
    count = acceptance.Count()
    # 7 tokens follow the first root: 3 steps of 1 + 2, 1 + 0, 1 + 4 cut to the 3 that are left
    acceptance.walk([2, 9, 9, 0, 4, 9, 9, 9], count)
    assert (count.tokens, count.steps) == (7, 3)


def test_a_tree_holds_what_its_chain_holds_and_more() -> None:
    generator = torch.Generator().manual_seed(4)
    logp, ids = torch.randn((40, 4, 30), generator=generator).log_softmax(-1).topk(6, dim=-1)
    tokens = torch.stack([ids[n, torch.arange(4), torch.randint(3, (4,), generator=generator)] for n in range(40)])
    chain = acceptance.right_in_chain(ids[..., 0], tokens)
    small = acceptance.right_in_tree(logp, ids, tokens, 6)
    large = acceptance.right_in_tree(logp, ids, tokens, 60)
    assert all(a <= b <= c for a, b, c in zip(chain, small, large, strict=True))
    assert sum(chain) < sum(small) < sum(large)


def test_training_learns_what_can_be_foreseen_and_goes_on_where_it_was_left(model: Any, tmp_path: Path) -> None:
    recipe = training.Recipe(steps=120, batch=8, roots=6, rate=3e-3, warm_up=0.1)
    target = training.Target(model, SHAPE.taps)
    every = texts(40)
    learned, held_out = [t for t in every if not t.held_out], [t for t in every if t.held_out]
    whole, losses = Drafter(SHAPE), []
    start = {name: value.clone() for name, value in whole.state_dict().items()}
    before = training.accepted(whole, target, held_out, (8,))

    def run(drafter: Drafter, state: Any, until: int) -> None:
        def tell(step: int, lost: float, _: float) -> None:
            losses.append(lost)
            if step == until:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            training.train(
                drafter, target, learned, recipe, state,
                lambda kept: checkpoint.save(tmp_path / "state.pt", kept), tell, keep_every=30,
            )  # fmt: skip

    run(whole, None, 10**9)
    in_one = {name: value.clone() for name, value in whole.state_dict().items()}
    after = training.accepted(whole, target, held_out, (8,))
    assert losses[-1] < losses[0] - 0.4
    assert before["chain"] < 1.2 < 2 < after["chain"] <= 5
    assert after["8"] >= after["chain"]

    (tmp_path / "state.pt").unlink()
    again = Drafter(SHAPE)
    again.load_state_dict(start)
    run(again, None, 75)  # killed at step 75: what was kept is of step 60
    assert checkpoint.resume(tmp_path / "state.pt")["step"] == 60  # type: ignore[index]
    resumed = Drafter(SHAPE)
    run(resumed, checkpoint.resume(tmp_path / "state.pt"), 10**9)
    for name, value in resumed.state_dict().items():
        torch.testing.assert_close(value, in_one[name], atol=1e-5, rtol=1e-4)


def test_a_checkpoint_has_the_names_that_sglang_loads(drafter: Drafter, tmp_path: Path) -> None:
    import engine

    checkpoint.export(drafter, tmp_path / "ours")
    theirs = engine.write_drafter(tmp_path / "theirs", CONFIG)
    from safetensors.torch import load_file

    def names(folder: Path) -> set[str]:
        return {name for name in load_file(str(folder / "model.safetensors")) if not name.startswith("layers.1.")}

    assert names(tmp_path / "ours") == names(theirs)
    ours, known = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "ours", theirs))
    assert set(ours) == set(known)
    assert ours["dflash_config"] == {"mask_token_id": 3, "target_layer_ids": [0, 2]}
    back = checkpoint.read(tmp_path / "ours", SHAPE)
    for name, value in back.state_dict().items():
        torch.testing.assert_close(value, drafter.state_dict()[name], atol=1e-2, rtol=1e-2)
    with pytest.raises(ValueError, match="another drafter"):
        checkpoint.read(tmp_path / "ours", shape.for_target(CONFIG, layers=3, block=5, taps=(0, 2), mask_token=3))


def test_a_shape_that_does_not_fit_its_target_is_refused() -> None:
    with pytest.raises(ValueError, match="taps"):
        shape.for_target(CONFIG, layers=1, block=5, taps=(4,), mask_token=3)
    with pytest.raises(ValueError, match="mask token"):
        shape.for_target(CONFIG, layers=1, block=5, taps=(1,), mask_token=50)


def test_the_rotation_is_the_targets_in_either_way_of_writing_it() -> None:
    rest = {key: value for key, value in CONFIG.items() if key != "rope_theta"}
    newer = {**rest, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}}
    assert shape.for_target(newer, layers=1, block=5, taps=(1,), mask_token=3).rope_theta == 5000.0
    with pytest.raises(ValueError, match="rope_theta"):
        shape.for_target(rest, layers=1, block=5, taps=(1,), mask_token=3)


def test_prompts_are_the_same_for_a_seed_and_no_held_out_subject_is_learned_from() -> None:
    found = corpus.prompts(7, 4000)
    assert found == corpus.prompts(7, 4000)
    assert found != corpus.prompts(8, 4000)
    assert len({p.text for p in found}) > 3950
    held_out = {p.subject for p in found if p.held_out}
    assert not held_out & {p.subject for p in found if not p.held_out}
    assert 0.1 < sum(p.held_out for p in found) / len(found) < 0.3


class Words:
    """A tokenizer of numbers."""

    pad_token_id = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [int(word) for word in text.split()]

    def apply_chat_template(self, said: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        return f"1 {said[0]['content']} 2"


def test_answers_are_the_targets_greedy_ones_whatever_they_were_asked_beside(model: Any) -> None:
    model.generation_config.eos_token_id = 49
    prompts = [Prompt("5 6 7 8", False, "a"), Prompt("9", True, "b"), Prompt("11 12", False, "c")]
    told: list[int] = []
    found = list(answer(model, Words(), prompts, 6, 2, told.append))
    assert told == [2, 3]
    for text in found:
        ids = text.ids[: text.start + 1]
        for token in text.ids[text.start + 1 :]:
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids = [*ids, token]
    assert encode(Words(), prompts[1]) == [1, 9, 2]
    assert {tuple(text.ids[: text.start + 1]) for text in found} == {(5, 6, 7, 8), (1, 9, 2), (11, 12)}


def test_a_sampled_lead_makes_other_texts_whose_rest_is_greedy(model: Any) -> None:
    model.generation_config.eos_token_id = 49
    prompts = [Prompt("5 6 7 8", False, "a"), Prompt("11 12", False, "c")]
    torch.manual_seed(0)
    found = list(answer(model, Words(), prompts, 6, 2, lambda _: None, lead=3))
    greedy = list(answer(model, Words(), prompts, 9, 2, lambda _: None))
    assert sorted(text.start for text in found) == [4, 6]
    assert {tuple(text.ids[: text.start - 2]) for text in found} == {(5, 6, 7, 8), (11, 12)}
    assert [text.ids[:7] for text in found] != [text.ids[:7] for text in greedy]
    for text in found:
        for at in range(text.start + 1, len(text.ids)):
            assert int(model(torch.tensor([text.ids[:at]])).logits[0, -1].argmax()) == text.ids[at]


def test_the_rate_goes_up_and_comes_down_with_what_is_done() -> None:
    recipe = training.Recipe(rate=1.0, warm_up=0.1)
    rates = [training.rate_at(n / 100, recipe) for n in range(101)]
    assert max(rates) == rates[10] == pytest.approx(1.0)
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[5] == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(0.02)
