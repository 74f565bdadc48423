"""What one node label says about the accelerators of a node, for every vendor's and cloud's keys.

One function per cloud or vendor; ``meaning`` asks them in turn. A label that says nothing about accelerators is None.
"""

from __future__ import annotations

import re

from planner.accelerators.accelerator import Accelerator
from planner.accelerators.catalog import all_accelerators, candidates, named
from planner.accelerators.partitions import canonical_profile, fraction, resolve
from planner.record import NamedTuple
from planner.units import MIB


class Meaning(NamedTuple):
    """What a label says. ``products``: the accelerators a node with it may have, empty where the label names none;
    ``unknown``: its value names an accelerator that is not in the catalog; the rest narrows what other labels name.
    ``count``: devices per node; ``least`` and ``most``: bytes of device memory; ``arch``: microarchitecture;
    ``major``: CUDA compute capability, first number; ``profile``: MIG profile (``?``: some slice of unknown size)."""

    products: tuple[Accelerator, ...] = ()
    vendor: str = ""
    kind: str = ""
    gpus: int = 0
    shared: bool = False
    profile: str = ""
    least: int = 0
    most: int = 0
    arch: str = ""
    major: int = 0
    unknown: bool = False


#: Values that mean "there is one" and no product.
_PRESENT = frozenset(("", "true", "yes", "1", "on", "present", "enabled", "available", "any", "gpu", "default"))
_VENDOR_WORDS = {"nvidia": "nvidia", "cuda": "nvidia", "amd": "amd", "rocm": "amd", "intel": "intel", "habana": "intel"}
_INSTANCE_KEYS = frozenset(
    (
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "nvidia.com/gpu.machine",
        "karpenter.azure.com/sku-name",
        "instanceType",
    )
)
#: Keys whose value is a product name, as a driver or a person spells it.
_PRODUCT_KEYS = frozenset(
    (
        "nvidia.com/gpu.product",
        "gpu.nvidia.com/class",
        "gpu.nvidia.com/model",
        "machine.cluster.vke.volcengine.com/gpu-name",
        "aliyun.accelerator/nvidia_name",
        "baidu/nvidia_name",
        "k8s.amazonaws.com/accelerator",
        "amd.com/gpu.product-name",
        "beta.amd.com/gpu.product-name",
        "gpu.intel.com/product",
        "habana.ai/device-type",
        "node.kubernetes.io/npu.chip.name",
        "accelerator/huawei-npu",
        "topology.nvidia.com/gpu-product",
    )
)
#: Last part of a cluster's own key that names a product.
# fmt: off
_FREE_KEYS = frozenset(
    (
        "gpu-type", "gpu-model", "gpu-name", "gpu-product", "gpu-class", "gpu-kind", "gpu_type", "gpu_model", "gpu_name",
        "gputype", "gpumodel", "gpu.type", "gpu.model", "gpu.name", "gpu", "accelerator", "accelerator-type",
        "accelerator-name", "accelerator-model", "accelerator_type",
    )
)
# fmt: on
_FAMILIES = frozenset(
    ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell")
)


def meaning(key: str, value: str) -> Meaning | None:
    """What the label ``key=value`` says about accelerators, None where nothing. Never raises."""
    key, value = key.strip()[:320], value.strip()[:160]
    if key in _INSTANCE_KEYS:
        return _instance(value)
    if key in _PRODUCT_KEYS:
        return _product(key, value)
    domain, _, name = key.rpartition("/")
    if domain == "nvidia.com":
        return _nvidia(name, value)
    if domain == "gpu.nvidia.com":
        return _coreweave(name, value)
    if domain == "cloud.google.com":
        return _google(name, value)
    if domain in ("karpenter.k8s.aws", "eks.amazonaws.com"):
        return _amazon(name, value)
    if domain in ("karpenter.azure.com", "kubernetes.azure.com"):
        return _azure(name, value)
    if domain in ("amd.com", "beta.amd.com"):
        return _amd(name, value)
    return _feature(domain, name, value) or _free(key, name, value)


def memory_bounds(key: str, operator: str, value: str) -> Meaning | None:
    """What ``Gt`` and ``Lt`` of a numeric label say, None where the key is no number of an accelerator.

    Labels hold what nvidia-smi or the vendor prints, a few percent above what a process sees: the bounds allow for it.
    """
    if not re.fullmatch(r"\d{1,7}", value.strip()):
        return None
    number = int(value)
    if key in (
        "nvidia.com/gpu.memory",
        "karpenter.k8s.aws/instance-gpu-memory",
        "eks.amazonaws.com/instance-gpu-memory",
    ):
        vendor = "nvidia" if key.startswith("nvidia") else ""
        bound = int(number * MIB * 0.9)
        return Meaning(vendor=vendor, least=bound) if operator == "Gt" else Meaning(vendor=vendor, most=number * MIB)
    if key in ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.count"):
        return Meaning(vendor="nvidia")
    return None


def _named(*names: str) -> tuple[Accelerator, ...]:
    return tuple(named(name) for name in names)


def _in_servers(found: tuple[Accelerator, ...]) -> tuple[Accelerator, ...]:
    """Without the PCIe sisters of SXM cards, which AWS and Google do not have."""
    return tuple(product for product in found if not product.name.endswith("-PCIe")) or found


def _instance(value: str) -> Meaning | None:
    from planner.accelerators.instance_types import instance_type

    machine = instance_type(value)
    if machine:
        vendors = {product.vendor for product in machine.accelerators}
        return Meaning(machine.accelerators, vendors.pop() if len(vendors) == 1 else "", gpus=machine.gpus)
    # A machine of one's own may be called after its GPU (NVIDIA-DGX-H100); other types are not known here.
    return Meaning(found) if (found := candidates(value)) else Meaning(unknown=bool(value))


def _family(value: str) -> Meaning | None:
    from planner.accelerators.instance_types import family

    return Meaning(found) if (found := family(value)) else None


def _product(key: str, value: str) -> Meaning | None:
    vendor = next((v for word, v in (("nvidia", "nvidia"), ("amd", "amd"), ("intel", "intel")) if word in key), "")
    if key == "habana.ai/device-type":
        vendor = "intel"
    if value.lower() in _PRESENT or value.lower() in _VENDOR_WORDS:
        return Meaning(vendor=vendor or _VENDOR_WORDS.get(value.lower(), ""))
    found = resolve(value.replace("_", "-"))
    return Meaning(found, vendor, unknown=not found, shared=value.upper().endswith("-SHARED"))


def _nvidia(name: str, value: str) -> Meaning | None:
    if name == "gpu.memory":
        number = _integer(value.lower().removesuffix("mib").removesuffix("mb"))
        return Meaning(_by_smi(number), "nvidia", unknown=not _by_smi(number)) if number else Meaning(vendor="nvidia")
    if name == "gpu.family":
        return Meaning(vendor="nvidia", arch=value if value in _FAMILIES else "")
    if name == "gpu.compute.major":
        return Meaning(vendor="nvidia", major=_integer(value))
    if name == "gpu.count":
        return Meaning(vendor="nvidia", gpus=_integer(value))
    if name == "gpu.replicas":
        return Meaning(vendor="nvidia", shared=_integer(value) > 1)
    if name in ("gpu.sharing-strategy", "gpu-sharing-strategy"):
        return Meaning(vendor="nvidia", shared=value not in ("", "none"))
    if name == "mig.config":
        profile = canonical_profile(value.removeprefix("all-"))
        return Meaning(vendor="nvidia", profile=profile or ("" if value in ("all-disabled", "all-enabled") else "?"))
    if name.startswith("mig-") and name.endswith((".count", ".product")):
        return Meaning(vendor="nvidia", profile=canonical_profile(name.rsplit(".", 1)[0]))
    if name.startswith(("gpu", "mig", "cuda", "vgpu")):
        found = (
            resolve(value) if name in ("gpu.model", "gpu.name", "gpu-model", "gpu-product", "gpu-type", "gpu") else ()
        )
        return Meaning(found, vendor="nvidia")
    return None


def _coreweave(name: str, value: str) -> Meaning | None:
    if name == "vram":
        size = _integer(value.lower().removesuffix("gib").removesuffix("gb").removesuffix("g"))
        return Meaning(vendor="nvidia", least=int(size * 0.9 * 2**30), most=int(size * 1.02 * 2**30))
    if name == "count":
        return Meaning(vendor="nvidia", gpus=_integer(value))
    return Meaning(vendor="nvidia")


def _google(name: str, value: str) -> Meaning | None:
    special = {
        "nvidia-tesla-a100": "A100-40GB-SXM",  # the 80 GB card is nvidia-a100-80gb
        "nvidia-tesla-v100": "V100-16GB",
        "nvidia-tesla-p100": "P100-16GB",
        "nvidia-rtx-pro-6000": "RTX-PRO-6000-Server",
    }
    if name == "gke-accelerator":
        found = _named(special[value]) if value in special else _in_servers(candidates(value))
        return Meaning(found, "nvidia", unknown=not found and value.lower() not in _PRESENT)
    if name == "gke-tpu-accelerator":
        found = candidates(value)
        return Meaning(found, "google", "tpu", unknown=not found)
    if name == "gke-tpu-topology":
        chips = 1
        for side in value.split("x")[:4]:
            chips *= _integer(side)
        return Meaning(vendor="google", kind="tpu", gpus=chips if chips <= 8 else 0)
    if name == "gke-accelerator-count":
        return Meaning(gpus=_integer(value))
    if name == "gke-gpu-partition-size":
        return Meaning(vendor="nvidia", profile=canonical_profile(value) or "?")
    if name == "gke-gpu-sharing-strategy":
        return Meaning(vendor="nvidia", shared=value.lower() not in ("", "none"))
    if name == "gke-max-shared-clients-per-gpu":
        return Meaning(vendor="nvidia", shared=_integer(value) > 1)
    if name == "machine-family":
        return _family(value)
    if name == "compute-class":  # free text of the cluster: only what clearly names a card counts (gpu-a100-40gb-x2)
        times = re.search(r"[-_]x(\d{1,2})$", value)
        found = _in_servers(candidates(value))
        return Meaning(found, gpus=int(times[1]) if times else 0) if found else None
    return Meaning(vendor="nvidia") if name.startswith("gke-gpu") else None


def _amazon(name: str, value: str) -> Meaning | None:
    if name == "instance-gpu-name":
        special = {"gaudi-hl-205": ("Gaudi1",), "m60": ("M60",), "k80": ("K80",)}
        found = _named(*special[value]) if value in special else _in_servers(candidates(value))
        return Meaning(found, unknown=not found)
    if name == "instance-accelerator-name":
        found = candidates(value)
        return Meaning(found, "aws", "neuron", unknown=not found)
    if name == "instance-gpu-memory":
        size = _integer(value)
        if size in (2861, 5722, 11444):  # g6f and gr6f have an eighth, a quarter and a half of an L4
            return Meaning((fraction(named("L4"), round(size / 22888, 3), f"{size} MiB of the device"),))
        exact = {
            8192: ("Radeon-Pro-V520",), 16384: ("T4", "T4G", "V100-16GB"), 22888: ("A10G", "L4"),
            32768: ("V100-32GB", "RTX-PRO-4500-Blackwell"), 40960: ("A100-40GB-SXM",), 45776: ("L40S",),
            81920: ("A100-80GB-SXM", "H100-80GB-SXM"), 98304: ("RTX-PRO-6000-Server",), 144384: ("H200",),
            183359: ("B200",), 275040: ("B300",),
        }  # fmt: skip
        if size in exact:
            return Meaning(_named(*exact[size]))
        return Meaning(least=int(size * MIB * 0.89), most=size * MIB) if size else None
    if name in ("instance-gpu-count", "instance-accelerator-count"):
        return Meaning(gpus=_integer(value))
    if name in ("instance-gpu-manufacturer", "instance-accelerator-manufacturer"):
        return Meaning(vendor=value.lower() if value.lower() in ("nvidia", "amd", "aws") else "")
    if name == "instance-family":
        return _family(value)
    return None


def _azure(name: str, value: str) -> Meaning | None:
    if name == "sku-gpu-name":
        special = {
            "A100": ("A100-80GB-PCIe", "A100-80GB-SXM", "A100-40GB-SXM"),
            "H100": ("H100-80GB-SXM", "H100-NVL-94GB"),
        }
        found = _named(*special[value.upper()]) if value.upper() in special else candidates(value)
        return Meaning(found, unknown=not found)
    if name == "sku-gpu-count":
        return Meaning(gpus=_integer(value))
    if name in ("sku-gpu-manufacturer", "accelerator"):
        return Meaning(vendor=_VENDOR_WORDS.get(value.lower(), ""))
    return None


def _amd(name: str, value: str) -> Meaning | None:
    devices = {
        "74a0": ("MI300A",), "74a1": ("MI300X",), "74b5": ("MI300X",), "74a2": ("MI308X",), "74a5": ("MI325X",),
        "74b9": ("MI325X",), "75a0": ("MI350X",), "75a3": ("MI355X",), "7408": ("MI250X-GCD",),
        "740c": ("MI250X-GCD", "MI250-GCD"), "740f": ("MI210",), "738c": ("MI100",), "66a1": ("MI50-32GB", "MI50-16GB"),
        "744c": ("RX-7900-XTX",), "7551": ("R9700",), "7550": ("RX-9070-XT",),
    }  # fmt: skip
    if name.startswith("gpu.device-id"):
        identifier = name.removeprefix("gpu.device-id").strip(".") or value.lower().removeprefix("0x")
        found = _named(*devices[identifier]) if identifier in devices else ()
        return Meaning(found, "amd", unknown=not found)
    if name in ("gpu.vram", "vram"):
        size = _integer(value.lower().removesuffix("b").removesuffix("i").removesuffix("g"))
        return Meaning(vendor="amd", least=int(size * 0.93 * 2**30), most=int((size + 0.5) * 2**30))
    if name in ("gpu.compute-memory-partition", "compute-memory-partition"):
        return Meaning(
            vendor="amd", profile="" if value.lower().startswith("spx_nps1") else f"amd {value.lower()[:20]}"
        )
    return Meaning(vendor="amd") if name.startswith("gpu") else None


def _feature(domain: str, name: str, value: str) -> Meaning | None:
    """Labels of Node Feature Discovery and of device plugins that say that a vendor's device is there."""
    if domain.endswith("feature.node.kubernetes.io"):
        for identifier, vendor in (("10de", "nvidia"), ("1002", "amd"), ("1da3", "intel")):
            if re.search(rf"pci-(?:\w{{4}}_)?{identifier}\.present", name):
                return Meaning(vendor=vendor)
        if domain.startswith("nvidia."):
            return Meaning(vendor="nvidia")
        return Meaning(vendor="intel") if domain.startswith("intel.") and "gpu" in name else None
    if domain == "habana.ai":
        return Meaning(vendor="intel", kind="gaudi")
    if domain == "aliyun.accelerator" and name == "nvidia_mem":
        size = _integer(value.lower().removesuffix("mib"))
        return Meaning(vendor="nvidia", least=int(size * MIB * 0.95), most=int(size * MIB * 1.02))
    return None


def _free(key: str, name: str, value: str) -> Meaning | None:
    """A cluster's own key, such as ``gpu-type: h100``. Only a value that clearly names a card counts."""
    name = name.lower()
    if name not in _FREE_KEYS:
        return None
    module = re.fullmatch(r"module-(910b|a3)-(\d{1,2})", value)  # Huawei's accelerator-type
    if module:
        product = "Ascend-910C" if module[1] == "a3" else "Ascend-910B-64GB"
        return Meaning(_named(product), "huawei", "npu", int(module[2]))
    found = resolve(value)
    if found:
        return Meaning(found)
    word = value.lower()
    if word in _VENDOR_WORDS:
        return Meaning(vendor=_VENDOR_WORDS[word])
    if word.startswith("huawei-ascend"):
        return Meaning(vendor="huawei", kind="npu")
    if word in _PRESENT or name in ("gpu", "accelerator"):
        return None
    return Meaning(unknown=True)


def _by_smi(mib: int) -> tuple[Accelerator, ...]:
    """The NVIDIA products of which nvidia-smi prints this total, or one within 0.3 % where none prints exactly this; a
    value between what a process sees and the printed size of a product is taken for it too (older drivers)."""
    known = [product for product in all_accelerators() if product.vendor == "nvidia"]
    for tolerance in (0.0, 0.003):
        exact = [p for p in known if any(abs(size - mib) <= tolerance * size for size in p.smi_mib)]
        if exact:
            return tuple(sorted(exact, key=lambda product: product.name.endswith("-PCIe")))
    seen = [p for p in known if p.memory.low * 0.975 <= mib * MIB <= p.memory.high * 1.005]
    return tuple(sorted(seen, key=lambda product: product.name.endswith("-PCIe")))


def _integer(text: str) -> int:
    """A small non-negative integer, 0 where the text is none."""
    text = text.strip()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
