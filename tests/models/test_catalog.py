"""The model catalog: every entry is well formed, builds, and has the size of the checkpoint it names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import catalog
from planner.catalog import add
from planner.models.architecture import ModelArchitecture, UnknownModel
from planner.models.config import architecture, matrix_parameters, vector_parameters

PROJECT = Path(__file__).resolve().parents[2]
SHARED = PROJECT.parent / "shared"
REFERENCE = SHARED / "reference"
needs_shared = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference facts are not beside the project")

FILES = sorted(Path(catalog.MODELS).glob("*.json"))
RAW = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FILES}


@pytest.fixture(scope="module")
def built() -> dict[str, tuple[catalog.Entry, ModelArchitecture]]:
    """Every entry with the architecture it describes; an entry that does not build fails all tests."""
    result = {}
    for raw in RAW.values():
        entry = catalog.model(raw["id"])
        assert entry is not None, raw["id"]
        result[entry.id] = (entry, architecture(entry.config, entry.quant_config, entry.id, entry.checkpoint_bytes))
    return result


def test_entries_follow_their_schema() -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads((PROJECT / "schemas/catalog-model.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    wrong = [f"{name}: {error.message}" for name, raw in RAW.items() for error in validator.iter_errors(raw)]
    assert not wrong, "\n".join(wrong[:20])


def test_a_file_stands_where_its_id_is_looked_up() -> None:
    assert len({raw["id"].lower() for raw in RAW.values()}) == len(RAW)
    for name, raw in RAW.items():
        assert name == os.path.basename(catalog.entry_path(raw["id"])), raw["id"]
        assert catalog.is_model_id(raw["id"])


def test_files_are_written_the_way_the_tool_writes_them() -> None:
    for path in FILES:
        assert path.read_text(encoding="utf-8") == add.text(RAW[path.name]), path.name


def test_there_are_enough_of_them() -> None:
    assert len(RAW) >= 400
    keys = catalog.model_keys()
    assert keys == sorted(keys)
    assert set(keys) == {raw["id"].lower() for raw in RAW.values()}


def test_every_entry_builds(built: dict[str, tuple[catalog.Entry, ModelArchitecture]]) -> None:
    for entry, model in built.values():
        assert model.layers, entry.id
        assert model.parameters > 0, entry.id
        assert model.id == entry.id


def _draft_parameters(model: ModelArchitecture) -> int:
    """Elements of the MTP layers, which some checkpoints hold and others leave out."""
    return sum(
        sum(map(matrix_parameters, layer.matrices)) + sum(map(vector_parameters, layer.vectors))
        for layer in model.mtp_layers
    )


def _off(model: ModelArchitecture, stated: float) -> float:
    """How far the model is from ``stated`` parameters, with or without its MTP layers."""
    return min(abs(model.parameters + drafts - stated) / stated for drafts in (0, _draft_parameters(model)))


def test_parameters_are_those_of_the_hub(built: dict[str, tuple[catalog.Entry, ModelArchitecture]]) -> None:
    stated = {entry.id: _off(model, entry.parameters) for entry, model in built.values() if entry.parameters}
    assert len(stated) >= 300
    # the pooler of small encoders is in the hub's count and not in the engine
    wrong = {name: off for name, off in stated.items() if off > (0.012 if built[name][1].pooling else 0.01)}
    assert not wrong


def test_bytes_are_those_of_the_weight_files(built: dict[str, tuple[catalog.Entry, ModelArchitecture]]) -> None:
    width = {"bfloat16": 2, "float16": 2, "float32": 4}
    checked = 0
    for entry, model in built.values():
        if not entry.checkpoint_bytes or model.quantization:
            continue
        assert _off(model, entry.checkpoint_bytes / width[model.dtype]) <= 0.01, entry.id
        checked += 1
    assert checked >= 10


@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [  # published parameter counts
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46_702_792_704),
        ("openai/gpt-oss-20b", 20_914_757_184),
        ("distilbert/distilgpt2", 81_912_576),
    ],
)
def test_published_sizes(model_id: str, parameters: int) -> None:
    entry = catalog.model(model_id)
    assert entry is not None
    assert architecture(entry.config, entry.quant_config).parameters == parameters


def test_a_base_lends_its_config_and_its_quantization_is_replaced_as_a_whole(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(catalog, "MODELS", str(tmp_path))
    source = "made for this test"
    base = {
        "id": "o/base",
        "config": {
            "a": 1,
            "text_config": {"b": 2, "c": 3},
            "quantization_config": {
                "quant_method": "fp8",
                "modules_to_not_convert": ["m.<0-2,4>.gate", "re:x{1,2}<0-9>"],
            },
        },
        "source": source,
    }
    child = {
        "id": "o/Child",
        "base": "O/BASE",
        "config": {"text_config": {"b": 5}, "quantization_config": {"quant_method": "awq"}},
        "source": source,
    }
    alias = {"id": "o/alias", "base": "o/Child", "source": source}
    for item in (base, child, alias):
        add.write(item, str(tmp_path))
    parent = catalog.model("o/base")
    assert parent is not None
    names = ["m.0.gate", "m.1.gate", "m.2.gate", "m.4.gate", "re:x{1,2}<0-9>"]
    assert parent.config["quantization_config"]["modules_to_not_convert"] == names
    entry = catalog.model("O/Alias")
    assert entry is not None
    assert entry.id == "o/alias"
    assert entry.base == "o/Child"
    assert entry.config == {"a": 1, "text_config": {"b": 5, "c": 3}, "quantization_config": {"quant_method": "awq"}}
    add.write({"id": "o/loop", "base": "o/loop", "source": source}, str(tmp_path))
    with pytest.raises(ValueError, match="chain of bases"):
        catalog.model("o/loop")


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b/c", "a/../b", ".a/b", "a\0b/c", "x" * 300, "org/", "/name", "a b/c", "é/b"]
)
def test_what_is_no_id_is_not_looked_up(name: str) -> None:
    assert not catalog.is_model_id(name)
    assert catalog.model(name) is None


_PART = st.sampled_from(
    ["model", "layers", "mlp", "experts", "gate", "self_attn*", "0", "1", "2", "3", "7", "11", "128"]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(_PART, min_size=1, max_size=6).map(".".join), max_size=40))
def test_short_module_names_stand_for_exactly_those_they_came_from(names: list[str]) -> None:
    short = add.compact(names)
    config, _ = catalog.whole({"quantization_config": {"ignore": short}}, None)
    assert set(config["quantization_config"]["ignore"]) == set(names)
    assert len(short) <= len(set(names))


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eos_token_id": [1, 2],
    "initializer_range": 0.02,
    "transformers_version": "4.50.0",
}


def test_a_model_is_added_from_its_config_in_one_step(tmp_path: Path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / "config.json"
    source.write_text(json.dumps(CONFIG))
    ignored = ["lm_head", *(f"model.layers.{i}.mlp.down_proj" for i in range(4))]
    quantization = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ignored}
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": quantization})
    )
    folder = tmp_path / "models"
    folder.mkdir()
    arguments = [str(source), "--id", "Org/Tiny-FP8", "--source", "made up", "--folder", str(folder), "--no-gated"]
    assert add.main([*arguments, "--checkpoint-bytes", "123456"]) == 0
    written = folder / "org--tiny-fp8.json"
    assert capsys.readouterr().out.strip() == str(written)
    raw = json.loads(written.read_text())
    assert raw["quant_config"]["quantization"]["exclude_modules"] == ["lm_head", "model.layers.<0-3>.mlp.down_proj"]
    assert "producer" not in raw["quant_config"]
    assert raw["gated"] is False
    assert raw["checkpoint_bytes"] == 123456
    assert not {"eos_token_id", "initializer_range", "transformers_version"} & set(raw["config"])
    monkeypatch.setattr(catalog, "MODELS", str(folder))
    entry = catalog.model("org/tiny-fp8")
    assert entry is not None
    assert architecture(entry.config, entry.quant_config) == architecture(CONFIG, {"quantization": quantization})


@pytest.mark.parametrize(
    ("config", "model_id", "reason"),
    [
        ('{"architectures": ["NobodyKnowsThisForCausalLM"]}', "o/m", "NobodyKnowsThisForCausalLM"),
        (json.dumps(CONFIG), "no id", "not a hub id"),
        ("[]", "o/m", "not a JSON object"),
        ("{", "o/m", "Expecting"),
    ],
)
def test_what_cannot_be_added_is_refused(tmp_path: Path, capsys, config: str, model_id: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "config.json").write_text(config)
    folder = tmp_path / "models"
    folder.mkdir()
    arguments = [str(tmp_path / "config.json"), "--id", model_id, "--source", "nobody", "--folder", str(folder)]
    assert add.main(arguments) == 2
    assert reason in capsys.readouterr().err
    assert not list(folder.iterdir())


# With the reference facts beside the project.


def _shapes() -> list[dict[str, object]]:
    return [json.loads(line) for line in (REFERENCE / "model-shapes.jsonl").read_text(encoding="utf-8").splitlines()]


@needs_shared
def test_entries_have_the_shape_that_the_hub_catalogue_states(
    built: dict[str, tuple[catalog.Entry, ModelArchitecture]],
) -> None:
    """Not where entries come from alone: derived ones took their shape from a base."""
    known = {name.lower(): model for name, (_, model) in built.items()}
    wrong, checked = [], 0
    for row in _shapes():
        model = known.get(str(row["id"]).lower())
        if model is None:
            continue
        checked += 1
        # heads differ by layer and the row repeats one number, or the row misses that heads share keys
        if row.get("architecture") in ("nemotron-nas", "step3p5"):
            row["kv_heads"] = None
        layers = row.get("layers")
        if isinstance(layers, dict):  # an encoder is a tower; self and cross attention of the decoder are two layers
            row["layers"] = 2 * layers["decoder"]
        facts = {
            "layers": model.num_layers,
            "hidden": model.hidden_size,
            "vocab": model.vocab_size,
            "heads": model.heads,
        }
        if not model.is_multi_latent:
            facts["kv_heads"] = model.kv_heads
        wrong += [f"{row['id']}: {k} {v} not {row[k]}" for k, v in facts.items() if v and row.get(k) and row[k] != v]
    assert checked >= 300
    assert not wrong, "\n".join(wrong[:20])


def _reference_builds(model_id: str) -> bool:
    """Whether the reference holds a config for the id that is understood."""
    path = REFERENCE / "model-configs" / f"{model_id.replace('/', '--')}_config.json"
    if not path.exists():
        return False
    beside = path.with_name(path.name.replace("_config.json", "_hf_quant_config.json"))
    quant_config = json.loads(beside.read_text()) if beside.exists() else None
    try:
        architecture(json.loads(path.read_text()), quant_config)
    except UnknownModel:
        return False
    return True


def _named_models() -> dict[str, list[str]]:
    """Hub ids that the reference lists, the logs and the known-good configurations name."""
    rows = (REFERENCE / "popular-models.md").read_text(encoding="utf-8").splitlines()
    names = {"popular-models": [m.group(1) for row in rows if (m := re.match(r"\| \d+ \| (\S+) \|", row))]}
    for label, paths in (
        ("logs", sorted((SHARED / "corpus/logs").glob("*.jsonl"))),
        ("known-good", [SHARED / "corpus/known-good.jsonl"]),
    ):
        lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        names[label] = list(dict.fromkeys(m for line in lines if (m := json.loads(line).get("model"))))
    return names


@needs_shared
def test_every_named_model_that_is_understood_is_there() -> None:
    lacking = []
    for label, names in _named_models().items():
        missing = [name for name in names if catalog.model(name) is None]
        print(f"{label}: {len(names) - len(missing)} of {len(names)} in the catalog, not {', '.join(missing)}")
        lacking += [name for name in missing if _reference_builds(name)]
    assert not lacking
