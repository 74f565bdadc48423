"""What a manifest says about its accelerator: every cloud's labels, affinity logic, resources."""

from __future__ import annotations

import csv
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.accelerators.accelerator import Choice
from planner.accelerators.instance_types import family, instance_type
from planner.accelerators.label_keys import meaning
from planner.accelerators.labels import from_name, from_pod, from_resource_profile
from planner.record import replace
from planner.units import GIB
from tests.accelerators.pods import AT, container, fact, pod

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared reference facts are not here")
ONE_GPU = container({"nvidia.com/gpu": 1})


def chosen(choice: Choice) -> list[str]:
    return [accelerator.name for accelerator in choice.accelerators]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", ["H100-80GB-SXM"]),
        ("nvidia.com/gpu.product", "NVIDIA-H100-SXM4-80GB", ["H100-80GB-SXM"]),
        ("nvidia.com/gpu.product", "NVIDIA-H200-MIG-1g.18gb", ["H200 MIG 1g.18gb"]),
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-3080", ["RTX-3080-10GB", "RTX-3080-12GB"]),
        ("nvidia.com/gpu.memory", "15360", ["T4"]),
        ("nvidia.com/gpu.memory", "39538", ["A100-40GB-SXM", "A800-40GB-PCIe"]),
        ("nvidia.com/gpu.machine", "p4d.24xlarge", ["A100-40GB-SXM"]),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", ["A100-40GB-SXM"]),
        ("cloud.google.com/gke-accelerator", "nvidia-a100-80gb", ["A100-80GB-SXM"]),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", ["H100-80GB-SXM"]),
        ("cloud.google.com/gke-accelerator", "nvidia-h200-141gb", ["H200"]),
        ("cloud.google.com/gke-accelerator", "nvidia-rtx-pro-6000", ["RTX-PRO-6000-Server"]),
        ("cloud.google.com/compute-class", "gpu-a100-40gb-x2", ["A100-40GB-SXM"]),
        ("karpenter.k8s.aws/instance-gpu-name", "a10g", ["A10G"]),
        ("karpenter.k8s.aws/instance-gpu-name", "rtx-pro-server-6000", ["RTX-PRO-6000-Server"]),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", ["A100-40GB-SXM", "A100-80GB-SXM"]),
        ("karpenter.k8s.aws/instance-gpu-memory", "22888", ["A10G", "L4"]),
        ("karpenter.k8s.aws/instance-family", "g5", ["A10G"]),
        ("eks.amazonaws.com/instance-gpu-name", "l40s", ["L40S"]),
        ("node.kubernetes.io/instance-type", "g5.12xlarge", ["A10G"]),
        ("beta.kubernetes.io/instance-type", "Standard_NC24ads_A100_v4", ["A100-80GB-PCIe"]),
        ("node.kubernetes.io/instance-type", "a3-ultragpu-8g", ["H200"]),
        ("node.kubernetes.io/instance-type", "gd-8xh100ib-i128", ["H100-80GB-SXM"]),
        ("node.kubernetes.io/instance-type", "ecs.gn7i-c8g1.2xlarge", ["A10"]),
        ("karpenter.azure.com/sku-gpu-name", "A100", ["A100-80GB-PCIe", "A100-40GB-SXM"]),
        ("gpu.nvidia.com/class", "H100_NVLINK_80GB", ["H100-80GB-SXM"]),
        ("gpu.nvidia.com/model", "rtx-a5000", ["RTX-A5000"]),
        ("machine.cluster.vke.volcengine.com/gpu-name", "Tesla-V100", ["V100-16GB", "V100-32GB"]),
        ("aliyun.accelerator/nvidia_name", "NVIDIA-A10", ["A10"]),
        ("baidu/nvidia_name", "NVIDIA-H20-96GB", ["H20-96GB"]),
        ("gpu-type", "nvidia-2080ti", ["RTX-2080-Ti"]),
        # Cards that engines no longer run on must be known by every name, or nothing can be said against them.
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-p100", ["P100-16GB"]),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-p4", ["P4"]),
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-k80", ["K80"]),
        ("karpenter.k8s.aws/instance-gpu-name", "m60", ["M60"]),
        ("karpenter.azure.com/sku-gpu-name", "P100", ["P100-12GB", "P100-16GB"]),
        ("nvidia.com/gpu.product", "Tesla-P100-SXM2-16GB", ["P100-16GB"]),
        ("nvidia.com/gpu.product", "Tesla-M40-24GB", ["M40-24GB"]),
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-GTX-1080-Ti", ["GTX-1080-Ti"]),
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-GTX-1080", ["GTX-1080"]),
        ("nvidia.com/gpu.product", "NVIDIA-TITAN-Xp", ["Titan-Xp"]),
        ("node.kubernetes.io/instance-type", "p2.xlarge", ["K80"]),
        ("node.kubernetes.io/instance-type", "g3s.xlarge", ["M60"]),
        ("node.kubernetes.io/instance-type", "Standard_NV24s_v3", ["M60"]),
        ("node.kubernetes.io/instance-type", "Standard_NC6s_v2", ["P100-16GB"]),
        ("node.kubernetes.io/instance-type", "ecs.gn5-c4g1.xlarge", ["P100-16GB"]),
        ("node.kubernetes.io/instance-type", "ecs.gn5i-c2g1.large", ["P4"]),
        ("example.org/gpu-type", "b200", ["B200"]),
    ],
)
def test_labels_of_nvidia_nodes(key: str, value: str, expected: list[str]) -> None:
    choice = from_pod(pod({key: value}), ONE_GPU)
    assert chosen(choice) == expected
    assert f"{key}={value}" in choice.provenance_text
    assert choice.position == AT
    assert choice.source == "label"
    assert not choice.named
    term = pod(terms=[[(key, "In", [value])]])
    assert chosen(from_pod(term, ONE_GPU)) == expected


@pytest.mark.parametrize(
    ("selector", "resource", "expected"),
    [
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "amd.com/gpu", ["MI300X"]),
        ({"amd.com/gpu.device-id": "75a3"}, "amd.com/gpu", ["MI355X"]),
        ({"beta.amd.com/gpu.device-id.74a5": "8"}, "amd.com/gpu", ["MI325X"]),
        ({"node.kubernetes.io/instance-type": "BM.GPU.MI300X.8"}, "amd.com/gpu", ["MI300X"]),
        ({"habana.ai/device-type": "gaudi3"}, "habana.ai/gaudi", ["Gaudi3"]),
        ({"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}, "google.com/tpu", ["TPU-v6e"]),
        ({"karpenter.k8s.aws/instance-accelerator-name": "trainium2"}, "aws.amazon.com/neuron", ["Trainium2"]),
        ({"node.kubernetes.io/instance-type": "inf2.xlarge"}, "aws.amazon.com/neuroncore", ["Inferentia2 core"]),
        ({"accelerator-type": "module-a3-16"}, "huawei.com/ascend-1980", ["Ascend-910C"]),
        ({}, "huawei.com/Ascend910B4", ["Ascend-910B4-32GB"]),
        ({}, "huawei.com/Ascend310P", ["Ascend-310P3"]),
    ],
)
def test_labels_of_other_vendors(selector: dict[str, str], resource: str, expected: list[str]) -> None:
    assert chosen(from_pod(pod(selector), container({resource: 1}))) == expected


@pytest.mark.parametrize(
    ("resource", "vendor", "kind"),
    [
        ("nvidia.com/gpu", "nvidia", "gpu"),
        ("amd.com/gpu", "amd", "gpu"),
        ("gpu.intel.com/xe", "intel", "gpu"),
        ("habana.ai/gaudi", "intel", "gaudi"),
        ("google.com/tpu", "google", "tpu"),
        ("aws.amazon.com/neuron", "aws", "neuron"),
        ("huawei.com/Ascend910", "huawei", "npu"),
    ],
)
def test_a_resource_may_tell_the_vendor_only(resource: str, vendor: str, kind: str) -> None:
    choice = from_pod(pod(), container({resource: 1}))
    assert choice.accelerators == ()
    assert (choice.vendor, choice.kind) == (vendor, kind)
    assert "planner/accelerator" in choice.remedy


@pytest.mark.parametrize(
    ("machine", "product", "count"),
    [
        ("p5.48xlarge", "H100-80GB-SXM", 8),
        ("g2-standard-24", "L4", 2),
        ("Standard_ND96isr_H100_v5", "H100-80GB-SXM", 8),
        ("standard_nc80adis_h100_v5", "H100-NVL-94GB", 2),
        ("BM.GPU.A10.4", "A10", 4),
        ("gpu_8x_h100_sxm5", "H100-80GB-SXM", 8),
        ("gpu-h100x8-640gb", "H100-80GB-PCIe", 8),
        ("b200-8x", "B200", 8),
        ("H100-1-80G", "H100-80GB-PCIe", 1),
        ("ct6e-standard-4t", "TPU-v6e", 4),
    ],
)
def test_machine_types(machine: str, product: str, count: int) -> None:
    found = instance_type(machine)
    assert found is not None
    assert product in [accelerator.name for accelerator in found.accelerators]
    assert found.gpus == count
    choice = from_pod(pod({"node.kubernetes.io/instance-type": machine}), container())
    assert choice.gpus_per_node == count


def test_machines_with_a_part_of_a_device() -> None:
    found = instance_type("g6f.2xlarge")
    assert found is not None
    assert found.accelerators[0].memory.high < 6 * GIB
    found = instance_type("Standard_NV12ads_A10_v5")
    assert found is not None
    assert 6 * GIB < found.accelerators[0].memory.expected < 8 * GIB
    assert instance_type("m5.large") is None
    assert family("p5") != ()
    assert family("") == ()


def test_the_annotation_wins() -> None:
    choice = from_pod(
        pod({"nvidia.com/gpu.product": "NVIDIA-L4"}, annotations={"planner/accelerator": "H200"}), ONE_GPU
    )
    assert chosen(choice) == ["H200"]
    assert choice.source == "annotation"
    of_workload = {"planner/accelerator": fact("L40S, A100-80GB")}
    assert chosen(from_pod(pod(), ONE_GPU, of_workload)) == ["L40S", "A100-80GB-SXM"]
    both = pod(annotations={"planner/accelerator": "T4"})
    assert chosen(from_pod(both, ONE_GPU, of_workload)) == ["T4"]
    choice = from_pod(pod(annotations={"planner/accelerator": "RTX 6000"}), ONE_GPU)
    assert choice.named == "RTX 6000"
    assert "RTX-6000-Ada" in choice.remedy
    assert chosen(from_pod(pod(annotations={"planner/accelerator": "H100 1g.10gb"}), ONE_GPU)) == [
        "H100-80GB-SXM MIG 1g.10gb"
    ]


def test_several_values_are_several_accelerators() -> None:
    terms = [[("nvidia.com/gpu.product", "In", ["NVIDIA-H200", "NVIDIA-L4", "NVIDIA-Mystery-9000"])]]
    choice = from_pod(pod(terms=terms), ONE_GPU)
    assert chosen(choice) == ["H200", "L4"]
    assert choice.others_allowed


def test_excluded_values() -> None:
    terms = [
        [
            ("cloud.google.com/gke-accelerator", "In", ["nvidia-l4", "nvidia-tesla-t4"]),
            ("cloud.google.com/gke-accelerator", "NotIn", ["nvidia-tesla-t4"]),
        ]
    ]
    assert chosen(from_pod(pod(terms=terms), ONE_GPU)) == ["L4"]
    only = from_pod(pod(terms=[[("nvidia.com/gpu.product", "NotIn", ["Tesla-T4"])]]), ONE_GPU)
    assert only.accelerators == ()
    assert only.excluded == ("T4",)
    assert not only.contradictory


def test_terms_are_alternatives() -> None:
    h200, l4 = ("nvidia.com/gpu.product", "In", ["NVIDIA-H200"]), ("nvidia.com/gpu.product", "In", ["NVIDIA-L4"])
    choice = from_pod(pod(terms=[[h200], [l4]]), ONE_GPU)
    assert chosen(choice) == ["H200", "L4"]
    assert " or " in choice.provenance_text
    assert not choice.others_allowed
    assert from_pod(pod(terms=[[h200], [("topology.kubernetes.io/zone", "In", ["a"])]]), ONE_GPU).others_allowed
    dead = [("cloud.google.com/gke-accelerator", "In", ["nvidia-b200"]), l4]
    assert chosen(from_pod(pod(terms=[dead, [h200]]), ONE_GPU)) == ["H200"]


def test_selector_and_affinity_narrow_each_other() -> None:
    selector = {"karpenter.k8s.aws/instance-gpu-name": "a100"}
    assert chosen(from_pod(pod({**selector, "karpenter.k8s.aws/instance-gpu-memory": "81920"}), ONE_GPU)) == [
        "A100-80GB-SXM"
    ]
    larger = [[("karpenter.k8s.aws/instance-gpu-memory", "Gt", ["50000"])]]
    assert chosen(from_pod(pod(selector, larger), ONE_GPU)) == ["A100-80GB-SXM"]
    form = {"gpu.nvidia.com/class": "H100", "nvidia.com/gpu.product": "NVIDIA-H100-PCIe"}
    assert chosen(from_pod(pod(form), ONE_GPU)) == ["H100-80GB-PCIe"]
    assert chosen(from_pod(pod({"gpu.nvidia.com/class": "A100", "gpu.nvidia.com/vram": "80"}), ONE_GPU)) == [
        "A100-80GB-SXM"
    ]


def test_contradictions_are_said() -> None:
    choice = from_pod(
        pod({"nvidia.com/gpu.product": "NVIDIA-L4", "node.kubernetes.io/instance-type": "p5.48xlarge"}), ONE_GPU
    )
    assert choice.contradictory
    assert choice.accelerators == ()
    assert "p5.48xlarge" in choice.provenance_text
    assert from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-L4"}), container({"amd.com/gpu": 1})).contradictory
    assert from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-L4"}), container({"nvidia.com/mig-1g.5gb": 1})).contradictory
    assert from_pod(
        pod({"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.family": "hopper"}), ONE_GPU
    ).contradictory
    turing = {"karpenter.k8s.aws/instance-gpu-memory": "16384", "nvidia.com/gpu.compute.major": "8"}
    assert from_pod(pod(turing), ONE_GPU).contradictory


def test_bounds_without_a_name() -> None:
    choice = from_pod(pod(terms=[[("nvidia.com/gpu.memory", "Gt", ["40000"])]]), ONE_GPU)
    assert choice.accelerators == ()
    assert 30 * GIB < choice.memory_at_least < 40 * GIB
    assert choice.vendor == "nvidia"


def test_slices() -> None:
    gke = pod(
        {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", "cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    )
    [part] = from_pod(gke, ONE_GPU).accelerators
    assert part.partition == "1g.5gb"
    assert part.memory.expected == round(4.75 * GIB)
    named = from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), container({"nvidia.com/mig-1g.10gb": 1}))
    assert chosen(named) == ["H100-80GB-SXM MIG 1g.10gb"]
    assert "nvidia.com/mig-1g.10gb" in named.provenance_text
    alone = from_pod(pod(), container({"nvidia.com/mig-1g.5gb": 1}))
    assert alone.source == "resource"
    assert {a.partition for a in alone.accelerators} == {"1g.5gb"}
    assert {a.capability for a in alone.accelerators} == {(8, 0)}
    several = from_pod(pod(), container({"nvidia.com/mig-1g.10gb": 1}))
    assert {a.capability for a in several.accelerators} == {(8, 0), (9, 0)}
    assert from_pod(pod(), container({"nvidia.com/mig-9g.999gb": 1})).accelerators == ()


def test_shared_devices() -> None:
    gke = pod(
        {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}
    )
    [l4] = from_pod(gke, ONE_GPU).accelerators
    assert l4.shared
    assert from_pod(pod({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}), ONE_GPU).accelerators[0].shared
    assert (
        from_pod(pod({"nvidia.com/gpu.product": "Tesla-T4"}), container({"nvidia.com/gpu.shared": 1}))
        .accelerators[0]
        .shared
    )
    assert not from_pod(pod({"nvidia.com/gpu.product": "Tesla-T4"}), ONE_GPU).accelerators[0].shared


def test_vgpu_limits() -> None:
    hami = container({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8192})
    [l4] = from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-L4"}), hami).accelerators
    assert l4.memory.expected == 8 * GIB
    assert l4.shared
    unnamed = from_pod(pod(), hami)
    assert unnamed.accelerators == ()
    assert unnamed.memory_limit == 8 * GIB
    percent = container({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50})
    [half] = from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-L4"}), percent).accelerators
    assert 11 * GIB < half.memory.expected < 11.2 * GIB


def test_amd_partition_modes() -> None:
    selector = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}
    container_ = container({"amd.com/gpu": 1})
    [whole] = from_pod(pod({**selector, "amd.com/gpu.compute-memory-partition": "spx_nps1"}), container_).accelerators
    [part] = from_pod(pod({**selector, "amd.com/gpu.compute-memory-partition": "cpx_nps4"}), container_).accelerators
    assert whole.partition == ""
    assert part.memory.expected == whole.memory.expected // 8
    assert part.memory.high == whole.memory.high // 4


def test_unknown_names_are_kept_with_a_remedy() -> None:
    choice = from_pod(pod({"nvidia.com/gpu.product": "NVIDIA-H300"}), ONE_GPU)
    assert choice.accelerators == ()
    assert choice.named == "NVIDIA-H300"
    assert choice.position == AT
    assert "planner/accelerator" in choice.remedy
    nothing = from_pod(pod({"kubernetes.io/os": "linux", "gpu": "true", "accelerator": "cuda"}), container())
    assert nothing.accelerators == ()
    assert nothing.named == ""
    assert nothing.vendor == "nvidia"


def test_hints_at_the_vendor() -> None:
    assert from_pod(pod(runtime_class="nvidia"), container()).vendor == "nvidia"
    assert from_pod(pod(tolerations=("amd.com/gpu",)), container()).vendor == "amd"
    assert from_pod(pod(), container()).vendor == ""


def test_names_from_the_command_line() -> None:
    assert chosen(from_name("H100-80GB")) == ["H100-80GB-SXM"]
    assert chosen(from_name("A100")) == ["A100-40GB-SXM", "A100-80GB-SXM"]
    assert from_name("Voodoo2").named == "Voodoo2"


def test_kubeai_profiles() -> None:
    choice, count = from_resource_profile("nvidia-gpu-l4:8")
    assert (chosen(choice), count) == (["L4"], 8)
    choice, count = from_resource_profile("google-tpu-v5e-2x2:4")
    assert (chosen(choice), count) == (["TPU-v5e"], 4)
    assert from_resource_profile("cpu:2")[0].accelerators == ()
    assert from_resource_profile("nvidia-gpu-l4:" + "9" * 50)[1] == 1


@needs_shared
def test_every_label_of_the_reference_that_names_a_product_resolves() -> None:
    not_here = re.compile(
        r"Qualcomm|laptop|^same product|^slice of that|^any NVIDIA|compute \d|^\d|^anything|^gfx9 family"
    )
    rows = resolved = 0
    with (SHARED / "reference" / "accelerator-labels.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            key, value, canonical = row["label_key"], row["label_value"], row["canonical"]
            if not canonical or "*" in value or not_here.search(canonical) or key == "amd.com/gpu.vram":
                continue
            if key == "KubeAI resourceProfile":
                found = list(from_resource_profile(value)[0].accelerators)
            elif key == "resource name":
                if "mig-" not in value:
                    continue
                found = list(from_pod(pod(), container({value: 1})).accelerators)
            else:
                said = meaning("node.kubernetes.io/instance-type" if key == "KAITO instanceType" else key, value)
                found = list(said.products) if said else []
            rows += 1
            resolved += bool(found)
            assert found, (key, value, canonical)
            base = re.split(r"[ (,/]", canonical.replace("Radeon Pro ", "Radeon-Pro-").replace("RTX 40", "RTX-40"))[0]
            every = " ".join([accelerator.name for accelerator in found] + [v for a in found for v in a.variants])
            assert base in every or key == "resource name", (key, value, canonical, every)
    assert rows == resolved > 350


hostile = st.text(max_size=80)
keys = st.sampled_from(
    ["nvidia.com/gpu.product", "nvidia.com/gpu.memory", "cloud.google.com/gke-accelerator", "amd.com/gpu.device-id",
     "cloud.google.com/gke-tpu-topology", "karpenter.k8s.aws/instance-gpu-memory", "node.kubernetes.io/instance-type",
     "karpenter.k8s.aws/instance-family", "nvidia.com/mig.config", "amd.com/gpu.compute-memory-partition", "gpu-type",
     "gpu.nvidia.com/vram", "accelerator-type", "aliyun.accelerator/nvidia_mem"]
)  # fmt: skip
values = st.one_of(
    hostile, st.sampled_from(["NVIDIA-L4", "p5.48xlarge", "-1", "9" * 70, "1e9", "½", "٣", "cpx_nps٣", "all-1g.5gb"])
)


@given(
    st.dictionaries(st.one_of(keys, hostile), values, max_size=4),
    st.lists(
        st.lists(
            st.tuples(st.one_of(keys, hostile), st.sampled_from(["In", "NotIn", "Exists", "Gt", "Lt", "?"]), st.lists(values, max_size=3)),
            max_size=3,
        ),
        max_size=3,
    ),
    st.one_of(st.none(), hostile),
    st.dictionaries(
        st.one_of(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-", "amd.com/gpu"]), hostile),
        st.floats(),
        max_size=3,
    ),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_manifest_breaks_it(selector, terms, annotation, limits) -> None:  # type: ignore[no-untyped-def]
    annotations = {} if annotation is None else {"planner/accelerator": annotation}
    choice = from_pod(pod(selector, terms, annotations), container(limits))
    assert len(choice.provenance_text) <= 400
    for accelerator in choice.accelerators:
        assert 0 <= accelerator.memory.low <= accelerator.memory.expected <= accelerator.memory.high


def test_a_flood_of_labels_is_quick() -> None:
    values = tuple(f"NVIDIA-{number}-4090" for number in range(5000))
    term = tuple((f"gpu.nvidia.com/k{number}", "In", values, AT) for number in range(500))
    flood = replace(
        pod({f"nvidia.com/k{number}": "x" * 5000 for number in range(5000)}),
        affinity=((("nvidia.com/gpu.product", "In", values, AT),) * 500, *[term] * 500),
    )
    start = time.perf_counter()
    from_pod(flood, ONE_GPU)
    from_pod(pod(annotations={"planner/accelerator": "4090," * 100_000}), ONE_GPU)
    assert time.perf_counter() - start < 1
