"""Write a first manifest for `lancens init`: valid as it is, with comments for more keys and blocks."""

from __future__ import annotations

import re

from reconciler.model.backend_config import BackendConfig, describe_keys
from reconciler.model.redaction import is_sensitive_key
from reconciler.writing.export import HEADER, ID_COMMENT, new_id, scalar

# Likely values of required keys; other keys have a default, or no value is likely.
_LIKELY_VALUES = {
    "root": "./lake",
    "uri": "thrift://localhost:9083",
    "endpoint": "http://localhost:8080",
    "catalog": "main",
}
_LIKELY_VALUES_OF_IMPL = {("rest", "uri"): "http://localhost:2333", ("iceberg", "endpoint"): "http://localhost:8181"}


_BLOCKS = """\
namespaces:
  features:
    properties: {owner: ml-platform}
    tables:
      users:
        schema:
          - {name: user_id, type: int64, nullable: false}
          - {name: embedding, type: "fixed_size_list<float32>[768]"}
""".splitlines()


def first_manifest(impl: str, name: str, *, demo: bool = False) -> str:
    """Return the text of a manifest with a new ``id`` and one catalog of ``impl``.

    Its blocks are comments, but for a ``demo``.

    Raises:
        ConfigError, MissingExtraError: ``impl`` cannot be loaded.
    """
    from reconciler.backends import registry

    catalog = "lake" if impl == "dir" else impl
    lines = [
        f"name: {scalar(name)}  # the owner in the marks of what it creates",
        f"id: {new_id()}  {ID_COMMENT}",
        "catalogs:",
        f"  {scalar(catalog)}:  # the catalog's name in this manifest",
        f"    impl: {scalar(impl)}",
        *_config_lines(impl, registry.backend_class(impl).config_model),
        *(f"    {'' if demo else '# '}{line}" for line in _BLOCKS),
    ]
    return HEADER + "\n".join(lines) + "\n"


def _config_lines(impl: str, model: type[BackendConfig]) -> list[str]:
    """Return the lines of ``config``: optional keys as comments, required keys with likely values."""
    settings = [setting for setting in describe_keys(model) if setting.is_preferred and not setting.key.endswith(".*")]
    required = [setting for setting in settings if setting.is_required]
    lines = ["    # More keys of config:"] if len(required) < len(settings) else []
    for setting in settings:
        if not setting.is_required:
            variable = re.sub(r"\W", "_", f"{impl}_{setting.key}".upper())
            placeholder = f'"${{env:{variable}}}"'
            value = placeholder if is_sensitive_key(setting.key) else setting.default or ""
            lines += [f"    #   {setting.key}: {value}".rstrip()]
    lines += ["    # Options for opening datasets: storage.region and the like."]
    lines += ["    config:" if required else "    config: {}"]
    for setting in required:
        value = _LIKELY_VALUES_OF_IMPL.get((impl, setting.key)) or _LIKELY_VALUES.get(setting.key, "fill-in")
        lines += [f"      {setting.key}: {scalar(value)}"]
    return lines
