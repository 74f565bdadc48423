"""Whether SGLang's own code leaves prefill graphs on: facts for ``test_sglang_prefill_graphs``.

    pip download --no-deps sglang==VERSION      (a wheel; nothing of it is imported)
    python -m tests.golden.sglang_prefill_graphs WHEEL… > tests/golden/sglang-prefill-graphs.json

Takes the functions that switch prefill graphs off out of each release's source (0.5.14 and later), runs them on stand-ins
for the arguments and the model, and writes one letter per case: ``y`` where graphs stay on.
"""

from __future__ import annotations

import ast
import json
import logging
import random
import re
import sys
import zipfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from planner.engines.sglang_prefill_graphs import Facts

#: Architectures with (multimodal, latent attention, sparse, KDA).
ARCHITECTURES: dict[str, tuple[bool, bool, bool, bool]] = {
    "LlamaForCausalLM": (False, False, False, False),
    "DeepseekV3ForCausalLM": (False, True, False, False),
    "DeepseekV32ForCausalLM": (False, True, True, False),
    "DeepseekV4ForCausalLM": (False, True, False, False),
    "GlmMoeDsaForCausalLM": (False, True, True, False),
    "Qwen3NextForCausalLM": (False, False, False, False),
    "NemotronHForCausalLM": (False, False, False, False),
    "KimiLinearForCausalLM": (False, True, False, True),
    "Qwen3VLForConditionalGeneration": (True, False, False, False),
    "Qwen3_5ForConditionalGeneration": (True, False, False, False),
    "Cohere2VisionForConditionalGeneration": (True, False, False, False),
    "KimiK25ForConditionalGeneration": (True, True, False, False),
    "KimiK3ForConditionalGeneration": (True, True, False, True),
    "MiniMaxM3SparseForConditionalGeneration": (True, False, False, False),
    "MuseGlimmerForConditionalGeneration": (True, False, False, False),
    "PaddleOCRVLForConditionalGeneration": (True, False, False, False),
    "Glm5NextForConditionalGeneration": (True, True, True, True),
    "Qwen4ExpForConditionalGeneration": (True, False, False, False),
}
CASES = 400


def cases(version: tuple[int, ...]) -> list[Facts]:
    """The same cases for every release, drawn once."""
    draw = random.Random(20261129)
    found = []
    for _ in range(CASES):
        name = draw.choice(list(ARCHITECTURES))
        multimodal, latent, sparse, kda = ARCHITECTURES[name]
        odds = [draw.random() < share for share in (0.9, 0.15, 0.15, 0.1, 0.1, 0.1, 0.1, 0.1)]
        cuda, data, pipeline, context, decode_context, batches, adapters, compiled = odds
        exchange, role = draw.choice([""] * 6 + ["deepep", "mooncake"]), draw.choice([""] * 6 + ["prefill", "decode"])
        found.append(
            Facts(
                version, name, cuda, multimodal, latent, sparse, kda, data, pipeline, context, decode_context, batches,
                exchange, adapters, role, compiled,
            )
        )  # fmt: skip
    return found


class _Source:
    """The functions about graphs of one release."""

    def __init__(self, wheel: zipfile.ZipFile, version: tuple[int, ...]) -> None:
        self.hook = version >= (0, 5, 19)
        name = "sglang/srt/arg_groups/cuda_graph_hook.py" if self.hook else "sglang/srt/server_args.py"
        tree = ast.parse(wheel.read(name))
        self.code = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and re.search("cuda_?graph", node.name):
                node.returns, node.decorator_list = None, []
                for argument in [*node.args.args, *node.args.kwonlyargs]:
                    argument.annotation = None
                kept = [x for x in node.body if not isinstance(x, (ast.ImportFrom, ast.Import))]
                node.body = kept or [ast.Pass()]
                self.code.append(node)
        self.lists: dict[str, list[str]] = {}
        for node in ast.parse(wheel.read("sglang/srt/configs/model_config.py")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, node.value
                if name.endswith("_archs") and "cuda_graph" in name:
                    self.lists[name] = list(ast.literal_eval(value))
        self.text = wheel.read("sglang/srt/model_executor/cuda_graph_config.py").decode()

    def default(self, cuda: bool) -> str:
        """The backend of prefill graphs where no flag names one."""
        found = re.search(r"return Backend\.(\w+) if is_cuda\(\) else Backend\.(\w+)", self.text)
        return found.group(1 if cuda else 2) if found else "TC_PIECEWISE"

    def stays_on(self, facts: Facts) -> bool:
        lists = self.lists
        disabled = lists["piecewise_cuda_graph_disabled_model_archs"]
        pieces = lists["multimodal_piecewise_cuda_graph_supported_model_archs"]
        breakable = lists.get("multimodal_breakable_cuda_graph_supported_model_archs", [])
        name = facts.architecture
        model = SimpleNamespace(
            is_piecewise_cuda_graph_disabled_model=name in disabled or (facts.multimodal and name not in pieces),
            is_multimodal=facts.multimodal,
            is_multimodal_piecewise_cuda_graph_supported=name in pieces,
            is_multimodal_breakable_cuda_graph_supported=name in breakable,
            hf_config=SimpleNamespace(architectures=[name]),
        )
        graphs = SimpleNamespace(
            prefill=SimpleNamespace(backend=self.default(facts.cuda)), decode=SimpleNamespace(backend="FULL")
        )
        args = SimpleNamespace(
            _cuda_graph_config_locked=set(), cuda_graph_config=graphs, enable_dp_attention=facts.attention_data,
            enable_torch_compile=facts.compiled_rules, pp_size=1 + facts.pipeline, moe_a2a_backend=facts.exchange or "none",
            lora_paths=[], enable_lora=facts.adapters, load_format="auto", quantization=None, model_path="x",
            dllm_algorithm=None, cpu_offload_gb=0, enable_hierarchical_cache=False, enable_deterministic_inference=False,
            disaggregation_mode=facts.role or "null", enable_symm_mem=False, enable_eplb=False,
            expert_distribution_recorder_mode=None, attn_cp_size=1 + facts.context, debug_cuda_graph=False,
            enable_dsa_prefill_context_parallel=False, enable_prefill_cp=False, dcp_size=1 + facts.decode_context,
            enable_two_batch_overlap=facts.two_batches, enable_memory_saver=False,
        )  # fmt: skip
        args.get_model_config, args.use_mla_backend = (lambda: model), (lambda: facts.latent)
        args._resolved, args._resolved_attention_backends = (lambda: args), (lambda: ("fa3", "fa3"))
        scope = self._scope(facts, model)
        exec(compile(ast.fix_missing_locations(ast.Module(self.code, [])), "sglang", "exec"), scope)
        prefix = "" if self.hook else "_"
        if not self.hook:
            for rule in ("_disable_tc_piecewise_cudagraph", "_disable_breakable_cudagraph"):
                setattr(args, f"{rule}_if_incompatible", lambda of=scope[f"{rule}_if_incompatible"]: of(args))
        scope[f"{prefix}apply_cuda_graph_compatibility"](args)
        roles = scope.get(f"{prefix}apply_cuda_graph_disaggregation_roles")
        if roles:
            roles(args)
        return bool(graphs.prefill.backend != "DISABLED")

    @staticmethod
    def _scope(facts: Facts, model: SimpleNamespace) -> dict[str, Any]:
        def says(answer: object) -> Callable[..., object]:
            return lambda *_: answer

        def declare(args: SimpleNamespace, who: str, **changes: Any) -> None:
            del who
            vars(args).update(changes)

        def with_phase(graphs: SimpleNamespace, phase: str, **changes: Any) -> SimpleNamespace:
            vars(getattr(graphs, phase)).update(changes)
            return graphs

        quiet = logging.getLogger("sglang.golden")
        quiet.disabled = True
        names = ("DISABLED", "BREAKABLE", "TC_PIECEWISE", "FULL")
        return {
            "Backend": SimpleNamespace(**{name: name for name in names}),
            "Phase": SimpleNamespace(PREFILL="prefill", DECODE="decode"),
            "logger": quiet,
            **{f"is_{name}": says(False) for name in ("npu", "cpu", "mps", "xpu", "musa")},
            "is_hip": says(not facts.cuda),
            "current_platform": SimpleNamespace(is_out_of_tree=says(False)),
            "get_platform": says(SimpleNamespace(is_hip=not facts.cuda, is_npu=False, is_cpu=False, is_mps=False, is_xpu=False)),
            "check_gguf_file": says(False),
            **{name: (lambda args: args) for name in ("resolved_view", "_resolved_view", "resolving_view")},
            "model_config_of": says(model),
            "use_mla_backend": says(facts.latent),
            **{name: says(("fa3", "fa3")) for name in ("attention_backends_of", "resolved_attention_backends")},
            "is_deepseek_v4": says(facts.architecture.startswith("DeepseekV4")),
            "is_deepseek_dsa": says(facts.sparse),
            "is_nemotron_h": says(facts.architecture.startswith("NemotronH")),
            "uses_kda_attention": says(facts.kda),
            "supports_prefill_cp_bcg": says(False),
            "declare_resolution": declare,
            "with_phase": with_phase,
        }  # fmt: skip


def main(paths: list[str]) -> None:
    found = {}
    for path in paths:
        match = re.search(r"sglang-([0-9]+\.[0-9]+\.[0-9]+)", path.rsplit("/", 1)[-1])
        assert match is not None
        version = tuple(int(part) for part in match.group(1).split("."))
        with zipfile.ZipFile(path) as wheel:
            source = _Source(wheel, version)
        found[match.group(1)] = "".join("y" if source.stays_on(facts) else "-" for facts in cases(version))
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
