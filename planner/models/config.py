"""config.json → ModelArchitecture. The file is a stranger's: whatever it holds, the answer is an architecture or UnknownModel."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from planner.models.architecture import Matrix, ModelArchitecture, UnknownModel, Vector
from planner.models.builder import Builder, Parts
from planner.models.config_reader import ConfigReader
from planner.models.families.table import FAMILIES
from planner.models.quantization import read_quantization
from planner.models.rope import rope_section, rope_type

#: The keys that say how long a context the model was made for; the engine takes the smallest (vLLM, config/model.py).
LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
#: What the config class says where the file states no length, as Google's files for Gemma 3 (Transformers 5).
CLASS_LENGTHS = {
    "cohere2": 8192,
    "gemma": 8192,
    "gemma2": 8192,
    "gemma3_text": 131072,
    "gemma3n_text": 32768,
    "gemma4_text": 131072,
    "gemma4_unified_text": 262144,
    "gpt_oss": 131072,
    "llama": 2048,
    "llama4_text": 131072,
    "mistral": 131072,
    "mixtral": 131072,
    "mllama_text_model": 131072,
    "phi3": 4096,
    "qwen2": 32768,
    "qwen2_5_vl_text": 32768,
    "qwen2_vl_text": 32768,
    "qwen3": 32768,
    "qwen3_moe": 32768,
    "qwen3_vl_moe_text": 128000,
    "qwen3_vl_text": 128000,
}
_DTYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
}
_MOST_PARAMETERS = 10**15


def architecture(
    config: dict[str, Any], quant_config: dict[str, Any] | None = None, id: str = "", checkpoint_bytes: int = 0
) -> ModelArchitecture:
    """The model that a config.json describes, as an engine would build it.

    ``quant_config`` is the content of hf_quant_config.json where the checkpoint has one, ``id`` the name people know,
    ``checkpoint_bytes`` the size of the weight files where somebody measured it. Raises UnknownModel, and nothing else,
    for a file that is wrong or describes an architecture or a quantization that is not understood.
    """
    try:
        return _architecture(config, quant_config, id, checkpoint_bytes)
    except UnknownModel:
        raise
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError, AttributeError) as error:
        raise UnknownModel(
            f"config.json is inconsistent ({type(error).__name__}: {str(error)[:80]})",
            "correct config.json, or name another model with the annotation planner/model",
        ) from error


def _architecture(config: Any, quant_config: Any, id: str, checkpoint_bytes: int) -> ModelArchitecture:
    root = ConfigReader(config)
    name = architecture_class(root)
    family = FAMILIES.get(name)
    if family is None:
        raise UnknownModel(
            f"the architecture {name} is not understood",
            "state its memory with the annotation planner/given, or add a family for it in planner/models/families",
        )
    text = with_class_length(language_part(root))
    # A config.json may carry the separate file's content, so that one file says everything.
    quantization = read_quantization(root, text, quant_config or root.raw("_hf_quant_config"))
    builder = Builder(root, text, quantization, name)
    module = import_module(f"planner.models.families.{family[0]}")
    parts: Parts = getattr(module, family[1])(builder)
    length, key = derived_length(text)
    section = rope_section(text)
    formats = dict(quantization.formats)
    formats["plain"] = formats["model"]
    for plain in ("bfloat16", "float16", "float32"):
        formats.setdefault(plain, formats["model"]._replace(name=plain))
    parameters = count_parameters(parts)
    if not 0 < parameters < _MOST_PARAMETERS:
        raise UnknownModel(f"config.json describes {parameters:.3g} parameters", "correct config.json")
    return ModelArchitecture(
        id=id,
        architecture=name,
        model_type=root.text("model_type"),
        dtype=checkpoint_dtype(root, text),
        hidden_size=parts.hidden or builder.hidden,
        vocab_size=parts.vocab or builder.vocab,
        layers=parts.layers,
        embedding=parts.embedding,
        head=parts.head,
        tied_embeddings=parts.tied,
        formats=formats,
        final_vectors=parts.final_vectors,
        towers=parts.towers,
        mtp_layers=parts.mtp_layers,
        buffers=sum(
            table.positions * table.dim * table.count * (4 if table.dtype == "float32" else 2) for table in parts.tables
        ),
        rope_tables=" + ".join(f"{table.positions}×{table.dim}" for table in parts.tables),
        derived_max_len=length,
        max_len_key=key,
        rope_type=rope_type(section),
        rope_factor=section.number("factor", default=1.0) if section else 1.0,
        original_max_len=original_length(text, section),
        quantization=quantization.method,
        quant_group=max(quantization.group, 0),
        kv_cache_dtype_hint=quantization.kv_cache,
        intermediate_size=parts.intermediate,
        num_experts=parts.experts,
        experts_per_token=parts.experts_per_token,
        moe_intermediate_size=parts.expert_intermediate,
        heads=parts.heads,
        kv_heads=parts.kv_heads,
        head_dim=parts.head_dim,
        parameters=parameters,
        pooling=parts.pooling,
        encoder_decoder=parts.encoder_decoder,
        multimodal=parts.multimodal,
        checkpoint_bytes=checkpoint_bytes,
        extra=parts.extra,
        rotary_tables=parts.tables,
        embedding_vectors=parts.embedding_vectors,
        embedding_everywhere=family[2] in ("embedding", "both"),
        head_everywhere=family[2] in ("head", "both"),
    )


def architecture_class(root: ConfigReader) -> str:
    """The first architecture that config.json names. Raises UnknownModel where it names none."""
    names = root.strings("architectures")
    if not names:
        raise UnknownModel("config.json names no architectures", 'add "architectures" to config.json')
    return names[0][:100]


def language_part(root: ConfigReader) -> ConfigReader:
    """The part that describes the language model: nested in multimodal configs, the whole file elsewhere."""
    thinker = root.section("thinker_config")
    outer = thinker if thinker is not None else root
    for name in ("text_config", "llm_config", "language_config"):
        inner = outer.section(name)
        if inner is not None:
            return inner
    return outer


def with_class_length(text: ConfigReader) -> ConfigReader:
    """The same with the context length of its config class where the file states none."""
    length = CLASS_LENGTHS.get(text.text("model_type"))
    if length is None or any(key in text for key in LENGTH_KEYS):
        return text
    return ConfigReader({**text.data, "max_position_embeddings": length}, text.where)


def checkpoint_dtype(root: ConfigReader, text: ConfigReader) -> str:
    """The dtype the checkpoint states; float32 where it states none, as Transformers has it."""
    for reader in (root, text):
        value = reader.raw("dtype", "torch_dtype")
        if isinstance(value, str):
            return _DTYPES.get(value.removeprefix("torch.")[:20], "float32")
    return "float32"


def derived_length(config: ConfigReader) -> tuple[int, str]:
    """The smallest stated context length in tokens and its key; (0, "") where nothing states one."""
    found = [(config.integer(key), key) for key in LENGTH_KEYS if isinstance(config.raw(key), (int, float))]
    return min(found) if found else (0, "")


def original_length(config: ConfigReader, section: ConfigReader | None) -> int:
    """The context length before rope scaling, 0 where nothing states one."""
    stated = config.count("original_max_position_embeddings", default=0)
    return stated or (section.count("original_max_position_embeddings", default=0) if section else 0)


def count_parameters(parts: Parts) -> int:
    """Elements of all parameters of the unquantized model: without vocabulary padding and without MTP layers."""
    total = sum(matrix_parameters(m) for m in (parts.embedding, parts.head) if m is not None)
    total += sum(vector_parameters(v) for v in (*parts.final_vectors, *parts.embedding_vectors))
    seen: dict[int, int] = {}
    for layer in parts.layers:
        size = seen.get(id(layer))
        if size is None:
            size = sum(map(matrix_parameters, layer.matrices)) + sum(map(vector_parameters, layer.vectors))
            seen[id(layer)] = size
        total += size
    for tower in parts.towers:
        total += sum(map(matrix_parameters, tower.matrices)) + sum(map(vector_parameters, tower.vectors))
    return total


def matrix_parameters(matrix: Matrix) -> int:
    """Weights and biases of a matrix, all experts and copies."""
    if matrix.until:
        return 0
    size = matrix.n * matrix.k + (matrix.n if matrix.bias else 0)
    return size * matrix.count * max(matrix.experts, 1)


def vector_parameters(vector: Vector) -> int:
    """Elements of a vector, all copies."""
    return 0 if vector.until or vector.buffer else vector.n * vector.count
