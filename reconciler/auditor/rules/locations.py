"""Rules about locations: shared, nested, indirect, and their schemes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.auditor.records import Severity, TableRecord
from reconciler.auditor.rules.rule import RuleLimits, Verdict, rule
from reconciler.model import locations, ownership
from reconciler.model.names import address
from reconciler.storage import SCHEMES, has_driver

_MOST_NAMED = 3


def _address_list(addresses: Sequence[str]) -> str:
    """Return the first few addresses as one text; a record has only some, so their number is not named."""
    more = "" if len(addresses) <= _MOST_NAMED else " and others"
    return ", ".join(addresses[:_MOST_NAMED]) + more


@rule(Severity.ERROR)
def shared_location(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Several tables are at one location

    Writes to one of them appear in the other, and dropping one with its data empties both. Within a catalog that is an
    error; between two catalogs, which may be intended, it is a note; an entry of a mirror is no finding. Locations are
    compared as storage sees them: `s3`, `s3a` and `s3n` are one place, and so are `file:` and a plain path.
    """
    if record.live is None or not record.sharing:
        return
    is_within_catalog = any(other.startswith(address(record.catalog, ("",))) for other in record.sharing)
    reason = f"{_address_list(record.sharing)} {'is' if len(record.sharing) == 1 else 'are'} at the same location"
    if is_within_catalog:
        yield Verdict(
            reason,
            "Keep one of the entries and remove the others with `absent: true` and `lancens apply`, which keeps the "
            "data. If they are meant to be two tables, copy the data and correct one location.",
        )
    elif ownership.mirror_of(record.live.properties) is None:
        yield Verdict(
            f"{reason}, in another catalog",
            "If both catalogs are meant to have the table, nothing has to be done; agree on the one through which it "
            "is written and dropped.",
            Severity.NOTE,
        )


@rule(Severity.ERROR)
def nested_location(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The table's location is inside another table's

    Removing or cleaning up the outer table deletes files of the inner one, and permissions on the outer one open the
    inner one. Give each table a location of its own.
    """
    if record.live is not None and record.inside:
        yield Verdict(
            f"its location is inside that of {_address_list(record.inside)}",
            "Copy this dataset to a location of its own, correct its entry, and then remove its old copy. The outer "
            "directory must stay until then: this dataset is in it.",
        )


@rule(Severity.WARNING)
def scheme_mismatch(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The location's scheme differs from that of its root, or of another entry

    Engines choose the driver and the credentials of a location by its scheme: a table at `s3a:` in a catalog of `s3:`
    works in one engine and fails in the next, and one at a local path is found on one machine only.
    """
    if record.live is None or record.location is None or not has_driver(record.location):
        return  # unknown_scheme reports a scheme without a driver
    scheme = locations.scheme(record.location)
    if scheme == locations.LOCKED:
        return  # written another way, its commits would lose their lock
    other_schemes = [other for other in record.schemes if other != scheme]
    root = scheme if record.root is None else locations.scheme(record.root)
    if scheme != root:
        yield Verdict(
            f"its location is at `{scheme}:`, the catalog's root at `{root}:`",
            f"Write the location with `{root}:`, as the root is, unless the table is meant to be elsewhere.",
        )
    elif other_schemes:
        yield Verdict(
            f"its location is written with `{scheme}:`, and another entry for the same place with "
            f"`{other_schemes[0]}:`",
            "Write both the same way.",
        )


@rule(Severity.ERROR)
def unknown_scheme(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """Lance clients do not know the location's scheme

    pylance, LanceDB and lance-spark choose a driver by the scheme and refuse an unknown one, so that the table cannot
    be opened. Hadoop's `s3a:` and `s3n:` are a note: lancens reads them as `s3:`, and other clients refuse them.
    """
    if record.live is None or not record.location:
        return
    scheme = locations.scheme(record.location)
    if scheme in SCHEMES:
        return
    known = locations.scheme(locations.pylance_uri(record.location))
    if has_driver(record.location) and record.root is not None and locations.scheme(record.root) != scheme:
        return  # scheme_mismatch reports it
    if has_driver(record.location):
        yield Verdict(
            f"its location is at `{scheme}:`, which lancens reads as `{known}:` and other Lance clients do not know",
            f"Write the location with `{known}:`, unless the engines that read the table need `{scheme}:`.",
            Severity.NOTE,
        )
    else:
        yield Verdict(
            f"its location is at `{scheme}:`, for which Lance has no driver",
            "Correct the location, or copy the data to a store that Lance reads (`s3:`, `gs:`, `az:`, a local path).",
            Severity.ERROR,
        )


@rule(Severity.WARNING)
def indirect_location(record: TableRecord, _: RuleLimits) -> Iterator[Verdict]:
    """The location leads to the data through a symbolic link or `..`

    A tool that compares locations as text takes the table for another one: it is registered twice, or its data is
    removed as an orphan. A symbolic link may lead elsewhere on the next machine. Two entries for one place are a
    `shared-location`, too.
    """
    if record.live is None or not record.location or record.place is None:
        return
    if record.place != locations.objects_of(locations.normalise(record.location)):
        defect = "leads through a symbolic link"
    elif ".." in locations.names_in(record.location):
        defect = "has `..` in it"
    else:
        return
    yield Verdict(
        f"its location {defect}: the data is at {locations.redact(record.place)}",
        f"Write the location as {locations.redact(record.place)}; a plan for it shows that no data moves.",
    )
