"""What start-up logs say about the terms that arithmetic cannot give. Written by ``python -m planner.calibration.fit``.

Each value is (low, expected, high). Sizes are GiB where the name says so, otherwise factors of the tensor sizes that
``planner.memory`` works out, or bytes.
"""

from __future__ import annotations

Spread = tuple[float, float, float]

#: Bytes of the sampler per sampled row and vocabulary entry.
SAMPLER_BYTES: dict[str, Spread] = {
    "torch": (35.82, 38.1, 40.39),
    "triton": (14.68, 15.62, 16.56),
    "flashinfer": (10, 14, 16),
    "greedy": (2, 6, 10),
}
#: Peak of the forward pass over the tensor sizes of one layer.
FORWARD_FACTOR: dict[str, Spread] = {"compiled": (0.8, 1.05, 1.4), "eager": (0.75, 1.05, 1.5)}
#: Work space of the experts over the results of both of their stages, by kernel: in stages, or fused.
EXPERTS_FACTOR: dict[str, Spread] = {"staged": (0.5, 1.0, 1.3), "fused": (0.05, 0.3, 0.7)}
#: Share of the experts' work space that stays allocated while the sampler runs (0.13 and later).
EXPERTS_KEPT: Spread = (0.0, 0.5, 1.0)
#: Peak of the multimodal encoder over the tensor sizes of one of its layers.
ENCODER_FACTOR: dict[str, Spread] = {
    "native": (0.6, 0.8, 1.3),
    "pooled": (1.5, 2.35, 2.6),
    "tiled": (0.4, 0.8, 2.5),
}
PROFILE_SLACK_GIB: Spread = (0.0, 0.02, 0.08)
#: Growth outside the allocator on one GPU, by class of device.
NON_TORCH_GIB: dict[str, Spread] = {
    "ampere": (0.025, 0.03, 0.167),
    "hopper": (0.08, 0.13, 0.25),
    "blackwell": (0.1, 0.27, 0.55),
    "rocm": (0.1, 0.4, 1.5),
    "unified": (0, 0.8, 6),
}
#: What communicators add, by link: per rank of the group over PCIe, for two ranks and for more over NVLink. Releases up to
#: 0.10 count the communicators themselves, later ones what grows once they exist, which is as much until 0.27.
COMMUNICATORS_GIB: dict[str, Spread] = {
    "pcie": (0.03, 0.08, 0.16),
    "pair": (0.2, 0.41, 0.7),
    "mesh": (1.2, 2.15, 2.9),
    "mesh_later": (0.4639, 0.8559, 1.144),
}
#: Bytes of captured graphs: a constant and a share per layer and graph; factor for several ranks, whose spread is in the others.
GRAPH_BASE_GIB: Spread = (0.09738, 0.15, 0.1966)
GRAPH_PER_LAYER_GIB: Spread = (0.0001104, 0.00017, 0.0002229)
GRAPH_RANKS_FACTOR: Spread = (1.3, 1.3, 1.3)
#: What a device holds before the engine looks: the CUDA context, and communicators (0.11 and later).
CONTEXT_GIB: Spread = (0.235, 0.45, 0.529)
CONTEXT_COMMUNICATORS_GIB: dict[str, Spread] = {"pcie": (0.1, 0.5, 1.1), "mesh": (0.3, 1.6, 3.2)}
