"""What SGLang's own code makes of chunk size, graph sizes and mem-fraction-static: facts for ``test_sglang_memory_settings``.

    pip download --no-deps sglang==VERSION      (a wheel; nothing of it is imported)
    python -m tests.golden.sglang_memory_settings WHEEL… > tests/golden/sglang-memory-settings.json

Takes the functions that set the memory defaults out of each release's source (0.5.3 and later: one method of ``ServerArgs``,
from 0.5.19 on ``arg_groups/memory_hook.py``), runs them on a stand-in for the arguments, and writes what they set.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
import sys
import zipfile
from types import SimpleNamespace
from typing import Any

#: MiB of devices: two of each class of the table, and its edges.
DEVICES = (16384, 23034, 32607, 40960, 46068, 81559, 97887, 143771, 183359)
LINES = (
    "",
    "--tp-size 2",
    "--tp-size 4 --pp-size 2",
    "--tp-size 8",
    "--tp-size 8 --dp-size 8 --enable-dp-attention",
    "--chunked-prefill-size -1",
    "--chunked-prefill-size -1 --max-prefill-tokens 32768",
    "--chunked-prefill-size 16384 --cuda-graph-max-bs 64",
    "--cuda-graph-max-bs 100 --max-running-requests 32",
    "--max-running-requests 20",
    "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    "--speculative-algorithm NGRAM --speculative-num-draft-tokens 12",
    "--tp-size 8 --moe-a2a-backend deepep --ep-size 8",
    "--max-total-tokens 4000",
    "--context-length 3000",
    "--disable-cuda-graph-padding --cuda-graph-max-bs 40",
    "--tp-size 8 --disaggregation-mode decode --max-running-requests 512",
    "--tp-size 8 --disaggregation-mode prefill --chunked-prefill-size 16384",
)
_WORDS = {"tp": "tp_size", "pp": "pp_size", "dp": "dp_size", "ep": "ep_size"}


def prefill_flag(version: tuple[int, ...], on: bool) -> str:
    """The flag that says whether prefill graphs are captured, so that no other setting decides about it."""
    if version < (0, 5, 10):
        return "--enable-piecewise-cuda-graph" if on else ""
    if version < (0, 5, 14):
        return "--enforce-piecewise-cuda-graph" if on else "--disable-piecewise-cuda-graph"
    return f"--cuda-graph-backend-prefill {'breakable' if on else 'disabled'}"


class _Arguments:
    """Server arguments as they stand before the memory settings: given ones, everything else unset."""

    def __init__(self, line: str, latent: bool, version: tuple[int, ...]) -> None:
        values: dict[str, Any] = {
            "tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1, "attn_dp_size": 1, "device": "cuda", "dcp_size": 1,
            "model_path": "org/model", "max_prefill_tokens": 16384, "disaggregation_mode": "null", "enable_dp_attention": False,
            "moe_a2a_backend": "none", "piecewise_cuda_graph_max_tokens": 4096 if version < (0, 5, 7) else None,
            "disable_piecewise_cuda_graph": False, "enable_piecewise_cuda_graph": False, "_cuda_graph_config_locked": set(),
        }  # fmt: skip
        words = shlex.split(line)
        for index, word in enumerate(words):
            if word.startswith("--"):
                name = word[2:].replace("-", "_")
                follows = words[index + 1] if index + 1 < len(words) else "--"
                text = None if follows.startswith("--") else follows
                values[name] = True if text is None else int(text) if re.fullmatch(r"-?\d+", text) else text
        # Phases of graphs, from 0.5.14 on.
        on = values.get("cuda_graph_backend_prefill") != "disabled"
        values["cuda_graph_config"] = SimpleNamespace(
            decode=SimpleNamespace(max_bs=values.get("cuda_graph_max_bs"), bs=None, backend="full"),
            prefill=SimpleNamespace(max_bs=None, bs=None, backend="breakable" if on else "disabled"),
        )
        if values["enable_dp_attention"]:
            values["attn_dp_size"] = values["dp_size"]
        self.__dict__.update(values)
        self.latent = latent

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def use_mla_backend(self) -> bool:
        return self.__dict__["latent"]  # type: ignore[no-any-return]

    def get_model_config(self) -> SimpleNamespace:
        return SimpleNamespace(is_multimodal=False, is_multimodal_gen=False)

    def _resolved(self) -> _Arguments:
        return self

    def post_capture_kv_sizing_planned(self) -> bool:
        return False


def _namespace(mib: int) -> dict[str, Any]:
    """Stand-ins for what the functions look up."""

    def declare(arguments: _Arguments, _who: str, **values: Any) -> None:
        arguments.__dict__.update(values)

    return {
        "Any": Any,
        "Backend": SimpleNamespace(DISABLED="disabled", BREAKABLE="breakable", FULL="full"),
        "Phase": SimpleNamespace(PREFILL="prefill", DECODE="decode"),
        "_DEFAULT_PP_PREFILL_CUDA_GRAPH_MAX_TOKENS": 8192,
        "attn_dp_enabled_of": lambda arguments: arguments.attn_dp_size > 1,
        "copy": __import__("copy"),
        "declare_resolution": declare,
        "envs": SimpleNamespace(),
        "expand_multimodal_decode_graph_to_running_limit": lambda *_: None,
        "get_device_memory_capacity": lambda *_: mib,
        "get_platform": lambda: SimpleNamespace(is_xpu=False, is_hip=False, is_cuda=True, is_npu=False),
        "is_npu": lambda: False,
        "logger": SimpleNamespace(warning=lambda *_: None, info=lambda *_: None),
        "model_config_of": lambda arguments: arguments.get_model_config(),
        "post_capture_kv_sizing_planned": lambda _: False,
        "resolved_view": lambda arguments: arguments,
        "resolving_view": lambda arguments: arguments,
        "use_mla_backend": lambda arguments: arguments.use_mla_backend(),
    }


_WANTED = re.compile(
    r"_?handle_gpu_memory_settings|_?reserve_for_\w+_mb|_?generate_\w*(cuda_graph|cpu_graph)_(batch_sizes|tokens)"
)


def _functions(wheel: zipfile.ZipFile) -> tuple[list[ast.stmt], bool]:
    """The functions of the release, without their imports, and whether they are methods of the arguments."""
    names = set(wheel.namelist())
    hooks = [f"sglang/srt/arg_groups/{name}_hook.py" for name in ("memory", "cuda_graph")]
    new = all(hook in names for hook in hooks) and b"def handle_gpu_memory_settings" in wheel.read(hooks[0])
    found: list[ast.stmt] = []
    for path in hooks if new else ["sglang/srt/server_args.py"]:
        for node in ast.walk(ast.parse(wheel.read(path))):
            if isinstance(node, ast.FunctionDef) and _WANTED.fullmatch(node.name):
                node.decorator_list, node.returns = [], None
                for argument in node.args.args:
                    argument.annotation = None
                for inner in ast.walk(node):
                    for field in ("body", "orelse"):
                        body = getattr(inner, field, None)
                        if isinstance(body, list):
                            kept = [x for x in body if not isinstance(x, (ast.Import, ast.ImportFrom))]
                            setattr(inner, field, kept or ([ast.Pass()] if body else []))
                found.append(node)
    return found, not new


def settings_of(functions: list[ast.stmt], methods: bool, arguments: _Arguments, mib: int) -> dict[str, Any]:
    """What the release's functions set on the arguments of one start."""
    namespace = _namespace(mib)
    module = ast.fix_missing_locations(ast.Module(body=functions, type_ignores=[]))
    exec(compile(module, "sglang", "exec"), namespace)
    if methods:
        for name, function in namespace.items():
            if _WANTED.fullmatch(name):
                setattr(_Arguments, name, function)
        arguments._handle_gpu_memory_settings(mib)
    else:
        function = namespace["handle_gpu_memory_settings"]
        function(*(arguments, mib)[: function.__code__.co_argcount])
    config = arguments.cuda_graph_config
    old = config.decode.bs is None
    decode = arguments.cuda_graph_bs if old else config.decode.bs
    prefill = arguments.piecewise_cuda_graph_tokens if old else config.prefill.bs
    return {
        "chunk": arguments.chunked_prefill_size,
        "decode": [len(decode), max(decode)],
        "prefill": [len(prefill or ()), max(prefill or (0,))],
        "fraction": arguments.mem_fraction_static,
    }


def main(wheels: list[str]) -> None:
    """Write the facts of all wheels as JSON."""
    releases: dict[str, Any] = {}
    for turn, path in enumerate(wheels):
        match = re.search(r"sglang-([\d.]+(?:post\d+)?)-", path)
        if match is None:
            raise SystemExit(f"{path}: not a wheel of sglang")
        version = tuple(int(part) for part in match[1].split(".")[:3])
        with zipfile.ZipFile(path) as wheel:
            functions, methods = _functions(wheel)
        rows = []
        for number, (line, mib) in enumerate(itertools.product(LINES, DEVICES)):
            if (number + turn) % 3:  # a third of the starts for each release, all of them over three releases
                continue
            latent, on = number % 4 == 1, number % 5 != 2
            words = f"{line} {prefill_flag(version, on)}".strip()
            found = settings_of(functions, methods, _Arguments(words, latent, version), mib)
            rows.append([words, mib, latent, found["chunk"], *found["decode"], *found["prefill"], found["fraction"]])
        releases[match[1]] = rows
    text = {
        "what": "Chunk, decode graphs (count, largest), prefill graphs (count, largest) and mem-fraction-static that the "
        "release's own functions set for a command line, MiB of device memory, and whether attention is latent (MLA)",
        "command": "python -m tests.golden.sglang_memory_settings sglang-VERSION.whl …",
        "releases": releases,
    }
    print(re.sub(r"\n {4,}(?=[^\[ ])|\n {3}(?=\])", " ", json.dumps(text, indent=1)).replace("[ ", "["))


if __name__ == "__main__":
    main(sys.argv[1:])
