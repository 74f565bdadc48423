"""A preset (a runtime, a configuration) and the object that uses it, read apart and put together as the operator does.

They may stand in different files, so it is what was read that is merged: every fact keeps its own place.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.record import replace
from planner.workloads.workload import Container, Pod


def merged_container(base: Container, own: Container, *, arguments: str = "replaced") -> Container:
    """The preset's container with the user's over it. ``arguments``: whether the user's ``args`` are ``replaced`` for the
    preset's (a strategic merge) or ``appended`` to them (KServe's runtimes)."""
    args = own.args if own.args is not None else base.args
    if arguments == "appended" and base.args is not None and own.args is not None:
        args = (*base.args, *own.args)
    paths = {mount.path for mount in own.mounts}
    return replace(
        own,
        name=own.name or base.name,
        image=own.image or base.image,
        command=own.command if own.command is not None else base.command,
        args=args,
        env={**base.env, **own.env},
        limits={**base.limits, **own.limits},
        requests={**base.requests, **own.requests},
        claims=tuple(dict.fromkeys((*base.claims, *own.claims))),
        mounts=(*own.mounts, *(mount for mount in base.mounts if mount.path not in paths)),
        probes={**base.probes, **own.probes},
        ports=own.ports or base.ports,
        working_dir=own.working_dir or base.working_dir,
        env_unknown=tuple(dict.fromkeys((*base.env_unknown, *own.env_unknown))),
        unknown_resources=tuple(dict.fromkeys((*base.unknown_resources, *own.unknown_resources))),
        engine=own.engine or base.engine,
        engine_version=own.engine_version or base.engine_version,
        platform=own.platform or base.platform,
        model=own.model or base.model,
        model_paths=tuple(dict.fromkeys((*own.model_paths, *base.model_paths))),
    )


def merged_pod(base: Pod, own: Pod, *, names: Sequence[str] = (), arguments: str = "replaced") -> Pod:
    """The preset's pod with the user's over it: containers of one name become one. ``names`` are the names, best first,
    of the preset's container that the user's first one is laid over where no name is equal."""
    presets = {container.name: container for container in base.containers}
    containers: list[Container] = []
    for number, container in enumerate(own.containers):
        preset = presets.get(container.name)
        if preset is None and number == 0:
            preset = next((presets[name] for name in names if name in presets), None)
        if preset is None:
            containers.append(container)
        else:
            presets.pop(preset.name, None)
            containers.append(merged_container(preset, container, arguments=arguments))
    others = [container for container in base.containers if container.name in presets]
    ordered = sorted((*containers, *others), key=lambda container: container.init)
    return replace(
        own,
        containers=tuple(ordered),
        labels={**base.labels, **own.labels},
        annotations={**base.annotations, **own.annotations},
        node_selector={**base.node_selector, **own.node_selector},
        affinity=own.affinity or base.affinity,
        host_ipc=own.host_ipc or base.host_ipc,
        runtime_class=own.runtime_class or base.runtime_class,
        tolerations=tuple(dict.fromkeys((*base.tolerations, *own.tolerations))),
        resource_claims=(*base.resource_claims, *own.resource_claims),
        claim_requests=(*base.claim_requests, *own.claim_requests),
        accelerator=own.accelerator or base.accelerator,
    )
