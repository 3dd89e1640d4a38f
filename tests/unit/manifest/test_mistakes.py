"""YAML that is nearly right, and keys, types and files of other tools: each gets one message that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler import load
from reconciler.manifest import habits, models
from reconciler.model.errors import ManifestError
from tests.unit.manifest.conftest import Write, manifest

HEAD = "version: 1\nname: shop\ncatalogs:\n"
LAKE = HEAD + "  lake:\n    impl: dir\n    config: {root: ./lake}\n"
CONFLICT = "a merge conflict of git; keep one side, and delete the lines `<<<<<<<`, `=======` and `>>>>>>>`"


def message_of(path: Path) -> str:
    with pytest.raises(ManifestError) as caught:
        load(path)
    (problem,) = caught.value.problems
    return str(problem).removeprefix("lancens.yaml:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "  lake\n    impl: dir\n", "4:3: `lake` has no colon; expected `lake:`"),
        (
            LAKE + "    prune:never\n    tables: {}\n",
            "7:5: `prune:never` has no space after its colon; expected `prune: never`",
        ),
        (LAKE + "    prune = never\n    tables: {}\n", "7:5: `prune = never` has no colon; expected `prune: never`"),
        (HEAD + "  lake: impl: dir\n", '4:13: a second colon in one line; quote the value: "impl: dir"'),
        (HEAD + "  lake: {impl: dir config: {root: x}}\n", "4:26: expected `,` or `}` before this"),
        (HEAD + "  lake: {impl: dir}}\n", "4:20: `}` closes nothing"),
        (
            LAKE + "    tables: {t: {schema: [{name: a, type: string}}}\n",
            "7:26: `[` is not closed; a `]` is missing before the `}` at 7:50",
        ),
        (
            HEAD + "  lake: {impl: dir, config: {root: s3://b/${env:X}/y}}\n",
            '4:44: `s3://b/${env:X}/y` inside `{…}` must be quoted: "s3://b/${env:X}/y"',
        ),
        (
            HEAD + '  lake:\n    config: {root: "C:\\Users"}\n',
            "5:25: a backslash in double quotes begins an escape; write it twice, or use single quotes",
        ),
        (HEAD + '  lake:\n    impl: "dir\n', '5:11: the quote `"` is not closed'),
        (
            HEAD + '  lake:\n    impl: "dir" x\n',
            "5:17: text after a closing quote; quote the whole value, or close the quote that is open above",
        ),
        (
            HEAD + '  lake:\n    config: {root: "C:\\data"}\n',
            "5:23: a backslash in double quotes begins an escape; write it twice, or use single quotes",
        ),
        (LAKE + "    scope: [**/x]\n", '7:13: a value that begins with * must be quoted: "**/x"'),
        (LAKE + "    scope: [%x]\n", '7:13: a value that begins with % must be quoted: "%x"'),
        (
            LAKE + "   prune: never\n",
            "7:4: the indentation fits no line above; the keys of a block begin in one column",
        ),
        (
            HEAD + "  lake:\n    impl: dir\n      prune: never\n",
            "6:7: indented as part of line 5, which has a value already",
        ),
        (LAKE + "    - a\n", "7:5: a list item where a key is expected; indent the list below its key"),
        (
            LAKE + "    scope:\n      - a\n      b: c\n",
            "9:7: a key where a list item is expected; the items of a list begin with `- ` in one column",
        ),
        (LAKE + "||||||| base\n    prune: never\n", f"7:1: {CONFLICT}"),
        (LAKE + "=======\n    prune: all\n>>>>>>> x\n", f"7:1: {CONFLICT}"),
        (
            HEAD + "  lake:\n    config: {root: %ROOT%/lake}\n",
            '5:20: `%ROOT%/lake` is not replaced; write "${env:NAME}", in double quotes',
        ),
        (LAKE + "    scope: [*]\n", '7:13: a value that begins with * must be quoted: "*"'),
        (
            HEAD + "  lake:\n    impl: dir\n\u00a0   prune: never\n    tables: {}\n",
            "6:1: a blank that is no space (U+00A0); YAML has spaces only",
        ),
        (
            "{% if prod %}\n" + LAKE + "{% endif %}\n",
            (
                "1:1: `{% … %}` belongs to another tool; lancens has no conditions and no loops, so render the "
                "template first"
            ),
        ),
        ("// shop\n" + LAKE, "1:1: `//` and `/*` begin no comment of YAML, which begins with `#`"),
        ('[catalogs.lake]\nimpl = "dir"\n', "1:1: this is TOML or INI, not the YAML that lancens reads"),
        ('import lancens\n\nx = {"a": 1}\n', "1:1: this is Python, not the YAML that lancens reads"),
        (
            manifest("tables: {t: {schema: [{name: a, type:}]}}"),
            "7:41: `type` has no value; write one, or leave the key out",
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: struct<x: int8, y: int8>}]}}"),
            '7:51: `struct<x: int8, y: int8>` inside `{…}` must be quoted: "struct<x: int8, y: int8>"',
        ),
        (
            HEAD + "  lake: !include lake.yaml\n",
            (
                "4:9: tag `!include`; expected no tag, every scalar is text as written; write `include: [PATH]` at "
                "the top of the file"
            ),
        ),
        (
            '{"format_version": "1.0", "changes": []}\n',
            (
                "1:2: a saved plan, which `lancens apply FILE` takes, not a manifest of lancens; `lancens init -o "
                "NEW.yaml` writes one"
            ),
        ),
        (
            manifest("tables: {t: {location: '${{ secrets.ROOT }}'}}"),
            (
                "7:28: unknown placeholder `${{ secrets.ROOT }}`; `${{ … }}` belongs to a workflow of GitHub; write "
                "`${env:NAME}`"
            ),
        ),
        (
            manifest("", "dir", "{root: 's3:/lake/a'}"),
            "6:14: config: `root`: a location with s3: needs a bucket after `//`, such as s3://bucket/lake",
        ),
        (
            manifest("", "dir", "{root: 'https://lake.s3.eu-west-1.amazonaws.com/a'}"),
            "6:14: config: `root`: Lance opens no https: locations; write s3://lake/a",
        ),
        (
            manifest("", "dir", "{root: 'arn:aws:s3:::lake/a'}"),
            "6:14: config: `root`: Lance opens no arn: locations; write s3://lake/a",
        ),
        (
            manifest("tables: {t: {materialized: table}}"),
            (
                "7:18: unknown key `materialized` in table lake/t; leave it out: lancens fills no tables; it keeps the "
                "entry and the schema of a table"
            ),
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: np.float32}]}}"),
            "7:43: type `np.float32`: write `float32`",
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: 'number(38,0)'}]}}"),
            "7:43: type `number(38,0)`: Lance stores no type `number`; did you mean `decimal128(38, 0)`?",
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: array<int>}]}}"),
            "7:43: type `array<int>`: Lance stores no type `array`; did you mean `list<int32>`?",
        ),
        (
            "AWS_REGION=eu\nROOT=x\n",
            "1:1: text at the top; this is a file of environment variables, not the YAML that lancens reads",
        ),
        ("lancens==0.1\n", "1:1: text at the top; expected a block of keys such as `version: 1`"),
        (
            "region: eu-west-1\n",
            (
                "1:1: a file of variables, which `--var-file` takes, or of another tool, not a manifest of lancens; "
                "`lancens init -o NEW.yaml` writes one"
            ),
        ),
        (HEAD + "  lake: {impl: dir},\n    prune: never\n", "4:20: text after `}`, which ends the value; delete it"),
        (
            '{"event": "start"}\n{"event": "end"}\n',
            "1:1: lines of JSON, such as a journal, which `lancens show FILE` takes",
        ),
        (HEAD.replace("catalogs", "Catalogs"), "3:1: unknown key `Catalogs` in the manifest; did you mean `catalogs`?"),
        *(
            (manifest(text), f"7:{column}: unknown key `{key}` in {where}; write `{meant}`")
            for text, column, key, where, meant in (
                ("policies: [{select: '**', properties: {a: b}}]", 17, "select", "policy 1 of catalog lake", "match"),
                ("mirror: {source: other}", 14, "source", "the mirror of lake", "from"),
                ("tables: {t: {schema: [{field: a, type: int8}]}}", 28, "field", "a column of table lake/t", "name"),
            )
        ),
        (HEAD + "  lake: {type: dir}\n", "4:10: unknown key `type` in catalog lake; write `impl`"),
        (
            manifest("", "dir", "{bucket: lake}"),
            "6:14: config: unknown key `bucket`; write `root`",
        ),
        (
            manifest("", "dir", "./lake"),
            "6:13: `config` in catalog lake is `./lake`, expected a block of keys, such as `{root: ./lake}`",
        ),
        (
            manifest("", "dir", "{root: /lake, s3.path-style-access: true}"),
            (
                "6:27: config: unknown key `s3.path-style-access`; write `storage.virtual_hosted_style_request: "
                "false`, an option for opening datasets"
            ),
        ),
        (
            manifest("", "dir", "{root: file://lake}"),
            ("6:14: config: `root`: a file: URI has the whole path after three slashes; write a path, such as ./lake"),
        ),
        (
            manifest("tables: {t: {location: ~/t}}"),
            '7:28: `location` in table lake/t: `~` is not replaced; write the whole path, or `"${env:HOME}/t"`',
        ),
        (
            manifest("tables: {t: {maintain: {indices: {a: {type: btree}}}}}"),
            "7:49: `maintain.indices.a.type` in table lake/t is `btree`; did you mean `BTREE`?",
        ),
        (
            manifest("tables: {t: {maintain: {indices: {a: BTREE}}}}"),
            (
                "7:42: `maintain.indices.a` in table lake/t is `BTREE`, expected a block of keys, such as "
                "`{type: BTREE}`"
            ),
        ),
        (
            manifest("scope:\n  -a/**"),
            (
                "8:7: `scope` in catalog lake is `-a/**`, expected a list, such as `[features/**]`, with a space after "
                "each `-`"
            ),
        ),
        (
            manifest("tables: {t: {unmanaged: true}}"),
            (
                "7:18: unknown key `unmanaged` in table lake/t; leave its block out: a table without a block is left "
                "alone, unless this manifest owns it or `prune` is `all`"
            ),
        ),
        ("name = 'shop'\nversion = 1\n", "1:1: text at the top; write `name: shop`"),
        (
            "<!DOCTYPE html>\n",
            "1:1: HTML or XML, not YAML; a plan to apply is JSON, which `lancens plan -o plan.json` writes",
        ),
        (
            manifest("tables: {t: {lifecycle: x}}"),
            (
                "7:18: unknown key `lifecycle` in table lake/t; write `protect: true`, which forbids every plan that "
                "would remove it"
            ),
        ),
        (
            manifest("tables: {t: {probe:true: }}"),
            "7:18: unknown key `probe:true` in table lake/t; a space after the colon is missing: `probe: true`",
        ),
        (
            manifest("", "dir", "{root: '{{ root }}/lake'}"),
            "6:14: config: `root`: `{{ root }}` is not replaced; write `${var:NAME}`",
        ),
        (
            manifest("", "dir", "{root: $ROOT/lake}"),
            "6:14: config: `root`: `$ROOT` is not replaced; write `${env:ROOT}`",
        ),
        (
            manifest("", "dir", "{root: C:\\data\\lake}"),
            "6:14: config: `root`: a path of Windows, which is a relative one here; write the path of this machine",
        ),
        (
            manifest("tables: {t: {location: 's3://{{ bucket }}/t'}}"),
            "7:28: `location` in table lake/t: `{{ bucket }}` is not replaced; write `${var:NAME}`",
        ),
        (
            manifest("", "dir", "{root: 'gcs://lake/a'}"),
            "6:14: config: `root`: Lance opens no gcs: locations; write gs://lake/a",
        ),
        (
            manifest("tables: {t: {location: 'gcs://lake/a'}}"),
            "7:28: `location` in table lake/t: Lance opens no gcs: locations; write gs://lake/a",
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: 'vector(8)'}]}}"),
            "7:43: type `vector(8)`: Lance stores no type `vector`; did you mean `fixed_size_list<float32>[8]`?",
        ),
        (
            manifest("tables: {t: {schema: [{name: a, type: int64 not null}]}}"),
            "7:43: type `int64 not null`: write `nullable: false` beside the type",
        ),
        (
            manifest("tables: {t: {protect: ${var.keep}}}"),
            '7:28: `${var.keep}` inside `{…}` must be quoted: "${var.keep}"',
        ),
        (
            manifest(f"tables: {{t: {{protect: {'x' * 2_000_000}}}}}"),
            f"7:27: `protect` in table lake/t is `{'x' * 40}…{'x' * 39}`, expected true or false",
        ),
    ],
)
def test_a_mistake_has_one_message(write: Write, text: str, message: str) -> None:
    assert message_of(write(lancens=text)) == message


def test_a_manifest_without_catalogs_has_nothing_to_plan(write: Write) -> None:
    (warning,) = load(write(lancens="version: 1\nname: shop\ncatalogs:\n")).warnings

    assert str(warning).startswith("lancens.yaml:3:1: `catalogs` is empty, so there is nothing to plan; name one")


def test_a_missing_variable_names_the_file_beside_the_manifest_that_has_it(write: Write) -> None:
    path = write(lancens=manifest("tables: {t: {location: '${var:place}'}}"))
    (path.parent / "prod.vars.yaml").write_text("region: eu\nplace: /data\n")

    assert message_of(path).endswith("give it with `--var-file prod.vars.yaml`, or write `${var:place:-default}`")


def test_all_missing_values_are_one_report(write: Write) -> None:
    text = manifest("tables: {t: {location: '${var:a}/${var:b}'}}", "dir", "{root: '${env:NO_SUCH_ROOT}'}")

    with pytest.raises(ManifestError) as caught:
        load(write(lancens=text))

    root, location = map(str, caught.value.problems)
    assert "config `root`: environment variable `NO_SUCH_ROOT` is not set" in root
    assert "variable `a` is not given" in location
    assert "variable `b` is not given" in location


def test_a_secret_in_the_manifest_is_a_warning(write: Write) -> None:
    (warning,) = load(write(lancens=manifest("", "rest", "{uri: 'http://127.0.0.1:1', auth_token: abc}"))).warnings

    assert str(warning).endswith(
        "config: `auth_token` is written out for every reader of this file; write `${env:NAME}` or `${file:PATH}`"
    )
    assert "abc" not in str(warning)


def test_a_forgotten_value_of_a_property_is_a_warning(write: Write) -> None:
    empty, null = load(write(lancens=manifest("tables: {t: {properties: {owner: , team: ~, name: ''}}}"))).warnings

    assert str(empty).endswith("`owner` in `properties` is empty, and is written so; quote it, or leave the key out")
    assert "`team` in `properties` is null, and is written as the text `~`" in str(null)


@pytest.mark.parametrize(
    ("name", "characters"), [("u\u0455ers", "U+0455"), ("users\u200b", "U+200B"), ("u\u017fers", "U+017F")]
)
def test_a_name_that_looks_like_another_is_a_warning(write: Write, name: str, characters: str) -> None:
    (warning,) = load(write(lancens=manifest(f"tables: {{users: {{}}, {name}: {{}}}}"))).warnings

    assert str(warning).endswith(f"lake/{name} looks like lake/users, and has {characters}")


def test_no_habit_is_a_key_of_its_block() -> None:
    for block, keys in habits.KEYS.items():
        model = getattr(models, block)
        known = {field.alias or name for name, field in model.model_fields.items()}
        assert not known & keys.keys(), block
