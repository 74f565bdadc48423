"""Who the engines' own images run as, where that user's home is, and which cache variables they set.

Sources: docker/Dockerfile of vLLM's source distributions 0.6.3 to 0.33.0 (no ``USER``; user ``vllm``, uid 2000, gid 0, home
/home/vllm since 0.22.0; ubuntu 22.04 until 0.27, 24.04 in 0.33, whose base image has a user of uid 1000),
docker/entrypoints/vllm-nonroot-entrypoint.sh; docker/Dockerfile of sgl-project/sglang (no ``USER``); Dockerfile of
huggingface/text-generation-inference (no ``USER``, ``HF_HOME=/data``, before 2.1 ``HUGGINGFACE_HUB_CACHE=/data``);
NVIDIA's containers for TensorRT-LLM, SGLang and vLLM run as root.
"""

from __future__ import annotations

from planner.record import NamedTuple

#: First release of vLLM whose image has the user ``vllm``, and last one known to build on ubuntu 22.04.
_VLLM_USER = (0, 22)
_VLLM_JAMMY = (0, 27, 99)
#: Users of the distribution itself (``daemon``, ``www-data``): nobody runs an engine as one of them on purpose.
_FIRST_UID = 1000
_NOBODY = 65534


class ImageUser(NamedTuple):
    """The user of an image. ``uid`` is its default; ``variables`` are cache variables that the image sets.

    ``version`` is the engine's release where the reference tells it, for images that differ by release. ``wrapped``: the
    entrypoint gives an unknown uid a home and a name."""

    engine: str
    uid: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    version: tuple[int, ...] = ()
    wrapped: bool = False

    def home(self, uid: int) -> str | None:
        """The home that the container runtime gives a uid, from the image's passwd file; ``/`` without an entry there,
        None where it is not known whether there is one."""
        if uid == 0:
            return "/root"
        if uid == _NOBODY:
            return "/nonexistent"
        if uid < _FIRST_UID or self.engine != "vllm":
            return None
        if uid == 2000:
            return "/home/vllm" if self.version >= _VLLM_USER else ("/" if self.version else None)
        if uid == 1000 and not (0,) < self.version <= _VLLM_JAMMY:
            return None
        return "/"

    def writable_home(self, uid: int, gid: int) -> str:
        """A folder beside the temporary ones that this user may write to, empty for none."""
        owned = self.engine == "vllm" and self.version >= _VLLM_USER and (uid == 2000 or gid == 0)
        return "/home/vllm" if owned else ""


_ROOT_IMAGES = {
    "docker.io/vllm/vllm-openai": "vllm",
    "docker.io/vllm/vllm-openai-nonroot": "vllm",
    "docker.io/lmsysorg/sglang": "sglang",
    "nvcr.io/nvidia/tensorrt-llm/release": "trtllm",
    "nvcr.io/nvidia/sglang": "sglang-ngc",
    "nvcr.io/nvidia/vllm": "vllm-ngc",
}
_TGI = "ghcr.io/huggingface/text-generation-inference"


def image_user(reference: str) -> ImageUser | None:
    """The user of an engine's own image, None for images that are not known."""
    from planner.engines.image import engine_version_from_image, is_placeholder, parse_image

    if is_placeholder(reference):
        return None
    image = parse_image(reference)
    name = f"{image.registry}/{image.repository}"
    if name == _TGI:
        return ImageUser("tgi", variables=(("HF_HOME", "/data"),))
    engine = _ROOT_IMAGES.get(name)
    if engine is None:
        return None
    if engine != "vllm":
        return ImageUser(engine)
    version = engine_version_from_image(reference)[0] or ()
    if name.endswith("-nonroot") or "nonroot" in image.tag:
        return ImageUser("vllm", uid=2000, version=version or _VLLM_USER, wrapped=True)
    return ImageUser("vllm", version=version)


#: Who publishes images of engines for everybody: their images hold no model.
_PUBLISHERS = (
    "docker.io/vllm/", "docker.io/lmsysorg/", "docker.io/rocm/", "docker.io/rayproject/", "docker.io/lmcache/",
    "docker.io/aibrix/", "docker.io/intel/", "docker.io/opea/", "nvcr.io/nvidia/", "nvcr.io/nim/", "ghcr.io/huggingface/",
    "ghcr.io/llm-d/", "ghcr.io/ai-dynamo/", "quay.io/modh/", "quay.io/opendatahub/", "quay.io/vllm/", "quay.io/rh-",
    "registry.redhat.io/", "public.ecr.aws/neuron/", "public.ecr.aws/deep-learning-containers/", "vault.habana.ai/",
    "us-docker.pkg.dev/deeplearning-platform-release/", "us-docker.pkg.dev/vertex-ai/", "gcr.io/vertex-model-garden/",
)  # fmt: skip


def holds_no_model(reference: str) -> bool:
    """Whether an image is one that is published without a model; one of somebody's own may hold it."""
    from planner.engines.image import parse_image

    image = parse_image(reference)
    return f"{image.registry}/{image.repository}".startswith(_PUBLISHERS)
