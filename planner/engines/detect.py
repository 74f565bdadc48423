"""Which inference engine a container starts: by the words of its command first, then by its image.

Routers, gateways, UIs, benchmarks, simulators, operators and downloaders are no engines, whatever their image is called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.engines.command import Start, program_starts
from planner.engines.config import CommandLine, Word
from planner.engines.image import parse_image
from planner.engines.pieces import Field, is_known, to_word
from planner.engines.variables import Variables
from planner.record import NamedTuple
from planner.workloads.workload import Container


class EngineStart(NamedTuple):
    """One start of an engine.

    ``command_line`` holds the words after the program (for ``vllm serve M --x``: ``M --x``). ``confidence`` is ``high``,
    ``medium`` or ``low``; ``reason`` says what tells it. ``certain`` is False where a condition decides that cannot be
    told. ``environment`` are the variables that a start script sets, ``removed`` those that it takes away, ``sourced`` what
    may set any other of them unseen; ``files`` the texts that it writes, by path. ``background``: the script goes on while it
    runs, so that what it starts next runs beside it.
    """

    engine: str
    command_line: CommandLine
    program: str
    reason: str
    confidence: str = "high"
    certain: bool = True
    environment: tuple[tuple[str, Word], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    background: bool = False
    removed: tuple[str, ...] = ()
    sourced: str = ""


class Detection(NamedTuple):
    """The engines that a container starts, likeliest first, and why there is none otherwise."""

    engines: tuple[EngineStart, ...]
    reason: str


class _Match(NamedTuple):
    """What a program is: the engine (empty: something that is surely none), and the index of its first argument."""

    engine: str
    first: int
    program: str
    reason: str = ""


def find_engine(container: Container) -> EngineStart | None:
    """The engine that a container starts: the first start that is surely reached, else the first one; None for none."""
    engines = find_engines(container)
    return engines[0] if engines else None


def find_engines(container: Container) -> tuple[EngineStart, ...]:
    """All engine starts of a container (branches of a script, several servers), those surely reached first."""
    return detect(container).engines


def detect(container: Container) -> Detection:
    """The engines of a container, and a reason where there is none."""
    image = container.image.value if container.image else ""
    no_engine = _no_engine_image(image)
    found = program_starts(container)
    engines: list[EngineStart] = []
    reasons: list[str] = [no_engine] if no_engine else []
    files = tuple((path, "".join(piece.text for piece in text)) for path, text in found.files.items())
    for start in found.starts:
        if not start.words and start.entrypoint:
            continue
        match = classify(start.texts)
        if match is None:
            continue
        if not match.engine:
            reasons.append(match.reason)
            continue
        if no_engine and ("simulat" in no_engine or start.entrypoint):
            continue
        engines.append(_engine_start(start, match, found.variables, files))
    if not engines and not reasons and (not container.init or container.sidecar):
        engines.extend(_by_image(container, found.starts, found.variables, image))
    engines.sort(key=lambda engine: not engine.certain)
    if engines:
        return Detection(tuple(_without_repetition(engines)), "")
    if not reasons:
        reasons = [_idle(container, found.starts) or "neither the command nor the image is an engine's"]
    return Detection((), reasons[0])


def _engine_start(
    start: Start, match: _Match, variables: Variables, files: tuple[tuple[str, str], ...] = ()
) -> EngineStart:
    line = start.command_line(variables, match.first)
    engine = match.engine
    if engine == "vllm" and any(word.text == "--omni" for word in line.words):
        engine = "vllm-omni"
    reason = match.reason or f"the command starts {match.program}"
    found = EngineStart(
        engine, line, match.program, reason, certain=start.certain, files=files, background=start.background
    )
    return _with_environment(found, start)


def _with_environment(engine: EngineStart, start: Start) -> EngineStart:
    return engine._replace(
        environment=tuple((name, to_word(value)) for name, value in start.environment),
        removed=start.removed,
        sourced=start.sourced,
    )


def _without_repetition(engines: Sequence[EngineStart]) -> list[EngineStart]:
    """A loop or a function that runs twice starts the same again."""
    kept: dict[tuple[str, tuple[str, ...]], EngineStart] = {}
    for engine in engines:
        kept.setdefault((engine.engine, tuple(word.text for word in engine.command_line.words)), engine)
    return list(kept.values())


# -- by the command ----------------------------------------------------------------------------------------------------

# Python modules that serve: module → engine. An empty engine: surely none.
_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.openai.run_batch": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.grpc_server": "vllm",
    "vllm_omni.entrypoints.openai.api_server": "vllm-omni",
    "sglang.launch_server": "sglang",
    "tensorrt_llm.serve": "trtllm",
    "tensorrt_llm.commands.serve": "trtllm",
    "llama_cpp.server": "llama.cpp",
    "huggingfaceserver": "huggingfaceserver",
    "kserve_huggingface": "huggingfaceserver",
    "dynamo.vllm": "dynamo-vllm",
    "dynamo.sglang": "dynamo-sglang",
    "dynamo.trtllm": "dynamo-trtllm",
    "lmdeploy.serve.openai.api_server": "lmdeploy",
    "fastchat.serve.vllm_worker": "fastchat",
    "aphrodite.endpoints.openai.api_server": "aphrodite",
    "nano_vllm": "",
    "sglang.bench_serving": "",
    "sglang_router.launch_router": "",
    "sglang_router.launch_server": "sglang",
    "vllm_router.app": "",
    "lmcache.server": "",
    "dynamo.frontend": "",
    "dynamo.mocker": "",
    "dynamo.planner": "",
    "lm_eval": "",
    "guidellm": "",
    "genai_perf": "",
}
# Programs that serve: name → (engine, sub-commands it serves with; none: always).
_PROGRAMS = {
    "sglang": ("sglang", ("serve",)),
    "text-generation-launcher": ("tgi", ()),
    "text-generation-server": ("tgi", ("serve",)),
    "text-embeddings-router": ("tei", ()),
    "trtllm-serve": ("trtllm", ()),
    "llama-server": ("llama.cpp", ()),
    "llama-box": ("llama.cpp", ()),
    "ollama": ("ollama", ("serve",)),
    "tritonserver": ("triton", ()),
    "lmdeploy": ("lmdeploy", ("serve",)),
    "aphrodite": ("aphrodite", ("run", "serve")),
    "mistralrs-server": ("mistral.rs", ()),
    "local-ai": ("localai", ()),
    "infinity_emb": ("infinity", ()),
    "xinference": ("xinference", ()),
    "xinference-local": ("xinference", ()),
    "mlc_llm": ("mlc-llm", ("serve",)),
}
# Programs that are surely no engine, with what they are.
_OTHERS = {
    "vllm-router": "a router",
    "router": "a router",
    "sglang-router": "a router",
    "sgl-model-gateway": "a router",
    "smg": "a router",
    "litellm": "a gateway",
    "envoy": "a proxy",
    "nginx": "a proxy",
    "traefik": "a proxy",
    "haproxy": "a proxy",
    "open-webui": "a user interface",
    "guidellm": "a benchmark",
    "genai-perf": "a benchmark",
    "aiperf": "a benchmark",
    "inference-perf": "a benchmark",
    "lm_eval": "a benchmark",
    "lm-eval": "a benchmark",
    "locust": "a benchmark",
    "k6": "a benchmark",
    "evalscope": "a benchmark",
    "huggingface-cli": "a downloader",
    "hf": "a downloader",
    "modelscope": "a downloader",
    "aibrix_download": "a downloader",
    "aibrix_runtime": "a helper of an engine",
    "s5cmd": "a downloader",
    "gsutil": "a downloader",
    "gcloud": "a tool",
    "aws": "a tool",
    "kubectl": "a tool",
    "lmcache_server": "a cache server",
    "lmcache_controller": "a cache controller",
    "llm-d-inference-sim": "a simulator",
    "epp": "a scheduler",
}


def classify(texts: Sequence[str]) -> _Match | None:
    """What a program start is, by its words (the program first); None where they do not tell."""
    if not texts:
        return None
    name = texts[0].rpartition("/")[2]
    if name == "vllm" or (name in ("vllm-omni", "vllm_omni") and len(texts) > 1):
        return _vllm(texts, 1)
    if re.fullmatch(r"python[0-9.]*", name):
        return _python(texts)
    known = _PROGRAMS.get(name)
    if known is not None:
        engine, commands = known
        if not commands:
            first = 2 if name == "trtllm-serve" and texts[1:2] == ["serve"] else 1
            return _Match(engine, first, name)
        if texts[1:2] and texts[1] in commands:
            skip = 3 if name == "lmdeploy" and texts[2:3] == ["api_server"] else 2
            return _Match(engine, skip, f"{name} {texts[1]}")
        return _Match("", 1, name, f"`{name}` without `{commands[0]}` starts no server")
    if name in _OTHERS:
        return _Match("", 1, name, f"`{name}` is {_OTHERS[name]}, no engine")
    if name == "serve" and texts[1:2] and texts[1] == "run":
        return _Match("ray-serve", 2, "serve run")
    if name == "ray":
        return _ray(texts)
    if name == "torchrun":
        return None
    if name.endswith(".py"):
        return _script(texts, 0)
    if name in ("sleep", "tail") and (name == "sleep" or "/dev/null" in texts):
        return _Match(
            "", 1, name, f"`{' '.join(texts[:3])}` only keeps the container alive: no engine is started by it"
        )
    return None


def _vllm(texts: Sequence[str], first: int) -> _Match:
    command = texts[first] if first < len(texts) else ""
    if command in ("serve", "run-batch"):
        return _Match("vllm", first + 1, f"vllm {command}")
    if command in ("bench", "chat", "complete", "collect-env", "--version", "-v", "--help", "-h", "launch"):
        return _Match("", first, "vllm", f"`vllm {command}` starts no server")
    if command == "":
        return _Match("", first, "vllm", "`vllm` without `serve` starts no server")
    return _Match("", first, "vllm", f"`vllm {command[:40]}` is no command that starts a server")


def _python(texts: Sequence[str]) -> _Match | None:
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        option = texts[at]
        if option == "-m" and at + 1 < len(texts):
            return _module(texts, at + 1)
        if option.startswith("-m") and len(option) > 2 and not option.startswith("--"):
            return _module([*texts[:at], "-m", option[2:], *texts[at + 1 :]], at + 1, shift=-1)
        if option == "-c":
            return None
        at += 2 if option in ("-W", "-X", "--check-hash-based-pycs") else 1
    return _script(texts, at) if at < len(texts) else None


def _module(texts: Sequence[str], at: int, shift: int = 0) -> _Match | None:
    module = texts[at].removesuffix(".__main__")
    if module in ("vllm", "vllm.entrypoints.cli.main", "vllm_omni"):
        found = _vllm(texts, at + 1)
        return found._replace(first=found.first + shift)
    engine = _MODULES.get(module)
    if engine is None:
        for prefix, what in (("vllm.benchmarks", "a benchmark"), ("vllm_router", "a router"), ("lmcache", "a cache")):
            if module == prefix or module.startswith(prefix + "."):
                return _Match("", at + 1, module, f"`{module}` is {what}, no engine")
        if module.startswith("vllm.entrypoints.") and module.endswith("api_server"):
            return _Match("vllm", at + 1 + shift, f"python -m {module}")
        return None
    if not engine:
        return _Match("", at + 1, module, f"`{module}` is no engine")
    return _Match(engine, at + 1 + shift, f"python -m {module}")


def _script(texts: Sequence[str], at: int) -> _Match | None:
    path = texts[at]
    name = path.rpartition("/")[2]
    if name.startswith(("benchmark_", "bench_")):
        return _Match("", at + 1, name, f"`{name}` is a benchmark, no engine")
    if name in ("api_server.py", "run_batch.py") and ("vllm" in path or "/" not in path):
        return _Match("vllm", at + 1, name)
    if name == "launch_server.py" and "sglang" in path:
        return _Match("sglang", at + 1, name)
    return None


def _ray(texts: Sequence[str]) -> _Match | None:
    if texts[1:2] == ["start"]:
        worker = any(text.startswith("--address") for text in texts)
        what = (
            "joins a Ray cluster, where the engine of another pod places its ranks" if worker else "starts a Ray head"
        )
        return _Match("", 2, "ray start", f"`ray start` {what}; it is no engine itself")
    if texts[1:3] == ["job", "submit"] and "--" in texts:
        at = texts.index("--") + 1
        inner = classify(texts[at:])
        return inner._replace(first=inner.first + at) if inner is not None else None
    return None


# -- by the image ------------------------------------------------------------------------------------------------------

# Words in the name of an image that tell what surely is no engine.
_NO_ENGINE_IMAGES = (
    (r"inference-sim|simulat|mock(?:er)?(?:$|[^a-z])", "a simulator"),
    (r"router|gateway|^smg$|litellm", "a router or gateway"),
    (r"scheduler|endpoint-picker|(?:^|-)epp$", "a scheduler"),
    (r"routing-sidecar|envoy|nginx|haproxy|traefik|proxy", "a proxy"),
    (
        r"webui|librechat|gradio|streamlit|(?:^|[-_])(?:ui|web|frontend|dashboard|console|portal)(?:$|[-_])",
        "a user interface",
    ),
    (r"bench|guidellm|genai-perf|lm-eval|inference-perf|aiperf|locust", "a benchmark"),
    (r"(?:^|[-_])(?:client|agent|bot|tester|curl)(?:$|[-_])", "a client"),
    (r"operator|controller|autoscaler", "an operator"),
    (r"exporter|prometheus|grafana|otel|fluent|metrics", "monitoring"),
    (r"downloader|storage-initializer|model-loader", "a downloader"),
)
_NO_ENGINE_REPOSITORIES = ("aibrix/runtime", "ai-dynamo/dynamo-frontend", "lmcache/standalone")
# (engine, words in the name of an image). The first that fits wins.
_ENGINE_IMAGES = (
    ("dynamo-vllm", r"^vllm-runtime|dynamo-vllm"),
    ("dynamo-sglang", r"^sglang-runtime|dynamo-sglang"),
    ("dynamo-trtllm", r"^tensorrtllm-runtime|dynamo-trtllm"),
    ("huggingfaceserver", r"huggingfaceserver"),
    ("tgi", r"text-generation-inference|^tgi(?:$|-)"),
    ("tei", r"text-embeddings-inference|^tei(?:$|-)"),
    ("sglang", r"sglang"),
    ("triton", r"tritonserver|triton[-_](?:trt|tensorrt)|tensorrtllm[-_]backend"),
    ("trtllm", r"tensorrt-?llm|trtllm"),
    ("llama.cpp", r"llama[.-]?cpp|llama-server|llama-swap"),
    ("ollama", r"^ollama"),
    ("localai", r"^local-?ai"),
    ("lmdeploy", r"lmdeploy"),
    ("aphrodite", r"aphrodite"),
    ("djl-serving", r"^djl-(?:inference|serving)"),
    ("ray-serve", r"^ray-llm$"),
    ("nim", r"(?:^|-)nim(?:$|-)"),
    ("vllm-omni", r"vllm-omni"),
    ("vllm", r"vllm"),
)
_LLM_D_IMAGE = r"ghcr\.io/llm-d/llm-d(?:-(?:cuda|rocm|xpu|cpu|gaudi|hpu|aws|dev|gke)\b[\w-]*)?"
# Images whose entrypoint is a shell or runs its arguments as a command: without any they serve nothing.
_SHELL_IMAGES = (
    r"nvcr\.io/nvidia/(?:vllm|sglang|tensorrt-llm/release)|.*/vllm-ascend"
    r"|docker\.io/(?:rocm/vllm.*|lmsysorg/sglang|vllm/vllm-tpu)"
)
# Images whose entrypoint is known to be the server with nothing set.
_PLAIN_IMAGES = r".*/vllm-openai[\w-]*|docker\.io/vllm/.*|.*/rhaiis/vllm[\w-]*|.*/vllm-cpu-release-repo"
# Flags that only one engine has, for images that tell nothing.
_OWN_FLAGS = (
    ("vllm", "max-model-len gpu-memory-utilization max-num-seqs max-num-batched-tokens enable-auto-tool-choice"
     " kv-transfer-config enforce-eager enable-prefix-caching pipeline-parallel-size disable-log-requests"
     " limit-mm-per-prompt swap-space max-num-batched-token"),
    ("sglang", "mem-fraction-static chunked-prefill-size context-length tp-size dp-size max-running-requests"
     " disable-radix-cache"),
    ("tgi", "max-total-tokens max-input-length max-input-tokens num-shard max-batch-prefill-tokens"),
    ("llama.cpp", "n-gpu-layers ctx-size flash-attn ubatch-size cache-type-k"),
)  # fmt: skip


def _no_engine_image(image: str) -> str:
    ref = parse_image(image)
    name = ref.name.lower()
    for pattern, what in _NO_ENGINE_IMAGES:
        if re.search(pattern, name):
            return f"the image is {what}, no engine"
    if ref.repository.lower().endswith(_NO_ENGINE_REPOSITORIES):
        return "the image is a helper of an engine, no engine"
    return ""


def _engine_of_image(image: str) -> str:
    """The engine that an image holds, by its name; empty where that does not tell."""
    ref = parse_image(image)
    name = ref.name.lower()
    path = f"{ref.registry}/{ref.repository}".lower()
    if path.startswith("nvcr.io/nim/"):
        return "nim"
    if re.fullmatch(_LLM_D_IMAGE, path):
        return "vllm"
    for engine, pattern in _ENGINE_IMAGES:
        if re.search(pattern, name):
            return engine
    return ""


def _entrypoint_of(image: str, texts: Sequence[str]) -> str:
    """How sure it is what the image's entrypoint does with the arguments: ``plain``, ``shell``, ``own`` or ``arguments``
    (an image of somebody's own, but with arguments that name a model)."""
    ref = parse_image(image)
    path = f"{ref.registry}/{ref.repository}".lower()
    if re.fullmatch(_SHELL_IMAGES, path):
        return "shell"
    if re.fullmatch(_PLAIN_IMAGES, path):
        return "plain"
    names_model = (
        any(text.startswith(("--model", "--config")) for text in texts) or not texts[0].startswith("-")
        if texts
        else False
    )
    return "arguments" if names_model else "own"


def is_engines_own(image: str) -> bool:
    """Whether an image's entrypoint is the engine's server and adds no arguments of its own, as in the projects' images."""
    return _entrypoint_of(image, ()) == "plain"


def _by_image(container: Container, starts: Sequence[Start], variables: Variables, image: str) -> list[EngineStart]:
    """The engine that the image's own entrypoint starts with the container's arguments, or that an opaque script starts."""
    engine = _engine_of_image(image)
    start = starts[0] if len(starts) == 1 else None
    if start is None or not (start.entrypoint or _is_opaque(start)):
        return []
    if not start.entrypoint:
        if not engine:
            return []
        # What the script does with its words is not known, nor which model it takes.
        words = tuple(
            to_word(field)._replace(known=False, reason="a script in the image decides what becomes of it")
            for field in start.words
        )
        line = CommandLine(words, shell=start.shell)
        reason = f"the image is {engine}'s, and the command is a script that is not among the inputs"
        return [_with_environment(EngineStart(engine, line, start.texts[0], reason, "low", start.certain), start)]
    texts = start.texts
    first = 0
    if texts[:2] == ["vllm", "serve"]:
        first, engine = 2, engine or "vllm"
    elif texts[:1] == ["serve"] and engine in ("vllm", "vllm-omni", "sglang", ""):
        first, engine = 1, engine or "vllm"
    if engine:
        return _by_entrypoint(start, variables, image, engine, first)
    engine = _engine_of_flags(texts, start.words)
    if engine:
        line = start.command_line(variables, first)
        reason = f"the arguments are {engine}'s, while the image tells nothing"
        return [_with_environment(EngineStart(engine, line, "", reason, "medium", start.certain), start)]
    return []


def _by_entrypoint(start: Start, variables: Variables, image: str, engine: str, first: int) -> list[EngineStart]:
    texts = start.texts
    if texts[:1] in (["--help"], ["--version"]):
        return []
    line = start.command_line(variables, first)
    kind = _entrypoint_of(image, texts) if engine in ("vllm", "vllm-omni", "sglang") else "plain"
    if kind == "shell" and not texts:
        return []
    confidence = "medium" if kind in ("own", "shell") else "high"
    if kind == "own":
        # The image may well bring its own model and flags.
        position = line.words[0].position if line.words else None
        unseen = Word(
            "$@", position, False, "image", "the image's own entrypoint may add arguments that are not seen here"
        )
        line = line._replace(words=(unseen, *line.words))
    reason = f"the image's own entrypoint is {engine}'s"
    return [_with_environment(EngineStart(engine, line, "", reason, confidence, start.certain), start)]


def _engine_of_flags(texts: Sequence[str], words: Sequence[Field]) -> str:
    flags = {
        text[2:].partition("=")[0].replace("_", "-")
        for text, field in zip(texts, words, strict=True)
        if text.startswith("--") and (is_known(field) or "=" in text)
    }
    for engine, names in _OWN_FLAGS:
        if not flags.isdisjoint(names.split()):
            return engine
    # SGLang takes --tensor-parallel-size too, but calls the model --model-path.
    return "vllm" if {"model", "tensor-parallel-size"} <= flags else ""


_START_SCRIPT = r"(?:^|/)[\w.-]*(?:entrypoint|start|serve|launch|run|vllm|server)[\w.-]*$"


def _is_opaque(start: Start) -> bool:
    """Whether the program is a start script that the input does not show."""
    texts = start.texts
    if not texts:
        return False
    name = texts[0].rpartition("/")[2]
    if name in ("bash", "sh", "dash", "ash") and len(texts) > 1:
        path = next((text for text in texts[1:] if not text.startswith("-")), "")
        return bool(re.search(_START_SCRIPT, path)) and "multi-node-serving" not in path
    return ("/" in texts[0] or name.endswith(".sh")) and bool(re.search(_START_SCRIPT, texts[0]))


def _idle(container: Container, starts: Sequence[Start]) -> str:
    """Why a container with an engine's image runs none."""
    image = container.image.value if container.image else ""
    engine = _engine_of_image(image)
    if not engine:
        return ""
    for start in starts:
        if any("multi-node-serving" in text for text in start.texts[:3]):
            return "it joins a Ray cluster, where the engine of another pod places its ranks"
    return f"the image is {engine}'s, but its command starts no engine as far as it can be read"
