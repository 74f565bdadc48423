"""Ray on Kubernetes: RayService, RayCluster and RayJob (ray.io), RayClusterFleet (orchestration.aibrix.ai).

A RayService describes its engines in ``serveConfigV2``, a YAML document inside of a string: ``llm_configs`` of Ray Serve
LLM, or variables of somebody's own application. The pods of its worker groups give them GPUs; which ranks land in which
pod is Ray's to decide, so an engine gets as many pods as its ranks need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from planner.documents.derived import embedded
from planner.documents.document import Document
from planner.documents.node import Node
from planner.provenance import Fact, from_file
from planner.record import NamedTuple, replace
from planner.workloads import fields as f
from planner.workloads.arguments import hidden, option, options, words
from planner.workloads.fields import Reading
from planner.workloads.pod_template import has_containers, read_pod
from planner.workloads.typed import (
    changed,
    count_of,
    object_annotations,
    stated_model,
    typed_workload,
    with_shared_memory,
)
from planner.workloads.workload import Arg, EnvVar, Pod, Workload

_MOST_ENGINES = 50
_NODES_SEARCHED = 2_000
#: Variables that applications of people's own read, as patterns of their names → vLLM's flag (empty: the model).
_VARIABLES = (
    (r"(?:VLLM_|HF_)?MODEL(?:_ID|_NAME|_PATH)?", ""),
    (r"(?:VLLM_)?(?:TENSOR_PARALLEL(?:ISM|_SIZE)|TP_SIZE|TP)", "tensor-parallel-size"),
    (r"(?:VLLM_)?(?:PIPELINE_PARALLEL(?:ISM|_SIZE)|PP_SIZE|PP)", "pipeline-parallel-size"),
    (r"(?:VLLM_)?MAX_MODEL_LEN(?:GTH)?", "max-model-len"),
    (r"(?:VLLM_)?MAX_NUM_SEQS", "max-num-seqs"),
    (r"(?:VLLM_)?GPU_MEMORY_UTILIZATION", "gpu-memory-utilization"),
    (r"(?:VLLM_)?DTYPE", "dtype"),
    (r"(?:VLLM_)?QUANTIZATION", "quantization"),
)


class _Group(NamedTuple):
    """Pods of one kind in a Ray cluster: ``pods`` in all (None: a placeholder or an autoscaler)."""

    pod: Pod
    pods: int | None
    head: bool


class _Engine(NamedTuple):
    """One engine of a serve configuration; ``ranks`` is None where its sizes are not known."""

    name: str
    arguments: list[Arg]
    model: Fact[str] | None
    ranks: int | None
    environment: Mapping[str, Node]
    accelerator: Fact[str] | None
    replicas: int | None
    version: Fact[str] | None
    at: Node


def read(document: Document, kind: str, reading: Reading) -> list[Workload]:
    """The engines of the serve configuration, else the pods of the cluster as one group."""
    spec = document.root.get("spec")
    if spec is None or spec.kind != "mapping":
        return []
    cluster = {
        "RayService": spec.get("rayClusterConfig"),
        "RayJob": spec.get("rayClusterSpec"),
        "RayCluster": spec,
    }.get(kind, spec.get("template", "spec"))
    groups = list(_groups(cluster, document, reading)) if cluster is not None else []
    if kind == "RayService":
        engines = list(_engines(spec, groups, reading))
        if engines:
            return _served(engines, groups, document, kind, reading)
    if kind == "RayJob":
        groups = _with_entrypoint(spec, groups)
    if not groups:
        return []
    devices = [group for group in groups if _has_devices(group.pod)]
    size: int | None = 0
    for group in devices:
        size = None if size is None or group.pods is None else size + group.pods
    return [
        typed_workload(
            document,
            kind,
            [group.pod for group in groups],
            reading,
            replicas=count_of(spec, "replicas") if kind.startswith("RayClusterF") else 1,
            group_size=size or 1,
            group_size_known=size is not None,
            connected=True,
        )
    ]


def _groups(cluster: Node, document: Document, reading: Reading) -> Iterator[_Group]:
    annotations = object_annotations(document, reading)
    head = cluster.get("headGroupSpec")
    specs = [(head, True)] if head is not None else []
    specs += [(group, False) for group in f.sequence(f.entries(cluster), "workerGroupSpecs", reading)]
    for group, first in specs:
        template = group.get("template") if group.kind == "mapping" else None
        if template is None or not has_containers(template):
            continue
        hosts = count_of(group, "numOfHosts")
        replicas = 1 if first else count_of(group, "replicas", default=count_of(group, "minReplicas", default=0))
        pods = None if hosts is None or replicas is None else hosts * replicas
        pod = read_pod(
            template,
            document.namespace,
            document.file,
            reading,
            role="leader" if first else "worker",
            count=pods or 1,
            annotations=annotations,
        )
        for index, container in enumerate(pod.containers):
            sources = (*container.env_unknown, "KubeRay")  # KUBERAY_GEN_RAY_START_CMD, RAY_ADDRESS, FQ_RAY_IP …
            pod = changed(pod, index, env_unknown=sources)
        if pod.containers:  # KubeRay gives the first container a memory-backed /dev/shm for the object store
            pod = changed(pod, mounts=with_shared_memory(pod.containers[0], group).mounts)
            if _starts_ray_alone(pod):
                pod = changed(pod, command=tuple(words(template, "ray", "start", *(["--head"] if first else []))))
            yield _Group(pod, pods, first)


def _starts_ray_alone(pod: Pod) -> bool:
    """Whether the pod's first container runs nothing but ``ray start``: KubeRay puts that in place of an image's entrypoint
    where there is no command (``BuildPod``), so that an engine's own image serves nothing by itself.

    Ray's image for LLMs beside GPUs is left to be told apart: an engine that Ray places there is very likely."""
    kept = pod.annotations.get("ray.io/overwrite-container-cmd")
    if not pod.containers or (kept is not None and kept.value.strip().lower() == "true"):
        return False
    container = pod.containers[0]
    if container.command is not None or container.args is not None:
        return False
    image = container.image.value if container.image is not None else ""
    return not (_has_devices(pod) and re.search(r"(?:^|/)ray-llm(?=[:@]|$)", image))


def _has_devices(pod: Pod) -> bool:
    """Whether a container of the pod asks for extended resources or claims devices."""
    return any(
        container.claims
        or any("/" in name and fact.value for name, fact in (*container.limits.items(), *container.requests.items()))
        for container in pod.containers
    )


# -- serve configurations ----------------------------------------------------------------------------------------------


def _engines(spec: Node, groups: list[_Group], reading: Reading) -> Iterator[_Engine]:
    config = spec.get("serveConfigV2") or spec.get("serveConfig")
    if config is None:
        return
    if config.kind == "scalar":
        if not reading.spend_characters(len(config.text)):
            return
        root, problems = embedded(config)
        if problems and not f.is_placeholder(config.text):
            reading.problem(problems[0].position, f"serveConfigV2: {problems[0].message}")
    else:
        root = config
    if root is None or root.kind != "mapping":
        return
    applications = root.get("applications")
    serves = "vllm" in config.text.lower() or _mentions_vllm(groups)
    count = 0
    for application in applications if applications is not None and applications.kind == "sequence" else ():
        found = list(_configured(application))
        if not found and serves:
            found = list(_by_variables(application, groups))
        for engine in found:
            count += 1
            if count > _MOST_ENGINES:
                return
            yield engine


def _configured(application: Node) -> Iterator[_Engine]:
    """The ``LLMConfig`` objects of an application of Ray Serve LLM, wherever its arguments hold them."""
    arguments = application.get("args")
    waiting = [arguments] if arguments is not None else []
    for node in waiting:
        if len(waiting) > _NODES_SEARCHED:
            return
        if node.kind == "mapping" and (node.get("model_loading_config") or node.get("engine_kwargs")):
            yield _llm_config(node, application)
            continue
        inner = node if node.kind == "sequence" else (value for _, value in node.items())
        waiting.extend(item for item in inner if item.kind in ("mapping", "sequence"))


def _llm_config(node: Node, application: Node) -> _Engine:
    loading = node.get("model_loading_config")
    source = loading.get("model_source") if loading is not None else None
    if source is not None and source.kind == "mapping":
        source = source.get("bucket_uri")
    if source is None and loading is not None:
        source = loading.get("model_id")
    kwargs = f.entries(node.get("engine_kwargs"))
    if source is None:
        source = kwargs.get("model")
    arguments = words(source, source.text) if source is not None and source.text else []
    arguments += options(kwargs.items(), ("model",))
    arguments += words(node, "--distributed-executor-backend", "ray")
    accelerator = node.get("accelerator_type")
    deployment = node.get("deployment_config")
    replicas = count_of(deployment, "num_replicas", default=None) if deployment is not None else 1
    if deployment is not None and replicas is None and deployment.get("autoscaling_config") is None:
        replicas = 1
    return _Engine(
        name=(loading.string("model_id") if loading is not None else None) or application.string("name") or "",
        arguments=arguments,
        model=stated_model(source),
        ranks=_ranks(kwargs.get("tensor_parallel_size"), kwargs.get("pipeline_parallel_size")),
        environment=_environment(application, node),
        accelerator=stated_model(accelerator),
        replicas=replicas,
        version=None,
        at=node.get("engine_kwargs") or loading or node,
    )


def _by_variables(application: Node, groups: list[_Group]) -> Iterator[_Engine]:
    """Engines of an application of somebody's own, as far as the usual names of variables tell. Several models have
    numbers in theirs (``MODEL_2_ID``)."""
    environment = _environment(application)
    values: dict[str, Node] = {}
    for group in groups:
        for container in group.pod.containers:
            values.update({name: item.node for name, item in container.env.items() if item.value is not None})
    values.update(environment)
    models: dict[str, dict[str, Node]] = {}
    for name, node in values.items():
        if node.kind != "scalar" or not node.text:
            continue
        number = re.search(r"(?<=MODEL)_(\d{1,2})(?=_|$)", name)
        plain = name.replace(number.group(), "", 1).removeprefix("MODEL_") if number else name
        if number and plain in ("ID", "NAME", "PATH"):
            plain = "MODEL"
        for pattern, flag in _VARIABLES:
            if re.fullmatch(pattern, plain):
                models.setdefault(number.group(1) if number else "", {}).setdefault(flag, node)
    version = _pip_version(application)
    for label, flags in models.items():
        model = flags.get("")
        if model is None:
            continue
        arguments = _filled_in(words(model, model.text))
        for flag, value in flags.items():
            if flag:
                arguments += _filled_in(option(flag, value))
        path = application.string("import_path") or "the application"
        arguments.append(hidden(application, f"the code of {path[:80]} decides what becomes of it"))
        yield _Engine(
            name=f"{application.string('name') or ''}{'-' if label else ''}{label}",
            arguments=arguments,
            model=None if "$" in model.text else stated_model(model),
            ranks=_ranks(flags.get("tensor-parallel-size"), flags.get("pipeline-parallel-size")),
            environment=environment,
            accelerator=None,
            replicas=None,
            version=version,
            at=model,
        )


def _filled_in(arguments: list[Arg]) -> list[Arg]:
    """The arguments, those with a placeholder unknown: what is not filled in by a template, Ray expands itself."""
    return [
        argument._replace(unknown=f"{argument.text[:60]} is filled in elsewhere") if "$" in argument.text else argument
        for argument in arguments
    ]


def _environment(*nodes: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        variables = node.get("runtime_env", "env_vars")
        found.update(dict(variables.items()) if variables is not None and variables.kind == "mapping" else {})
    return found


def _pip_version(application: Node) -> Fact[str] | None:
    """The release of vLLM that the application installs."""
    packages = application.get("runtime_env", "pip")
    if packages is not None and packages.kind == "mapping":
        packages = packages.get("packages")
    for item in packages if packages is not None and packages.kind == "sequence" else ():
        match = re.fullmatch(r"vllm==(\d[\w.+-]{0,40})", item.text.strip())
        if match:
            return from_file(match.group(1), item.position)
    return None


def _mentions_vllm(groups: list[_Group]) -> bool:
    return any(
        "vllm" in (container.image.value if container.image else "").lower()
        or any(name.startswith("VLLM_") for name in container.env)
        for group in groups
        for container in group.pod.containers
    )


def _ranks(tensor: Node | None, pipeline: Node | None) -> int | None:
    sizes = [count_of(size) if size is not None else 1 for size in (tensor, pipeline)]
    if None in sizes:
        return None
    return max(1, (sizes[0] or 1) * (sizes[1] or 1))


def _served(
    engines: list[_Engine], groups: list[_Group], document: Document, kind: str, reading: Reading
) -> list[Workload]:
    """One workload for each engine, in pods of the worker group that has GPUs (the head where no other has)."""
    host = next(
        (group for group in (*groups[1:], *groups[:1]) if _has_devices(group.pod)),
        groups[-1] if groups else None,
    )
    if host is None:
        return []
    index = next(
        (
            number
            for number, container in enumerate(host.pod.containers)
            if any("/" in name for name in (*container.limits, *container.requests)) or container.claims
        ),
        0,
    )
    container = host.pod.containers[index]
    available = max(
        (int(fact.value) for name, fact in container.limits.items() if "/" in name and fact.value < 10_000), default=0
    )
    found = []
    for engine in engines:
        pods, copies = 1, 1
        if engine.ranks is not None and available:
            pods = -(-engine.ranks // available)
            copies = max(1, available // engine.ranks)
        environment = dict(container.env)
        for name, node in engine.environment.items():
            environment[name] = EnvVar(name, node.text, node)
        pod = changed(
            host.pod,
            index,
            command=tuple(words(engine.at, "vllm", "serve")),
            args=tuple(engine.arguments),
            env=environment,
            model=engine.model,
            engine_version=engine.version,
            copies=copies,
        )
        if engine.accelerator is not None:
            pod = replace(pod, accelerator=engine.accelerator)
        # The containers beside it, and the pods of other groups, run Ray itself.
        pod = replace(pod, role="pod", count=1, containers=(pod.containers[index],))
        found.append(
            typed_workload(
                document,
                kind,
                [pod],
                reading,
                replicas=engine.replicas,
                group_size=pods,
                group_size_known=engine.ranks is not None,
                part=engine.name,
                connected=True,
            )
        )
    return found


def _with_entrypoint(spec: Node, groups: list[_Group]) -> list[_Group]:
    """The groups of a RayJob, the entrypoint running where the GPUs are (Ray places its engine there)."""
    entrypoint = spec.get("entrypoint")
    if entrypoint is None or entrypoint.kind != "scalar" or not entrypoint.text.strip():
        return groups
    for number, group in enumerate(groups):
        if _has_devices(group.pod) and group.pod.containers:
            shell = words(entrypoint, "sh", "-c")
            script = Arg(entrypoint.text, entrypoint)
            pod = changed(group.pod, command=(*shell, script), args=None)
            return [*groups[:number], group._replace(pod=pod), *groups[number + 1 :]]
    return groups
