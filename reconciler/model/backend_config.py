"""The configuration of a backend: a pydantic model for each, checked key by key.

A model's field names and aliases are the keys of the catalog's specification. Every key may carry the name of the
implementation as a prefix (``dir.root``), also without its number (``hive.root``). A field that is a mapping collects
the keys that begin with its name: ``storage.*``, for pylance, in every backend. :class:`KeysOf` sets another prefix,
which a plain key may share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import digits
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, get_origin

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from reconciler.model import locations
from reconciler.model.display import did_you_mean
from reconciler.model.errors import InvalidInputError


def _location(text: str) -> str:
    problem = locations.check(text)
    if problem is not None:
        raise ValueError(problem)
    return text


Root: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_location)]
"""The type of a key that holds a directory or URI below which tables go: nothing in it is a credential."""


@dataclass(frozen=True, slots=True)
class KeysOf:
    """Names, in the annotation of a mapping, the prefix of the keys that it collects."""

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
    """The keys of credentials, beside those that look like secrets: a plan and its apply may use different ones."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """What to write instead of a key of another implementation; ``name.*`` stands for all keys with that prefix."""

    storage: dict[str, str] = Field(default_factory=dict, repr=False)
    """Options handed to pylance for opening and writing datasets; never shown."""

    def identity(self) -> str:
        """Return a text that is equal for two configurations of one service and root; it holds no secret."""
        raise NotImplementedError

    def is_identity_literal(self) -> bool:
        """Return whether the identity depends on these values alone, not on the environment or on links."""
        return False


_EXPECTED = {
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

_MOST_HINTS = 100  # each is a search that a hostile file could ask for a million times

ConfigT = TypeVar("ConfigT", bound=BackendConfig)


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One error in a configuration; ``key`` is as the user wrote it, None where a key is missing."""

    key: str | None
    message: str


def _names(name: str, field: FieldInfo) -> Iterator[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        yield from (choice for choice in alias.choices if isinstance(choice, str))
    elif isinstance(alias, str):
        yield alias
    else:
        yield name


def known_keys(model: type[BackendConfig]) -> list[str]:
    """Return the plain keys of ``model``, the preferred name of each field first."""
    mappings = _mappings(model)
    return [key for name, field in model.model_fields.items() if name not in mappings for key in _names(name, field)]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key that a configuration takes.

    Args:
        key: as it is written; ``storage.*`` for keys of the user's choice.
        is_preferred: whether it is the first name of its field.
        is_required: whether a configuration must have it.
        default: as text, where there is one to show.
        schema: the JSON Schema of its value: ``type``, ``enum``, ``minimum``, ``maximum``; empty for text.
        description: of the field; may be empty.
    """

    key: str
    is_preferred: bool
    is_required: bool
    default: str | None
    schema: Mapping[str, object]
    description: str


_KEPT = ("type", "exclusiveMinimum", "minimum", "maximum")


def describe_keys(model: type[BackendConfig]) -> list[ConfigKey]:
    """Return all keys of ``model`` in its order, each under every name that it has."""
    schemas = model.model_json_schema(by_alias=False)["properties"]
    mappings = _mappings(model)
    described = []
    for name, field in model.model_fields.items():
        collected = mappings.get(name)
        keys = list(_names(name, field)) if collected is None else [f"{collected}.*"]
        default = None if field.is_required() or collected is not None else _default_text(field.default)
        schema = _value_schema(schemas[name]) if collected is None else {}
        text = " ".join((field.description or "").replace("``", "`").split())
        described += [
            ConfigKey(key, number == 0, field.is_required(), default, schema, text) for number, key in enumerate(keys)
        ]
    return described


def _default_text(default: object) -> str | None:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, str | int | float) and default != "" else None


def _value_schema(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the part of a field's JSON Schema that also holds for its text in a manifest."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            schema = {**schema, **choice}
    if "enum" in schema:
        return {"enum": schema["enum"]}
    is_kept = schema.get("type") in ("boolean", "integer", "number")
    return {key: schema[key] for key in _KEPT if key in schema} if is_kept else {}


def _mappings(model: type[BackendConfig]) -> dict[str, str]:
    """Return the fields that collect keys by prefix, each with its prefix."""
    return {
        name: next((said.name for said in field.metadata if isinstance(said, KeysOf)), name)
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is dict
    }


def key_prefixes(impl: str) -> list[str]:
    """Return the prefixes that keys of an implementation may have, its own first."""
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
    """Return the configuration in ``properties``, None where it has errors, and the errors."""
    written = {plain_key(impl, key): key for key in properties}
    known = known_keys(model)
    twice = sorted(set(properties) - set(written.values()))
    problems = [ConfigProblem(key, f"`{key}` is given twice, with and without its prefix") for key in twice]
    fields = {begins: name for name, begins in _mappings(model).items()}
    values: dict[str, Any] = {name: {} for name in fields.values()}
    for key, original in written.items():
        mapping, dot, rest = key.partition(".")
        if dot and mapping in fields:
            values[fields[mapping]][rest] = properties[original]
        elif key in known:
            values[key] = properties[original]
        else:
            hint = _instead(model, key)
            if hint is None:
                every = f"known keys: {', '.join([*known, *(f'{name}.*' for name in reversed(fields))])}"
                hint = did_you_mean(key, known, every) if len(problems) < _MOST_HINTS else every
            problems.append(ConfigProblem(original, f"unknown key `{original}`; {hint}"))
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            key = ".".join(str(part) for part in detail["loc"])
            if detail["type"] == "missing":
                problems.append(
                    ConfigProblem(None, "; ".join(filter(None, (f"`{key}` is missing", _instead(model, key)))))
                )
            else:
                prefix = f"`{written.get(key, key)}`: " if key else ""
                problems.append(ConfigProblem(written.get(key), f"{prefix}{_plain_message(detail)}"))
        return None, problems
    return (None, problems) if problems else (config, [])


def _instead(model: type[BackendConfig], key: str) -> str | None:
    """Return the replacement for a key of another implementation, None for an unknown key."""
    return model.elsewhere.get(key) or model.elsewhere.get(f"{key.partition('.')[0]}.*" if "." in key else key)


def _plain_message(detail: ErrorDetails) -> str:
    """Return the message for an invalid value, without pydantic's vocabulary."""
    expected = _EXPECTED.get(detail["type"])
    if expected is None:
        return detail["msg"].removeprefix("Value error, ")
    limits = {name: value for name, value in detail.get("ctx", {}).items() if name != "error"}
    return f"expected {expected.format(**limits)}"
