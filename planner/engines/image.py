"""Image references of engines: registry, tag, engine version, platform, and whether the reference is pinned.

Sources: the reference grammar of github.com/distribution/reference; tag pages of the repositories named here.
"""

from __future__ import annotations

import re

from planner.engines.pieces import placeholder_in
from planner.record import NamedTuple


class ImageRef(NamedTuple):
    """A reference in parts; ``tag`` and ``digest`` are empty where absent. Docker Hub is ``docker.io``, its own images
    ``library/NAME``."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def name(self) -> str:
        """The last component of the repository."""
        return self.repository.rpartition("/")[2]


def parse_image(ref: str) -> ImageRef:
    """Splits an image reference as container runtimes do; never raises."""
    rest, _, digest = ref.strip().partition("@")
    head, slash, tail = rest.rpartition("/")
    name, _, tag = tail.partition(":")
    rest = f"{head}{slash}{name}"
    first, separator, remainder = rest.partition("/")
    if separator and ("." in first or ":" in first or first == "localhost"):
        return ImageRef(first, remainder, tag, digest)
    return ImageRef("docker.io", rest if "/" in rest or not rest else f"library/{rest}", tag, digest)


def is_placeholder(ref: str) -> bool:
    """Whether something else fills the reference in (``$(image)``, ``replaced-by-kustomize``, ``my-tag``)."""
    lowered = ref.lower()
    return (
        not ref.strip()
        or "$" in ref
        or "{{" in ref
        or bool(placeholder_in(ref))
        or any(word in lowered for word in ("replaced-by", "replace", "placeholder", "my-tag", "your-", "_image_name"))
        or ref.strip() != ref.strip().split()[0]
        or bool(re.search(r"[A-Z]", parse_image(ref).repository))  # no repository has capital letters
    )


_FLOATING_NAMES = (
    "latest nightly main master dev devel develop edge stable release canary head snapshot test staging prod "
    "production server fast cpu gpu cuda rocm xpu tpu amd64 arm64 full light base runtime"
)
_FLOATING = frozenset(_FLOATING_NAMES.split())


def is_pinned(ref: str) -> bool:
    """Whether the reference names one build for good: a digest, a version, a date or a commit; floating tags (``latest``,
    none, ``nightly``, ``main``, and tags that name no build, such as ``server-cuda``) are not. What is a placeholder for
    another tool counts as pinned, since nothing can be said against it."""
    if is_placeholder(ref):
        return True
    image = parse_image(ref)
    if image.digest:
        return True
    tag = image.tag.lower()
    if not tag:
        return False
    words = re.split(r"[-_.+]", tag)
    if words[0] in ("latest", "nightly", "main", "master") or words[-1] in ("latest", "nightly", "main", "master"):
        # A nightly with its date or commit is one build.
        return any(re.fullmatch(r"20\d{6}|(?=[0-9a-f]*\d)[0-9a-f]{7,40}", word) for word in words)
    if re.search(r"\d+\.\d+", tag) or any(re.fullmatch(r"v?\d+|b\d{3,}|20\d{6}|[0-9a-f]{7,64}|sha", w) for w in words):
        return True
    # A name that is no version: it can be moved, but a name of somebody's own (``kimi-k3-fix2``) may well not be.
    return not all(word in _FLOATING or re.fullmatch(r"cu\d+|py\d+|ubuntu|ubi\d", word) for word in words)


# Repositories (last component) whose tags are vLLM's own versions.
_VLLM_TAGS = (
    r"vllm(?:-(?:openai|omni|cpu|gpu|cuda|rocm|tpu|xpu|ascend|serve|server|inference|base|arm64|amd64|x86|aarch64|env|release"
    r"|repo|ubi\d|rhel\d|aibrix|kvcache|distributed))*"
    r"|pytorch-inference-vllm-neuronx|pytorch-vllm-serve"
)
# Vendors that number their images themselves.
_OWN_NUMBERS = (
    ("nvcr.io/nvidia/vllm", "NVIDIA numbers this image by year and month"),
    ("ai-dynamo/", "the tag is Dynamo's version"),
    ("ghcr.io/llm-d/", "the tag is llm-d's version"),
    ("rhaiis/", "the tag is the version of Red Hat AI Inference Server"),
    ("rhoai/", "the tag is the version of Red Hat OpenShift AI"),
    ("lmcache/vllm-openai", "the tag is LMCache's version"),
    ("gaudi", "the tag is the version of Intel Gaudi's software"),
    ("habana", "the tag is the version of Intel Gaudi's software"),
    ("rayproject/", "the tag is Ray's version"),
    ("intel/llm-scaler", "the tag is LLM Scaler's version"),
    ("intel/redhat-ai-services", "the tag is the vendor's version"),
    ("lmcache/", "the tag is LMCache's version"),
)
_VERSION = r"(?:^|[^0-9A-Za-z.])v?(\d{1,2}\.\d{1,3}(?:\.\d{1,3}){0,2}(?:(?:rc|a|b)\d{1,3})?(?:\.(?:post|dev)\d{1,4})?)(?![0-9A-Za-z]|\.\d)"
_NAMED_VERSION = r"vllm[-_]?v?(\d{1,2}\.\d{1,3}\.\d{1,3}(?:\.(?:post)?\d{1,3}|rc\d{1,3})?)(?![0-9])"


def engine_version_from_image(ref: str) -> tuple[tuple[int, ...] | None, str, str]:
    """The vLLM version that an image holds, as (key as in ``version.parse_version``, text, reason).

    The key is None and the text empty where the reference does not tell; ``reason`` then says why, and otherwise which
    part of the reference tells it.
    """
    from planner.engines.version import parse_version

    if is_placeholder(ref):
        return None, "", "the image is a placeholder" if ref.strip() else "there is no image"
    image = parse_image(ref)
    path = f"{image.registry}/{image.repository}"
    named = re.search(_NAMED_VERSION, image.tag) or re.search(_NAMED_VERSION, image.repository)
    if named:
        return parse_version(named.group(1)), named.group(1), "the image names the vLLM version"
    if "ai-dynamo/" in path:
        from planner.engines.dynamo_images import engine_release

        inside = engine_release("vllm", image.repository, image.tag)
        if inside:
            return parse_version(inside), inside, f"Dynamo {image.tag} has vLLM {inside}"
    for part, reason in _OWN_NUMBERS:
        if part in path:
            return None, "", f"{reason}, not vLLM's"
    if not re.fullmatch(_VLLM_TAGS, image.name.removesuffix("-repo")):
        return None, "", f"the tag of {image.name[:60]} need not be vLLM's version"
    if not image.tag:
        return None, "", "the image has no tag" + (" beside the digest" if image.digest else ", which means latest")
    match = re.search(_VERSION, image.tag)
    if match is None or "nightly" in image.tag:
        return None, "", f"the tag {image.tag[:60]} names no version"
    text = match.group(1)
    key = parse_version(text)
    official = path.startswith("docker.io/vllm/") or image.name.startswith("vllm-openai")
    if not official and (key[0] > 0 or key[1] < 2 or text.count(".") < 2):
        return None, "", f"the tag {image.tag[:60]} need not be vLLM's version"
    return key, text, "image tag"


# Earlier entries win: (platform, words in the reference)
_PLATFORMS = (
    ("gaudi", ("gaudi", "habana", "hpu")),
    ("neuron", ("neuron",)),
    ("ascend", ("ascend", "npu", "-cann")),
    ("tpu", ("tpu",)),
    ("spyre", ("spyre",)),
    ("rocm", ("rocm", "amd-", "mi300")),
    ("xpu", ("xpu", "intel/vllm", "llm-scaler", "ipex")),
)


def image_platform(ref: str) -> str:
    """The accelerator platform of an image: ``cuda`` (also where nothing tells), ``rocm``, ``cpu``, ``tpu``, ``gaudi``,
    ``neuron``, ``ascend``, ``xpu`` or ``spyre``."""
    image = parse_image(ref)
    text = f"{image.repository}:{image.tag}".lower()
    for platform, words in _PLATFORMS:
        if any(word in text for word in words):
            return platform
    if re.search(r"(?:^|/)opea/vllm(?:$|[:@])", text):
        return "cpu"  # OPEA's builds for accelerators have names of their own (vllm-gaudi, vllm-rocm)
    return "cpu" if re.search(r"(?:^|[^a-z])cpu(?:[^a-z]|$)", text) else "cuda"


def sets_no_variables(ref: str) -> bool:
    """Whether the image is one whose own environment holds nothing that start scripts read (the engines' own images)."""
    image = parse_image(ref)
    return not is_placeholder(ref) and (
        (image.registry == "docker.io" and image.repository.startswith(("vllm/", "lmsysorg/", "library/", "rocm/vllm")))
        or f"{image.registry}/{image.repository}" in ("nvcr.io/nvidia/vllm", "ghcr.io/ggml-org/llama.cpp")
    )
