"""Number formats of cache and weights that a device, a backend or a release has no kernels for.

Sources: get_min_capability of vLLM's quantization methods; the attention backends' own checks (vllm/v1/attention/backends,
vllm/platforms/cuda.py) from 0.11.0 on, the first release without the V0 engine; SGLang's argument checks and its
``layers/quantization``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.memory.kv_block_size import Shapes
    from planner.models.architecture import ModelArchitecture
    from planner.plan import Plan
    from planner.provenance import Position

#: Ways to store the same checkpoint: a method on the command line may be any of its checkpoint's family.
_FAMILIES = (
    {"gptq", "gptq_marlin", "auto_gptq", "marlin", "gptq_marlin_24", "gptq_bitblas", "bitblas", "moe_wna16", "humming",
     "auto-round", "inc", "ipex"},
    {"awq", "awq_marlin", "auto_awq", "moe_wna16", "humming", "auto-round", "inc", "ipex"},
    {"modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "petit_nvfp4", "mxfp8", "humming"},
    {"fp8", "deepseek_v4_fp8", "humming", "w8a8_fp8"},
    {"mxfp4", "gpt_oss_mxfp4", "humming", "quark", "fp8"},
    {"mxfp8", "modelopt_mxfp8", "humming"},
    {"compressed-tensors", "compressed_tensors", "w8a8_int8", "w8a8_fp8", "humming", "sparseml"},
    {"bitsandbytes"},
    {"torchao"},
    {"quark", "mxfp4", "quark_int4fp8_moe"},
)  # fmt: skip
#: Methods that quantize a 16-bit checkpoint while it is loaded.
_ONLINE = frozenset(
    [
        "fp8",
        "bitsandbytes",
        "torchao",
        "experts_int8",
        "deepspeedfp",
        "tpu_int8",
        "neuron_quant",
        "ptpc_fp8",
        "rtn",
        "online",
        "inc",
        "ipex",
        "mxfp8",
        "mxfp4",
        "humming",
        "fp8_per_tensor",
        "fp8_per_block",
        "fp8_per_channel",
        "int8_per_channel_weight_only",
        "nvfp4_per_token",
        "w8a8_int8",
        "w8a8_fp8",
        "qoq",
        "modelopt",
        "modelopt_fp8",
        "modelopt_fp4",
        "quark_int4fp8_moe",
        "petit_nvfp4",
        "fp_quant",
    ]
)
#: Methods that need what quantized checkpoints alone bring along.
_STORED = frozenset(
    ["awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "marlin", "compressed-tensors", "aqlm", "hqq"]
)
_FLASHINFER_HEADS = (64, 128, 256, 512)


def format_facts(plan: Plan, positions: dict[str, Position]) -> dict[str, Any]:
    """``kv_cache_dtype_problem``, ``quantization_problem``, ``quantization_mismatch``: mappings with ``text``, ``remedy`` and
    ``certain``; a fact is absent where its model or device is not known, and without text where nothing is wrong."""
    facts: dict[str, Any] = {}
    if plan.engine.engine not in ("vllm", "sglang") or not plan.engine.version_key:
        return facts
    for name in ("quantization", "kv-cache-dtype"):
        flag = plan.engine.flags.get(name)
        place = (flag.value_position or flag.position) if flag is not None else None
        if place is not None:
            positions[f"engine.format.{name}"] = place
    fine = {"text": "", "remedy": "", "certain": True}
    asked = plan.engine.flags.get("quantization")
    if asked is None or not asked.known:
        facts["quantization_mismatch"] = fine
    elif plan.model is not None:
        facts["quantization_mismatch"] = _mismatch(plan, plan.model, str(asked.value)) or fine
    if plan.engine.platform != "cuda":
        return facts
    capability = _capability(plan)
    if plan.engine.engine == "sglang":
        facts.update(_sglang(plan, capability, fine))
        return facts
    if "kv-cache-dtype" not in plan.engine.flags:
        facts["kv_cache_dtype_problem"] = fine
    elif capability is not None:
        facts["kv_cache_dtype_problem"] = _kv_cache(plan, capability) or fine
    method = str(asked.value) if asked is not None and asked.known and asked.value else None
    if method is None and plan.model is not None:
        method = plan.model.quantization or ""
    if method is not None:
        problem = (
            (_unknown(plan, method) if asked is not None else None)
            or _release(plan, method)
            or _device(plan, method, capability)
            or _activations(plan, positions)
        )
        if problem is not None:
            facts["quantization_problem"] = problem
        elif capability is not None or not method:
            facts["quantization_problem"] = fine
    return facts


def _capability(plan: Plan) -> int | None:
    accelerator = plan.accelerator
    if accelerator is None or not accelerator.capability:
        return None
    return accelerator.capability[0] * 10 + accelerator.capability[1]


def _problem(text: str, remedy: str, certain: bool = True) -> dict[str, Any]:
    return {"text": text, "remedy": remedy, "certain": certain}


def _assumed(plan: Plan) -> bool:
    return plan.engine.version_assumed


# ---- SGLang ------------------------------------------------------------------------------------------------------------

#: The first release that has DeepSeek-V4.
_FP4_EXPERTS_SINCE = (0, 5, 12)
#: Formats of the cache that are for Blackwell: its major compute capabilities (``arg_groups/kv_cache_hook.py``).
_BLACKWELL_CACHES = ("nvfp4", "mxfp8")


def _sglang(plan: Plan, capability: int | None, fine: dict[str, Any]) -> dict[str, Any]:
    """What SGLang's releases cannot run; a fact is absent where it hangs on what is not known."""
    facts: dict[str, Any] = {"kv_cache_dtype_problem": fine, "quantization_problem": fine}
    dtype, method = plan.engine.get("kv-cache-dtype"), plan.engine.get("quantization")
    device = plan.accelerator.name if plan.accelerator is not None else ""
    if dtype in _BLACKWELL_CACHES:
        if capability is None:
            del facts["kv_cache_dtype_problem"]
        elif capability < 100:
            facts["kv_cache_dtype_problem"] = _problem(
                f"--kv-cache-dtype {dtype} needs Blackwell (compute capability 10.0 or newer); "
                f"{device} has {capability / 10:.1f}",
                "Use --kv-cache-dtype fp8_e4m3 or auto",
            )
    if method == "nvfp4_online" and capability is None:
        del facts["quantization_problem"]
    elif method == "nvfp4_online" and capability is not None and capability // 10 != 10:
        facts["quantization_problem"] = _problem(
            f"--quantization nvfp4_online needs compute capability 10.x; {device} has {capability / 10:.1f}",
            "Use --quantization fp8, or a checkpoint that is quantized",
        )
    elif _runner_by_hand(plan):
        if plan.model is None or (_fp4_experts(plan.model) and capability is None):
            del facts["quantization_problem"]
        elif _fp4_experts(plan.model) and capability == 90:
            facts["quantization_problem"] = _problem(
                f"SGLang {plan.engine.version.value} runs the FP4 experts of {plan.model.id} on {device} "
                "with kernels for FP8, which stop in the first forward pass (Hidden size mismatch)",
                "Add --moe-runner-backend marlin (or flashinfer_mxfp4), run 0.5.19 or newer, or serve the checkpoint whose experts "
                "are FP8 (sgl-project)",
                not _assumed(plan),
            )
    return facts


def _runner_by_hand(plan: Plan) -> bool:
    """Whether DeepSeek-V4's FP4 experts would come to the runner of FP8 experts (``Fp8MoEMethod`` in
    ``layers/quantization/fp8.py``): no flag names a runner that unpacks them or an exchange that brings its own, and no
    variable says how they are stored. Public reports: sgl-project/sglang issues 27109, 27497 and 33693."""
    from planner.memory.sglang_formats import RUNNER_CHOSEN

    engine = plan.engine
    return (
        _FP4_EXPERTS_SINCE <= engine.version_key < RUNNER_CHOSEN
        and engine.get("moe-runner-backend") in (None, "auto", "triton")
        and engine.stated("moe-runner-backend") == ("moe-runner-backend" in engine.flags)
        and ("moe-a2a-backend" not in engine.flags or engine.get("moe-a2a-backend") == "none")
        and not any(name.startswith("SGLANG_DSV4_FP4") for name in engine.env)
        and not any("prefill-c" in name for name in engine.flags)
    )


def _fp4_experts(model: ModelArchitecture) -> bool:
    """Whether routed experts of DeepSeek-V4 are stored in four bits. SGLang reads that from the tensors' headers; a config can
    keep silent about it where they were converted, and the name then says it (``…-FP8``)."""
    return (
        model.architecture.startswith("DeepseekV4")
        and not _eight_bit_float(model)
        and any(matrix.experts and matrix.format == "mxfp4" for layer in model.layers for matrix in layer.matrices)
    )


# ---- KV cache ----------------------------------------------------------------------------------------------------------


def _kv_cache(plan: Plan, capability: int) -> dict[str, Any] | None:
    """Why the stated format of the cache has no kernel on this device, None where it has one as far as is known."""
    from planner.engines.vllm_placement import attention_backend

    dtype, version = str(plan.engine.get("kv-cache-dtype") or ""), plan.engine.version_key
    if dtype.startswith("octave"):
        return _problem(f"--kv-cache-dtype {dtype} exists for ROCm only", "Use fp8 or auto")
    certain = not _assumed(plan)
    unkept = _unkept(plan, dtype, capability) if version >= (0, 11) else None
    if unkept is not None:
        return _problem(*unkept, certain)
    # The V0 engine had conversions of its own for every device; MLA has other kernels.
    if not dtype.startswith("fp8") or version < (0, 11) or (plan.model is not None and plan.model.is_multi_latent):
        return None
    where = f"on {plan.accelerator.name} (compute capability {capability / 10:.1f})" if plan.accelerator else ""
    release, backend = plan.engine.version.value, attention_backend(plan.engine)
    e5m2 = dtype == "fp8_e5m2"
    wide = "Use --kv-cache-dtype auto" + ("" if e5m2 or capability < 80 else ", or fp8_e5m2")
    if capability < 80:
        if version >= (0, 24) or version < (0, 11, 1) or (capability < 75 and not e5m2):
            return _problem(
                f"vLLM {release} has no attention backend that keeps the cache in {dtype} {where}", wide, certain
            )
        return None
    if backend.startswith("FLASH_ATTN") and not _flash_attention(version, capability):
        return _problem(
            f"FlashAttention has no {dtype} cache {where}; it needs 9.x" + (" or 10.x" if version >= (0, 27) else ""),
            "Remove the backend, or " + wide, certain,
        )  # fmt: skip
    if capability >= 89 or backend.startswith("FLASHINFER"):
        return None
    triton = backend.startswith("TRITON") or (not backend and version < (0, 11, 1)) or _odd_heads(plan)
    if (triton or dtype in _PER_TOKEN) and (not e5m2 or version >= (0, 24)):
        return _problem(
            f"{dtype} needs compute capability 8.9 in the Triton kernels that vLLM {release} takes {where}",
            wide,
            certain,
        )
    if e5m2 or triton:
        return None
    return _problem(
        f"{dtype} (e4m3) has no native kernels {where}: vLLM {release} can only run it through FlashInfer, and stops where "
        "that is missing or cannot take the layer",
        "Use --kv-cache-dtype fp8_e5m2 or auto, or pin --attention-backend FLASHINFER",
        False,
    )


def _flash_attention(version: tuple[int, ...], capability: int) -> bool:
    """Whether FlashAttention keeps a cache in FP8: its third version on Hopper, from 0.27 its fourth on 10.x."""
    return 90 <= capability < 100 or (version >= (0, 27) and 100 <= capability < 110)


#: Formats with a scale for every token and head, which Triton's kernels have alone.
_PER_TOKEN = ("fp8_per_token_head", "int8_per_token_head", "int4_per_token_head")
_PLAIN = ("", "auto", "float16", "bfloat16")
#: First release whose kernels are asked whether they keep a format, before a weight is loaded.
_ASKED = (0, 11, 1)


def _unkept(plan: Plan, dtype: str, capability: int) -> tuple[str, str] | None:
    """What no kernel keeps, or not the one that is named, and what to do: what ``supports_kv_cache_dtype`` of the kernels says
    from 0.11.1 on, beside checks of ``config/vllm.py`` and of the kernels' constructors."""
    from planner.engines.vllm_placement import attention_backend
    from planner.facts.vllm_attention import kernel, shapes_of

    engine, version, release = plan.engine, plan.engine.version_key, plan.engine.version.value
    if dtype in _PLAIN:
        return _other_float(plan, dtype)
    shapes, name = shapes_of(plan.model, engine), attention_backend(engine)
    if shapes is None or plan.model is None:
        return None
    latent = shapes.latent is not None
    named = kernel(name, version)
    if name and named is None and version >= _ASKED:
        return None  # a plug-in's, or one that is not described
    if named is not None and named.formats is not None and named.latent == latent and dtype not in named.formats:
        return f"{name} of vLLM {release} keeps no cache in {dtype}", "Remove the backend, or use --kv-cache-dtype auto"
    if latent and shapes.sparse:
        packed = dtype.startswith("nvfp4") and not dtype.endswith("_ds_mla") and version >= (0, 22)
        return (f"latent attention has no {dtype} cache", "Use fp8, or nvfp4_ds_mla on 10.x") if packed else None
    text = (
        _unkept_latent(version, dtype, capability, name) if latent else _unkept_plain(plan, shapes, dtype, capability)
    )
    device = plan.accelerator.name if plan.accelerator is not None else "the device"
    if not text:
        return None
    fits = "auto" if latent or dtype.startswith("fp8") or capability < 89 else "fp8 or auto"
    return (
        f"vLLM {release} keeps no {dtype} cache of {plan.model.id} on {device}: {text}",
        f"Use --kv-cache-dtype {fits}",
    )


def _other_float(plan: Plan, dtype: str) -> tuple[str, str] | None:
    """0.33 on: a cache in 16 bits has the model's own format."""
    model = plan.effective.dtype.value if plan.effective is not None else ""
    if dtype in ("float16", "bfloat16") and plan.engine.version_key >= (0, 33) and model not in ("", dtype):
        return f"--kv-cache-dtype {dtype} differs from the model's dtype, {model}", "Use --kv-cache-dtype auto"
    return None


def _unkept_latent(version: tuple[int, ...], dtype: str, capability: int, name: str) -> str:
    """Why no kernel of dense latent attention keeps the format; those for devices other than 9.x and 10.x are Triton's."""
    if dtype not in ("fp8", "fp8_e4m3"):
        return "kernels of latent attention keep 16 bits and fp8 (e4m3) alone" if version >= _ASKED else ""
    if 90 <= capability < 110 or name not in ("", "TRITON_MLA"):
        return ""
    if version < (0, 18):
        return "Triton's kernel of latent attention, which is left on this device, keeps 16 bits"
    if version >= (0, 26) and capability < 89:
        return "Triton's kernel of latent attention needs compute capability 8.9 for it"
    return ""


def _unkept_plain(plan: Plan, shapes: Shapes, dtype: str, capability: int) -> str:
    """Why no kernel of keys and values keeps the format."""
    version, blackwell = plan.engine.version_key, 100 <= capability < 110
    if dtype.endswith("_ds_mla"):
        taken = dtype.startswith("nvfp4") and blackwell  # FlashInfer looks at how the name begins
        return "it is a format of latent attention" if version >= (0, 22) and not taken else ""
    if dtype == "fp8_inc":
        return "it is a format of Gaudi" if version >= (0, 22) else ""
    if dtype == "ultraquant_4bit":
        return "CUDA has no kernel for it that vLLM would choose"
    if dtype.startswith("nvfp4") and version >= (0, 21):
        if not shapes.head_dims & {*_FLASHINFER_HEADS}:
            return "FlashInfer, which alone keeps it, has no kernels for the model's heads"
        if blackwell or version < (0, 23):  # before, it failed later, if at all
            return ""
        if version < (0, 32) or dtype != "nvfp4" or capability // 10 not in (8, 9, 12):
            return "it needs compute capability 10.x"
        return "heads of 64 elements or attention sinks need 10.x" if shapes.sinks or 64 in shapes.head_dims else ""
    return _unkept_turboquant(plan, shapes) if dtype.startswith("turboquant") else ""


def _unkept_turboquant(plan: Plan, shapes: Shapes) -> str:
    """TurboQuant: no attention sinks, no sliding windows (0.26 on), no hybrid models (0.20)."""
    from planner.models.architecture import SlidingWindow

    version, model = plan.engine.version_key, plan.model
    if shapes.sinks:
        return "TurboQuant has no attention sinks"
    if model is not None and model.is_hybrid and version < (0, 21):
        return "TurboQuant does not take hybrid models before 0.21"
    chosen = {"kv-cache-dtype-skip-layers", "disable-sliding-window"} & plan.engine.flags.keys()
    windows = model is not None and any(isinstance(layer.attention, SlidingWindow) for layer in model.layers)
    return "TurboQuant has no sliding windows" if windows and version >= (0, 26) and not chosen else ""


def _odd_heads(plan: Plan) -> bool:
    """Whether FlashInfer cannot take the model's heads, so that Triton is left."""
    return plan.model is not None and bool(plan.model.head_dim) and plan.model.head_dim not in _FLASHINFER_HEADS


# ---- weights -----------------------------------------------------------------------------------------------------------

#: The checkpoint's method and the words for it on the command line, all of which mean the same kernels: what they compute in,
#: and where a word means older kernels until a release, that release and what those compute in. ``get_supported_act_dtypes``
#: and ``override_quantization_method`` of ``layers/quantization`` in 30 releases from 0.6.0 to 0.33.0.
_ACTIVATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, tuple[tuple[int, ...], tuple[str, ...]]]]] = {
    "awq": (("awq", "awq_marlin", "auto_awq"), ("float16", "bfloat16"), {"awq": ((0, 24), ("float16",))}),
    "gptq": (("gptq", "gptq_marlin", "auto_gptq"), ("float16", "bfloat16"), {"gptq": ((0, 22), ("float16",))}),
    "fp8": (("fp8",), ("float16", "bfloat16"), {}),
    "mxfp4": (("mxfp4", "gpt_oss_mxfp4"), ("bfloat16",), {}),
}
_DTYPES = {"half": "float16", "float": "float32"}


def _unknown(plan: Plan, asked: str) -> dict[str, Any] | None:
    """Why no release has a method of the stated name. A plug-in could add one, which the engine's own image does not hold."""
    from planner.engines.image import sets_no_variables
    from planner.engines.vllm_quantization import method
    from planner.facts.flag_tables import tables

    known = tables(plan)
    # Both are read as no value at all.
    if asked in ("", "None") or method(asked.lower(), plan.engine.version_key) is not None or known is None:
        return None
    if _assumed(plan) or known.standing != "exact" or known.patched:
        return None
    image, words = plan.engine.image, plan.container.words if plan.container is not None else ()
    installs = "VLLM_PLUGINS" in plan.engine.env or any(" install " in word.text[:100_000] for word in words)
    return _problem(
        f"vLLM {plan.engine.version.value} has no quantization method {asked[:40]}",
        "Remove --quantization: the engine reads the method from the checkpoint"
        if plan.model is None or plan.model.quantization
        else "Remove --quantization, or name a method of the release, such as fp8",
        image is not None and sets_no_variables(image.value) and not installs,
    )


def _activations(plan: Plan, positions: dict[str, Position]) -> dict[str, Any] | None:
    """Why the method does not compute in the number format that is stated. The checkpoint's own is not asked: the catalogue has
    that of the model which was quantized, and AWQ and GPTQ are as a rule stored in float16 whatever that was."""
    model, asked, flag = plan.model, plan.engine.get("quantization"), plan.engine.flags.get("dtype")
    if model is None or flag is None or not flag.known or _assumed(plan):
        return None
    # fp8 quantizes a 16-bit checkpoint while it is loaded.
    stored = model.quantization or ("fp8" if asked == "fp8" else "")
    words, formats, older = _ACTIVATIONS.get(stored, ((), (), {}))
    if not words or (asked is not None and asked not in words):
        return None
    until, before = older.get(str(asked), ((), ()))
    if plan.engine.version_key < until:
        formats = before
    dtype = _DTYPES.get(str(flag.value), str(flag.value))
    if dtype not in ("float16", "bfloat16", "float32") or dtype in formats:
        return None
    place = flag.value_position or flag.position
    if place is not None and asked is None:
        positions["engine.format.quantization"] = place
    remedy = f"Use --dtype {formats[-1]}"
    if formats == before and dtype == "bfloat16":
        remedy = f"Remove --quantization: the engine then takes {asked}_marlin where it can. Or set --dtype float16"
    return _problem(
        f"vLLM {plan.engine.version.value} computes in {' or '.join(formats)} with quantization {asked or stored}, not in {dtype}",
        remedy,
    )


def _release(plan: Plan, name: str) -> dict[str, Any] | None:
    """Why the release has no such method, whatever the device."""
    from planner.engines.vllm_quantization import method

    found = method(name, plan.engine.version_key) if name else None
    if found is None or _assumed(plan):
        return None
    release = plan.engine.version.value
    if not found.active and found.until:
        return _problem(
            f"quantization {name} was removed in vLLM {found.until}; this is {release}",
            f"Use a checkpoint of another method, or a release before {found.until}",
        )
    if not found.active:
        return _problem(f"vLLM {release} does not know quantization {name} yet", "Run a newer release")
    if found.deprecated and plan.engine.get("allow-deprecated-quantization") is not True:
        return _problem(
            f"vLLM {release} refuses quantization {name} as deprecated", "Add --allow-deprecated-quantization"
        )
    return None


def _device(plan: Plan, name: str, capability: int | None) -> dict[str, Any] | None:
    """Why the method has no kernels on the device."""
    from planner.engines.vllm_quantization import method

    found = method(name, plan.engine.version_key) if name else None
    if found is None or capability is None or plan.accelerator is None:
        return None
    release, certain = plan.engine.version.value, not _assumed(plan)
    if capability < found.capability:
        return _problem(
            f"quantization {name} needs compute capability {found.capability / 10:.1f} in vLLM {release}; "
            f"{plan.accelerator.name} has {capability / 10:.1f}",
            "Use a checkpoint of another method, or a newer GPU",
            certain,
        )
    experts = plan.model is not None and bool(plan.model.num_experts)
    if name in ("fp8", "compressed-tensors") and experts and capability < 89 and plan.engine.version_key < (0, 9):
        eight = name == "fp8" or (plan.model is not None and _eight_bit_float(plan.model))
        if eight:
            return _problem(
                f"fp8 experts need compute capability 8.9 in vLLM {release}; {plan.accelerator.name} has "
                f"{capability / 10:.1f} (dense fp8 layers run there, experts only from 0.9.0 on)",
                "Use vLLM 0.9.0 or newer, an int4 checkpoint, or a newer GPU",
                certain,
            )
    return None


def _eight_bit_float(model: ModelArchitecture) -> bool:
    return "fp8" in model.id.lower()


def _mismatch(plan: Plan, model: ModelArchitecture, asked: str) -> dict[str, Any] | None:
    """Why ``--quantization`` cannot be that of the checkpoint."""
    stored = (model.quantization or "").lower()
    asked = asked.lower()
    if not asked or asked == stored or asked in ("none", "auto", "unquant"):
        return None
    if not stored:
        if asked in _STORED:
            return _problem(
                f"--quantization {asked} of {model.id}, which is not quantized: its checkpoint has no scales to load",
                "Remove --quantization, or serve a checkpoint that is quantized this way",
            )
        return None
    if any(asked in family and stored in family for family in _FAMILIES):
        return None
    if asked not in _ONLINE and asked not in _STORED and asked not in ("gguf", "quark", "exl2", "qqq", "fbgemm_fp8"):
        return None  # a method of a plug-in
    return _problem(
        f"--quantization {asked} of {model.id}, whose checkpoint is stored as {stored}",
        "Remove --quantization: the engine reads the method from the checkpoint",
    )
