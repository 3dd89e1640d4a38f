"""Manifests that are bad below a catalog, and the exact message of each: (name, text of lancens.yaml, messages)."""

from __future__ import annotations

from tests.unit.manifest.conftest import manifest

L = "lancens.yaml"

BAD_BLOCKS: list[tuple[str, str, list[str]]] = [
    # ---- names and depth
    (
        "names that are none",
        manifest('tables: {"": {}, a$b: {}, "..": {}}'),
        [
            f"{L}:7:14: table `` in lake (memory): a name cannot be empty",
            f"{L}:7:22: table `a$b` in lake (memory): a name cannot contain `$`, which separates names in identifiers",
            f"{L}:7:31: table `..` in lake (memory): `..` is a relative path, not a name",
        ],
    ),
    (
        "a table and a namespace of one name, where there is one for both",
        manifest(
            "tables: {x: {}, y: {absent: true}, z: {}}\nnamespaces: {x: {tables: {z: {}}}, y: {}, z: {absent: true}}",
            "dir",
            "{root: /lake}",
        ),
        [
            f"{L}:8:18: namespace lake/x has the name of the table at {L}:7:14; dir has one object of a name",
        ],
    ),
    (
        "names the catalog cannot hold",
        manifest("namespaces: {my-db: {tables: {é: {}}}}", "glue", "{region: eu}"),
        [
            f"{L}:7:18: namespace `my-db` in lake (glue): names consist of letters, digits and `_`",
        ],
    ),
    (
        "keys without the space after their colon",
        "version: 1\nname: n\ncatalogs:\n  lake: {impl: dir, config: {root:./lake}}\n  sea: {impl:dir}\n",
        [
            f"{L}:4:30: config: unknown key `root:./lake`; write `root: ./lake`, with a space after the colon",
            f"{L}:5:9: unknown key `impl:dir` in catalog sea; a space after the colon is missing: `impl: dir`",
        ],
    ),
    (
        "names that fold to one",
        manifest("namespaces: {Ads: {tables: {T: {}, t: {}}}, ads: {}}", "glue", "{region: eu}"),
        [
            f"{L}:7:40: table `t` and {L}:7:33 `T` are one name in lake (glue folds case)",
            f"{L}:7:49: namespace `ads` and {L}:7:18 `Ads` are one name in lake (glue folds case)",
        ],
    ),
    (
        "tables too high",
        manifest("tables: {t: {}}", "glue", "{region: eu}"),
        [f"{L}:7:5: tables in lake (glue) are below 0 levels of namespaces, expected 1 or more"],
    ),
    (
        "too many levels",
        manifest("namespaces: {c: {tables: {t: {}}, namespaces: {s: {namespaces: {x: {}}}}}}", "unity"),
        [
            f"{L}:7:22: tables in lake/c (unity) are below 1 level of namespaces, expected 2",
            f"{L}:7:56: namespaces in lake/c/s are 3 levels deep; unity has at most 2 levels",
        ],
    ),
    (
        "a level that is fixed",
        manifest("namespaces: {c: {properties: {a: b}}, d: {absent: true}}", "unity"),
        [
            (
                f"{L}:7:22: `properties` in namespace lake/c: unity has this level already; it is never created, "
                "marked or dropped"
            ),
            (
                f"{L}:7:47: `absent` in namespace lake/d: unity has this level already; it is never created, "
                "marked or dropped"
            ),
        ],
    ),
    (
        "kind where there is one",
        manifest("namespaces: {a: {kind: database}}"),
        [f"{L}:7:22: `kind` in namespace lake/a: memory has one kind of namespace only"],
    ),
    (
        "unknown kind",
        manifest("namespaces: {a: {kind: schema}}", "glue", "{region: eu}"),
        [f"{L}:7:22: `kind` in namespace lake/a is `schema`, expected `catalog` or `database`"],
    ),
    # ---- blocks
    (
        "unknown key in a table",
        manifest("namespaces:\n  f:\n    tables:\n      users:\n        propertys: {a: b}"),
        [f"{L}:11:13: unknown key `propertys` in table lake/f/users; did you mean `properties`?"],
    ),
    (
        "unknown key in a column",
        manifest("tables:\n  t:\n    schema:\n      - {name: a, typ: int8}"),
        [
            f"{L}:10:23: unknown key `typ` in a column of table lake/t; did you mean `type`?",
        ],
    ),
    (
        "table is text",
        manifest("tables: {t: yes, u: [], v: {properties: [a]}}"),
        [
            f"{L}:7:17: table lake/t is `yes`, expected a block of keys",
            f"{L}:7:25: table lake/u is a list, expected a block of keys",
            f"{L}:7:45: `properties` in table lake/v is a list, expected a block of keys, such as `{{tier: gold}}`",
        ],
    ),
    (
        "namespaces is text",
        manifest("namespaces: {a: {tables: here}}"),
        [f"{L}:7:30: `tables` in namespace lake/a is `here`, expected a block of keys, each with the name of a table"],
    ),
    (
        "expectations",
        manifest("tables: {t: {expect: {max_ages: 1, max_versions: 0, max_fragments: many, indices: id}}}"),
        [
            f"{L}:7:27: unknown key `max_ages` in `expect` of table lake/t; did you mean `max_age_days`?",
            f"{L}:7:54: `expect.max_versions` in table lake/t is `0`, expected 1 or more",
            f"{L}:7:72: `expect.max_fragments` in table lake/t is `many`, expected a whole number",
            f"{L}:7:87: `expect.indices` in table lake/t is `id`, expected a list",
        ],
    ),
    (
        "expectations of what is absent",
        manifest("tables: {t: {absent: true, expect: {max_versions: 3}}}"),
        [f"{L}:7:32: `expect` in table lake/t contradicts `absent: true`"],
    ),
    (
        "not a boolean",
        manifest("tables: {t: {probe: 'off', protect: 1}}"),
        [
            f"{L}:7:25: `probe` in table lake/t is `off`, expected true or false",
            f"{L}:7:41: `protect` in table lake/t is `1`, expected true or false",
        ],
    ),
    (
        "evolve",
        manifest("tables: {t: {evolve: always}}"),
        [f"{L}:7:26: `evolve` in table lake/t is `always`, expected `never` or `additive`"],
    ),
    (
        "absent with more",
        manifest(
            "tables: {t: {absent: true, location: s3://a, protect: true, properties: {}, schema: [{name: a, type: uuid}]}}"  # noqa: E501
        ),
        [
            f"{L}:7:32: `location` in table lake/t contradicts `absent: true`",
            f"{L}:7:50: `protect: true` in table lake/t contradicts `absent: true`",
            f"{L}:7:65: `properties` in table lake/t contradicts `absent: true`",
            f"{L}:7:81: `schema` in table lake/t contradicts `absent: true`",
        ],
    ),
    (
        "absent with children",
        manifest("namespaces: {a: {absent: true, tables: {t: {}, u: {absent: true}}, namespaces: {b: {}}}}"),
        [
            f"{L}:7:45: table lake/a/t is in a namespace that is absent; expected `absent: true` here too",
            f"{L}:7:85: namespace lake/a/b is in a namespace that is absent; expected `absent: true` here too",
        ],
    ),
    (
        "absent and protected namespace",
        manifest("namespaces: {a: {absent: true, protect: true, properties: {}}}"),
        [
            f"{L}:7:36: `protect: true` in namespace lake/a contradicts `absent: true`",
            f"{L}:7:51: `properties` in namespace lake/a contradicts `absent: true`",
        ],
    ),
    (
        "a secret copied from what lancens printed",
        manifest('tables: {t: {properties: {api_token: "(redacted 0a1b2c3d)", shown: "(redacted 0a1b2c3d)"}}}'),
        [
            (
                f"{L}:7:31: property `api_token` in table lake/t is `(redacted 0a1b2c3d)`, which lancens shows "
                "instead of a secret; expected the value itself, such as `${env:NAME}`"
            ),
            (
                f"{L}:7:65: property `shown` in table lake/t is `(redacted 0a1b2c3d)`, which lancens shows "
                "instead of a secret; expected the value itself, such as `${env:NAME}`"
            ),
        ],
    ),
    (
        "reserved properties",
        manifest("tables: {t: {properties: {lancens.keys: x, EXTERNAL: 'TRUE', table_type: lance}}}"),
        [
            f"{L}:7:31: property `lancens.keys` in table lake/t is reserved for catalogs and lancens",
            f"{L}:7:48: property `EXTERNAL` in table lake/t is reserved for catalogs and lancens",
            f"{L}:7:66: property `table_type` in table lake/t is reserved for catalogs and lancens",
        ],
    ),
    (
        "property that is a list",
        manifest("namespaces: {a: {properties: {x: [1]}}}"),
        [f"{L}:7:38: `properties.x` in namespace lake/a is a list, expected text"],
    ),
    # ---- locations
    (
        "credentials in a location",
        manifest("tables: {t: {location: 's3://me:pw@b/t'}, u: {location: 'https://h/t?sig=x'}, v: {location: ''}}"),
        [
            (
                f"{L}:7:28: `location` in table lake/t: a location cannot hold user information; give credentials "
                "in `config` (`storage.*`)"
            ),
            (
                f"{L}:7:61: `location` in table lake/u: a location cannot hold a query or fragment; give credentials "
                "in `config` (`storage.*`)"
            ),
            f"{L}:7:97: `location` in table lake/v: a location cannot be empty",
        ],
    ),
    (
        "credentials in the location of a namespace",
        manifest("namespaces: {a: {properties: {location: 's3://me:pw@b/t'}}}", "glue", "{region: eu}"),
        [
            (
                f"{L}:7:35: property `location` in namespace lake/a: a location cannot hold user information; give "
                "credentials in `config` (`storage.*`)"
            ),
        ],
    ),
    (
        "outside of the root",
        manifest("tables: {t: {location: s3://b/t}, u: {location: /lake/../t}}", "dir", "{root: /lake}"),
        [
            (
                f"{L}:7:28: `location` in table lake/t is s3://b/t, expected a location under lake's root; other data "
                "needs a catalog with another `root`"
            ),
            (
                f"{L}:7:53: `location` in table lake/u is /lake/../t, expected a location under lake's root; other "
                "data needs a catalog with another `root`"
            ),
        ],
    ),
    # ---- schemas
    (
        "zero length",
        manifest("tables:\n  t:\n    schema:\n      - {name: v, type: 'fixed_size_list<float32>[0]'}"),
        [f"{L}:10:29: type `fixed_size_list<float32>[0]`: the length must be 1 or more"],
    ),
    (
        "columns",
        manifest(
            "tables:\n  t:\n    schema:\n"
            "      - {name: a, type: strng}\n"
            "      - {name: b.c, type: int8}\n"
            "      - {name: _rowid, type: int8}\n"
            "      - name\n"
            "  u:\n    schema:\n"
            "      - {name: a, type: int8}\n"
            "      - {name: a, type: int16}\n"
            "      - {name: n, type: null, nullable: false}\n"
        ),
        [
            f"{L}:10:29: type `strng`: Lance stores no type `strng`; did you mean `string`?",
            f"{L}:11:20: top-level column `b.c` cannot have `.` in its name; use a struct for nested fields",
            f"{L}:12:20: Lance keeps the column name `_rowid` for itself",
            (
                f"{L}:13:13: `schema.4` in table lake/t is `name`, expected a block of keys, such as "
                "`{name: id, type: int64}`"
            ),
            f"{L}:17:20: column `a` in table lake/u is a duplicate, first at {L}:16:20",
            f"{L}:18:20: column `n` in table lake/u: type `null`: the column must be nullable",
        ],
    ),
    (
        "empty schema",
        manifest("tables: {t: {schema: []}, u: {schema: }}"),
        [
            f"{L}:7:26: `schema` in table lake/t is empty; expected at least one entry, or no key at all",
            f"{L}:7:43: `schema` in table lake/u is nothing, expected a list, such as `[{{name: id, type: int64}}]`",
        ],
    ),
    # ---- placeholders
    (
        "placeholders",
        manifest(
            "tables:\n  t:\n    properties:\n"
            '      a: "${evn:X}"\n'
            '      b: "${env:LANCENS_TEST_NOT_SET}"\n'
            '      c: "${env:X"\n'
            '      d: "${var:tear}"\n'
            '      e: "${var:x y}"\n'
            '      f: "${file:missing.txt}"\n'
            '      g: "${HOME}"\n'
        ),
        [
            f"{L}:10:14: unknown placeholder `${{evn:X}}`; did you mean `env:`?",
            (
                f"{L}:11:14: environment variable `LANCENS_TEST_NOT_SET` is not set; set it, or write "
                "`${env:LANCENS_TEST_NOT_SET:-default}`"
            ),
            f"{L}:12:14: `${{` is not closed; expected `}}`, or `$${{` for the text itself",
            f"{L}:13:14: variable `tear` is not given; did you mean `tier`?",
            f"{L}:14:14: `x y` is not a name in `${{var:x y}}`; expected `${{var:name}}`",
            f"{L}:15:14: file `missing.txt` does not exist; the path is relative to the file it is written in",
            f"{L}:16:14: unknown placeholder `${{HOME}}`; write `${{env:HOME}}` or `${{var:HOME}}`",
        ],
    ),
    (
        "placeholder that is malformed in a required key of config",
        manifest("", "dir", '{root: "${HOME}/lake"}'),
        [f"{L}:6:20: unknown placeholder `${{HOME}}`; write `${{env:HOME}}` or `${{var:HOME}}`"],
    ),
    (
        "list in a required key of config",
        manifest("", "dir", "{root: [lake]}"),
        [f"{L}:6:20: `root` in the config of catalog lake: expected one text but found a list"],
    ),
    (
        "placeholder that is malformed in config",
        manifest("", "memory", '{name: "${env:}"}'),
        [f"{L}:6:20: `` is not a name in `${{env:}}`; expected `${{env:NAME}}`"],
    ),
]
