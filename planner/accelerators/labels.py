"""Which accelerators a pod may land on: annotation, node selector, required node affinity, resource names.

Most manifests name none: the catalog and the meaning of labels are imported when one does.

The annotation wins. Selector and affinity narrow each other, the terms of an affinity are alternatives, and the resource a
container asks for (a MIG slice, a vGPU limit, another vendor's device) narrows the result once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from planner.accelerators.accelerator import Accelerator, Choice
from planner.accelerators.resources import DeviceRequest, device_class, device_request
from planner.estimate import Estimate
from planner.provenance import Fact, Position
from planner.record import NamedTuple, replace

if TYPE_CHECKING:
    from planner.accelerators.label_keys import Meaning
    from planner.workloads.workload import Container, Pod

ANNOTATION = "planner/accelerator"
#: What is read of a hostile manifest; real ones have a handful. What lies beyond narrows nothing.
_MOST_VALUES = 64
_MOST_VALUES_IN_ALL = 1024
_MOST_TERMS = 32
_MOST_LABELS = 128


def from_pod(pod: Pod, container: Container, annotations: Mapping[str, Fact[str]] | None = None) -> Choice:
    """The accelerators that a manifest allows for one container of a pod.

    ``annotations`` are those of the workload; the pod's own come first. A manifest that names nothing gives an empty
    choice with what little is known (vendor, kind, bounds of the memory) and a remedy; names that the catalog does not
    have are in ``named``. Never raises.
    """
    request = device_request(container, pod)
    for source in (pod.annotations, annotations or {}):
        fact = source.get(ANNOTATION)
        if fact is not None and fact.value.strip():
            return _finish(_annotated(fact), request)
    base = _State()
    if pod.node_selector:
        from planner.accelerators.label_keys import meaning
    for key, fact in list(pod.node_selector.items())[:_MOST_LABELS]:
        base = base.narrowed(meaning(key, fact.value), f"{key[:160]}={fact.value[:80]}", fact.position, fact.value)
    terms = _readable(pod)
    state = _united([_term(base, term) for term in terms]) if terms else base
    if not state.products and not state.unknown and not state.vendor and not request:
        state = state._replace(vendor=_hinted_vendor(pod))
    return _finish(state, request)


def from_name(name: str) -> Choice:
    """The accelerators that a name on the command line or in a configuration means, as the annotation is read: several
    names may stand there with commas, a MIG profile may follow a name (``H100 1g.10gb``)."""
    return _finish(_names(name, f"accelerator {name[:80]}", None, "option"), None)


def from_resource_profile(profile: str) -> tuple[Choice, int]:
    """(choice, number of devices) of a KubeAI resource profile, ``nvidia-gpu-l4:8``: the profiles are defined in KubeAI's
    chart, those that it ships are named after their card."""
    name, _, times = profile.strip()[:160].partition(":")
    state = _names(re.sub(r"-\d{1,2}x\d{1,2}$", "", name), f"resourceProfile {profile[:80]}", None, "label")
    return _finish(state, None), int(times) if re.fullmatch(r"[0-9]{1,4}", times) else 1


class _State(NamedTuple):
    """What is known so far. ``products`` maps a product's name to it (or to a part of it); ``names_one`` tells whether
    anything named an accelerator, so that no products left means a contradiction."""

    products: dict[str, Accelerator] = {}
    names_one: bool = False
    words: tuple[str, ...] = ()
    position: Position | None = None
    source: str = ""
    unknown: str = ""
    vendor: str = ""
    kind: str = ""
    gpus: int = 0
    shared: bool = False
    profile: str = ""
    least: int = 0
    most: int = 0
    archs: tuple[str, ...] = ()
    majors: tuple[int, ...] = ()
    excluded: tuple[str, ...] = ()
    contradiction: bool = False
    open: bool = False

    def narrowed(self, said: Meaning | None, words: str, position: Position | None, value: str) -> _State:
        """This and what one more label (or the union of the values of one expression) says."""
        if said is None:
            return self
        products = {_base(product): product for product in said.products}
        names_one = self.names_one or bool(products)
        clash = bool(self.vendor and said.vendor and self.vendor != said.vendor)
        if products and self.names_one:
            both = [name for name in self.products if name in products]
            clash = clash or not both
            products = {name: _more_specific(self.products[name], products[name]) for name in both}
        elif not products:
            products = self.products
        telling = bool(said.products or said.unknown)
        if said.unknown and not self.unknown:
            unknown = value[:80]
        else:
            unknown = self.unknown
        return self._replace(
            products=products,
            names_one=names_one,
            words=(*self.words, words),
            position=position if telling or self.position is None else self.position,
            source="label",
            unknown=unknown,
            vendor=self.vendor or said.vendor,
            kind=self.kind or said.kind,
            gpus=said.gpus or self.gpus,
            shared=self.shared or said.shared,
            profile=said.profile or self.profile,
            least=max(self.least, said.least),
            most=min(filter(None, (self.most, said.most)), default=0),
            archs=(*self.archs, said.arch) if said.arch else self.archs,
            majors=(*self.majors, said.major) if said.major else self.majors,
            contradiction=self.contradiction or clash,
            open=self.open or bool(said.products and said.unknown),
        )

    def filtered(self) -> _State:
        """With the bounds, architectures, exclusions and the slice applied to the products."""
        if not self.products:
            return self._replace(contradiction=self.contradiction or self.names_one)
        from planner.accelerators.partitions import time_shared

        kept: dict[str, Accelerator] = {}
        for name, product in self.products.items():
            memory = product.memory
            if (
                (not self.least or memory.high >= self.least)
                and (not self.most or memory.low <= self.most)
                and (not self.archs or product.arch in self.archs)
                and (not self.majors or (product.capability or (0,))[0] in self.majors)
                and (not self.vendor or product.vendor == self.vendor)
                and (not self.kind or product.kind == self.kind)
                and name not in self.excluded
            ):
                part = _sliced(product, self.profile)
                if part:
                    kept[name] = time_shared(part) if self.shared else part
        return self._replace(products=kept, contradiction=self.contradiction or not kept)


def _annotated(fact: Fact[str]) -> _State:
    return _names(fact.value, f"annotation {ANNOTATION}: {fact.value.strip()[:80]}", fact.position, "annotation")


def _names(text: str, words: str, position: Position | None, source: str) -> _State:
    from planner.accelerators.partitions import resolve

    products: dict[str, Accelerator] = {}
    unknown = ""
    for name in [part.strip() for part in text[:1000].replace(";", ",").split(",")][:_MOST_VALUES]:
        found = resolve(name) if name else ()
        products.update((product.name, product) for product in found)
        if name and not found:
            unknown = unknown or name[:80]
    return _State(products, bool(products), (words,), position, source, unknown, open=bool(products and unknown))


def _readable(pod: Pod) -> list[list[tuple[str, str, tuple[str, ...], Position]]]:
    """The terms of the required node affinity within what is read of a manifest."""
    left = _MOST_VALUES_IN_ALL
    terms = []
    for term in pod.affinity[:_MOST_TERMS]:
        expressions = []
        for key, operator, values, position in term[:_MOST_LABELS]:
            left -= 1 + min(len(values), _MOST_VALUES)
            if left > 0:
                expressions.append((key, operator, values[:_MOST_VALUES], position))
        terms.append(expressions)
    return terms


def _term(base: _State, term: Iterable[tuple[str, str, tuple[str, ...], Position]]) -> _State:
    """One alternative of the affinity, on top of the node selector."""
    from planner.accelerators.label_keys import Meaning, meaning, memory_bounds

    state = base
    for key, operator, values, position in term:
        words = f"{key[:160]} {operator[:12]} {','.join(value[:80] for value in values[:8])}".strip()[:200]
        if operator == "In" and values:
            said = _any_of([meaning(key, value) for value in values])
            state = state.narrowed(said, words, position, ", ".join(value[:80] for value in values[:4]))
        elif operator == "NotIn":
            out = {_base(product) for value in values for product in (meaning(key, value) or Meaning()).products}
            if out:
                state = state._replace(excluded=(*state.excluded, *sorted(out)), words=(*state.words, words))
        elif operator in ("Gt", "Lt") and values:
            state = state.narrowed(memory_bounds(key, operator, values[0]), words, position, values[0])
        elif operator == "Exists":
            said = meaning(key, "true")
            if said and said.vendor:
                state = state.narrowed(Meaning(vendor=said.vendor, kind=said.kind), words, position, "")
    return state


def _any_of(said: list[Meaning | None]) -> Meaning | None:
    """What an expression with several values says: one of them holds."""
    from planner.accelerators.label_keys import Meaning

    told = [item for item in said if item is not None]
    if not told:
        return None
    if len(told) == 1 and len(said) == 1:
        return told[0]
    products = {product.name: product for item in told for product in item.products}
    silent = len(told) < len(said) or any(not item.products and not item.unknown for item in told)

    def common(values: Iterable[object]) -> bool:
        return len(set(values)) == 1 and len(told) == len(said)

    first = told[0]
    return Meaning(
        products=() if silent else tuple(products.values()),
        vendor=first.vendor if common(item.vendor for item in told) else "",
        kind=first.kind if common(item.kind for item in told) else "",
        gpus=first.gpus if common(item.gpus for item in told) else 0,
        shared=all(item.shared for item in told),
        profile=first.profile if common(item.profile for item in told) else "",
        least=min(item.least for item in told),
        most=max(item.most for item in told) if all(item.most for item in told) else 0,
        arch=first.arch if common(item.arch for item in told) else "",
        major=first.major if common(item.major for item in told) else 0,
        unknown=any(item.unknown for item in told),
    )


def _united(states: list[_State]) -> _State:
    """The alternatives of an affinity together: those that contradict themselves drop out."""
    states = [state.filtered() for state in states]
    alive = [state for state in states if not state.contradiction]
    if not alive:
        return states[0]
    if len(alive) == 1:
        return alive[0]
    products = {name: product for state in alive for name, product in state.products.items()}
    naming = [state for state in alive if state.products or state.unknown]
    vendors, kinds = {state.vendor for state in alive}, {state.kind for state in alive}
    counts, profiles = {state.gpus for state in alive}, {state.profile for state in alive}
    excluded = set.intersection(*(set(state.excluded) for state in alive))
    return _State(
        products=products,
        names_one=bool(products),
        words=(" or ".join(dict.fromkeys(" and ".join(state.words) or "anything" for state in alive)),),
        position=next((state.position for state in alive if state.position), None),
        source=next((state.source for state in alive if state.source), ""),
        unknown=next((state.unknown for state in alive if state.unknown), ""),
        vendor=vendors.pop() if len(vendors) == 1 else "",
        kind=kinds.pop() if len(kinds) == 1 else "",
        gpus=counts.pop() if len(counts) == 1 else 0,
        shared=all(state.shared for state in alive),
        profile="" if products else (profiles.pop() if len(profiles) == 1 else ""),
        least=min(state.least for state in alive),
        most=max(state.most for state in alive) if all(state.most for state in alive) else 0,
        excluded=tuple(sorted(excluded)),
        open=any(state.open for state in alive) or (bool(naming) and len(naming) < len(alive)),
    )


def _finish(state: _State, request: DeviceRequest | None) -> Choice:
    """The choice, after the resource that the container asks for has had its say."""
    words = list(state.words)
    source = state.source
    if request and request.vendor:
        others = {product.vendor for product in state.products.values()} | ({state.vendor} if state.vendor else set())
        if others and request.vendor not in others:
            state = state._replace(contradiction=True)
            words.append(f"resource {request.resource}")
        kind = request.kind if request.kind in ("gaudi", "tpu", "npu", "neuron") else ""
        kind = "neuron" if request.kind == "neuroncore" else kind or ("gpu" if request.kind != "claim" else "")
        state = state._replace(vendor=request.vendor, kind=state.kind or kind)
        if not state.products and not state.unknown and not state.contradiction:
            found = _by_resource(request)
            if found:
                state = state._replace(
                    products={p.name: p for p in found}, names_one=True, position=request.position, source="resource"
                )
                source = "resource"
                words.append(f"resource {request.resource}")
    profile = request.profile if request and request.profile else state.profile
    if request and request.profile and state.products:
        words = [*words, f"resource {request.resource}"] if f"resource {request.resource}" not in words else words
    state = state._replace(profile=profile, shared=state.shared or bool(request and request.shared)).filtered()
    products = list(state.products.values())
    if request and request.kind == "vgpu" and products:
        products = [_vgpu(product, request) for product in products]
    if request and request.kind == "neuroncore":
        products = [_core(product) for product in products]
    text = " and ".join(words)
    if state.contradiction:
        text = f"no node has all of: {'; '.join(words)}" if words else "no node can satisfy the manifest"
        products = []
    return Choice(
        accelerators=tuple(_merged(products, by_capability=source == "resource")),
        provenance_text=text[:400],
        named=state.unknown if not products else "",
        vendor=state.vendor or _common(product.vendor for product in products),
        kind=state.kind or _common(product.kind for product in products),
        source=source if words else "",
        remedy="" if products else _remedy(state),
        position=state.position or (request.position if request else None),
        gpus_per_node=state.gpus,
        shared=state.shared,
        partition=state.profile,
        memory_limit=request.memory_limit if request and not products else 0,
        memory_at_least=state.least,
        memory_at_most=state.most,
        excluded=state.excluded,
        contradictory=state.contradiction,
        others_allowed=state.open and bool(products),
    )


def _remedy(state: _State) -> str:
    from planner.accelerators.catalog import suggest

    if state.contradiction:
        return f"correct the labels, or name the accelerator with the annotation `{ANNOTATION}: H100-80GB`"
    if state.unknown:
        near = suggest(state.unknown)
        known = f" (similar names: {', '.join(near)})" if near else ""
        return f"{state.unknown!r} is not in the catalog{known}; add the annotation `{ANNOTATION}: NAME` with a name from it"
    example = {
        "amd": "MI300X",
        "intel": "Gaudi3",
        "google": "TPU-v6e",
        "aws": "Trainium1",
        "huawei": "Ascend-910B-64GB",
    }
    return f"add the annotation `{ANNOTATION}: {example.get(state.vendor, 'H100-80GB')}` with the card the pod lands on"


def _by_resource(request: DeviceRequest) -> list[Accelerator]:
    """The products that a resource's name alone tells: those with the MIG profile, or one NPU."""
    from planner.accelerators.partitions import has_profile, resolve

    if request.kind == "mig" and request.profile:
        return [product for product in _with_mig() if has_profile(product, request.profile)]
    if request.kind == "npu":
        return list(resolve(request.resource.rpartition("/")[2]))
    return []


@cache
def _with_mig() -> tuple[Accelerator, ...]:
    from planner.accelerators.catalog import all_accelerators

    return tuple(product for product in all_accelerators() if product.partitions)


def _sliced(product: Accelerator, profile: str) -> Accelerator | None:
    """The product's slice of a profile, the product itself where no slice is asked for, None where it has none such."""
    from planner.accelerators.partitions import has_profile, partition

    if not profile:
        return product
    if profile.startswith("amd "):
        return _compute_partition(product, profile[4:])
    if profile == "?":
        memory = Estimate(product.memory.low // 8, product.memory.expected // 8, product.memory.high, "assumed")
        return replace(product, memory=memory, partition="a MIG slice of unknown size")
    if product.partition:
        return product
    return partition(product, profile) if has_profile(product, profile) else None


def _compute_partition(product: Accelerator, mode: str) -> Accelerator:
    """An AMD device in a partition mode (``cpx_nps4``): in CPX each of the eight dies is a device, which sees the memory of
    its NPS domain. Other pods on the domain's dies use the same memory."""
    compute, _, memory_mode = mode.partition("_")
    parts = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}.get(compute, 1)
    domains = int(memory_mode[3:]) if memory_mode[:3] == "nps" and memory_mode[3:] in ("1", "2", "4", "8") else 1
    low = product.memory.low // max(parts, domains)
    memory = Estimate(low, product.memory.expected // max(parts, domains), product.memory.high // domains, "assumed")
    return replace(product, name=f"{product.name} {mode}", memory=memory, partition=mode, shared=domains < parts)


def _vgpu(product: Accelerator, request: DeviceRequest) -> Accelerator:
    from planner.accelerators.partitions import limited, time_shared

    if request.memory_limit:
        return limited(product, request.memory_limit, f"{request.resource} with a limit of the device memory")
    if request.memory_percent:
        limit = round(product.memory.expected * request.memory_percent / 100)
        return limited(product, limit, f"{request.memory_percent:g} % of the device memory")
    return time_shared(product)


def _core(product: Accelerator) -> Accelerator:
    """One NeuronCore's share of a chip's memory."""
    from planner.accelerators.partitions import fraction

    cores = {"NeuronCore-v1": 4, "NeuronCore-v2": 2, "NeuronCore-v3": 8}.get(product.arch, 1)
    part = fraction(product, 1 / cores, "one NeuronCore of the chip")
    return replace(part, name=f"{product.name} core", memory=part.memory._replace(expected=part.memory.high))


def _merged(products: list[Accelerator], by_capability: bool) -> list[Accelerator]:
    """Cards that differ in their form only (SXM, PCIe) as one with an interval over both; with ``by_capability``, slices
    of different cards too where memory and compute capability agree."""
    if not products:
        return []
    from planner.accelerators.catalog import united
    from planner.accelerators.names import parse

    groups: dict[object, list[Accelerator]] = {}
    for product in products:
        name = parse(product.name)
        key = (product.capability, product.arch) if by_capability else (name.core, name.memory)
        groups.setdefault((key, product.partition, product.shared), []).append(product)
    result: list[Accelerator] = []
    for group in groups.values():
        one = united(group)
        if one:
            result.append(one)
        else:
            result.extend(_merged(group, False) if by_capability else group)
    return result


def _base(product: Accelerator) -> str:
    """The catalog name of a product or of a part of it."""
    for ending in (" MIG ", " share", " vGPU", " core"):
        head, found, _ = product.name.partition(ending)
        if found:
            return head
    return product.name


def _more_specific(one: Accelerator, other: Accelerator) -> Accelerator:
    from planner.accelerators.partitions import time_shared

    part = other if other.partition and not one.partition else one
    return time_shared(part) if (one.shared or other.shared) and not part.shared else part


def _common(values: Iterable[str]) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _hinted_vendor(pod: Pod) -> str:
    """The vendor as runtime class, tolerations and claims hint at it."""
    if pod.runtime_class in ("nvidia", "nvidia-cdi", "nvidia-legacy"):
        return "nvidia"
    for key in pod.tolerations:
        for start, vendor in (
            ("nvidia.com/", "nvidia"),
            ("amd.com/", "amd"),
            ("habana.ai/", "intel"),
            ("google.com/tpu", "google"),
        ):
            if key.startswith(start):
                return vendor
    for _, name in pod.resource_claims:
        known = device_class(name)
        if known and known[0]:
            return known[0]
    return ""
