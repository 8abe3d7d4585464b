import java.util.Map;

import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Iceberg's own answers of a REST catalog, whose tables SQLite knows: PORT DATABASE WAREHOUSE. */
public final class IcebergRestCatalog {
    public static void main(String[] arguments) throws Exception {
        JdbcCatalog tables = new JdbcCatalog();
        tables.initialize("tables", Map.of(
                "uri", "jdbc:sqlite:file:" + arguments[1],
                "warehouse", arguments[2],
                "jdbc.schema-version", "V1",
                "io-impl", "org.apache.iceberg.TestTables$LocalFileIO"));
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(arguments[0]));
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(tables))), "/*");
        server.setHandler(context);
        server.start();
        server.join();
    }
}
