"""The node label that selects an accelerator: what NVIDIA's GPU Feature Discovery and AMD's node labeller write.

Sources: product names that drivers print, with blanks as hyphens (GPU Feature Discovery, k8s-device-plugin
internal/lm/resource.go); AMD's labeller, k8s-device-plugin cmd/k8s-node-labeller, with blanks as underscores. Only products
whose name a driver is known to print are listed: a selector that no node has leaves the pod pending for ever.
"""

from __future__ import annotations

from planner.accelerators.accelerator import Accelerator

_NVIDIA = "nvidia.com/gpu.product"
_AMD = "amd.com/gpu.product-name"

_PRODUCTS = {
    "A10": "NVIDIA-A10",
    "A100-40GB-PCIe": "NVIDIA-A100-PCIE-40GB",
    "A100-40GB-SXM": "NVIDIA-A100-SXM4-40GB",
    "A100-80GB-PCIe": "NVIDIA-A100-80GB-PCIe",
    "A100-80GB-SXM": "NVIDIA-A100-SXM4-80GB",
    "A10G": "NVIDIA-A10G",
    "A40": "NVIDIA-A40",
    "B200": "NVIDIA-B200",
    "B300": "NVIDIA-B300-SXM6-AC",
    "GB10": "NVIDIA-GB10",
    "GB200": "NVIDIA-GB200",
    "GB300": "NVIDIA-GB300",
    "GH200-144GB": "NVIDIA-GH200-144G-HBM3e",
    "GH200-96GB": "NVIDIA-GH200-480GB",
    "H100-80GB-PCIe": "NVIDIA-H100-PCIe",
    "H100-80GB-SXM": "NVIDIA-H100-80GB-HBM3",
    "H100-NVL-94GB": "NVIDIA-H100-NVL",
    "H200": "NVIDIA-H200",
    "Jetson-Thor-128GB": "NVIDIA-Thor",
    "L20": "NVIDIA-L20",
    "L4": "NVIDIA-L4",
    "L40S": "NVIDIA-L40S",
    "Quadro-RTX-6000": "Quadro-RTX-6000",
    "RTX-3090": "NVIDIA-GeForce-RTX-3090",
    "RTX-4070-Ti-SUPER": "NVIDIA-GeForce-RTX-4070-Ti-SUPER",
    "RTX-4080-SUPER": "NVIDIA-GeForce-RTX-4080-SUPER",
    "RTX-4090": "NVIDIA-GeForce-RTX-4090",
    "RTX-4090D": "NVIDIA-GeForce-RTX-4090-D",
    "RTX-5070-Ti": "NVIDIA-GeForce-RTX-5070-Ti",
    "RTX-5090": "NVIDIA-GeForce-RTX-5090",
    "RTX-6000-Ada": "NVIDIA-RTX-6000-Ada-Generation",
    "RTX-A2000-12GB": "NVIDIA-RTX-A2000-12GB",
    "RTX-A4000": "NVIDIA-RTX-A4000",
    "RTX-A5000": "NVIDIA-RTX-A5000",
    "RTX-A6000": "NVIDIA-RTX-A6000",
    "RTX-PRO-4500-Blackwell": "NVIDIA-RTX-PRO-4500-Blackwell",
    "RTX-PRO-6000-Server": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "RTX-PRO-6000-Workstation": "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
    "T4": "Tesla-T4",
    "V100-32GB": "Tesla-V100-SXM2-32GB",
    "MI210": "AMD_Instinct_MI210",
    "MI300A": "AMD_Instinct_MI300A",
    "MI300X": "AMD_Instinct_MI300X",
    "MI308X": "AMD_Instinct_MI308X",
    "MI325X": "AMD_Instinct_MI325X",
    "MI350X": "AMD_Instinct_MI350X",
    "MI355X": "AMD_Instinct_MI355X",
    "R9700": "AMD_Radeon_AI_PRO_R9700",
    "RX-7900-XTX": "AMD_Radeon_RX_7900_XTX",
    "RX-9070-XT": "AMD_Radeon_RX_9070_XT",
}


def node_label(accelerator: Accelerator) -> tuple[str, str] | None:
    """(key, value) of the label that nodes with this accelerator carry; None where the driver's name for it is not known."""
    value = _PRODUCTS.get(accelerator.name)
    if value is None:
        return None
    return (_AMD if accelerator.vendor == "amd" else _NVIDIA), value
