"""Frozen dataclasses that cost nothing to define.

``dataclasses`` writes and compiles several methods for every class, and imports ``inspect`` to do so: together a fifth of
the time in which a manifest is linted. These classes share their methods instead. To a type checker they *are* the
standard library's, so that they are checked as such; at run time they offer what this project uses of them: keyword and
positional arguments, defaults, inheritance, equality by value, ``replace``, and a refusal to be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    class _Factory:
        __slots__ = ("make",)

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """A default that is made anew for every instance."""
        return _Factory(default_factory)

    def dataclass(cls=None, *, frozen=True, eq=True, repr=True):  # noqa: A002 - the standard library's name
        """The decorator; records are always frozen."""
        if cls is None:
            return lambda inner: dataclass(inner, frozen=frozen, eq=eq, repr=repr)
        names = {}
        for base in reversed(cls.__mro__[1:]):
            names.update(getattr(base, "_record_fields", {}))
        own = cls.__dict__
        names.update({name: own.get(name, _Factory) for name in cls.__annotations__})
        cls._record_fields = names
        cls._record_defaults = {
            name: value for name, value in names.items() if value is not _Factory and not isinstance(value, _Factory)
        }
        cls._record_factories = tuple((n, value.make) for n, value in names.items() if isinstance(value, _Factory))
        cls.__init__ = _init
        cls.__setattr__ = _refuse
        cls.__delattr__ = _refuse
        if repr:
            cls.__repr__ = _repr
        if eq:
            cls.__eq__ = _eq
            cls.__hash__ = _hash
        return cls

    def _init(self, *args, **kwargs):
        names = self._record_fields
        values = self._record_defaults.copy()
        if args:
            if len(args) > len(names):
                raise TypeError(f"{type(self).__name__} takes {len(names)} values, and {len(args)} were given")
            values.update(zip(names, args, strict=False))
        values.update(kwargs)
        for name, make in self._record_factories:
            if name not in values:
                values[name] = make()
        if len(values) != len(names) or not names.keys() >= kwargs.keys():
            wrong = sorted(names.keys() ^ values.keys())
            raise TypeError(f"{type(self).__name__}: missing or unknown: {', '.join(wrong)}")
        self.__dict__.update(values)

    def _refuse(self, name, *value):
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")

    def _repr(self):
        values = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._record_fields)
        return f"{type(self).__name__}({values})"

    def _eq(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def _hash(self):
        return hash(tuple(self.__dict__[name] for name in self._record_fields))

    def replace(record, /, **changes):
        """A copy with other values for some fields."""
        return type(record)(**{**record.__dict__, **changes})
