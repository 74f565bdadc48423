"""Reading which architectures a release has, from its syntax trees."""

from __future__ import annotations

from pathlib import Path

from planner.catalog.engines.architectures import ENGINES, table
from planner.catalog.engines.distribution import Folder


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_registry_of_vllm(tmp_path: Path) -> None:
    text = '_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "other": ("x", "y"), "Plain": "no"}\n'
    _write(tmp_path, "vllm/model_executor/models/registry.py", text)
    assert ENGINES["vllm"][0](Folder(tmp_path)) == {"LlamaForCausalLM"}


def test_entry_classes_of_sglang(tmp_path: Path) -> None:
    models = "sglang/srt/models/"
    _write(tmp_path, models + "llama.py", "\ufeffEntryClass = [LlamaForCausalLM, Phi3ForCausalLM]\n")  # one begins so
    _write(tmp_path, models + "deep/qwen.py", "class Q: pass\nEntryClass = Q\n")
    _write(tmp_path, models + "helper.py", "def f():\n    EntryClass = [No]\nx.EntryClass = [NotThis]\n")
    assert ENGINES["sglang"][0](Folder(tmp_path)) == {"LlamaForCausalLM", "Phi3ForCausalLM", "Q"}


def test_first_and_last_release() -> None:
    releases = [("0.5.10", {"B", "C"}), ("0.5.2", {"A", "B"})]
    assert table(releases) == {"A": ["0.5.2", "0.5.2"], "B": ["0.5.2"], "C": ["0.5.10"]}
