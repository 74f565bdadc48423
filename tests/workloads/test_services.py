"""Services find their pods, and routes their Services, among the files of one run."""

from __future__ import annotations

from typing import Any

import pytest

from planner.documents.read import read_bytes
from planner.workloads.extract import Extraction, extract
from planner.workloads.workload import Pod


def run(**files: str) -> Extraction:
    """The extraction of files by path (``a__b`` stands for ``a/b.yaml``)."""
    documents = []
    for name, text in files.items():
        content = read_bytes(text.encode(), name.replace("__", "/") + ".yaml")
        assert not content.problems
        documents += content.documents
    return extract(documents)


def pod_of(found: Extraction, file: str) -> Pod:
    (pod,) = (w.pods[0] for w in found.workloads if w.document.file == file.replace("__", "/") + ".yaml")
    return pod


def engine(name: str = "llm", labels: str = "{app: llm}", namespace: str = "") -> str:
    space = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}{space}}}\nspec:\n  template:\n"
        f"    metadata: {{labels: {labels}}}\n    spec:\n      containers: [{{name: e, image: vllm/vllm-openai:v0.11.0}}]\n"
    )


def service(selector: str = "{app: llm}", name: str = "llm", namespace: str = "", more: str = "") -> str:
    space = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: v1\nkind: Service\nmetadata: {{name: {name}{space}}}\n"
        f"spec: {{selector: {selector}, ports: [{{port: 80}}]{more}}}\n"
    )


def names(found: Extraction, file: str) -> list[str]:
    return [item.name for item in found.objects.reach.services_of(pod_of(found, file))]


def test_a_service_of_another_file_selects_a_pod_by_all_its_labels() -> None:
    found = run(
        a__deployment=engine(labels="{app: llm, tier: gpu}"),
        a__service=service("{app: llm, tier: gpu}", "both"),
        a__other=service("{app: llm, tier: cpu}", "other"),
        a__none=service("{}", "none"),
    )
    assert names(found, "a__deployment") == ["both"]


def test_the_nearest_pods_are_meant() -> None:
    """Examples repeat their labels: a Service means the pods of its own file, else those of its folder."""
    found = run(
        a__one=engine() + "---\n" + service(name="own"),
        a__two=engine("two"),
        b__pod=engine("three"),
        b__service=service(name="folder"),
    )
    assert names(found, "a__one") == ["own"]
    assert names(found, "a__two") == []
    assert names(found, "b__pod") == ["folder"]


def test_namespaces_keep_apart_and_a_missing_one_fits_any() -> None:
    found = run(
        a=engine(namespace="x"),
        b=service(name="same", namespace="x"),
        c=service(name="other", namespace="y"),
        d=service(name="any"),
    )
    assert names(found, "a") == ["same", "any"]


def test_a_selector_that_a_template_fills_in_selects_nothing() -> None:
    assert names(run(a=engine(labels='{app: "$X"}'), b=service('{app: "$X"}')), "a") == []


def openings(found: Extraction) -> list[tuple[str, str]]:
    return [(o.kind, o.name) for item in found.objects.services for o in found.objects.reach.openings_of(item)]


def test_what_leads_to_a_service_from_outside() -> None:
    ingress = (
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: front}\nspec:\n"
        "  rules: [{http: {paths: [{path: /, backend: {service: {name: llm, port: {number: 80}}}}]}}]\n"
    )
    route = (
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: gate}\n"
        "spec: {rules: [{backendRefs: [{name: llm, port: 80}, {name: pool, kind: InferencePool}]}]}\n"
    )
    openshift = "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: shift}\nspec: {to: {kind: Service, name: llm}}\n"
    istio = (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: mesh}\n"
        "spec: {http: [{route: [{destination: {host: llm.ns.svc.cluster.local}}]}]}\n"
    )
    text = "---\n".join((service(), ingress, route, openshift, istio))
    assert openings(run(a=text)) == [
        ("Ingress", "front"),
        ("HTTPRoute", "gate"),
        ("Route", "shift"),
        ("VirtualService", "mesh"),
    ]
    assert openings(run(a=service(more=", type: NodePort"))) == [("NodePort Service", "llm")]
    assert openings(run(a=service(name="elsewhere") + "---\n" + ingress)) == []


def test_an_internal_load_balancer_and_a_route_that_asks_who_calls_are_no_openings() -> None:
    internal = service(more=", type: LoadBalancer").replace(
        "name: llm}", 'name: llm, annotations: {networking.gke.io/load-balancer-type: "Internal"}}', 1
    )
    assert openings(run(a=internal)) == []
    ingress = (
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\n"
        "metadata: {name: front, annotations: {nginx.ingress.kubernetes.io/auth-url: https://auth.example.com}}\n"
        "spec: {defaultBackend: {service: {name: llm, port: {number: 80}}}}\n"
    )
    assert openings(run(a=service() + "---\n" + ingress)) == []


def test_hostile_objects_are_walked_over() -> None:
    for spec in ("[]", "{rules: x}", "{rules: [1, {http: {paths: {}}}]}", "{selector: [1], ports: {}}"):
        for kind, api in (
            ("Ingress", "networking.k8s.io/v1"),
            ("Service", "v1"),
            ("HTTPRoute", "gateway.networking.k8s.io/v1"),
        ):
            found = run(a=engine() + f"---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n")
            assert names(found, "a") == []
            assert openings(found) == []


def test_many_services_and_pods_of_one_label_are_matched_in_no_time() -> None:
    """A thousand of each would be a million pairs, each with a list that rules walk over."""
    from time import process_time

    text = "---\n".join([*(engine(f"e{n}") for n in range(1000)), *(service(name=f"s{n}") for n in range(1000))])
    found = run(a=text)
    start = process_time()
    counts = {len(found.objects.reach.services_of(w.pods[0])) for w in found.workloads}
    assert counts == {50}
    assert process_time() - start < 2


class Counted(dict[str, str]):
    """Labels that count how often they are asked for."""

    asked = 0

    def get(self, key: str, default: object = None) -> Any:
        Counted.asked += 1
        return super().get(key, default)  # type: ignore[call-overload]


@pytest.mark.parametrize("place", ["one file, a namespace each", "a file each", "a folder each"])
def test_pods_of_one_label_are_looked_at_once_however_many_services_select_them(place: str) -> None:
    files: dict[str, str] = {}
    for index in range(300):
        space = f"n{index}" if "namespace" in place else ""
        name = "all" if "one file" in place else f"p{index}" if "a file" in place else f"p{index}__pod"
        files[name] = files.get(name, "") + "---\n" + engine(f"e{index}", namespace=space)
        name = name.replace("p", "s", 1) if name != "all" else name
        files[name] = files.get(name, "") + "---\n" + service(name=f"s{index}", namespace=space)
    found = run(**files)
    for workload in found.workloads:
        for pod in workload.pods:
            pod.__dict__["labels"] = Counted(pod.labels)
    Counted.asked = 0
    reach = found.objects.reach
    counts = {len(reach.services_of(pod)) for workload in found.workloads for pod in workload.pods}
    assert counts == ({1} if "namespace" in place else {50})
    assert Counted.asked <= 2 * 300
