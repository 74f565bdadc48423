"""Facts of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.provenance import Position

if TYPE_CHECKING:
    from planner.plan import Plan


def model_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    engine, model = plan.engine, plan.model
    facts: dict[str, Any] = {"known": model is not None}
    if engine.model is not None:
        facts["reference"] = engine.model.value
        if engine.model.position:
            positions["model"] = engine.model.position
    for gap in plan.unknown:
        if gap.fact == "model":
            facts["reason"], facts["remedy"] = gap.reason, gap.remedy
    if model is None:
        return facts
    facts.update(
        id=model.id,
        architecture=model.architecture,
        parameters=model.parameters,
        dtype=model.dtype,
        layers=model.num_layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        vocab_size=model.vocab_size,
        experts=model.num_experts,
        quantization=model.quantization or "",
        multi_latent=model.is_multi_latent,
        hybrid=model.is_hybrid,
        max_model_len=model.derived_max_len,
        max_len_key=model.max_len_key,
        gated=bool(plan.gated),
    )
    return facts
