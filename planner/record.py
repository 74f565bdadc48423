"""Frozen dataclasses and named tuples that cost nothing to define.

``dataclasses`` and ``typing.NamedTuple`` write and compile methods for every class, and the former imports ``inspect`` to do
so: together a fifth of the time in which a manifest is linted. These classes share their methods instead. To a type
checker they *are* the standard library's, so that they are checked as such; at run time they offer what this project uses
of them: keyword and positional arguments, defaults, equality by value, ``replace`` or ``_replace``, and, for dataclasses,
inheritance and a refusal to be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    class _Factory:
        __slots__ = ("make",)

        def __init__(self, make):
            self.make = make

    def field(*, default_factory):
        """A default that is made anew for every instance."""
        return _Factory(default_factory)

    def dataclass(cls=None, *, frozen=True, eq=True, repr=True):
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

    class _NamedTupleMeta(type):
        """Turns a class body with annotated fields into a tuple with names, as ``typing.NamedTuple`` does."""

        def __new__(mcs, name, bases, namespace):
            if bases == ():
                return type.__new__(mcs, name, bases, namespace)
            names = tuple(namespace.get("__annotations__", None) or _annotations(namespace))
            defaults = {field: namespace.pop(field) for field in names if field in namespace}
            body = {field: _tuplegetter(place, field) for place, field in enumerate(names)}
            methods = {
                "__new__": _tuple_new, "__repr__": _tuple_repr, "_replace": _tuple_replace, "_asdict": _tuple_asdict,
                "_make": _tuple_make, "__getnewargs__": _tuple_values, "__slots__": (), "_fields": names,
                "_field_defaults": defaults, "__match_args__": names, "_required": len(names) - len(defaults),
                "_tail": tuple(defaults.get(field) for field in names),
            }  # fmt: skip
            return type(name, (tuple,), {**methods, **body, **namespace})

    def _annotations(namespace):
        """Annotations of a class body where Python makes them on demand (3.14 and newer)."""
        make = namespace.get("__annotate_func__") or namespace.get("__annotate__")
        return make(4) if make else {}

    def _tuple_new(cls, *args, **kwargs):
        names = cls._fields
        if not kwargs:
            count = len(args)
            if count == len(names):
                return tuple.__new__(cls, args)
            if cls._required <= count < len(names):
                return tuple.__new__(cls, args + cls._tail[count:])
        if len(args) != len(names):
            given = dict(zip(names, args, strict=False))
            if kwargs.keys() & given.keys() or len(args) > len(names):
                raise TypeError(f"{cls.__name__}: values given twice")
            values = {**cls._field_defaults, **given, **kwargs}
            try:
                args = [values[name] for name in names]
            except KeyError as error:
                raise TypeError(f"{cls.__name__}: missing {error}") from None
            if len(values) != len(names):
                raise TypeError(f"{cls.__name__}: unknown {', '.join(values.keys() - set(names))}")
        elif kwargs:
            raise TypeError(f"{cls.__name__}: values given twice or unknown: {', '.join(kwargs)}")
        return tuple.__new__(cls, args)

    def _tuple_repr(self):
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({values})"

    def _tuple_replace(self, /, **changes):
        made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has no fields {', '.join(changes)}")
        return made

    def _tuple_values(self):
        return tuple(self)

    def _tuple_asdict(self):
        return dict(zip(self._fields, self, strict=True))

    @classmethod
    def _tuple_make(cls, values):
        return cls(*values)

    class NamedTuple(metaclass=_NamedTupleMeta):
        """What ``typing.NamedTuple`` is, without a method of its own for every class."""
