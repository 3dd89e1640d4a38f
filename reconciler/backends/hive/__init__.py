"""``impl: hive2`` and ``impl: hive3``: Hive Metastores over Thrift.

``hive2`` shows the databases of a metastore (Lance Namespace specification, "Lance HMS Namespace"), ``hive3`` the
catalogs of a 3.x or 4.x one and their databases (Lance Hive 3.x Namespace Implementation Spec). From the outside in:
``hive2`` and ``hive3`` are the backends, ``databases``, ``catalogs`` and ``tables`` do the work on each level,
``entries`` turns structs into the shared vocabulary and back, ``metastore``, ``connection`` and ``carriers`` carry the
calls, and ``gen`` is generated from ``metastore.thrift``.
"""
