"""The configuration of a backend: a pydantic model for each, checked key by key.

A model's field names and aliases are the keys of the catalog's specification. A key may have the name of the
implementation as a prefix, with or without its number: in ``hive2``, ``root`` may be ``hive2.root`` or ``hive.root``.
A field that is a mapping collects the keys that begin with its name, such as ``storage.*`` for pylance in every
backend. :class:`KeysOf` sets another prefix, which may also be the name of a plain key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import digits
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, get_origin

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from reconciler.model import locations
from reconciler.model.display import did_you_mean
from reconciler.model.errors import InvalidInputError


def _checked_location(text: str) -> str:
    """Return ``text`` if it can be used as a location; raise a ValueError, as pydantic expects, if not."""
    problem = locations.problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


Root: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_checked_location)]
"""The type of a key with the directory or URI below which tables are; it cannot hold a credential."""


@dataclass(frozen=True, slots=True)
class KeysOf:
    """The prefix of the keys that a field collects, in the annotation of a mapping; by default its own name."""

    name: str


class BackendConfig(BaseModel):
    """The keys that every backend takes. Subclasses add their own and identify the service."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    credentials: ClassVar[frozenset[str]] = frozenset()
    """The keys of credentials that do not look like secrets; a plan and its apply may use different credentials."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """What to write instead of a key of another implementation; ``name.*`` stands for all keys with that prefix."""

    storage: dict[str, str] = Field(default_factory=dict, repr=False)
    """Options handed to pylance for opening and writing datasets; never shown."""

    def identity(self) -> str:
        """Return a text, without secrets, that is equal for two configurations of the same service and root."""
        raise NotImplementedError

    def is_identity_literal(self) -> bool:
        """Return whether the identity depends on these values alone, not on the environment or on links."""
        return False


# The expected value, by pydantic's type of error.
_EXPECTATIONS = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "literal_error": "{expected}",
    "enum": "{expected}",
}

_STORAGE_OPTION = re.compile(
    r"((?:fs\.)?(?:s3a?|gcs|gs|adls|azure|abfs|storage_options)\.)|(?:aws|azure|google|gcp|s3|gcs)_|access_key_id|secret_access_key|"
    r"session_token|account_"
)
_OPTIONS = {
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "path_style_access": "virtual_hosted_style_request: false",
}
"""pylance's names of options that Hadoop and Iceberg name otherwise."""
_MOST_HINTS = 100  # each takes a search, and a hostile file could have a million unknown keys

ConfigT = TypeVar("ConfigT", bound=BackendConfig)


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One error in a configuration; ``key`` is as the user wrote it, None if it is about several keys.

    ``is_empty``: its value is empty, and must not be.
    """

    key: str | None
    message: str
    is_empty: bool = False


def _keys_of(name: str, field: FieldInfo) -> Iterator[str]:
    """Yield the keys that set the field ``name``, the preferred one first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        yield from (choice for choice in alias.choices if isinstance(choice, str))
    elif isinstance(alias, str):
        yield alias
    else:
        yield name


def known_keys(model: type[BackendConfig]) -> list[str]:
    """Return the keys of ``model`` without prefixes, the preferred key of each field first."""
    mappings = _mapping_prefixes(model)
    return [key for name, field in model.model_fields.items() if name not in mappings for key in _keys_of(name, field)]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key that a configuration takes.

    Args:
        key: the key, or ``storage.*`` for all keys with a prefix.
        is_preferred: whether it is the preferred key of its field.
        is_required: whether a configuration must have it.
        default: the default as text; None without one to show.
        schema: the JSON Schema of its value: ``type``, ``enum``, ``minimum``, ``maximum``; empty for text.
        description: the description of the field; may be empty.
    """

    key: str
    is_preferred: bool
    is_required: bool
    default: str | None
    schema: Mapping[str, object]
    description: str


_SCHEMA_KEYS = ("type", "exclusiveMinimum", "minimum", "maximum")


def describe_keys(model: type[BackendConfig]) -> list[ConfigKey]:
    """Return all keys of ``model`` in the order of its fields, alternative keys of a field included."""
    schemas = model.model_json_schema(by_alias=False)["properties"]
    mappings = _mapping_prefixes(model)
    described = []
    for name, field in model.model_fields.items():
        prefix = mappings.get(name)
        keys = list(_keys_of(name, field)) if prefix is None else [f"{prefix}.*"]
        default = None if field.is_required() or prefix is not None else _default_text(field.default)
        schema = _value_schema(schemas[name]) if prefix is None else {}
        text = " ".join((field.description or "").replace("``", "`").split())
        described += [
            ConfigKey(key, number == 0, field.is_required(), default, schema, text) for number, key in enumerate(keys)
        ]
    return described


def _default_text(default: object) -> str | None:
    """Return a default as the user would write it; None for one that is empty or not a plain value."""
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, str | int | float) and default != "" else None


def _value_schema(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the part of a field's JSON Schema that also holds for the value as written in a manifest."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            schema = {**schema, **choice}
    if "enum" in schema:
        return {"enum": schema["enum"]}
    is_text = schema.get("type") not in ("boolean", "integer", "number")
    return {} if is_text else {key: schema[key] for key in _SCHEMA_KEYS if key in schema}


def _mapping_prefixes(model: type[BackendConfig]) -> dict[str, str]:
    """Return the prefixes of collected keys, by the name of the mapping field that collects them."""
    return {
        name: next((item.name for item in field.metadata if isinstance(item, KeysOf)), name)
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is dict
    }


def key_prefixes(impl: str) -> list[str]:
    """Return the prefixes that keys of an implementation may have: ``hive2.``, then ``hive.``."""
    return list(dict.fromkeys((f"{impl}.", f"{impl.rstrip(digits)}.")))


def plain_key(impl: str, key: str) -> str:
    """Return a key without the prefix of its implementation: ``hive2.root`` and ``hive.root`` are ``root``."""
    return next((key.removeprefix(prefix) for prefix in key_prefixes(impl) if key.startswith(prefix)), key)


def parse_config(model: type[ConfigT], impl: str, properties: Mapping[str, str]) -> ConfigT:
    """Return the configuration in ``properties``.

    Raises:
        InvalidInputError: naming each invalid key, never its value.
    """
    config, problems = read_config(model, impl, properties)
    if config is None:
        raise InvalidInputError(f"{impl}: " + "; ".join(problem.message for problem in problems))
    return config


def read_config(
    model: type[ConfigT], impl: str, properties: Mapping[str, str]
) -> tuple[ConfigT | None, list[ConfigProblem]]:
    """Return the configuration in ``properties``, or None if it has errors, and the errors."""
    written_keys = {plain_key(impl, key): key for key in properties}
    known = known_keys(model)
    repeated = sorted(set(properties) - set(written_keys.values()))
    problems = [ConfigProblem(key, f"`{key}` is given twice, with and without its prefix") for key in repeated]
    fields = {prefix: name for name, prefix in _mapping_prefixes(model).items()}
    values: dict[str, Any] = {name: {} for name in fields.values()}
    hints: list[str] = []
    for key, original in written_keys.items():
        prefix, dot, option = key.partition(".")
        if dot and prefix in fields:
            values[fields[prefix]][option] = properties[original]
        elif key in known:
            values[key] = properties[original]
        else:
            hint = _unknown_key_hint(model, key, known, fields, is_searched=len(problems) < _MOST_HINTS)
            hints.append(hint)
            problems.append(ConfigProblem(original, f"unknown key `{original}`; {hint}"))
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            key = ".".join(str(part) for part in detail["loc"])
            if detail["type"] == "missing":
                if any(hint.startswith((f"write `{key}", f"did you mean `{key}`")) for hint in hints):
                    continue  # an unknown key stands for it
                parts = (f"`{key}` is missing{_meaning(model, key)}", _replacement(model, key))
                problems.append(ConfigProblem(key, "; ".join(filter(None, parts))))
            else:
                subject = f"`{written_keys.get(key, key)}`: " if key else ""
                message = f"{subject}{_plain_message(detail)}"
                problems.append(ConfigProblem(written_keys.get(key), message, _is_empty(detail)))
        return None, problems
    return (None, problems) if problems else (config, [])


def _unknown_key_hint(
    model: type[BackendConfig], key: str, known: Sequence[str], prefixes: Collection[str], *, is_searched: bool
) -> str:
    """Return what to write instead of an unknown key; only with ``is_searched``, a similar one is looked for."""
    unprefixed = key.removeprefix("aws_")
    hint = _replacement(model, key) or _replacement(model, unprefixed)
    if hint is None and unprefixed in known:
        hint = f"write `{unprefixed}`"
    name, colon, value = key.partition(":")
    if hint is None and colon and name in known:
        hint = f"write `{name}: {value}`, with a space after the colon"
    if hint is None and "storage" in prefixes and (other := _STORAGE_OPTION.match(key)) is not None:
        option = re.sub("[.-]", "_", key[other.end() :]) if other[1] else key
        hint = f"write `storage.{_OPTIONS.get(option, option)}`, an option for opening datasets"
    if hint is None:
        every = f"known keys: {', '.join([*known, *(f'{name}.*' for name in reversed([*prefixes]))])}"
        hint = did_you_mean(key, known, every) if is_searched else every
    return hint


def _meaning(model: type[BackendConfig], key: str) -> str:
    """Return what a required key stands for, as the end of an error; empty for a field without a description."""
    description = next((known.description for known in describe_keys(model) if known.key == key), "")
    first = re.split("[:;.]", description, maxsplit=1)[0]
    return f": {first[:1].lower()}{first[1:]}" if first else ""


def _replacement(model: type[BackendConfig], key: str) -> str | None:
    """Return what to write instead of a key of another implementation, None for an unknown key."""
    return model.elsewhere.get(key) or model.elsewhere.get(f"{key.partition('.')[0]}.*" if "." in key else key)


def _is_empty(detail: ErrorDetails) -> bool:
    return detail["type"] == "string_too_short" and detail["ctx"]["min_length"] == 1


def _plain_message(detail: ErrorDetails) -> str:
    """Return the message for an invalid value in the words of lancens, not of pydantic."""
    if _is_empty(detail):
        return "it is empty; write a value"
    expected = _EXPECTATIONS.get(detail["type"])
    if expected is None:
        return detail["msg"].removeprefix("Value error, ")
    limits = {name: value for name, value in detail.get("ctx", {}).items() if name != "error"}
    return f"expected {expected.format(**limits)}"
