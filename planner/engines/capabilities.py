"""The least CUDA compute capability that the engines' own images run on, by release.

Only what is certain is here: the kernels that an image was built with (a binary for 7.0 does not run on 6.0, and no image
carries PTX for less), or a check of the engine that stops the start. A build of somebody's own may have other kernels.

Sources, in the releases' source distributions where no other is named:

* vLLM: ``SUPPORTED_ARCHS`` of setup.py (0.2.0 to 0.3.3) and ``CUDA_SUPPORTED_ARCHS`` of CMakeLists.txt (0.4.1 to 0.33.0) begin
  at 7.0, those of CUDA 13 at 7.5; ``torch_cuda_arch_list`` of docker/Dockerfile begins at 7.0 up to 0.19.1 and at 7.5 from
  0.20.0 on, as do the lists of .buildkite/release-pipeline.yaml for CUDA 13.0 and 12.9; the documentation moved from "7.0 or
  higher" to "7.5 or higher" with 0.20.0. The images of 0.9.0 to 0.9.2 have PyTorch 2.7.0 for CUDA 12.8, which begins at 7.5
  (pytorch/pytorch#147607; vllm-project/vllm#18818, #18841, #21633); the one of 0.10.0 has PyTorch for CUDA 12.6 again.
* SGLang: from 0.2.15 on "SGLang only supports sm75 and above" in model_executor/model_runner.py, from 0.5.18 on in
  model_runner_components/load_model_utils.py (wheels 0.2.14, 0.2.15 and 20 more up to 0.5.23). The check compares the second
  number alone, which lets 3.7 pass; PyTorch 2.4 and newer, which those releases need, begins at 5.0.
* TensorRT-LLM: release notes of 0.15.0 ("Volta GPU support is removed in this and future releases"); support matrix of 0.18.2
  (Ampere and newer); cpp/cmake/modules/cuda_configuration.cmake of 1.2.1, which takes nothing below 8.0 and never adds PTX.
* TGI: none. Without its flash attention (7.5) it falls back to the models of transformers.
"""

from __future__ import annotations

import re

from planner.record import NamedTuple

Capability = tuple[int, int]


class Floor(NamedTuple):
    """What holds from release ``since`` on: devices below ``refused`` surely do not work, ``needed`` is what the engine
    states. ``newest``: the last release of which it holds and which may be advised, empty for none."""

    since: tuple[int, ...]
    refused: Capability
    needed: Capability
    newest: str = ""


_FLOORS: dict[str, tuple[Floor, ...]] = {
    "vllm": (
        Floor((0,), (7, 0), (7, 0), "0.8.5"),
        Floor((0, 9), (7, 5), (7, 5)),
        Floor((0, 10), (7, 0), (7, 0), "0.19.1"),
        Floor((0, 20), (7, 5), (7, 5)),
    ),
    "sglang": (Floor((0, 2, 15), (7, 5), (7, 5)),),
    "trtllm": (Floor((0, 15), (7, 5), (8, 0)), Floor((1, 2), (8, 0), (8, 0))),
}
#: No release refuses a device of this or more.
MOST = max(row.refused for rows in _FLOORS.values() for row in rows)
#: Repositories of the engines' own images, below any registry: mirrors keep the path.
_IMAGES = {
    "vllm": r"(?:.*/)?vllm/vllm-openai(?:-nonroot)?",
    "sglang": r"(?:.*/)?(?:lmsysorg/sglang|nvidia/ai-dynamo/sglang-runtime)",
    "trtllm": r"(?:.*/)?nvidia/(?:tensorrt-llm/release|ai-dynamo/tensorrtllm-runtime)",
}
#: CUDA 13 cannot compile for less; vLLM tags images built with it (``v0.16.0-cu130``).
_CUDA_13 = Floor((), (7, 5), (7, 5))


def floor(engine: str, version: tuple[int, ...], image: str) -> Floor | None:
    """What a release's own image needs of a device, None where the image is another one or nothing is certain.

    ``version``: as in ``version.parse_version``; ``image``: the reference."""
    from planner.engines.image import parse_image

    reference = parse_image(image)
    if engine not in _IMAGES or not re.fullmatch(_IMAGES[engine], reference.repository):
        return None
    if engine == "vllm" and re.search(r"(?:^|[-_.])cu1[3-9]\d(?:$|[-_.])", reference.tag):
        return _CUDA_13
    if engine == "vllm" and (0, 9) <= version < (0, 10) and re.search(r"(?:^|[-_.])cu\d", reference.tag):
        return _FLOORS[engine][0]  # PyTorch for another CUDA than the usual image's
    return next((row for row in reversed(_FLOORS[engine]) if version >= row.since), None)


def always(engine: str) -> Capability:
    """Below this no release with an entry works; (0, 0) for an engine without any."""
    return min((row.refused for row in _FLOORS.get(engine, ())), default=(0, 0))


def newest_for(engine: str, capability: Capability) -> str:
    """The newest release whose own image runs on a device, as far as that is known; empty where none is."""
    return next((row.newest for row in reversed(_FLOORS[engine]) if row.newest and capability >= row.refused), "")
