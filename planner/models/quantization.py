"""How a checkpoint says that its weights are stored, brought to one description per module.

Sources: the ``quantization_config`` of config.json, or ModelOpt's separate hf_quant_config.json. Semantics of the ignore
lists follow vLLM (model_executor/layers/quantization, 0.19 to 0.32): exact names for fp8, parts of names for AWQ, GPTQ and
ModelOpt, wildcards for ModelOpt, names or regular expressions for compressed-tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.models.architecture import Format, UnknownModel
from planner.models.config_reader import ConfigReader
from planner.models.module_patterns import ModulePatterns, split_layer
from planner.record import NamedTuple

_REMEDY = "state the weight bytes with the annotation planner/given, or use a supported quantization"
UNQUANTIZED = "model"
NOTHING = ModulePatterns(())

#: ModelOpt's algorithms and the format that each stores.
MODELOPT_ALGORITHMS = {
    "FP8": Format("fp8_tensor"),
    "FP8_PER_CHANNEL_PER_TOKEN": Format("fp8_channel"),
    "FP8_PB_WO": Format("fp8_block", block=(128, 128)),
    "FP8_BLOCK_SCALES": Format("fp8_block", block=(128, 128)),
    "NVFP4": Format("nvfp4", group=16, bits=4),
    "W4A16_NVFP4": Format("nvfp4_a16", group=16, bits=4),
    "NVFP4_AWQ": Format("nvfp4", group=16, bits=4),
    "MXFP8": Format("mxfp8", group=32),
    "MXFP4": Format("mxfp4", group=32, bits=4),
    "W4A8_MXFP4_FP8": Format("mxfp4", group=32, bits=4),
    "INT4_AWQ": Format("w4a16", group=128, bits=4),
    "W4A16_AWQ": Format("w4a16", group=128, bits=4),
}


class Target(NamedTuple):
    """Modules that are stored in one format: those in ``modules``, or all linear layers where ``modules`` is None."""

    modules: ModulePatterns | None
    format: Format


class Quantization:
    """The storage of every module of one checkpoint.

    ``method`` is the engine's name for it (None: not quantized); ``group`` inputs per scale; ``kv_cache`` what the
    checkpoint asks the KV cache to be (``fp8``, ``nvfp4`` or None).
    """

    def __init__(
        self,
        method: str | None = None,
        *,
        linear: Format | None = None,
        experts: Format | None = None,
        head: Format | None = None,
        ignore: ModulePatterns = NOTHING,
        targets: Iterable[Target] = (),
        kv_cache: str | None = None,
        group: int = 0,
        towers: bool = True,
    ) -> None:
        self.method, self.kv_cache, self.group = method, kv_cache, group
        self._linear, self._experts, self._head = linear, experts, head
        self._ignore, self._targets, self._towers = ignore, tuple(targets), towers
        self.formats: dict[str, Format] = {UNQUANTIZED: Format("model")}
        self._names: dict[Format, str] = {}

    def store_experts_as_mxfp4(self) -> None:
        """Experts that no target names are MXFP4 instead of the linear layers' format (DeepSeek-V4)."""
        self._experts = Format("mxfp4", group=32, bits=4)

    def layer_key(self, index: int) -> Any:
        """Layers of one kind with equal keys are stored alike."""
        if not self.method:
            return None
        return (
            self._ignore.layer_key(index),
            tuple(t.modules.layer_key(index) for t in self._targets if t.modules is not None),
        )

    def linear(self, path: str) -> str:
        """The key in ``formats`` of a linear layer, named as in the checkpoint (the first part of a fused one)."""
        return self._key(self._find(path, self._linear)) if self.method else UNQUANTIZED

    def experts(self, path: str) -> str:
        """The key in ``formats`` of the routed experts at ``path``."""
        return self._key(self._find(path, self._experts)) if self.method else UNQUANTIZED

    def tower(self, path: str) -> str:
        """The key of a linear layer of a vision or audio tower."""
        if not self.method or not self._towers or f"model.{path}" in self._ignore:
            return UNQUANTIZED
        return self._key(self._find(path, self._linear))

    def head(self, path: str = "lm_head") -> str:
        """The key of the output head, which most methods leave alone."""
        if not self.method:
            return "plain"
        for target in self._targets:
            if target.modules is not None and path in target.modules:
                return self._key(target.format)
        found = self._key(self._head if self._head and path not in self._ignore else None)
        return "plain" if found == UNQUANTIZED else found

    def _find(self, path: str, otherwise: Format | None) -> Format | None:
        if path in self._ignore:
            return None
        for target in self._targets:
            if target.modules is not None and path in target.modules:
                return target.format
        return otherwise

    def _key(self, form: Format | None) -> str:
        if form is None:
            return UNQUANTIZED
        name = self._names.get(form)
        if name is None:
            name = form.name
            while name in self.formats:
                name += "'"
            self._names[form] = name
            self.formats[name] = form
        return name


def read_quantization(config: ConfigReader, text: ConfigReader, separate: Any = None) -> Quantization:
    """The storage described by config.json (``text`` is its language part), or by hf_quant_config.json where that is all.

    Raises UnknownModel for a method or scheme whose bytes are not understood.
    """
    section = config.section("quantization_config", "compression_config")
    section = section or text.section("quantization_config", "compression_config")
    if section is None and isinstance(separate, dict):
        section = ConfigReader(separate, "hf_quant_config.json")
    if section is None:
        return Quantization()
    nested = section.section("quantization")
    method = section.text("quant_method").lower()
    producer = section.section("producer")
    if not method and (nested is not None or (producer and producer.text("name") == "modelopt")):
        method = "modelopt"
    if not method and (section.flag("load_in_4bit", "_load_in_4bit") or section.flag("load_in_8bit", "_load_in_8bit")):
        method = "bitsandbytes"
    if not method and "config_groups" in section:
        method = "compressed-tensors"
    if method.startswith("modelopt") or (method == "fp8" and "quant_algo" in section):
        return _modelopt(section, nested, separate)
    readers = {
        "fp8": _fp8,
        "deepseek_v4_fp8": _fp8,
        "fbgemm_fp8": _fbgemm,
        "awq": _awq,
        "awq_marlin": _awq,
        "auto-round": _auto_round,
        "gptq": _gptq,
        "gptq_marlin": _gptq,
        "mxfp4": _mxfp4,
        "compressed-tensors": _compressed_tensors,
        "bitsandbytes": _bitsandbytes,
        "gguf": _gguf,
        "quark": _quark,
        "experts_int8": _experts_int8,
    }
    reader = readers.get(method)
    if reader is None:
        raise UnknownModel(
            f"the quantization method {method or 'that config.json leaves out'!r} is not understood", _REMEDY
        )
    return reader(section)


def _ignored(section: ConfigReader, *names: str) -> tuple[str, ...]:
    return section.strings(*(names or ("ignored_layers", "modules_to_not_convert")))


def _fp8(section: ConfigReader) -> Quantization:
    block = section.integers("weight_block_size", low=1, limit=2)
    if block:
        form = Format("fp8_block", block=(block[0], block[-1]))
    else:
        form = Format("fp8_tensor")
    names = _ignored(section)
    # MiniMax-M2 lists bare module names ("gate"), which name no module exactly; its router is 16-bit anyway.
    ignore = ModulePatterns(names, "suffix" if all("." not in n for n in names) else "exact")
    return Quantization("fp8", linear=form, experts=form, ignore=ignore, group=block[-1] if block else 0)


def _fbgemm(section: ConfigReader) -> Quantization:
    form = Format("fp8_channel")
    return Quantization("fbgemm_fp8", linear=form, experts=form, ignore=ModulePatterns(_ignored(section)))


def _awq(section: ConfigReader) -> Quantization:
    bits = section.integer("bits", "w_bit", default=4, high=16)
    group = section.integer("group_size", "q_group_size", default=128, low=-1)
    form = Format(
        _integer_name(bits, "awq"), group=group, zero_points=section.flag("zero_point", default=True), bits=bits
    )
    ignore = ModulePatterns(_ignored(section, "modules_to_not_convert"), "substring")
    head = form if section.flag("lm_head") else None
    # Checkpoints leave the vision tower alone even where their list does not say so: the engine reads that off the files.
    return Quantization("awq", linear=form, experts=form, head=head, ignore=ignore, group=group, towers=False)


def _integer_name(bits: int, method: str) -> str:
    if bits not in (2, 3, 4, 8):
        raise UnknownModel(f"{method} with {bits} bits is not understood", _REMEDY)
    return f"w{bits}a16"


def _gptq(section: ConfigReader) -> Quantization:
    bits = section.integer("bits", default=4, high=16)
    group = section.integer("group_size", default=128, low=-1)
    form = Format(
        _integer_name(bits, "gptq"),
        group=group,
        zero_points=not section.flag("sym", default=True),
        act_order=section.flag("desc_act"),
        bits=bits,
        spare_zeros=True,
    )
    targets = []
    skipped = list(_ignored(section, "modules_to_not_convert"))
    dynamic = section.section("dynamic")
    ignore = ModulePatterns(skipped, "substring")
    if dynamic is not None:
        plain = []
        for pattern, change in dynamic.data.items():
            if pattern.startswith("-:"):
                plain.append("re:" + pattern[2:])
            elif isinstance(change, dict):
                inner = ConfigReader(change, "quantization_config: dynamic")
                other = form._replace(
                    group=inner.integer("group_size", default=group, low=-1),
                    name=_integer_name(inner.integer("bits", default=bits, high=16), "gptq"),
                    bits=inner.integer("bits", default=bits, high=16),
                )
                targets.append(Target(ModulePatterns(["re:" + pattern.removeprefix("+:")]), other))
        if plain:
            ignore = ModulePatterns([*plain, *skipped], "substring")
    head = form if section.flag("lm_head") else None
    return Quantization(
        "gptq", linear=form, experts=form, head=head, ignore=ignore, targets=targets, group=group, towers=False
    )


def _auto_round(section: ConfigReader) -> Quantization:
    packing = section.text("packing_format", default="auto_round:auto_gptq")
    found = _awq(section) if "awq" in packing else _gptq(section)
    found.method = "auto-round"
    return found


def _mxfp4(section: ConfigReader) -> Quantization:
    # Only the routed experts are packed; attention, router, embedding and head stay at 16 bits (gpt-oss).
    return Quantization("mxfp4", experts=Format("mxfp4", group=32, bits=4), group=32)


def _experts_int8(section: ConfigReader) -> Quantization:
    return Quantization("experts_int8", experts=Format("int8"))


def _bitsandbytes(section: ConfigReader) -> Quantization:
    four = section.flag("load_in_4bit", "_load_in_4bit", default=not section.flag("load_in_8bit", "_load_in_8bit"))
    form = Format("bnb_nf4", group=64, bits=4) if four else Format("bnb_int8", bits=8)
    ignore = ModulePatterns(_ignored(section, "llm_int8_skip_modules"), "substring")
    return Quantization("bitsandbytes", linear=form, experts=form, ignore=ignore, group=form.group)


def _gguf(section: ConfigReader) -> Quantization:
    raise UnknownModel(
        "a GGUF file's bytes depend on the file, not on config.json",
        "state the weight bytes with the annotation planner/given",
    )


def _quark(section: ConfigReader) -> Quantization:
    outer = section.require("global_quant_config")
    weight = outer.raw("weight")
    if isinstance(weight, list) and weight:
        weight = weight[-1]
    inner = ConfigReader(weight, "quantization_config: global_quant_config: weight")
    dtype, scheme = inner.text("dtype"), inner.text("qscheme")
    if dtype == "fp8_e4m3":
        form = Format("fp8_channel" if scheme == "per_channel" else "fp8_tensor")
    elif dtype == "fp4" and scheme == "per_group":
        form = Format("mxfp4", group=inner.integer("group_size", default=32), bits=4)
    elif dtype == "int8":
        form = Format("int8")
    else:
        raise UnknownModel(f"Quark's weight type {dtype} {scheme} is not understood", _REMEDY)
    ignore = ModulePatterns(section.strings("exclude"), "exact", wildcards=True)
    kv = "fp8" if section.section("kv_cache_quant_config") else None
    return Quantization("quark", linear=form, experts=form, ignore=ignore, kv_cache=kv, group=form.group)


def _compressed_tensors(section: ConfigReader) -> Quantization:
    groups = section.section("config_groups")
    overall = section.text("format")
    targets: list[Target] = []
    linear: Format | None = None
    group_size = 0
    for name in list(groups.data if groups else ())[:200]:
        group = groups.require(name) if groups else section
        modules = group.strings("targets")
        if len(modules) == 1 and modules[0].endswith("Attention"):
            continue
        weights = group.section("weights")
        if weights is None:
            continue
        form = _compressed_format(weights, group.section("input_activations"), group.text("format", default=overall))
        group_size = group_size or form.group
        named = [m for m in modules if m.startswith("re:") or "." in m or m == "lm_head"]
        if named:
            targets.append(Target(ModulePatterns(named), form))
        if len(named) < len(modules):  # a class of modules, such as Linear
            linear = form
    stated = section.raw("kv_cache_scheme")  # an object, or its short form
    short = isinstance(stated, str) and stated.upper() in ("FP8", "FP8_E4M3")
    kv_scheme = stated if short else section.section("kv_cache_scheme")
    return Quantization(
        "compressed-tensors",
        linear=linear,
        experts=linear,
        ignore=ModulePatterns(section.strings("ignore")),
        targets=targets,
        kv_cache="fp8" if kv_scheme is not None else None,
        group=max(group_size, 0),
    )


def _compressed_format(weights: ConfigReader, inputs: ConfigReader | None, layout: str) -> Format:
    """The storage of one scheme of compressed-tensors. Raises UnknownModel for one that is not understood."""
    bits = weights.integer("num_bits", default=8, high=16)
    kind, strategy = weights.text("type", default="int"), weights.text("strategy")
    group = weights.integer("group_size", default=-1, low=-1)
    symmetric = weights.flag("symmetric", default=True)
    if kind == "float" and bits == 4:
        if group == 32 or "mxfp4" in layout:
            return Format("mxfp4", group=32, bits=4)
        return Format("nvfp4" if inputs is not None else "nvfp4_a16", group=16, bits=4)
    if kind == "float" and bits == 8:
        if "mxfp8" in layout or (strategy == "group" and group == 32):
            return Format("mxfp8", group=32)
        block = weights.integers("block_structure", low=1, limit=2)
        if strategy == "block" or block:
            return Format("fp8_block", block=(block[0], block[-1]) if block else (128, 128))
        return Format("fp8_tensor" if strategy == "tensor" else "fp8_channel")
    if kind == "int":
        if inputs is not None and bits == 8:
            return Format("int8", zero_points=not symmetric)
        return Format(
            _integer_name(bits, "compressed-tensors"),
            group=group,
            zero_points=not symmetric,
            act_order=weights.raw("actorder") == "group",
            bits=bits,
        )
    raise UnknownModel(f"the compressed-tensors type {kind} with {bits} bits is not understood", _REMEDY)


def _modelopt(section: ConfigReader, nested: ConfigReader | None, separate: Any) -> Quantization:
    inner = nested or section
    algorithm = inner.text("quant_algo").upper()
    kv_algorithm = (
        inner.text("kv_cache_quant_algo").upper() if isinstance(inner.raw("kv_cache_quant_algo"), str) else ""
    )
    scheme = section.raw("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("type") == "float":
        kv_algorithm = {8: "FP8", 4: "NVFP4"}.get(scheme.get("num_bits") or 0, "")
    elif isinstance(scheme, str):
        kv_algorithm = scheme.upper()
    kv_cache = {"FP8": "fp8", "NVFP4": "nvfp4"}.get(kv_algorithm)
    excluded = inner.strings("exclude_modules", "ignore")
    if algorithm == "MIXED_PRECISION":
        return _modelopt_mixed(section, inner, excluded, kv_cache)
    form = MODELOPT_ALGORITHMS.get(algorithm)
    if form is None:
        raise UnknownModel(f"ModelOpt's algorithm {algorithm or 'is missing and'} is not understood", _REMEDY)
    if form.name == "nvfp4":
        form = form._replace(group=inner.integer("group_size", default=16))
    ignore = ModulePatterns(_without_trailing_star(excluded), "substring", wildcards=True)
    method = {"fp8": "modelopt", "nvfp": "modelopt_fp4", "mxfp": "modelopt_mxfp8"}.get(form.name[:4], "modelopt")
    return Quantization(
        method, linear=form, experts=form, head=form, ignore=ignore, kv_cache=kv_cache, group=form.group, towers=False
    )


def _without_trailing_star(names: Iterable[str]) -> list[str]:
    """``path*`` means the module and everything below it; as a part of a name it matches both.

    A pattern with another star matches whole names, so it stands here for both cases (``*self_attn*``).
    """
    result = []
    for name in names:
        if len(name) > 1 and name.endswith("*") and not name.endswith(".*"):
            name = name[:-1]
            if "*" in name:
                result.append(f"{name}.*")
        result.append(name)
    return result


def _modelopt_mixed(
    section: ConfigReader, inner: ConfigReader, excluded: tuple[str, ...], kv_cache: str | None
) -> Quantization:
    layers = inner.section("quantized_layers") or section.section("quantized_layers")
    if layers is None or len(layers.data) > 500_000:
        raise UnknownModel("MIXED_PRECISION without quantized_layers says nothing of the storage", _REMEDY)
    by_format: dict[Format, dict[str, None]] = {}
    for name, recipe in layers.data.items():
        algorithm = recipe.get("quant_algo") if isinstance(recipe, dict) else None
        form = MODELOPT_ALGORITHMS.get(str(algorithm).upper()[:40])
        if form is None:
            raise UnknownModel(f"ModelOpt's algorithm {str(algorithm)[:40]} is not understood", _REMEDY)
        index, rest = split_layer(name)
        by_format.setdefault(form, {})[name if index is None else f"model.layers.{index}.{rest}"] = None
    targets = [Target(ModulePatterns(names), form) for form, names in by_format.items()]
    fallback = None
    if inner is section and section.text("quant_method") == "fp8":  # DeepSeek-V4: only the experts are ModelOpt's
        block = section.integers("weight_block_size", low=1, limit=2)
        fallback = Format("fp8_block", block=(block[0], block[-1]) if block else (128, 128))
    ignore = ModulePatterns(_without_trailing_star(excluded), "substring", wildcards=True)
    return Quantization(
        "modelopt_mixed" if fallback is None else "fp8",
        linear=fallback,
        ignore=ignore if fallback is None else NOTHING,
        targets=targets,
        kv_cache=kv_cache,
        group=16,
        towers=False,
    )
