/*
 * The part of the Hive Metastore protocol that lancens speaks. Field numbers and types are those of the servers
 * (2.3.10, 3.1.3 and 4.1.0), so that every one of them understands it.
 *
 * Catalog, Database, StorageDescriptor and Table have every field a server sends, so that what is read, altered and
 * written back loses nothing. The one left out is Table's 21 (column statistics), which a server sends only when
 * asked. Field 16 of a 2.3 table (its catalog) is skipped, as 2.3 itself ignores it.
 *
 * `make thrift` turns this file into the package `gen`.
 */
namespace py gen

enum PrincipalType { USER = 1, ROLE = 2, GROUP = 3 }
enum DatabaseType { NATIVE = 1, REMOTE = 2 }
enum SerdeType { HIVE = 1, SCHEMA_REGISTRY = 2 }

struct FieldSchema { 1: string name, 2: string type, 3: string comment }

struct PrivilegeGrantInfo {
  1: string privilege,
  2: i32 createTime,
  3: string grantor,
  4: PrincipalType grantorType,
  5: bool grantOption
}

struct PrincipalPrivilegeSet {
  1: map<string, list<PrivilegeGrantInfo>> userPrivileges,
  2: map<string, list<PrivilegeGrantInfo>> groupPrivileges,
  3: map<string, list<PrivilegeGrantInfo>> rolePrivileges
}

// ---- catalogs (3.x and later) ---------------------------------------------------------------------------------------

struct Catalog { 1: string name, 2: optional string description, 3: string locationUri, 4: optional i32 createTime }
struct CreateCatalogRequest { 1: Catalog catalog }
struct AlterCatalogRequest { 1: string name, 2: Catalog newCat }
struct GetCatalogRequest { 1: string name }
struct GetCatalogResponse { 1: Catalog catalog }
struct GetCatalogsResponse { 1: list<string> names }
struct DropCatalogRequest { 1: string name }

// ---- databases ------------------------------------------------------------------------------------------------------

struct Database {
  1: string name,
  2: string description,
  3: string locationUri,
  4: map<string, string> parameters,
  5: optional PrincipalPrivilegeSet privileges,
  6: optional string ownerName,
  7: optional PrincipalType ownerType,
  8: optional string catalogName,
  9: optional i32 createTime,
  10: optional string managedLocationUri,
  11: optional DatabaseType type,
  12: optional string connector_name,
  13: optional string remote_dbname
}

// ---- tables ---------------------------------------------------------------------------------------------------------

struct SerDeInfo {
  1: string name,
  2: string serializationLib,
  3: map<string, string> parameters,
  4: optional string description,
  5: optional string serializerClass,
  6: optional string deserializerClass,
  7: optional SerdeType serdeType
}

struct Order { 1: string col, 2: i32 order }

struct SkewedInfo {
  1: list<string> skewedColNames,
  2: list<list<string>> skewedColValues,
  3: map<list<string>, string> skewedColValueLocationMaps
}

struct StorageDescriptor {
  1: list<FieldSchema> cols,
  2: string location,
  3: string inputFormat,
  4: string outputFormat,
  5: bool compressed,
  6: i32 numBuckets,
  7: SerDeInfo serdeInfo,
  8: list<string> bucketCols,
  9: list<Order> sortCols,
  10: map<string, string> parameters,
  11: optional SkewedInfo skewedInfo,
  12: optional bool storedAsSubDirectories
}

struct FileMetadata { 1: i8 type = 1, 2: i8 version = 1, 3: list<binary> data }
struct ObjectDictionary { 1: required map<string, list<binary>> values }

struct SourceTable {
  1: required Table table,
  2: required i64 insertedCount,
  3: required i64 updatedCount,
  4: required i64 deletedCount
}

struct CreationMetadata {
  1: required string catName,
  2: required string dbName,
  3: required string tblName,
  4: required set<string> tablesUsed,
  5: optional string validTxnList,
  6: optional i64 materializationTime,
  7: optional list<SourceTable> sourceTables
}

struct Table {
  1: string tableName,
  2: string dbName,
  3: string owner,
  4: i32 createTime,
  5: i32 lastAccessTime,
  6: i32 retention,
  7: StorageDescriptor sd,
  8: list<FieldSchema> partitionKeys,
  9: map<string, string> parameters,
  10: string viewOriginalText,
  11: string viewExpandedText,
  12: string tableType,
  13: optional PrincipalPrivilegeSet privileges,
  14: optional bool temporary,
  15: optional bool rewriteEnabled,
  16: optional CreationMetadata creationMetadata,
  17: optional string catName,
  18: optional PrincipalType ownerType,
  19: optional i64 writeId,
  20: optional bool isStatsCompliant,
  22: optional i8 accessType,
  23: optional list<string> requiredReadCapabilities,
  24: optional list<string> requiredWriteCapabilities,
  25: optional i64 id,
  26: optional FileMetadata fileMetadata,
  27: optional ObjectDictionary dictionary,
  28: optional i64 txnId
}

struct SQLPrimaryKey {
  1: string table_db,
  2: string table_name,
  3: string column_name,
  4: i32 key_seq,
  5: string pk_name,
  6: bool enable_cstr,
  7: bool validate_cstr,
  8: bool rely_cstr,
  9: optional string catName
}

/* Only ever sent as an empty list. */
struct SQLForeignKey { 1: string pktable_db }

struct TableMeta { 1: required string dbName, 2: required string tableName, 3: required string tableType }
struct EnvironmentContext { 1: map<string, string> properties }
struct GetTableRequest { 1: required string dbName, 2: required string tblName, 4: optional string catName }
struct GetTableResult { 1: required Table table }
struct GetTablesRequest { 1: required string dbName, 2: optional list<string> tblNames, 4: optional string catName }
struct GetTablesResult { 1: required list<Table> tables }

// ---- errors and calls -----------------------------------------------------------------------------------------------

exception MetaException { 1: string message }
exception UnknownDBException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidOperationException { 1: string message }

service ThriftHiveMetastore {
  list<string> set_ugi(1: string user_name, 2: list<string> group_names) throws (1: MetaException o1)

  void create_catalog(1: CreateCatalogRequest catalog)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  void alter_catalog(1: AlterCatalogRequest rqst)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  GetCatalogResponse get_catalog(1: GetCatalogRequest catName) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  GetCatalogsResponse get_catalogs() throws (1: MetaException o1)
  void drop_catalog(1: DropCatalogRequest catName)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)

  void create_database(1: Database database)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
  list<string> get_databases(1: string pattern) throws (1: MetaException o1)
  void alter_database(1: string dbname, 2: Database db) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  list<string> get_functions(1: string dbName, 2: string pattern) throws (1: MetaException o1)

  void create_table(1: Table tbl) throws (
    1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4)
  void create_table_with_constraints(1: Table tbl, 2: list<SQLPrimaryKey> primaryKeys, 3: list<SQLForeignKey> foreignKeys)
    throws (
      1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4)
  void drop_table(1: string dbname, 2: string name, 3: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o3)
  list<TableMeta> get_table_meta(1: string db_patterns, 2: string tbl_patterns, 3: list<string> tbl_types)
    throws (1: MetaException o1)
  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1)
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
  GetTablesResult get_table_objects_by_name_req(1: GetTablesRequest req)
    throws (1: MetaException o1, 2: InvalidOperationException o2, 3: UnknownDBException o3)
  list<string> get_table_names_by_filter(1: string dbname, 2: string filter, 3: i16 max_tables = -1)
    throws (1: MetaException o1, 2: InvalidOperationException o2, 3: UnknownDBException o3)
  void alter_table_with_environment_context(
    1: string dbname, 2: string tbl_name, 3: Table new_tbl, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
}
