"""Reading which architectures a release has, from its syntax trees."""

from __future__ import annotations

from pathlib import Path

from planner.catalog.engines.architectures import ENGINES, ranges, table
from planner.catalog.engines.distribution import Folder
from planner.catalog.engines.pipeline_stages import vllm_without_stages


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_registry_of_vllm(tmp_path: Path) -> None:
    text = '_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "other": ("x", "y"), "Plain": "no"}\n'
    _write(tmp_path, "vllm/model_executor/models/registry.py", text)
    assert ENGINES["vllm"][0](Folder(tmp_path)) == ({"LlamaForCausalLM"}, set())  # no module says that it lacks stages


def test_entry_classes_of_sglang(tmp_path: Path) -> None:
    models = "sglang/srt/models/"
    _write(tmp_path, models + "llama.py", "\ufeffEntryClass = [LlamaForCausalLM, Phi3ForCausalLM]\n")  # one begins so
    _write(tmp_path, models + "deep/qwen.py", "class Q: pass\nEntryClass = Q\n")
    _write(tmp_path, models + "helper.py", "def f():\n    EntryClass = [No]\nx.EntryClass = [NotThis]\n")
    assert ENGINES["sglang"][0](Folder(tmp_path)) == ({"LlamaForCausalLM", "Phi3ForCausalLM", "Q"}, set())


def test_first_and_last_release() -> None:
    releases = [("0.5.10", {"B", "C"}), ("0.5.2", {"A", "B"})]
    assert table(releases) == {"A": ["0.5.2", "0.5.2"], "B": ["0.5.2"], "C": ["0.5.10"]}


def test_ranges_of_a_property_that_comes_and_goes() -> None:
    releases = [("0.5.10", {"A", "B"}), ("0.5.2", {"A", "C"}), ("0.5.9", {"B", "C"})]
    assert ranges(releases) == {"A": ["0.5.2", "0.5.2", "0.5.10"], "B": ["0.5.9"], "C": ["0.5.2", "0.5.9"]}


_MODULES = {
    "interfaces": "class SupportsPP(Protocol): ...\nclass Text(Protocol[T]):\n    def forward(self, x): ...\n",
    "base": (
        "from .interfaces import SupportsPP, Text\n"
        "class Base(Text[int], SupportsPP):\n    def forward(self, x, intermediate_tensors=None): ...\n"
        "class Plain(Text): ...\n"
    ),
    "models": (
        "import torch\nfrom vllm.model_executor.models.base import Base as B, Plain\nfrom . import base\nfrom torch import nn\n"
        "class Child(B): ...\n"
        "class Mixed(Text, B): ...\n"
        "class Draft(B):\n    def forward(self, x): ...\n"
        "class Keywords(B):\n    def forward(self, x, **kwargs): ...\n"
        "class One(nn.Module, Plain): ...\n"
        "class Outside(nn.Module): ...\n"
        "Alias = Child\nMade = as_reward(Child)\n"
        "class Dotted(base.Base): ...\n"
    ),
    "chosen/__init__": (
        "if rocm():\n    from .amd import Model\nelse:\n    from .nvidia import Model\n"
        "try:\n    from .amd import Other\nexcept ImportError:\n    Other = None\n"
    ),
    "chosen/amd": "class Model: ...\nclass Other: ...\n",
    "chosen/nvidia": "from ..base import Base\nclass Model(Base): ...\n",
    "circle": "from .circle import Self\n",
}


def test_architectures_of_one_stage(tmp_path: Path) -> None:
    models = "vllm/model_executor/models/"
    for name, text in _MODULES.items():
        _write(tmp_path, f"{models}{name}.py", text)
    classes = {
        **{
            name: ("models", name)
            for name in ("Child", "Mixed", "Draft", "Keywords", "One", "Outside", "Alias", "Made", "Dotted")
        },
        "Chosen": ("chosen", "Model"),
        "Absolute": ("vllm.model_executor.models.chosen", "Other"),
        "Nowhere": ("circle", "Self"),
        "Absent": ("absent", "Model"),
    }
    found = vllm_without_stages(Folder(tmp_path), classes)
    assert found == {"Draft", "One", "Outside", "Absolute"}


def test_the_list_of_releases_before_0_6_3(tmp_path: Path) -> None:
    _write(tmp_path, "vllm/config.py", '_PP_SUPPORTED_MODELS = [\n    "LlamaForCausalLM",\n]\n')
    classes = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "OPTForCausalLM": ("opt", "OPTForCausalLM")}
    assert vllm_without_stages(Folder(tmp_path), classes) == {"OPTForCausalLM"}


def test_sglang_asks_for_the_argument_alone(tmp_path: Path) -> None:
    models = "sglang/srt/models/"
    _write(tmp_path, models + "base.py", "class B:\n    def forward(self, pp_proxy_tensors=None): ...\n")
    text = (
        "\ufefffrom sglang.srt.models.base import B\nclass Child(B): ...\n"
        "class Keywords:\n    def forward(self, **kwargs): ...\nclass Outside(nn.Module): ...\n"
        "EntryClass = [Child, Keywords, Outside]\n"
    )
    _write(tmp_path, models + "models.py", text)
    names = {"Child", "Keywords", "Outside"}
    assert ENGINES["sglang"][0](Folder(tmp_path)) == (names, set())  # nothing asks
    runner = "class R:\n    def f(self):\n        if many:\n            assert (self.support_pp), 'no'\n"
    _write(tmp_path, "sglang/srt/model_executor/model_runner.py", runner)
    assert ENGINES["sglang"][0](Folder(tmp_path)) == (names, {"Keywords"})
