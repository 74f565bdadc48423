"""The variables of a container as its command line sees them, and the kubelet's ``$(NAME)``."""

from __future__ import annotations

import re

from planner.documents.node import Node
from planner.engines.pieces import KNOWN, UNKNOWN, Field, Piece
from planner.workloads.workload import Container, EnvVar

_REFERENCE = r"(?a)\$\(([^()$]{1,200})\)|\$\{([^{}]{1,200})\}|\$([A-Za-z_]\w*)"
_NAME = r"(?a)[A-Za-z_]\w*"
_UPPER_NAME = r"(?a)[A-Z_][A-Z0-9_]*"

# Variables that the kubelet, a controller or the container runtime sets without a line in the manifest.
_FROM_SERVICE = r"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP)(?:_\w+)?)|KUBERNETES_\w+"
_FROM_CONTROLLER = ("LWS_", "JOB_COMPLETION_INDEX", "TPU_WORKER_", "MEGASCALE_")
_FROM_RUNTIME_NAMES = (
    "HOME PATH HOSTNAME PWD OLDPWD USER LOGNAME SHELL TERM LANG LC_ALL TMPDIR UID EUID PPID RANDOM SECONDS "
    "LINENO OSTYPE MACHTYPE HOSTTYPE BASH BASH_VERSION BASHPID FUNCNAME IFS OPTARG OPTIND REPLY PS1 "
    "EPOCHSECONDS SHLVL GROUPS _ LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH CUDA_VISIBLE_DEVICES "
    "NVIDIA_VISIBLE_DEVICES CUDA_HOME CUDA_VERSION VIRTUAL_ENV CONDA_PREFIX DEBIAN_FRONTEND"
)
_FROM_RUNTIME = frozenset(_FROM_RUNTIME_NAMES.split())


class Variables:
    """The container's environment as command lines see it."""

    def __init__(self, container: Container, *, image_known: bool = False) -> None:
        self._env = container.env
        self._unknown_sources = container.env_unknown
        self._image_known = image_known
        self._patch = container.image is None
        image = container.image.value if container.image else ""
        self._template = "${" in image or "{{" in image

    def __contains__(self, name: str) -> bool:
        return name in self._env

    def get(self, name: str) -> EnvVar | None:
        """The variable of the container, None where the manifest defines none."""
        return self._env.get(name)

    def missing_for_kubelet(self, name: str) -> str:
        """Why ``$(name)`` may be defined all the same; empty where nothing defines it for sure."""
        if self._unknown_sources:
            sources = ", ".join(self._unknown_sources[:3])
            return f"{sources} is not among the files that were read and may define {name[:80]}"
        if re.fullmatch(_FROM_SERVICE, name):
            return f"Kubernetes sets {name[:80]} where there is a Service of that name"
        if self._patch:
            return f"the container names no image, so it is laid over another one, which may define {name[:80]}"
        if name.startswith(_FROM_CONTROLLER):
            return f"{name[:80]} is set by the controller of the pod"
        return ""

    def missing_for_shell(self, name: str) -> str:
        """Why ``$name`` may have a value in the container all the same; empty where it expands to nothing."""
        reason = self.missing_for_kubelet(name)
        if reason:
            return reason
        if name in _FROM_RUNTIME:
            return f"{name} is set in the running container"
        if not self._image_known:
            return f"nothing here sets {name[:80]}; the image may"
        return ""

    def left_over(self, field: Field, shell: bool) -> tuple[tuple[str, str], ...]:
        """References in a word that reach the program as they are written: (variable, reason)."""
        found: list[tuple[str, str]] = []
        for piece in field:
            if piece.state != KNOWN or "$" not in piece.text:
                continue
            for match in re.finditer(_REFERENCE, piece.text):
                note = self._in_shell(match, piece) if shell else self._without_shell(match, piece)
                if note is not None:
                    found.append(note)
                if len(found) >= 50:
                    return tuple(found)
        return tuple(found)

    def _without_shell(self, match: re.Match[str], piece: Piece) -> tuple[str, str] | None:
        parenthesized, braced, bare = match.groups()
        if parenthesized is not None:
            if re.fullmatch(_NAME, parenthesized):
                return (
                    parenthesized,
                    f"nothing defines {parenthesized} for this container, so $({parenthesized}) stays as it is written",
                )
            if " " in parenthesized or "." not in parenthesized:
                return parenthesized, f"no shell runs $({parenthesized[:60]}) here"
            return None
        name = braced if braced is not None else bare
        plain = re.match(_NAME, name)
        if plain is None or (braced is not None and braced[plain.end() : plain.end() + 1] in (".", "[", " ")):
            return None  # a placeholder of a template, which the word itself tells
        name = plain.group()
        if name not in self._env and (not re.fullmatch(_UPPER_NAME, name) or (self._template and braced is not None)):
            return None
        return name, f"no shell expands {match.group()[:80]} here; the kubelet expands only $({name})"

    def _in_shell(self, match: re.Match[str], piece: Piece) -> tuple[str, str] | None:
        name = next(group for group in match.groups() if group is not None)
        if name not in self._env:
            if match.group(1) is not None and re.fullmatch(_UPPER_NAME, name) and not self.missing_for_kubelet(name):
                return name, f"nothing defines {name} for this container, so $({name}) stays as it is written"
            return None
        if piece.source.startswith("env:"):
            return name, f"the value of {piece.source[4:]} is not expanded again, so {match.group()} stays as it is"
        return name, f"the quotes keep the shell from expanding {match.group()}"


def expand_references(text: str, node: Node, source: str, variables: Variables) -> Field:
    """``text`` with each ``$(NAME)`` replaced by the container's variable, as the kubelet does it.

    ``$$`` is a dollar sign; a name that nothing defines stays as it is written.
    Source: kubernetes/third_party/forked/golang/expansion/expand.go.
    """
    if "$" not in text:
        return [Piece(text, KNOWN, node, 0, source)]
    pieces: Field = []
    last_close = text.rfind(")")
    begin = at = 0
    while True:
        dollar = text.find("$", at)
        if dollar < 0 or dollar + 1 >= len(text):
            break
        following = text[dollar + 1]
        at = dollar + 2
        if following == "$":
            # The escaped dollar is a piece of its own, so that ``$$(NAME)`` does not look like a reference later.
            pieces.append(Piece(text[begin:dollar], KNOWN, node, begin, source))
            pieces.append(Piece("$", KNOWN, node, dollar, source))
            begin = at
        elif following == "(" and dollar < last_close:
            end = text.index(")", dollar)
            at = end + 1
            name = text[dollar + 2 : end]
            replacement = _reference(name, text[dollar:at], node, dollar, source, variables)
            if replacement is not None:
                pieces.append(Piece(text[begin:dollar], KNOWN, node, begin, source))
                pieces.append(replacement)
                begin = at
    pieces.append(Piece(text[begin:], KNOWN, node, begin, source))
    return [piece for piece in pieces if piece.text] or [Piece("", KNOWN, node, 0, source)]


def _reference(name: str, spelling: str, node: Node, offset: int, source: str, variables: Variables) -> Piece | None:
    variable = variables.get(name)
    if variable is not None:
        if variable.value is None:
            return Piece(spelling, UNKNOWN, node, offset, source, f"{name[:80]} is {variable.reason}")
        return Piece(variable.value, KNOWN, variable.node, 0, f"env:{name}")
    if not re.fullmatch(_NAME, name):
        return None
    reason = variables.missing_for_kubelet(name)
    return Piece(spelling, UNKNOWN, node, offset, source, reason) if reason else None
