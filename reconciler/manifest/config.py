"""A catalog's ``config``: kept as templates, checked as far as it is known, resolved when needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.manifest.policy import is_file_option
from reconciler.manifest.variables import (
    Placeholder,
    Resolver,
    Template,
    TemplateError,
    as_written,
    is_literal,
    rebase,
)
from reconciler.model import locations
from reconciler.model.backend_config import BackendConfig, ConfigProblem, known_keys, plain_key, read_config
from reconciler.model.capabilities import Capabilities
from reconciler.model.desired import Source
from reconciler.model.errors import ManifestError, Problem
from reconciler.model.redaction import SECRET_PREFIXES, is_sensitive, is_sensitive_key, redact_value, scrub

_PATH_KEYS = ("root", "path")
_STORAGE_PREFIX = "storage."
_SERVICE_KEYS = ("uri", "endpoint", "catalog_id", "region", "catalog", "warehouses")
"""The keys that say which service a catalog is of, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """The capabilities of catalogs of one ``impl``, and the model of their ``config``."""

    capabilities: Capabilities
    config_model: type[BackendConfig]


@dataclass(frozen=True, slots=True)
class Implementations:
    """The registered implementations; ``find`` loads one by name.

    ``find`` raises ConfigError or MissingExtraError.
    """

    names: Callable[[], list[str]]
    find: Callable[[str], Implementation]


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A ``config`` with every placeholder replaced.

    ``secrets`` are the values that no output may hold: those of the environment, of files and of sensitive keys.
    ``hidden_locations`` maps locations with such values to their templates, relative to the manifest's folder.
    ``relative`` are the absolute forms of relative locations. ``hosts`` are the hosts that the service may name; None
    for any. ``allows_outside``: whether datasets may refer to locations outside the catalog's roots.
    ``is_literal``: whether all but credentials is as written, without a placeholder.
    """

    properties: dict[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    hidden_locations: Mapping[str, str] = field(default_factory=dict, repr=False)
    relative: frozenset[str] = frozenset()
    hosts: Collection[str] | None = None
    allows_outside: bool = False
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key of a ``config``; relative paths in it start at ``folder``; ``source`` is the key's position."""

    key: str
    template: Template = field(repr=False)
    folder: str
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A catalog's ``config`` with its placeholders unresolved."""

    impl: str
    implementation: Implementation
    source: Source
    entries: tuple[ConfigEntry, ...]

    def plain_key(self, entry: ConfigEntry) -> str:
        """Return the entry's key without the implementation's prefix."""
        return plain_key(self.impl, entry.key)

    # ---- at load

    def problems(self) -> list[Problem]:
        """Return the errors that are certain although placeholders are unresolved."""
        known = known_keys(self.implementation.config_model)
        plain = [self.plain_key(entry) for entry in self.entries]
        unknown = {entry.key for entry in self.entries if not is_literal(entry.template)}

        def is_certain(problem: ConfigProblem) -> bool:
            if problem.key is None:
                return not unknown
            name = plain_key(self.impl, problem.key)
            is_about_key = (name not in known and not name.startswith(_STORAGE_PREFIX)) or plain.count(name) > 1
            return problem.key not in unknown or is_about_key

        return self._at_sources(filter(is_certain, self.read(self._literals())[1]))

    def known_config(self) -> BackendConfig | None:
        """Return the configuration, None where it has a placeholder or an error."""
        return self.read(self._literals())[0] if all(is_literal(entry.template) for entry in self.entries) else None

    @property
    def root(self) -> str | None:
        """The `root`, as far as it is known: a value with placeholders is as it is written."""
        known = self.known_config()
        if known is not None:
            root: str | None = getattr(known, "root", None)
            return root
        return next((as_written(entry.template) for entry in self.entries if self.plain_key(entry) in _PATH_KEYS), None)

    def _literals(self) -> dict[str, str]:
        return {entry.key: self._absolute(entry, as_written(entry.template)) for entry in self.entries}

    def read(self, properties: Mapping[str, str]) -> tuple[BackendConfig | None, list[ConfigProblem]]:
        """Return the configuration in ``properties``, None where it has errors, and the errors."""
        return read_config(self.implementation.config_model, self.impl, properties)

    def _naming_empty(self, problem: ConfigProblem) -> ConfigProblem:
        """Return a problem that names the placeholder which stands for an empty value, if one does."""
        written = next((as_written(entry.template) for entry in self.entries if entry.key == problem.key), "")
        if not (written and problem.is_empty):
            return problem
        return replace(problem, message=f"`{problem.key}`: `{written}` is empty; give it a value")

    def _at_sources(self, problems: Iterable[ConfigProblem]) -> list[Problem]:
        sources = {entry.key: entry.source for entry in self.entries}
        return [
            sources.get(problem.key or "", self.source).problem(f"config: {problem.message}") for problem in problems
        ]

    # ---- later

    def resolve(self, resolver: Resolver) -> ResolvedConfig:
        """Return the configuration with its placeholders resolved.

        Raises:
            ManifestError: with every placeholder without a value, and every value that cannot be used.
        """
        properties: dict[str, str] = {}
        secrets: set[str] = set()
        written: dict[str, str] = {}
        problems: list[Problem] = []
        hidden_locations: dict[str, str] = {}
        relative: set[str] = set()
        for entry in self.entries:
            key = self.plain_key(entry)
            try:
                text, hidden = _resolve_entry(entry, resolver)
            except TemplateError as error:
                problems.append(entry.source.problem(f"config `{entry.key}`: {error}"))
                continue
            is_hidden_path = bool(hidden) and key in _PATH_KEYS
            refused = resolver.policy.config_refusals(
                key, text, resolver.folders, is_literal=is_literal(entry.template)
            )
            reason = next(refused, None) or (resolver.policy.bucket_refusal(text) if is_hidden_path else None)
            if reason is not None:
                problems.append(entry.source.problem(f"config `{entry.key}` {reason}"))
            location = properties[entry.key] = self._absolute(entry, text)
            if is_hidden_path:
                prefix = os.path.relpath(entry.folder, next(iter(resolver.folders), entry.folder))
                hidden_locations[location] = rebase(entry.template, prefix, is_relative=location != text)
            elif location != text:
                relative.add(location)
            secrets |= hidden
            if hidden:
                written[location] = as_written(entry.template)
            if is_sensitive(entry.key, text):
                secrets.add(text)
        problems = problems or self._at_sources(
            _without_values(self._naming_empty(problem), written, secrets) for problem in self.read(properties)[1]
        )
        if problems:
            raise ManifestError(problems)
        return ResolvedConfig(
            properties=properties,
            secrets=frozenset(secrets - {""}),
            hidden_locations=hidden_locations,
            relative=frozenset(relative),
            hosts=resolver.policy.hosts,
            allows_outside=resolver.policy.places_outside,
            is_literal=all(is_literal(entry.template) or self._is_credential(entry) for entry in self.entries),
        )

    def _is_credential(self, entry: ConfigEntry) -> bool:
        key = self.plain_key(entry)
        return key in self.implementation.config_model.credentials or is_sensitive_key(key)

    def hide_variables(self, resolver: Resolver) -> None:
        """Record in ``resolver`` the variables in credentials, also those in addresses, storage options and headers."""
        for entry in self.entries:
            key = self.plain_key(entry)
            if self._is_credential(entry) or key.startswith(SECRET_PREFIXES):
                resolver.hide(entry.template)
            else:
                resolver.hide_redacted(key, entry.template)

    def _absolute(self, entry: ConfigEntry, text: str) -> str:
        is_path = self.plain_key(entry) in _PATH_KEYS
        return locations.absolute(text, entry.folder) if is_path and text else text

    # ---- as text

    def relative_templates(self, folder: str) -> dict[str, str]:
        """Return the templates as text, with paths relative to ``folder``, so that they name no machine."""
        return {entry.key: self._relative_template(entry, folder) for entry in self.entries}

    def shown_service(self, resolver: Resolver, folder: str) -> str:
        """Return the service and root for people, with variables resolved and paths relative to ``folder``.

        Placeholders of the environment and files are as written: their values are secrets.
        """
        texts = {self.plain_key(entry): self._relative_template(entry, folder) for entry in self.entries}
        keys = [key for key in _SERVICE_KEYS if key in texts] or [key for key in (*_PATH_KEYS, "name") if key in texts]
        shown: list[str] = []
        for key in keys:
            try:
                text = resolver.shown(texts[key])
            except TemplateError:
                text = texts[key]
            shown.append(scrub(redact_value(key, text), ()))
        return ", ".join(shown)

    def _relative_template(self, entry: ConfigEntry, folder: str) -> str:
        prefix = os.path.relpath(entry.folder, folder)
        text = rebase(entry.template, prefix)
        starts_relative = isinstance(next(iter(entry.template), None), str) and locations.absolute(text, "/") != text
        if not starts_relative or self.plain_key(entry) not in _PATH_KEYS:
            return text
        path = os.path.relpath(f"{entry.folder}/{text}", folder)
        return path if path == "." or path.startswith("..") else f"./{path}"


def _without_values(problem: ConfigProblem, written: Mapping[str, str], secrets: Iterable[str]) -> ConfigProblem:
    """Return a problem that shows values of the environment and of files as they are ``written``."""
    message = problem.message
    for value, template in written.items():
        message = message.replace(f"`{value}`", f"`{template}`") if value else message
    return replace(problem, message=scrub(message, secrets))


def files_read_by(config: ConfigText) -> Iterator[tuple[str, str]]:
    """Yield the key and path of each file that lancens or pylance reads for a ``config``."""
    for entry in config.entries:
        named = [part.name for part in entry.template if isinstance(part, Placeholder) and part.scheme == "file"]
        yield from ((entry.key, os.path.normpath(os.path.join(entry.folder, name))) for name in named)  # noqa: PTH118
        if is_file_option(config.plain_key(entry)) and is_literal(entry.template):
            yield entry.key, os.path.abspath(as_written(entry.template))  # noqa: PTH100 - links are not followed


def _resolve_entry(entry: ConfigEntry, resolver: Resolver) -> tuple[str, set[str]]:
    """Return an entry's value, and the parts of it that come from the environment or a file."""
    values = resolver.values(entry.template, entry.folder)
    hidden = {
        value
        for part, value in zip(entry.template, values, strict=True)
        if not isinstance(part, str) and part.scheme != "var" and value != part.default
    }
    return "".join(values), hidden
