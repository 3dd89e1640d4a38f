import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * Spark SQL with Iceberg's own runtime on an Iceberg REST catalog named {@code cat}: what Iceberg's users run.
 *
 * <p>Arguments: the service's address, the warehouse, a bearer token. Each line of the input is a statement. For each
 * one line is printed, in its order: {@code OK} and the number of its rows, or {@code REFUSED} and why.
 */
public final class IcebergSpark {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark =
        SparkSession.builder()
            .master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.catalog.cat", "org.apache.iceberg.spark.SparkCatalog")
            .config("spark.sql.catalog.cat.type", "rest")
            .config("spark.sql.catalog.cat.uri", arguments[0])
            .config("spark.sql.catalog.cat.warehouse", arguments[1])
            .config("spark.sql.catalog.cat.token", arguments[2])
            .config("spark.sql.catalog.cat.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO")
            .getOrCreate();
    BufferedReader statements = new BufferedReader(new InputStreamReader(System.in));
    for (String statement = statements.readLine(); statement != null; statement = statements.readLine()) {
      System.out.println(answer(spark, statement));
    }
    spark.stop();
  }

  private static String answer(SparkSession spark, String statement) {
    try {
      List<Row> rows = spark.sql(statement).collectAsList();
      return "OK " + rows.size();
    } catch (Exception error) {
      return "REFUSED " + String.valueOf(error.getMessage()).lines().findFirst().orElse("");
    }
  }
}
