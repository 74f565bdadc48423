"""The engine release inside an image of NVIDIA Dynamo, whose tag is Dynamo's own release.

Source: "Backend Dependencies" of Dynamo's support matrix (github.com/ai-dynamo/dynamo, docs; docs.nvidia.com/dynamo
v1.2.0, v1.3.0, v1.3.1, v1.4.2, v1.5.0). A release that it does not list, and the early builds for one model, are unknown;
so is the SGLang of 0.7.0, of which the page of that release and the later ones disagree.
"""

from __future__ import annotations

import re

#: engine → (its image, its column in _RELEASES)
_IMAGES = {"vllm": ("vllm-runtime", 0), "sglang": ("sglang-runtime", 1), "trtllm": ("tensorrtllm-runtime", 2)}
#: Dynamo → (vLLM, SGLang, TensorRT-LLM)
_RELEASES = {
    "0.6.0": ("0.11.0", "0.5.3.post2", "1.1.0rc5"),
    "0.6.1": ("0.11.0", "0.5.3.post2", "1.1.0rc5"),
    "0.6.1.post1": ("0.11.0", "0.5.3.post2", "1.1.0rc5"),
    "0.7.0": ("0.11.0", "", "1.2.0rc2"),
    "0.7.0.post1": ("0.11.0", "", "1.2.0rc3"),
    "0.7.1": ("0.11.0", "0.5.4.post3", "1.2.0rc3"),
    "0.8.0": ("0.12.0", "0.5.6.post2", "1.2.0rc6.post1"),
    "0.8.1": ("0.12.0", "0.5.6.post2", "1.2.0rc6.post1"),
    "0.8.1.post1": ("0.12.0", "0.5.6.post2", "1.2.0rc6.post1"),
    "0.8.1.post2": ("0.12.0", "0.5.6.post2", "1.2.0rc6.post2"),
    "0.8.1.post3": ("0.12.0", "0.5.6.post2", "1.2.0rc6.post3"),
    "0.9.0": ("0.14.1", "0.5.8", "1.3.0rc1"),
    "0.9.1": ("0.14.1", "0.5.8", "1.3.0rc3"),
    "1.0.0": ("0.16.0", "0.5.9", "1.3.0rc5.post1"),
    "1.0.1": ("0.16.0", "0.5.9", "1.3.0rc5.post1"),
    "1.0.2": ("0.16.0", "0.5.9", "1.3.0rc5.post1"),
    "1.1.0": ("0.19.0", "0.5.10.post1", "1.3.0rc11"),
    "1.1.1": ("0.19.0", "0.5.10.post1", "1.3.0rc11"),
    "1.2.0": ("0.20.1", "0.5.11", "1.3.0rc14"),
    "1.2.1": ("0.20.1", "0.5.11", "1.3.0rc14"),
    "1.3.0": ("0.23.0", "0.5.14", "1.3.0rc19"),
    "1.3.1": ("0.23.0", "0.5.14", "1.3.0rc19"),
    "1.4.0": ("0.26.0", "0.5.16", "1.3.0rc22"),
    "1.4.2": ("0.26.0", "0.5.16", "1.3.0rc22"),
    "1.5.0": ("0.28.0", "0.5.18", "1.3.0rc25"),
}
#: Words behind the release that do not change which engine is inside: the CUDA toolkit, network and processor.
_TAG = re.compile(r"v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?:-(?:cuda[\d.]+|efa|amd64|arm64|enterprise))*")


def engine_release(engine: str, repository: str, tag: str) -> str:
    """The release of an engine in its image ``nvidia/ai-dynamo/…-runtime:TAG``, empty where it is not known."""
    image, column = _IMAGES.get(engine, ("", 0))
    match = _TAG.fullmatch(tag)
    if not image or not repository.endswith(f"nvidia/ai-dynamo/{image}") or match is None:
        return ""
    return _RELEASES.get(match.group(1), ("", "", ""))[column]
