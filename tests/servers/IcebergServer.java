import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Apache Iceberg's REST adapter over its in-memory catalogs, on 127.0.0.1, with what the adapter itself leaves out.
 *
 * <p>System properties:
 *
 * <ul>
 *   <li>{@code port}
 *   <li>{@code prefix}: where a warehouse's paths are below, announced as it is; {@code {warehouse}} in it stands for
 *       the warehouse's name. Every prefix is a catalog of its own. Empty: one catalog, no prefix, as the adapter is.
 *   <li>{@code prefixIn}: {@code overrides} or {@code defaults}, or {@code nowhere} to announce none.
 *   <li>{@code client}: {@code id:secret}; then every call needs a token.
 *   <li>{@code page}: the size of a page where the client asks for none, as services have one.
 * </ul>
 *
 * <p>Warehouses whose name begins with {@code missing} do not exist. {@code POST /test/revoke} revokes every token
 * given out. Every request is a line of the log.
 */
public final class IcebergServer extends HttpServlet {
  private final String prefix = System.getProperty("prefix", "");
  private final String prefixIn = System.getProperty("prefixIn", "overrides");
  private final String client = System.getProperty("client", "");
  private final String page = System.getProperty("page", "");
  private final Set<String> tokens = ConcurrentHashMap.newKeySet();
  private final Map<String, RESTCatalogServlet> catalogs = new ConcurrentHashMap<>();

  public static void main(String[] arguments) throws Exception {
    HttpConfiguration http = new HttpConfiguration();
    http.setUriCompliance(UriCompliance.UNSAFE); // names may hold a percent sign
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(http));
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.getInteger("port"));
    server.addConnector(connector);
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new IcebergServer()), "/*");
    server.setHandler(context);
    server.start();
    server.join();
  }

  @Override
  protected void service(HttpServletRequest asked, HttpServletResponse answer) throws ServletException, IOException {
    String path = asked.getRequestURI();
    String query = asked.getQueryString();
    String warehouse = Objects.requireNonNullElse(asked.getParameter("warehouse"), "");
    System.out.println(asked.getMethod() + " " + path + (query == null ? "" : "?" + query));
    if (path.equals("/v1/oauth/tokens")) {
      giveToken(asked, answer);
    } else if (path.equals("/test/revoke")) {
      tokens.clear();
      send(answer, 200, "{}");
    } else if (!isAllowed(asked)) {
      fail(answer, 401, "NotAuthorizedException", "Not authorized");
    } else if (path.equals("/v1/config") && warehouse.startsWith("missing")) {
      fail(answer, 404, "NotFoundException", "Unable to find warehouse " + warehouse);
    } else if (path.equals("/v1/config") && !prefix.isEmpty()) {
      String announced = "{\"prefix\":\"" + prefix.replace("{warehouse}", warehouse) + "\"}";
      send(answer, 200, "{\"defaults\":{},\"overrides\":{},\"" + prefixIn + "\":" + announced + "}");
    } else {
      boolean isBelow = path.contains("/namespaces") || path.endsWith("/tables/rename");
      String catalog = prefix.isEmpty() || !isBelow ? "" : path.split("/")[2];
      String inner = catalog.isEmpty() ? path : "/v1" + path.substring("/v1/".length() + catalog.length());
      catalogs.computeIfAbsent(catalog, IcebergServer::open).service(new Unprefixed(asked, inner), answer);
    }
  }

  private static RESTCatalogServlet open(String name) {
    InMemoryCatalog catalog = new InMemoryCatalog();
    catalog.initialize(name, Map.of("warehouse", "s3://warehouse"));
    return new RESTCatalogServlet(new RESTCatalogAdapter(catalog));
  }

  private void giveToken(HttpServletRequest asked, HttpServletResponse answer) throws IOException {
    String given = asked.getParameter("client_id") + ":" + asked.getParameter("client_secret");
    if (!"client_credentials".equals(asked.getParameter("grant_type")) || !client.equals(given)) {
      send(answer, 401, "{\"error\":\"invalid_client\",\"error_description\":\"bad credentials\"}");
      return;
    }
    String token = UUID.randomUUID().toString();
    tokens.add(token);
    send(answer, 200, "{\"access_token\":\"" + token + "\",\"token_type\":\"bearer\",\"expires_in\":3600}");
  }

  private boolean isAllowed(HttpServletRequest asked) {
    String header = asked.getHeader("Authorization");
    return client.isEmpty() || (header != null && tokens.contains(header.replaceFirst("^Bearer ", "")));
  }

  private static void fail(HttpServletResponse answer, int code, String type, String message) throws IOException {
    send(answer, code, "{\"error\":{\"message\":\"" + message + "\",\"type\":\"" + type + "\",\"code\":" + code + "}}");
  }

  private static void send(HttpServletResponse answer, int status, String body) throws IOException {
    answer.setStatus(status);
    answer.setContentType("application/json");
    answer.getWriter().write(body);
  }

  /** The request at the path the adapter knows, and with a page size where a listing names none. */
  private final class Unprefixed extends HttpServletRequestWrapper {
    private final String path;

    Unprefixed(HttpServletRequest asked, String path) {
      super(asked);
      this.path = path;
    }

    @Override
    public String getRequestURI() {
      return path;
    }

    @Override
    public Map<String, String[]> getParameterMap() {
      Map<String, String[]> parameters = new LinkedHashMap<>(super.getParameterMap());
      boolean lists = getMethod().equals("GET") && (path.endsWith("/namespaces") || path.endsWith("/tables"));
      if (lists && !page.isEmpty()) {
        parameters.putIfAbsent("pageToken", new String[] {""});
        parameters.putIfAbsent("pageSize", new String[] {page});
      }
      return parameters;
    }
  }
}
