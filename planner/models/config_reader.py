"""Reads a config.json that a stranger wrote: every value is checked for type and range before anything computes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.models.architecture import UnknownModel

#: More layers, heads or experts than any model has; the bounds keep the work on a hostile file small.
MAX_LAYERS = 1000
MAX_SIZE = 2**31
_FIX = "correct config.json, or name another model with the annotation planner/model"


class ConfigReader:
    """Typed access to one object of a config file. A key that is absent and a key that is null mean the same."""

    __slots__ = ("data", "where")

    def __init__(self, data: Any, where: str = "config.json") -> None:
        """Wrap ``data``; raises UnknownModel where it is no JSON object."""
        if not isinstance(data, Mapping):
            raise UnknownModel(f"{where} is not a JSON object", _FIX)
        self.data: Mapping[str, Any] = data
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None

    def raw(self, *names: str) -> Any:
        """The first of these keys that has a value, unchecked; None where none has."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return value
        return None

    def problem(self, name: str, value: Any, wanted: str) -> UnknownModel:
        """The error for a value that is not what it should be."""
        return UnknownModel(f"{self.where}: {name} is {_short(value)}, not {wanted}", _FIX)

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """The first of these keys as an integer in [low, high]; raises UnknownModel if absent without a default."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer() and abs(value) < MAX_SIZE:
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise self.problem(name, value, f"an integer from {low} to {high}")
            return value
        if default is None:
            raise UnknownModel(f"{self.where} has no {names[0]}", _FIX)
        return default

    def count(self, *names: str, default: int | None = None) -> int:
        """As ``integer``, but zero is allowed: a number of things that may be absent."""
        return self.integer(*names, default=default, low=0)

    def number(self, *names: str, default: float) -> float:
        """The first of these keys as a finite number."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e18:
                raise self.problem(name, value, "a number")
            return float(value)
        return default

    def flag(self, *names: str, default: bool = False) -> bool:
        """The first of these keys as a truth value."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, (bool, int)):
                raise self.problem(name, value, "true or false")
            return bool(value)
        return default

    def text(self, *names: str, default: str = "") -> str:
        """The first of these keys as a string of at most 200 characters."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not isinstance(value, str) or len(value) > 200:
                raise self.problem(name, value, "a short text")
            return value
        return default

    def section(self, *names: str) -> ConfigReader | None:
        """The first of these keys as an object, None where none is there."""
        for name in names:
            value = self.data.get(name)
            if value is not None:
                return ConfigReader(value, f"{self.where}: {name}")
        return None

    def require(self, *names: str) -> ConfigReader:
        """As ``section``; raises UnknownModel where none is there."""
        found = self.section(*names)
        if found is None:
            raise UnknownModel(f"{self.where} has no {names[0]}", _FIX)
        return found

    def integers(self, *names: str, low: int = 0, limit: int = 4 * MAX_LAYERS) -> tuple[int, ...]:
        """The first of these keys as a list of integers, empty where none is there."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not _is_list(value) or len(value) > limit:
                raise self.problem(name, value, f"a list of at most {limit} integers")
            for item in value:
                if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= MAX_SIZE:
                    raise self.problem(name, item, f"an integer from {low}")
            return tuple(value)
        return ()

    def strings(self, *names: str, limit: int = 100_000) -> tuple[str, ...]:
        """The first of these keys as a list of strings, empty where none is there."""
        for name in names:
            value = self.data.get(name)
            if value is None:
                continue
            if not _is_list(value) or len(value) > limit or not all(isinstance(v, str) and len(v) < 500 for v in value):
                raise self.problem(name, value, "a list of texts")
            return tuple(value)
        return ()

    def layers(self, *names: str, default: int | None = None) -> int:
        """A number of layers, at most 1000."""
        return self.integer(*(names or ("num_hidden_layers",)), default=default, high=MAX_LAYERS)

    def text_pattern(self, name: str, layers: int) -> str:
        """A text with one letter per layer. Raises UnknownModel where it is too short."""
        value = self.data.get(name)
        if not isinstance(value, str) or len(value) < layers:
            raise self.problem(name, value, f"a text of {layers} letters, one per layer")
        return value[:layers]

    def layer_types(self, layers: int, *names: str) -> tuple[str, ...]:
        """A list that names a kind for each layer; empty where there is none. Raises UnknownModel where it is too short."""
        kinds = self.strings(*(names or ("layer_types",)))
        if kinds and len(kinds) < layers:
            raise UnknownModel(
                f"{self.where}: {(names or ('layer_types',))[0]} names {len(kinds)} of {layers} layers", _FIX
            )
        return kinds[:layers]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _short(value: Any) -> str:
    if isinstance(value, (int, float, bool, str)) or value is None:
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
        return text if len(text) <= 60 else text[:57] + "…"
    return f"a {type(value).__name__}"
