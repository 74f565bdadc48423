"""Names of models, as manifests and people write them, to architectures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import catalog
from planner.models.architecture import UnknownModel
from planner.models.resolve import resolve

QWEN = "Qwen/Qwen3-8B"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (QWEN, QWEN),
        ("qwen/QWEN3-8b", QWEN),
        (f" {QWEN} ", QWEN),
        (f"{QWEN}@main", QWEN),
        (f"hf://{QWEN}@7908d42a71077a5e4dc458f273682b12dfe384a0", QWEN),
        (f"{QWEN}:latest", QWEN),
        (f"hf://{QWEN}", QWEN),
        (f"HF://{QWEN}/", QWEN),
        (f"hf:{QWEN}", QWEN),
        (f"modelscope://{QWEN}", QWEN),
        (f"https://huggingface.co/{QWEN}", QWEN),
        (f"https://huggingface.co/{QWEN}/tree/main?show=1", QWEN),
        (f"huggingface.co/{QWEN}", QWEN),
        (f"https://modelscope.cn/models/{QWEN}/summary", QWEN),
        ("gpt2", "gpt2"),
    ],
)
def test_hub_ids_in_every_writing(name: str, wanted: str) -> None:
    found = resolve(name)
    assert found.catalog_id == wanted
    assert found.architecture.id == wanted
    assert found.provenance.source == "catalog"
    assert wanted in found.provenance.text


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("THUDM/GLM-4-32B-0414", "zai-org/GLM-4-32B-0414"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("neuralmagic/Qwen3-30B-A3B-FP8-dynamic", "RedHatAI/Qwen3-30B-A3B-FP8-dynamic"),
        ("hf://CohereForAI/aya-expanse-8b", "CohereLabs/aya-expanse-8b"),
        ("gpt2-medium", "openai-community/gpt2-medium"),
    ],
)
def test_names_from_before_the_hub_renamed_them(name: str, wanted: str) -> None:
    found = resolve(name)
    same = resolve(wanted)
    assert found.architecture.layers == same.architecture.layers
    assert found.architecture.formats == same.architecture.formats
    assert found.catalog_id in (wanted, name)
    if found.catalog_id != name.removeprefix("hf://"):
        assert "also knows" in found.provenance.text


def test_a_renamed_organisation_does_not_invent_models() -> None:
    with pytest.raises(UnknownModel):
        resolve("THUDM/nothing-of-this-name")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/data/meta-llama/Llama-3.1-8B-Instruct", LLAMA),
        ("/mnt/models/meta-llama/llama-3.1-8b-instruct/", LLAMA),
        ("/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e39f249a16976918f6564b8830bc894c89659", LLAMA),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B", QWEN),
        ("./models/Qwen/Qwen3-8B", QWEN),
    ],
)
def test_a_path_that_says_the_id_is_resolved_and_says_so(path: str, wanted: str) -> None:
    found = resolve(path)
    assert found.catalog_id == wanted
    assert found.provenance.source == "derived"
    assert "read from" in found.provenance.text


@pytest.mark.parametrize(
    "path", ["/models/Qwen3-8B", "/models/Qwen3-8B/", "models/Qwen3-8B", "Qwen3-8B", "s3://bucket/Qwen3-8B"]
)
def test_a_name_without_its_organisation_is_only_a_suggestion(path: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve(path)
    assert f"planner/model: {QWEN}" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "no model"),
        ("$(MODEL_ID)", "variable"),
        ("/models/$MODEL", "variable"),
        ("${MODEL:-x}", "variable"),
        ("<model-path>", "variable"),
        ("/mnt/models", "path"),
        ("/models/../etc", "path"),
        ("pvc://claim/llama", "pvc://"),
        ("s3://bucket/Qwen/Qwen3-8B", "s3://"),
        ("oci://registry/models/x", "oci://"),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "GGUF"),
        ("https://huggingface.co/unsloth/Qwen3-8B-GGUF/resolve/main/q4.gguf", "GGUF"),
        ("https://example.com/Qwen/Qwen3-8B", "https://"),
        ("nobody/has-this-model", "not in the catalog"),
        ("x" * 5000, "too long"),
        ("a\nb", "control"),
        ("https://[broken", "https://"),
    ],
)
def test_what_is_not_known_says_why_and_what_would_help(name: str, reason: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve(name)
    assert reason in caught.value.reason
    assert "planner/model:" in caught.value.remedy
    assert "models:" in caught.value.remedy
    assert len(caught.value.reason) < 2000


def test_a_gguf_tag_names_other_weights() -> None:
    with pytest.raises(UnknownModel):
        resolve(f"{QWEN}:Q4_K_M")


def test_a_misspelt_id_gets_the_nearest_ones() -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve("Qwen/Qwen3-8BB")
    assert QWEN in caught.value.remedy


def test_a_mapping_wins_and_says_so() -> None:
    overrides = {"/models/mine/": QWEN, "Org/Fine-Tune": "hf://" + LLAMA, LLAMA: QWEN}
    assert resolve("/models/mine", overrides=overrides).catalog_id == QWEN
    assert resolve("org/fine-tune", overrides=overrides).catalog_id == LLAMA
    found = resolve(LLAMA, overrides=overrides)
    assert found.catalog_id == QWEN
    assert found.provenance.source == "config"
    assert LLAMA in found.provenance.text
    with pytest.raises(UnknownModel, match="nobody/nothing"):
        resolve("x/y", overrides={"x/y": "nobody/nothing"})


def _folder(path: Path, layers: int = 2) -> Path:
    path.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "max_position_embeddings": 2048,
    }
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_a_folder_of_the_user_is_read_and_one_of_a_manifest_is_not(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "mine")
    for name in (str(folder), str(folder / "config.json")):
        found = resolve(name, allow_local=True)
        assert found.catalog_id is None
        assert found.architecture.num_layers == 2
        assert found.provenance.source == "option"
        with pytest.raises(UnknownModel):
            resolve(name)
    assert resolve("any/name", overrides={"any/name": str(folder)}).architecture.num_layers == 2


def test_a_single_file_is_read_as_a_config(tmp_path: Path) -> None:
    file = _folder(tmp_path / "mine").joinpath("config.json").rename(tmp_path / "tiny.json")
    assert resolve(str(file), allow_local=True).architecture.id == "tiny"
    for text, reason in (("[1]", "no JSON object"), ("{", "cannot be read"), ("[" * 100_000, "cannot be read")):
        file.write_text(text)
        with pytest.raises(UnknownModel, match=reason):
            resolve(str(file), allow_local=True)
    with pytest.raises(UnknownModel, match="cannot be read"):
        resolve("./no/such/file.json", allow_local=True)


def test_container_paths_map_to_folders_of_the_user_and_never_out_of_them(tmp_path: Path) -> None:
    _folder(tmp_path / "volume/deep/model", 3)
    secret = _folder(tmp_path / "secret")
    os.symlink(secret, tmp_path / "volume/link")
    folders = {"/models": tmp_path / "volume", "/models/deep": tmp_path / "volume/deep"}
    assert resolve("/models/deep/model", folders=folders).architecture.num_layers == 3
    assert resolve("/models/deep/model/", folders=folders).catalog_id is None
    for name in ("/models/../secret", "/models/link", "/models/deep/../../../secret"):
        with pytest.raises(UnknownModel, match="leads out"):
            resolve(name, folders=folders)
    with pytest.raises(UnknownModel):
        resolve("/modelsx/deep/model", folders=folders)
    assert resolve(QWEN, folders=folders).catalog_id == QWEN


def test_gating_is_told_where_it_is_known() -> None:
    assert resolve(LLAMA).gated is True
    assert resolve(QWEN).gated is False


def test_an_architecture_is_built_once() -> None:
    assert resolve(QWEN).architecture is resolve("hf://qwen/qwen3-8b@main").architecture


_ALPHABET = st.sampled_from(
    list("/.:@-_~$<>{}()%?#[] aZ09é\0\n\\") + ["://", "..", "models--", "Qwen", "hf:", ".gguf", "Qwen3-8B"]
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(_ALPHABET, max_size=40).map("".join)))
def test_no_name_breaks_it(name: str) -> None:
    try:
        found = resolve(name, overrides={"a": QWEN}, folders={"/no/such/mount": "/no/such/folder"})
    except UnknownModel as error:
        unknown: UnknownModel | None = error
    else:
        unknown = None
        assert found.catalog_id is not None
        assert catalog.model(found.catalog_id) is not None
    assert unknown is None or (unknown.reason and unknown.remedy)
