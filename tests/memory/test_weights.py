"""Weight bytes of a rank: worked examples, partitions, and how ranks add up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.accelerator import Accelerator
from planner.engines.config import Parallelism
from planner.estimate import Estimate
from planner.memory.weights import rank_weights, stage_layers
from planner.models.architecture import ModelArchitecture
from planner.models.config import architecture
from planner.units import GIB, MIB
from tests.memory.starts import start
from tests.models.test_config import DEEPSEEK_V3, GEMMA_2_27B, GPT_OSS, LLAMA_8B

V32 = (0, 32, 0)
H100 = Accelerator("H100", "nvidia", Estimate(0, 0, 0), (9, 0), "")
B200 = Accelerator("B200", "nvidia", Estimate(0, 0, 0), (10, 0), "")


def bytes_of(
    model: ModelArchitecture, parallel: Parallelism, tensor_rank: int = 0, stage: int = 0, **more: object
) -> int:
    options = {"engine_version": V32, "dtype": "bfloat16", "accelerator": H100, **more}
    return rank_weights(model, parallel, tensor_rank, stage, **options).bytes.expected  # type: ignore[arg-type]


def test_llama_8b_as_a_public_log_says() -> None:
    # vLLM issue 10517: "Loading model weights took 14.9888 GB" on a 3090.
    size = bytes_of(architecture(LLAMA_8B), Parallelism())
    assert round(size / 2**30, 4) == 14.9888


def test_gpt_oss_by_version_and_device() -> None:
    model = architecture(GPT_OSS)
    for version, device, gib in (
        ((0, 32, 0), H100, 12.89),
        ((0, 24, 0), H100, 13.44),
        ((0, 19, 1), H100, 13.63),
        ((0, 32, 0), B200, 13.70),
    ):
        size = bytes_of(model, Parallelism(), engine_version=version, accelerator=device)
        assert size / 2**30 == pytest.approx(gib, abs=0.006)


def test_absorbed_matrices_of_latent_attention() -> None:
    fp8 = architecture(DEEPSEEK_V3)
    plain = architecture({k: v for k, v in DEEPSEEK_V3.items() if k != "quantization_config"})
    with_copies = bytes_of(fp8, Parallelism(tensor=8))
    absorbed = 61 * 16 * 256 * 512 * 2
    assert absorbed == 255_852_544
    rough = sum(m.n * m.k for m in fp8.layers[3].matrices)
    assert with_copies > absorbed
    assert bytes_of(plain, Parallelism(tensor=8)) < 2 * (with_copies - absorbed)
    assert rough > 0


def test_tied_embedding_stands_on_first_and_last_stage() -> None:
    model = architecture({**LLAMA_8B, "tie_word_embeddings": True})
    embedding = 128256 * 4096 * 2
    whole = bytes_of(model, Parallelism())
    first = bytes_of(model, Parallelism(pipeline=2), stage=0)
    last = bytes_of(model, Parallelism(pipeline=2), stage=1)
    assert first + last == whole + embedding + model.buffers


def test_vocabulary_is_padded_to_64_and_kv_heads_are_replicated() -> None:
    model = architecture({**LLAMA_8B, "vocab_size": 128257, "num_hidden_layers": 1})
    size = bytes_of(model, Parallelism(tensor=16))
    rows = 128320 // 16
    qkv = (2 + 1 + 1) * 128 * 4096
    layer = qkv + 2 * 128 * 4096 + 3 * (14336 // 16) * 4096 + 2 * 4096
    assert size == 2 * (2 * rows * 4096 + layer + 4096) + model.buffers + 16


def test_expert_parallelism_places_whole_experts() -> None:
    model = architecture(GPT_OSS)
    spread = Parallelism(tensor=4, expert=True)
    assert bytes_of(model, spread, expert_rank=0) == bytes_of(model, spread, 3, expert_rank=3)
    plain = bytes_of(model, spread)
    expert = (plain - bytes_of(model, Parallelism(tensor=4, data=2, expert=True))) / 24 / 4
    # Two more experts over four ranks: the first two ranks hold one more each; balancing needs a buffer of one layer.
    more, same = (bytes_of(model, spread, expert_rank=rank, eplb_redundant=2) for rank in (0, 3))
    assert more - plain == pytest.approx(24 * expert + 9 * expert, rel=1e-9)
    assert same - plain == pytest.approx(8 * expert, rel=1e-9)


def test_lora_slots_of_llama_8b() -> None:
    model = architecture(LLAMA_8B)
    added = bytes_of(model, Parallelism(), lora=(1, 16)) - bytes_of(model, Parallelism())
    linears, embedding, head = 80 * MIB, (128256 + 4096) * 16 * 2, (128256 + 4096) * 16 * 2
    assert added == linears + embedding + head


def test_online_quantization_leaves_embedding_and_head_alone() -> None:
    model = architecture(LLAMA_8B)
    plain, fp8 = bytes_of(model, Parallelism()), bytes_of(model, Parallelism(), quantization="fp8")
    linear = sum(m.n * m.k for m in model.layers[0].matrices) * 32
    assert plain - fp8 == pytest.approx(linear, rel=1e-4)
    assert bytes_of(model, Parallelism(), quantization="bitsandbytes") < fp8
    checkpoint = architecture(DEEPSEEK_V3)
    assert bytes_of(checkpoint, Parallelism(tensor=8), quantization="fp8") == bytes_of(
        checkpoint, Parallelism(tensor=8)
    )


def test_offload_takes_away_what_it_moves() -> None:
    model = architecture(LLAMA_8B)
    assert bytes_of(model, Parallelism(), cpu_offload_gib=4) == bytes_of(model, Parallelism()) - 4 * 2**30


def test_partitions_by_version() -> None:
    assert [len(s) for s in stage_layers(61, 4, (0, 7, 3))] == [15, 15, 15, 16]
    assert [len(s) for s in stage_layers(62, 4, (0, 8, 0))] == [15, 16, 16, 15]
    assert [len(s) for s in stage_layers(61, 2, V32)] == [31, 30]
    assert stage_layers(10, 2, V32, (7, 3)) == [range(7), range(7, 10)]
    with pytest.raises(ValueError, match="partition"):
        stage_layers(10, 2, V32, (7, 4))


@settings(max_examples=60, deadline=None)
@given(layers=st.integers(1, 200), pp=st.integers(1, 16), version=st.sampled_from([(0, 7, 0), (0, 8, 0), V32]))
def test_stages_cover_every_layer_once(layers: int, pp: int, version: tuple[int, ...]) -> None:
    stages = stage_layers(layers, pp, version)
    assert [i for stage in stages for i in stage] == list(range(layers))


@settings(max_examples=40, deadline=None)
@given(config=st.sampled_from([LLAMA_8B, GPT_OSS, DEEPSEEK_V3, GEMMA_2_27B]), power=st.integers(0, 4))
def test_more_ranks_never_hold_more(config: dict[str, object], power: int) -> None:
    model = architecture(config)  # type: ignore[arg-type]
    term = rank_weights(
        model, Parallelism(tensor=2**power), 0, 0, engine_version=V32, dtype="bfloat16", accelerator=H100
    )
    assert term.bytes.low <= term.bytes.expected <= term.bytes.high
    if power:
        assert term.bytes.expected < bytes_of(model, Parallelism(tensor=2 ** (power - 1)))


def test_measured_weight_files_correct_what_a_quantized_config_describes() -> None:
    one = Parallelism(tensor=8)
    described = bytes_of(architecture(DEEPSEEK_V3), one)
    files = 674_000_000_000  # what the config describes, near enough
    term = rank_weights(
        architecture(DEEPSEEK_V3, checkpoint_bytes=round(files * 1.2)),
        one,
        0,
        0,
        engine_version=V32,
        dtype="bfloat16",
        accelerator=H100,
    )
    assert 1.1 * described < term.bytes.expected < 1.25 * described
    assert term.bytes.low < described < term.bytes.high
    assert "by the size of the weight files" in term.formula
    for size in (0, 674_000_000_000, 2 * files):  # unknown, the true size without MTP, two copies in one folder
        assert bytes_of(architecture(DEEPSEEK_V3, checkpoint_bytes=size), one) == described
    plain = bytes_of(architecture(LLAMA_8B), Parallelism())
    assert bytes_of(architecture(LLAMA_8B, checkpoint_bytes=20_000_000_000), Parallelism()) == plain


def test_experts_of_gpt_oss_on_hopper_before_the_wheel_had_tritons_kernels() -> None:
    """Public starts print 65.97 GiB (Marlin, 0.10) and 64.38 GiB (an image of 0.11.0 with Triton's kernels)."""
    of = start("openai/gpt-oss-120b", "H100-80GB", "0.11.0")
    term = rank_weights(
        of.model, of.config.parallel, 0, 0, engine_version=(0, 11), dtype="bfloat16", accelerator=of.accelerator
    )
    low, expected, high, _ = term.bytes
    assert expected / GIB == pytest.approx(65.97, abs=0.05)
    assert low / GIB <= 64.38 <= 65.97 <= high / GIB
