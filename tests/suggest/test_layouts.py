"""Ways to spread a copy, and the labels that select its nodes."""

from __future__ import annotations

from planner.accelerators.catalog import named
from planner.accelerators.instance_types import instance_type
from planner.accelerators.label_keys import meaning
from planner.models.resolve import resolve
from planner.suggest.layouts import Layout, layouts, node_size
from planner.suggest.node_labels import _PRODUCTS, node_label


def test_every_label_means_its_accelerator() -> None:
    for name in _PRODUCTS:
        accelerator = named(name)
        label = node_label(accelerator)
        assert label is not None
        said = meaning(*label)
        assert said is not None, label
        assert name in [product.name for product in said.products], label


def test_a_node_is_as_large_as_its_largest_machine_type() -> None:
    assert node_size(named("A100-40GB-SXM")).gpus == 16
    assert node_size(named("H100-80GB-SXM")).gpus == 8
    assert node_size(named("GB200")).gpus == 4
    assert node_size(named("GB10")).gpus == 1
    assumed = node_size(named("RTX-4090"))
    assert assumed.assumed
    assert assumed.gpus == 8
    machine = instance_type("a2-megagpu-16g")
    assert machine is not None
    assert machine.gpus == 16


def test_tensor_parallel_stays_inside_a_pod() -> None:
    model = resolve("meta-llama/Llama-3.1-70B-Instruct").architecture
    assert list(layouts(model, 16, 8, 8)) == [
        Layout(8, 2, 2, 8),
        Layout(4, 4, 2, 8),
        Layout(2, 8, 2, 8),
        Layout(1, 16, 2, 8),
        Layout(4, 4, 4, 4),
        Layout(2, 8, 4, 4),
        Layout(1, 16, 4, 4),
        Layout(2, 8, 8, 2),
        Layout(1, 16, 8, 2),
    ]
    assert list(layouts(model, 16, 8, 1)) == []
    # 64 heads cannot be shared by three.
    assert list(layouts(model, 3, 8, 8)) == [Layout(1, 3, 1, 3)]


def test_texts() -> None:
    assert Layout(1).text == "1 GPU"
    assert Layout(8, 2, 2, 8).text == "16 GPUs over 2 pods (tensor parallel 8, pipeline parallel 2)"
