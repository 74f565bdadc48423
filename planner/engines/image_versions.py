"""The release of an engine that an image holds, for every engine whose releases are known.

Sources: tag pages of lmsysorg/sglang, ghcr.io/huggingface/text-generation-inference and nvcr.io/nvidia/tensorrt-llm.
"""

from __future__ import annotations

import re

from planner.engines.image import engine_version_from_image, is_placeholder, parse_image
from planner.engines.version import parse_version

Found = tuple["tuple[int, ...] | None", str, str]

#: engine → (repositories whose tags are the engine's releases, the name that people give it)
_REPOSITORIES = {
    "sglang": (r"(?:.*/)?sglang(?:-(?:rocm|router|cu\d+|npu|ascend|xpu|cpu|blackwell|gb200|openai|server))*", "SGLang"),
    "tgi": (r"(?:.*/)?(?:hf-)?(?:text-generation-inference|tgi)(?:-(?:rocm|intel|cuda|gpu))*", "TGI"),
    "trtllm": (r"(?:.*/)?tensorrt-?llm(?:/(?:release|devel))?", "TensorRT-LLM"),
}
_OWN_NUMBERS = (
    ("nvcr.io/nvidia/sglang", "NVIDIA numbers this image by year and month"),
    ("ai-dynamo/", "the tag is Dynamo's version"),
    ("rocm/sgl-dev", "the tag is a build of AMD's"),
)
_NAMED = {
    "sglang": r"sglang[-_]?v?(\d{1,2}\.\d{1,3}\.\d{1,3}(?:\.post\d{1,3}|rc\d{1,3})?)(?![0-9])",
    "tgi": r"tgi[-_]?v?(\d{1,2}\.\d{1,3}\.\d{1,3})(?![0-9])",
    "trtllm": r"trtllm[-_]?v?(\d{1,2}\.\d{1,3}\.\d{1,3}(?:rc\d{1,3})?)(?![0-9])",
}
#: TGI's tags of a series (``2.4``, ``2.4-rocm``), which hold the last release of it. Source: its build workflow and releases.
_TGI_SERIES = re.compile(r"v?(\d\.\d)(?:-[a-z][\w.-]*)?")
_TGI_LAST = {
    "0.9": 4, "1.0": 3, "1.1": 1, "1.2": 0, "1.3": 4, "1.4": 5, "2.0": 4, "2.1": 1, "2.2": 0, "2.3": 1, "2.4": 1,
    "3.0": 2, "3.1": 1, "3.2": 3, "3.3": 7,
}  # fmt: skip
_TAG = re.compile(
    r"(?:^|[^0-9A-Za-z.])v?(\d{1,2}\.\d{1,3}\.\d{1,3}(?:\.?(?:post|rc|dev)\d{1,4}(?:\.post\d{1,3})?)?)(?![0-9A-Za-z]|\.\d)"
)


def version_from_image(engine: str, ref: str) -> Found:
    """(key as in ``version.parse_version``, text, reason) of the engine's release; the key is None and the text empty where
    the reference does not tell, and ``reason`` says why. Never raises."""
    name = {"dynamo-vllm": "vllm", "dynamo-sglang": "sglang"}.get(engine, engine)
    if name not in _REPOSITORIES:
        return engine_version_from_image(ref)
    if is_placeholder(ref):
        return None, "", "the image is a placeholder" if ref.strip() else "there is no image"
    pattern, label = _REPOSITORIES[name]
    image = parse_image(ref)
    path = f"{image.registry}/{image.repository}"
    named = re.search(_NAMED[name], image.tag) or re.search(_NAMED[name], image.repository)
    if named:
        return parse_version(named.group(1)), named.group(1), f"the image names the {label} version"
    if "ai-dynamo/" in path:
        from planner.engines.dynamo_images import engine_release

        inside = engine_release(name, image.repository, image.tag)
        if inside:
            return parse_version(inside), inside, f"Dynamo {image.tag} has {label} {inside}"
    for part, reason in _OWN_NUMBERS:
        if part in path:
            return None, "", f"{reason}, not {label}'s"
    if not re.fullmatch(pattern, image.repository):
        return None, "", f"the tag of {image.name[:60]} need not be {label}'s version"
    if not image.tag:
        return None, "", "the image has no tag" + (" beside the digest" if image.digest else ", which means latest")
    series = _TGI_SERIES.fullmatch(image.tag) if name == "tgi" else None
    if series is not None and series.group(1) in _TGI_LAST:
        last = f"{series.group(1)}.{_TGI_LAST[series.group(1)]}"
        return parse_version(last), last, f"the last release of the image tag {series.group(1)}"
    match = _TAG.search(image.tag)
    if match is None or "nightly" in image.tag:
        return None, "", f"the tag {image.tag[:60]} names no version"
    text = match.group(1)
    return parse_version(text), text, "image tag"
