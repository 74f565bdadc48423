"""Adds a model to the catalog, or to a copy of it, from its ``config.json``, in one step::

    python -m planner.catalog.add config.json --id ORG/NAME --source "hub, 2026-11-29" [--checkpoint-bytes N]

A ``hf_quant_config.json`` beside the file is taken along. The model must be understood: an architecture that is unknown
is refused with the reason, as everywhere. What has no influence on memory (token ids, dropout, training) is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from planner import catalog

#: Keys that no engine reads when it allocates memory, at any depth of a config.
_NOISE_WORDS = """
    _attn_implementation _attn_implementation_internal _commit_hash _from_model_config _name_or_path
    activation_dropout add_cross_attention apply_spec_augment aux_loss_alpha auto_map
    attention_dropout attention_dropout_prob attention_probs_dropout_prob attn_dropout attn_dropout_prob attn_implementation
    attn_pdrop bad_words_ids begin_suppress_tokens chat_template chunk_size_feed_forward classifier_dropout
    cross_attention_hidden_size decoder_layerdrop diversity_penalty do_sample dropout drop_path_rate early_stopping embd_pdrop
    embedding_dropout embedding_dropout_prob embedding_initializer_range emb_dropout_prob encoder_layerdrop
    encoder_no_repeat_ngram_size ep_size eos_token_ids exponential_decay_length_penalty ffn_dropout_prob finetuning_task
    forced_bos_token_id forced_eos_token_id fp16 fp32 freeze_mm_mlp_adapter freeze_mm_vision_resampler gradient_checkpointing
    hidden_dropout hidden_dropout_prob hidden_dropout_rate id2label ignore_index init_std initializer_cutoff_factor
    initializer_factor initializer_range input_jitter_noise label2id layerdrop length_penalty linear_a_log_max
    linear_a_log_min linear_dt_init_floor linear_dt_max linear_dt_min mamba_dt_init_floor mask_feature_length
    mask_feature_min_masks mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob max_length min_length
    mlp_dropout no_repeat_ngram_size norm_topk_prob num_beam_groups num_beams num_logits_to_keep num_return_sequences
    onnx_safe output_attentions output_hidden_states output_router_logits output_scores pad_sequence_to_multiple_of_64
    predict_special_tokens prefix pretraining_tp problem_type projector_dropout pruned_heads remove_invalid_values
    repetition_penalty rescale_prenorm_residual resid_pdrop residual_dropout residual_in_fp32 return_dict
    return_dict_in_generate router_aux_loss_coef router_jitter_noise sep_token seq_aux summary_activation
    summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens talker_config
    task_specific_params temperature template tf_legacy_loss time_step_floor time_step_limit time_step_max time_step_min
    token2wav_config tokenizer_class top_k top_p torchscript transformers_version transformers.js_config
    tune_mm_mlp_adapter tune_mm_vision_resampler typical_p unfreeze_mm_vision_tower use_bfloat16 use_cache
    use_mamba_kernels z_loss_weight
"""
NOISE = frozenset(_NOISE_WORDS.split())
_NOISE_ENDINGS = ("_token_id", "_token_index", "_token_ids")

#: The same inside a quantization scheme: how it was calibrated, not how it is stored.
_QUANTIZATION_NOISE_WORDS = """
    batch_size cache_block_outputs calibration damp_percent dataset exllama exllama_config
    global_compression_ratio iters lr max_input_length meta minmax_lr nsamples observer
    observer_kwargs pad_token_id producer quantization_status quantizer seqlen sparsity_config static_groups
    true_sequential tokenizer transform_config use_cuda_fp16 version_of_tool
"""
QUANTIZATION_NOISE = frozenset(_QUANTIZATION_NOISE_WORDS.split())


def trimmed(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` without what has no influence on memory; its ``quantization_config`` as ``trimmed_scheme`` has it."""
    result: dict[str, Any] = {}
    for key, value in config.items():
        if key == "quantization_config":
            if value:
                result[key] = trimmed_scheme(value)
        elif key in NOISE or (key.endswith(_NOISE_ENDINGS) and isinstance(value, (int, list, str, type(None)))):
            continue
        else:
            result[key] = trimmed(value) if isinstance(value, dict) else value
    return result


def trimmed_scheme(scheme: dict[str, Any]) -> dict[str, Any]:
    """A quantization scheme without empty keys and calibration notes, its lists of modules written short."""
    result: dict[str, Any] = {}
    for key, value in scheme.items():
        if value is None or key in QUANTIZATION_NOISE:
            continue
        if key == "quantized_layers" and isinstance(value, dict):
            result[key] = _grouped(_one_expert(value))
        elif isinstance(value, dict):
            result[key] = trimmed_scheme(value)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            result[key] = compact(value)
        else:
            result[key] = value
    return result


def compact(names: Iterable[str]) -> list[str]:
    """Module names with runs of numbers written as ``<0-3,5>``; ``catalog.model`` writes them out again."""
    result = list(dict.fromkeys(names))
    for position in range(4):
        groups: dict[tuple[str, str], list[str]] = {}
        for name in result:
            numbers = [] if name.startswith("re:") else list(re.finditer(r"(?<=\.)\d+(?=\.|$)", name))
            if position < len(numbers):
                found = numbers[-1 - position]
                groups.setdefault((name[: found.start()], name[found.end() :]), []).append(found.group())
            else:
                groups.setdefault((name, ""), [])
        result = [
            f"{head}<{_ranges(sorted(map(int, numbers)))}>{tail}"
            if len(numbers) > 1
            else head + "".join(numbers) + tail
            for (head, tail), numbers in groups.items()
        ]
    return result


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3,5`` of the sorted numbers 0, 1, 2, 3 and 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _one_expert(layers: dict[str, Any]) -> dict[str, Any]:
    """``quantized_layers`` with only the first of a layer's experts where all of them are stored alike.

    An engine holds the experts of a layer in one tensor and asks for the scheme of that; the files repeat it per expert.
    """
    kinds: dict[str, list[Any]] = {}
    for name, scheme in layers.items():
        kinds.setdefault(re.sub(r"\.experts\.\d+\.", ".experts.*.", name), []).append(scheme)
    return {
        name: scheme
        for name, scheme in layers.items()
        if ".experts.0." in name
        or ".experts." not in name
        or any(other != scheme for other in kinds[re.sub(r"\.experts\.\d+\.", ".experts.*.", name)])
    }


def _grouped(layers: dict[str, Any]) -> dict[str, Any]:
    """``quantized_layers`` with the names of equal schemes written short."""
    schemes: dict[str, list[str]] = {}
    for name, scheme in layers.items():
        schemes.setdefault(json.dumps(scheme, sort_keys=True), []).append(name)
    return {name: json.loads(scheme) for scheme, names in schemes.items() for name in compact(names)}


def entry(
    model_id: str,
    config: dict[str, Any],
    source: str,
    quant_config: dict[str, Any] | None = None,
    checkpoint_bytes: int = 0,
    parameters: int = 0,
    gated: bool | None = None,
) -> dict[str, Any]:
    """The entry of a checkpoint, checked: its architecture must be the one of the whole ``config``.

    Raises ``UnknownModel`` where the architecture is not understood, ``ValueError`` where the id is none.
    """
    from planner.models.config import architecture

    if not catalog.is_model_id(model_id):
        raise ValueError(f"{model_id} is not a hub id (ORG/NAME)")
    whole = architecture(config, quant_config, model_id, checkpoint_bytes)
    short = trimmed(config)
    short_quant = None
    if quant_config is not None and "quantization_config" not in short:
        short_quant = trimmed_scheme(quant_config)
    again = architecture(*catalog.whole(short, short_quant), model_id, checkpoint_bytes)
    if again != whole:
        raise ValueError(f"{model_id}: the shortened config no longer describes the same architecture")
    result: dict[str, Any] = {"id": model_id, "config": short}
    if short_quant:
        result["quant_config"] = short_quant
    if checkpoint_bytes:
        result["checkpoint_bytes"] = checkpoint_bytes
    if parameters:
        result["parameters"] = parameters
    if gated is not None:
        result["gated"] = gated
    result["source"] = source
    return result


def write(item: dict[str, Any], folder: str = catalog.MODELS) -> str:
    """Writes an entry where it is looked up (or into ``folder``), and returns the path."""
    path = os.path.join(folder, os.path.basename(catalog.entry_path(item["id"])))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text(item))
    return path


def text(item: dict[str, Any]) -> str:
    """An entry as its file has it: one key a line down to the second level, so that a change is a small diff."""

    def inline(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def block(value: Any, indent: str) -> str:
        line = inline(value)
        if not isinstance(value, (dict, list)) or len(line) + len(indent) <= 100 or not value:
            return line
        inner = indent + "  "
        if isinstance(value, list):
            if all(isinstance(item, (int, float)) for item in value):
                return line
            return "[\n" + ",\n".join(inner + block(item, inner) for item in value) + f"\n{indent}]"
        lines = (f"{inner}{inline(key)}: {block(item, inner)}" for key, item in value.items())
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"

    lines = (f"  {inline(key)}: {block(value, '  ')}" for key, value in item.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 when the entry is written, 2 with the reason otherwise."""
    from planner.models.architecture import UnknownModel

    parser = argparse.ArgumentParser(
        prog="python -m planner.catalog.add", description="Add a model from its config.json."
    )
    parser.add_argument("config", metavar="CONFIG_JSON")
    parser.add_argument("--id", required=True, metavar="ORG/NAME", help="the checkpoint's id on the hub")
    parser.add_argument("--source", required=True, help="where the file is from")
    parser.add_argument("--checkpoint-bytes", type=int, default=0, metavar="N", help="bytes of the weight files")
    parser.add_argument("--parameters", type=int, default=0, metavar="N", help="elements as the hub counts them")
    parser.add_argument("--gated", action=argparse.BooleanOptionalAction, help="whether the hub wants a token for it")
    parser.add_argument("--folder", default=catalog.MODELS, help="where to write it (default: the installed catalog)")
    options = parser.parse_args(arguments)
    try:
        config = _object(options.config)
        beside = os.path.join(os.path.dirname(options.config), "hf_quant_config.json")
        quant_config = _object(beside) if os.path.exists(beside) else None
        item = entry(
            options.id,
            config,
            options.source,
            quant_config,
            options.checkpoint_bytes,
            options.parameters,
            options.gated,
        )
        print(write(item, options.folder))
    except UnknownModel as error:
        print(f"{options.config}: {error.reason}; {error.remedy}", file=sys.stderr)
        return 2
    except (OSError, ValueError, RecursionError) as error:
        print(f"{options.config}: {error}", file=sys.stderr)
        return 2
    return 0


def _object(path: str) -> dict[str, Any]:
    """The JSON object in a file."""
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
