"""Engine versions as tuples that compare as the releases follow each other."""

from __future__ import annotations

import re

#: The newest vLLM release whose facts are built in; what an unpinned image is assumed to hold.
NEWEST_VLLM = "0.33.0"

#: Above every fourth component a release has, so that 0.11.1rc1 sorts after 0.11.0.post1 and before 0.11.1.
_BEFORE_NEXT = 10**6
_STAGES = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "c": 3}
_VERSION = (
    r"[vV]?(\d{1,6}(?:\.\d{1,6}){0,4})"
    r"(?:[._-]?(dev|alpha|beta|a|b|rc|c)[._-]?(\d{0,9}))?"
    r"(?:[._-]?(post|rev|r)[._-]?(\d{0,6}))?"
    r"(?:\.dev(\d{1,9}))?"
    r"(?:[+_-][A-Za-z0-9+._-]{0,100})?"
)


def parse_version(text: str) -> tuple[int, ...]:
    """A version as a tuple: ``0.11.0`` → (0, 11, 0), ``0.10.1.1`` → (0, 10, 1, 1), ``0.6.3.post1`` → (0, 6, 3, 1).

    At least three components, so that comparing with (0, 11, 0) means "from 0.11.0 on". Pre-releases and development
    builds sort before the release they lead to and after the one before it; a local part (``+cu129``, ``-cu129``) does
    not count. Raises ValueError where the text is no version (``latest``, ``nightly``).
    Source: PEP 440 for the order; the tags of vllm/vllm-openai for the spellings.
    """
    match = re.fullmatch(_VERSION, text.strip())
    if not match:
        raise ValueError(f"{text[:60]!r} is not a version such as 0.11.0")
    release = [int(part) for part in match.group(1).split(".")]
    release += [0] * (3 - len(release))
    stage, stage_number = match.group(2), match.group(3)
    if stage is None and match.group(6) is not None:
        stage, stage_number = "dev", match.group(6)
    if match.group(4):
        return (*release, int(match.group(5) or 0))
    if stage is None:
        return tuple(release)
    order = (_STAGES[stage], int(stage_number or 0))
    if release[-1] == 0:
        return (*release[:-1], -1, *order)
    return (*release[:-1], release[-1] - 1, _BEFORE_NEXT, *order)


def is_version(text: str) -> bool:
    """Whether ``parse_version`` understands the text."""
    return re.fullmatch(_VERSION, text.strip()) is not None


def is_placeholder(text: str) -> bool:
    """Whether a version is no release but what a build from source says of itself where the tags are missing (``0.0.0``,
    ``0.1.dev20051+g487ecf187``). vLLM's own releases before 0.2 have no images."""
    try:
        return parse_version(text) < (0, 2)
    except ValueError:
        return False


def version_key(text: str, newest: str = NEWEST_VLLM) -> tuple[int, ...]:
    """``parse_version``, with ``newest`` where the text is no version."""
    try:
        return parse_version(text)
    except ValueError:
        return parse_version(newest)
