"""Manifests that are bad down to their catalogs, and the exact messages: (name, text of lancens.yaml, messages)."""

from __future__ import annotations

from tests.unit.manifest.conftest import manifest

HEAD = "version: 1\nname: shop\n"
L = "lancens.yaml"

BAD: list[tuple[str, str, list[str]]] = [
    # ---- YAML
    ("not a mapping", "- a\n", [f"{L}:1:1: a list at the top; expected a block of keys such as `version: 1`"]),
    (
        "empty file",
        "",
        [f"{L}: the manifest has no keys; delete the file, and `lancens init -o FILE` writes one"],
    ),
    (
        "broken flow",
        "version: 1\nname: {a\n",
        [f"{L}:2:7: `{{` is not closed; a `,` or `}}` is missing before line 3"],
    ),
    (
        "alias without anchor",
        HEAD + "catalogs: *all\n",
        [f"{L}:3:11: alias `*all`; aliases are not used in manifests, expected the value"],
    ),
    (
        "merge key",
        manifest("tables: {<<: {a: {}}}"),
        [f"{L}:7:14: a merge key `<<`; expected the keys themselves, or `include`"],
    ),
    (
        "tag",
        "version: !!int 1\n",
        [f"{L}:1:10: tag `!!int`; expected no tag, every scalar is text as written"],
    ),
    ("list as key", HEAD + "? [a]\n: b\n", [f"{L}:3:3: a list or block as a key; expected text"]),
    (
        "control character",
        HEAD + "catalogs: \x07\n",
        [f"{L}:3:11: control character U+0007; expected printable text, or an escape in double quotes"],
    ),
    ("escaped NUL", 'version: 1\nname: "a\\0b"\n', [f"{L}:2:7: an escaped control character; expected printable text"]),
    ("too deep", "a: " + "[" * 100 + "]" * 100, [f"{L}:1:103: nested more than 100 levels deep"]),
    (
        "duplicate key",
        manifest("tables: {a: {}, b: {}, a: {}}"),
        [f"{L}:7:28: `a` is a duplicate, first at {L}:7:14"],
    ),
    # ---- the top
    (
        "version 2",
        "version: 2\nname: shop\ncatalogs: {}\n",
        [f"{L}:1:10: `version` in the manifest is `2`, expected version: 1, the one this lancens reads"],
    ),
    (
        "unknown key",
        HEAD + "catalog: {}\ncatalogs: {}\n",
        [f"{L}:3:1: unknown key `catalog` in the manifest; write `catalogs`, with a block for each by its name"],
    ),
    (
        "unknown key, nothing near",
        HEAD + "zzz: 1\ncatalogs: {}\n",
        [
            (
                f"{L}:3:1: unknown key `zzz` in the manifest; expected `version`, `name`, `id`, `include`, `safety`, "
                "`schemas`, `defaults`, `catalogs`"
            ),
        ],
    ),
    (
        "placeholder in name",
        'version: 1\nname: "${env:HOME}"\ncatalogs: {}\n',
        [f"{L}:2:7: name `${{env:HOME}}`: a name takes variables only, such as `${{var:stage}}`; others are secrets"],
    ),
    (
        "slash in name",
        "version: 1\nname: a/b\ncatalogs: {}\n",
        [f"{L}:2:7: `name` in the manifest: a name cannot contain `/`, which separates names in identifiers"],
    ),
    (
        "list as name",
        "version: 1\nname: [a]\ncatalogs: {}\n",
        [f"{L}:2:7: `name` in the manifest is a list, expected text"],
    ),
    (
        "catalogs is a list",
        HEAD + "catalogs: [lake]\n",
        [f"{L}:3:11: `catalogs` in the manifest is a list, expected a block of keys, each with the name of a catalog"],
    ),
    (
        "thresholds",
        HEAD + "catalogs: {}\nsafety: {max_removal_percent: 101, min_tables: many}\n",
        [
            f"{L}:4:31: `safety.max_removal_percent` in the manifest is `101`, expected 100 or less",
            f"{L}:4:48: `safety.min_tables` in the manifest is `many`, expected a whole number",
        ],
    ),
    (
        "include matches nothing",
        HEAD + 'include: ["teams/*.yml", other.yaml, "${env:X}"]\ncatalogs: {}\n',
        [
            f"{L}:3:11: include `teams/*.yml` matches no file; patterns are relative to this file",
            f"{L}:3:26: include `other.yaml` does not exist; paths are relative to this file",
            f"{L}:3:38: include `${{env:X}}`: placeholders do not work in `include`",
        ],
    ),
    (
        "include of a folder, and of a name no system takes",
        HEAD + f"include: [., {'x' * 300}, {'y' * 300}/*]\ncatalogs: {{}}\n",
        [
            f"{L}:3:11: include `.` is a folder; expected files, such as ./*.yaml",
            f"{L}:3:14: include `{'x' * 300}` does not exist; paths are relative to this file",
            f"{L}:3:316: include `{'y' * 300}/*` matches no file; patterns are relative to this file",
        ],
    ),
    (
        "include of itself",
        HEAD + "include: [lancens.yaml]\ncatalogs: {}\n",
        [f"{L}:3:11: include `lancens.yaml` makes a dependency cycle: lancens.yaml -> lancens.yaml"],
    ),
    # ---- catalogs
    (
        "no impl",
        HEAD + "catalogs: {lake: {config: {}}, empty: }\n",
        [
            f"{L}:3:12: catalog lake has no `impl`; expected one of `dir`, `glue`, `memory`, `unity`",
            f"{L}:3:32: catalog empty has no `impl`; expected one of `dir`, `glue`, `memory`, `unity`",
        ],
    ),
    (
        "placeholder in impl",
        HEAD + 'catalogs: {lake: {impl: "${var:impl}"}}\n',
        [f"{L}:3:25: `impl` in catalog lake is `${{var:impl}}`: placeholders do not work in `impl`"],
    ),
    (
        "unknown config key",
        manifest("", "dir", "{rot: ./lake}"),
        [
            f"{L}:6:14: config: unknown key `rot`; did you mean `root`?",
        ],
    ),
    (
        "unknown config key behind a placeholder",
        manifest("", "glue", '{region: "${env:R}", assume_role: "${env:ARN}", retries: "${env:N}"}'),
        [f"{L}:6:34: config: unknown key `assume_role`; did you mean `assume_role_arn`?"],
    ),
    (
        "config key said in both forms",
        manifest("", "dir", '{root: a, dir.root: "${env:X}"}'),
        [f"{L}:6:14: config: `root` is given twice, with and without its prefix"],
    ),
    (
        "config value of the wrong type, value not shown",
        manifest("", "glue", "{region: eu, retries: s3cr3t}"),
        [
            f"{L}:6:26: config: `retries`: expected a whole number",
        ],
    ),
    (
        "nested config",
        manifest("", "memory", "{storage: {region: [eu]}}"),
        [f"{L}:6:32: `storage.region` in the config of catalog lake: expected one text but found a list"],
    ),
    (
        "one service twice",
        HEAD + "catalogs:\n  a: {impl: dir, config: {root: ./lake}}\n  b: {impl: dir, config: {dir.path: lake/}}\n",
        [
            (
                f"{L}:5:3: catalog b and {L}:4:3 a are the same dir service and root; expected one catalog for both, "
                "or a `scope` in each with other outermost names"
            )
        ],
    ),
    (
        "prune",
        manifest("prune: sometimes"),
        [f"{L}:7:12: `prune` in catalog lake is `sometimes`, expected `never`, `owned` or `all`"],
    ),
    (
        "scope",
        manifest('scope: ["/a", b]\ntables: {c: {}}\nnamespaces: {b: {properties: {x: y}, tables: {t: {}}}, d: {}}'),
        [
            f"{L}:7:12: `scope` in catalog lake: `/a` has an empty name; expected such as analytics/**",
            f"{L}:8:14: table lake/c is outside of the catalog's scope: /a, b",
            f"{L}:9:51: table lake/b/t is outside of the catalog's scope: /a, b",
            f"{L}:9:60: namespace lake/d is outside of the catalog's scope: /a, b",
        ],
    ),
    (
        "secret branch of a tag",
        manifest("tables: {t: {tags: {a: {branch: '${env:HOME}', version: 1}}}}"),
        [
            (
                f"{L}:7:37: `tags` is `${{env:HOME}}`: values of the environment and of files are secrets, which "
                "`tags` cannot hold; pass it as a variable, `${var:name}`"
            )
        ],
    ),
    (
        "branch of a tag",
        manifest("tables: {t: {tags: {a: {branch: '', version: 1}, b: {branch: 'x:y', version: 1}}}}"),
        [
            (
                f"{L}:7:{column}: branch `{name}` of tag `{tag}` in table lake/t: expected letters, digits, `.`, `-` "
                "and `_`, in parts with `/` between, and no two dots in a row"
            )
            for column, name, tag in ((29, "", "a"), (58, "x:y", "b"))
        ],
    ),
    (
        "name of a tag",
        manifest("tables: {t: {tags: {prod.lock: 1}}}"),
        [
            (
                f"{L}:7:25: tag `prod.lock` in table lake/t: expected at most 100 ASCII letters, digits, `.`, `-` and "
                "`_`, with no dot at an end, no two in a row and no `.lock` last"
            )
        ],
    ),
    (
        "empty scope",
        manifest("scope: []"),
        [f"{L}:7:12: `scope` in catalog lake is empty; expected at least one entry, or no key at all"],
    ),
]
