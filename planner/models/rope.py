"""Rotary position tables: how long they are, and what a scaling type does to them.

Source: vLLM model_executor/layers/rotary_embedding (0.19 to 0.32). One table per distinct configuration, shared by the
layers of a rank, at the model's dtype.
"""

from __future__ import annotations

from planner.models.architecture import RotaryTable
from planner.models.config_reader import ConfigReader

#: A bound for positions, so that a hostile config gives a number that is merely absurd.
_MOST = 2**40


def rope_section(config: ConfigReader, layer_type: str = "") -> ConfigReader | None:
    """The rope parameters of a config, or those of one layer type where they differ between types."""
    section = config.section("rope_parameters", "rope_scaling")
    if section is not None and layer_type and layer_type in section:
        return section.section(layer_type)
    if section is not None and not layer_type:
        for name in ("full_attention", "sliding_attention"):
            if name in section:
                return section.section(name)
    return section


def rope_type(section: ConfigReader | None) -> str:
    """The scaling type by its usual name; ``default`` where there is none."""
    if section is None:
        return "default"
    kind = section.text("rope_type", "type", default="default")
    return {"su": "longrope", "mrope": "default"}.get(kind, kind)


def rotary_table(
    config: ConfigReader,
    head_dim: int,
    *,
    layer_type: str = "",
    section: ConfigReader | None = None,
    positions: int = 0,
    dtype: str = "model",
) -> RotaryTable:
    """The table for heads of ``head_dim``: rows (positions, after scaling) × rotary dimensions."""
    section = section or rope_section(config, layer_type)
    fraction = section.number("partial_rotary_factor", default=-1.0) if section else -1.0
    if fraction <= 0:
        fraction = config.number("partial_rotary_factor", "rotary_pct", "rope_pct", default=1.0)
    dim = (section.integer("rope_dim", default=0, low=0) if section else 0) or int(
        head_dim * min(max(fraction, 0.0), 1.0)
    )
    positions = positions or config.integer(
        "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", default=8192
    )
    kind = rope_type(section)
    enlarged = 1
    if section is not None:
        factor = max(section.number("factor", default=1.0), 0.0)
        original = section.integer("original_max_position_embeddings", default=positions)
        if kind in ("yarn", "deepseek_yarn", "deepseek_llama_scaling"):
            positions = int(min(original * factor, _MOST))
        elif kind in ("linear", "ntk") or (kind == "dynamic" and "alpha" not in section):
            positions = int(min(positions * factor, _MOST))
        elif kind == "longrope":
            positions += config.integer("original_max_position_embeddings", default=original)
        if "mrope_section" in section:  # the engine enlarges tables of multimodal positions fourfold
            enlarged = 4
    return RotaryTable(positions * enlarged, dim, dtype, enlarged=enlarged)
