"""A flag is changed, added and taken out wherever it stands, in the style of what stands there, and nothing else moves."""

from __future__ import annotations

import pytest

from tests.suggest.editing import changed_lines, manifests, pod, remove_flag, set_flag

MODEL = "--model=meta-llama/Llama-3.1-8B-Instruct"
#: A script that starts the model, as the one argument of a shell.
SCRIPT = "command: [sh, -c]\nargs:\n  - |\n    vllm serve meta-llama/Llama-3.1-8B-Instruct \\\n"

#: (container, the line that changes, what it becomes) when --max-num-seqs 128 becomes 16
SET = {
    "one item": (
        f"args:\n  - {MODEL}\n  - --max-num-seqs=128  # many\n",
        "  - --max-num-seqs=128  # many",
        "  - --max-num-seqs=16  # many",
    ),
    "two items": (
        f'args:\n  - {MODEL}\n  - --max-num-seqs\n  - "128"\n  - --enforce-eager\n',
        '  - "128"',
        '  - "16"',
    ),
    "single quotes": (f"args: ['{MODEL}', '--max-num-seqs=128']", "", f"['{MODEL}', '--max-num-seqs=16']"),
    "underscores": (f"args:\n- {MODEL}\n- --max_num_seqs=128\n", "- --max_num_seqs=128", "- --max_num_seqs=16"),
    "human number": (f"args: [{MODEL}, --max-num-seqs, 0128]", "", f"[{MODEL}, --max-num-seqs, 16]"),
    "flow over lines": (
        f'args: [\n  "{MODEL}",\n  "--max-num-seqs", "128",\n]\n',
        '  "--max-num-seqs", "128",',
        '  "--max-num-seqs", "16",',
    ),
    "script": (
        f"command: [sh, -c]\nargs:\n  - |\n    exec vllm serve \\\n      {MODEL[8:]} \\\n      --max-num-seqs 128 \\\n      --port 8000\n",
        "      --max-num-seqs 128 \\",
        "      --max-num-seqs 16 \\",
    ),
    "folded script": (
        f"command: [sh, -c]\nargs:\n  - >-\n    vllm serve {MODEL[8:]}\n    --max-num-seqs=128\n    --port=8000\n",
        "    --max-num-seqs=128",
        "    --max-num-seqs=16",
    ),
    "quoted script": (
        f'command: ["sh", "-c", "vllm serve {MODEL[8:]} --max-num-seqs 128 --port 8000"]',
        "",
        f'command: ["sh", "-c", "vllm serve {MODEL[8:]} --max-num-seqs 16 --port 8000"]',
    ),
    "quotes of the shell": (
        f"command: [sh, -c]\nargs:\n  - |\n    vllm serve {MODEL[8:]} --max-num-seqs \"128\"\n",
        f'    vllm serve {MODEL[8:]} --max-num-seqs "128"',
        f'    vllm serve {MODEL[8:]} --max-num-seqs "16"',
    ),
    "variable of the kubelet": (
        f'args:\n  - {MODEL}\n  - --max-num-seqs=$(SEQS)\nenv:\n  - name: SEQS\n    value: "128"\n',
        '    value: "128"',
        '    value: "16"',
    ),
    "variable of the shell": (
        f"command: [bash, -c]\nargs:\n  - |\n    SEQS=128\n    vllm serve {MODEL[8:]} --max-num-seqs $SEQS\n",
        "    SEQS=128",
        "    SEQS=16",
    ),
    "variable in one word": (
        f"command: [bash, -c]\nargs:\n  - |\n    export SEQS=128\n    vllm serve {MODEL[8:]} --max-num-seqs=${{SEQS}}\n",
        "    export SEQS=128",
        "    export SEQS=16",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("container", "before", "after"), SET.values(), ids=SET)
def test_a_value_is_changed_where_it_stands(container: str, before: str, after: str) -> None:
    found = manifests(pod(container))
    assert set_flag(found, "max-num-seqs", "16") == ""
    gone, added = changed_lines(found.before["a.yaml"], found.texts["a.yaml"])
    assert len(gone) == len(added) == 1
    assert after in added[0]
    if before:
        assert (gone[0][10:], added[0][10:]) == (before, after)


#: (container, lines that are new) when --max-num-seqs 16 is added
ADDED = {
    "one item": (f"args:\n  - {MODEL}  # the model\n  # a comment\n", ["  - --max-num-seqs=16"]),
    "no indentation": (f"args:\n- {MODEL}\n", ["- --max-num-seqs=16"]),
    "wide dash": (f"args:\n  -   {MODEL}\n", ["  -   --max-num-seqs=16"]),
    "two items": (
        'args:\n  - --model\n  - meta-llama/Llama-3.1-8B-Instruct\n  - --port\n  - "8000"\n',
        ["  - --max-num-seqs", '  - "16"'],
    ),
    "double quotes": (f'args:\n  - "{MODEL}"\n', ['  - "--max-num-seqs=16"']),
    "flow": (f"args: [{MODEL}, --port=80]", [f"args: [{MODEL}, --port=80, --max-num-seqs=16]"]),
    "flow in quotes": (f'args: ["{MODEL}"]', [f'args: ["{MODEL}", "--max-num-seqs=16"]']),
    "flow over lines": (f'args: [\n  "{MODEL}",\n  "--port=80"\n]\n', ['  "--port=80",', '  "--max-num-seqs=16"']),
    "command": (
        "command:\n  - vllm\n  - serve\n  - meta-llama/Llama-3.1-8B-Instruct\n",
        ["  - --max-num-seqs=16"],
    ),
    "script": (
        "command: [sh, -c]\nargs:\n  - |\n    exec vllm serve \\\n      meta-llama/Llama-3.1-8B-Instruct \\\n      --port 8000\n",
        ["      --max-num-seqs 16 \\"],
    ),
    "script with equals signs": (
        SCRIPT + "      --port=8000 \\\n      --enforce-eager\n",
        ["      --max-num-seqs=16 \\"],
    ),
    "folded script": (
        "command: [sh, -c]\nargs:\n  - >-\n    vllm serve meta-llama/Llama-3.1-8B-Instruct\n    --port 8000\n",
        ["    --max-num-seqs 16"],
    ),
    "script without flags": (
        "command: [sh, -c, vllm serve meta-llama/Llama-3.1-8B-Instruct]",
        ["command: [sh, -c, vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 16]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("container", "lines"), ADDED.values(), ids=ADDED)
def test_a_flag_is_added_in_the_style_of_its_list(container: str, lines: list[str]) -> None:
    found = manifests(pod(container))
    assert set_flag(found, "max-num-seqs", "16") == ""
    _, added = changed_lines(found.before["a.yaml"], found.texts["a.yaml"])
    assert [line[10:] for line in added] == lines


#: (container, lines that are gone) when --max-num-seqs is taken out
REMOVED = {
    "one item": (f"args:\n  - {MODEL}\n  - --max-num-seqs=128  # many\n  - --port=80\n", ["  - --max-num-seqs=128  # many"]),
    "two items": (
        f'args:\n  - {MODEL}\n  - --max-num-seqs\n  - "128"\n',
        ["  - --max-num-seqs", '  - "128"'],
    ),
    "first of a flow list": (f"args: [--max-num-seqs, '128', {MODEL}]", [f"args: [--max-num-seqs, '128', {MODEL}]"]),
    "last of a flow list": (f"args: [{MODEL}, --max-num-seqs=128]", [f"args: [{MODEL}, --max-num-seqs=128]"]),
    "line of a script": (
        SCRIPT + "      --max-num-seqs 128 \\\n      --port 80\n",
        ["      --max-num-seqs 128 \\"],
    ),
    "last line of a script": (
        SCRIPT + "      --port 80 \\\n      --max-num-seqs 128\n",
        ["      --port 80 \\", "      --max-num-seqs 128"],
    ),
    "within a line": (
        "command: [sh, -c, vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 128 --port 80]",
        ["command: [sh, -c, vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 128 --port 80]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("container", "lines"), REMOVED.values(), ids=REMOVED)
def test_a_flag_is_taken_out_with_its_value(container: str, lines: list[str]) -> None:
    found = manifests(pod(container))
    assert remove_flag(found, "max-num-seqs") == ""
    gone, _ = changed_lines(found.before["a.yaml"], found.texts["a.yaml"])
    assert [line[10:] for line in gone] == lines
    assert "max-num-seqs" not in found.texts["a.yaml"]


def test_line_ends_byte_order_mark_and_a_missing_last_line_break_stay() -> None:
    text = pod(f"args:\n- {MODEL}").rstrip("\n").replace("\n", "\r\n")
    data = b"\xef\xbb\xbf" + text.encode()
    found = manifests(data)
    assert set_flag(found, "max-num-seqs", "16") == ""
    after = found.texts["a.yaml"]
    assert after.count("\r\n") == text.count("\r\n") + 1
    assert after.count("\n") == after.count("\r\n")
    assert after.replace("          - --max-num-seqs=16\r\n", "") == text
    at_the_end = manifests(text.replace("          resources", "          x").partition("\r\n          x")[0])
    assert set_flag(at_the_end, "max-num-seqs", "16") == ""
    assert at_the_end.texts["a.yaml"].endswith("\r\n          - --max-num-seqs=16")
    assert remove_flag(at_the_end, "max-num-seqs") == ""
    assert at_the_end.texts["a.yaml"] == at_the_end.before["a.yaml"]


def test_a_value_that_an_alias_shares_is_left_alone() -> None:
    text = pod(f"args:\n  - {MODEL}\n  - &seqs --max-num-seqs=128\nenv:\n  - name: NOTE\n    value: *seqs\n")
    found = manifests(text)
    assert "alias" in set_flag(found, "max-num-seqs", "16")
    assert found.texts["a.yaml"] == text


def test_a_list_that_an_alias_shares_is_left_alone() -> None:
    text = pod(f"args: &args\n  - {MODEL}\n") + "---\nkind: Other\napiVersion: v1\nx: 1\n"
    both = text.replace("spec:\n  replicas", "data: 1\nspec:\n  replicas", 1)
    shared = both.replace(
        "          resources", "          lifecycle: {postStart: {exec: {command: *args}}}\n          resources"
    )
    found = manifests(shared)
    assert set_flag(found, "max-num-seqs", "16") != ""
    assert found.texts["a.yaml"] == shared


def test_a_variable_that_feeds_another_flag_as_well_is_left_alone() -> None:
    text = pod(
        f'args:\n  - {MODEL}\n  - --max-num-seqs=$(N)\n  - --max-num-batched-tokens=$(N)\nenv:\n  - name: N\n    value: "2048"\n'
    )
    found = manifests(text)
    assert "other arguments" in set_flag(found, "max-num-seqs", "16")
    assert found.texts["a.yaml"] == text


def test_a_config_map_that_two_workloads_read_is_left_alone() -> None:
    container = f"args: [{MODEL}, --max-num-seqs=$(SEQS)]\nenvFrom: [{{configMapRef: {{name: c}}}}]"
    config = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  SEQS: "128"\n'
    two = pod(container) + "---\n" + pod(container).replace("name: llm ", "name: other ") + "---\n" + config
    found = manifests(two)
    assert "other" in set_flag(found, "max-num-seqs", "16")
    assert found.texts["a.yaml"] == two
    one = manifests(pod(container), config)
    assert set_flag(one, "max-num-seqs", "16") == ""
    assert one.changed == ("b.yaml",)
    assert '  SEQS: "16"\n' in one.texts["b.yaml"]


def test_other_documents_of_a_file_keep_every_byte() -> None:
    other = (
        "# a\tcomment\nkind: ConfigMap\napiVersion: v1\nmetadata: {name:   c}\ndata: {x: \"\\u00e9\",   y: 'it''s'}\n"
    )
    text = f"{other}---\n{pod(f'args: [{MODEL}]')}\n---\n{other}"
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", "16") == ""
    assert found.texts["a.yaml"].startswith(other)
    assert found.texts["a.yaml"].endswith(f"---\n{other}")


def test_a_file_with_a_syntax_error_is_not_edited() -> None:
    found = manifests(pod(f"args: [{MODEL}]") + "---\na: [\n")
    assert found.texts == {}
    assert "can be edited" in set_flag(found, "max-num-seqs", "16") or found.texts == {}


def test_json_keeps_its_layout() -> None:
    import json

    import yaml

    data = yaml.safe_load(pod(f"args: [{MODEL}]"))
    for indent in (None, 2):
        text = json.dumps(data, indent=indent)
        found = manifests(text)
        assert set_flag(found, "max-num-seqs", "16") == ""
        data_after = json.loads(found.texts["a.yaml"])
        assert data_after["spec"]["template"]["spec"]["containers"][0]["args"] == [MODEL, "--max-num-seqs=16"]
        assert len(found.texts["a.yaml"].split("\n")) - len(text.split("\n")) == (1 if indent else 0)


def test_typed_fields_are_changed_and_added_in_their_own_spelling() -> None:
    text = """servingEngineSpec:
  modelSpec:
    - name: m
      repository: vllm/vllm-openai
      tag: v0.24.0
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      requestGPU: 1
      vllmConfig:
        maxModelLen: 8192  # tokens
        extraArgs: ["--max-num-seqs", "128"]
"""
    found = manifests(text)
    assert set_flag(found, "max-model-len", "4096") == ""
    assert set_flag(found, "max-num-seqs", "16") == ""
    assert changed_lines(text, found.texts["a.yaml"])[1] == [
        "        maxModelLen: 4096  # tokens",
        '        extraArgs: ["--max-num-seqs", "16"]',
    ]


def test_a_flag_is_added_to_yaml_in_a_string() -> None:
    text = """apiVersion: ray.io/v1
kind: RayService
metadata: {name: ray}
spec:
  serveConfigV2: |
    applications:
    - name: llms
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config:
            model_id: qwen
            model_source: Qwen/Qwen2.5-7B-Instruct
          engine_kwargs:
            max_model_len: 1024
  rayClusterConfig:
    headGroupSpec:
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray-llm:2.52.0-py311-cu128
            resources: {limits: {nvidia.com/gpu: 1}}
"""
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", "16") == ""
    assert changed_lines(text, found.texts["a.yaml"]) == ([], ["            max_num_seqs: 16"])


def test_a_list_of_arguments_is_begun_where_there_is_none() -> None:
    text = """apiVersion: kubeai.org/v1
kind: Model
metadata: {name: llama}
spec:
  features: [TextGeneration]
  url: hf://meta-llama/Llama-3.1-8B-Instruct
  engine: VLLM
  resourceProfile: nvidia-gpu-l4:1
"""
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", "16") == ""
    assert changed_lines(text, found.texts["a.yaml"]) == ([], ["  args: [--max-num-seqs=16]"])


def test_a_variable_that_a_preset_appends_is_begun_where_there_is_none() -> None:
    text = """apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: qwen}
  replicas: 1
  template:
    containers:
      - name: main
        resources: {limits: {nvidia.com/gpu: "1"}}
"""
    found = manifests(text)
    assert set_flag(found, "max-num-seqs", "16") == ""
    assert changed_lines(text, found.texts["a.yaml"])[1] == [
        "        env:",
        "          - name: VLLM_ADDITIONAL_ARGS",
        "            value: --max-num-seqs=16",
    ]
    assert set_flag(found, "max-num-batched-tokens", "2048") == ""
    added = changed_lines(text, found.texts["a.yaml"])[1]
    assert sorted(added[-1].split()[1:]) == ["--max-num-batched-tokens", "--max-num-seqs=16", "2048"] or sorted(
        added[-1].split()[1:]
    ) == ["--max-num-batched-tokens=2048", "--max-num-seqs=16"]


def test_comparing_deep_and_long_inputs_takes_no_time() -> None:
    """Lists in lists, and a script of many equal words."""
    import time

    from planner.documents.read import read_bytes
    from planner.suggest.verify import Expected, differences, wrong_with

    deep = "x: " + "[" * 100 + "1" + "]" * 100 + "\n"
    words = "x: " + "a " * 50_000 + "\n"
    start = time.process_time()
    for text, other in ((deep, deep.replace("1", "2")), (words, words.replace("a a \n", "a b a \n"))):
        before, after = read_bytes(text.encode(), "a.yaml"), read_bytes(other.encode(), "a.yaml")
        assert len(list(differences(before.documents[0].root._raw, after.documents[0].root._raw))) == 1
        wrong_with(before, after, [Expected("words", ["a"] * 5, ["b"] * 6)])
    assert time.process_time() - start < 2
