// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone;

import jakarta.servlet.http.HttpServlet;
import org.apache.spark.ui.SparkUI;

/**
 * Puts servlets into Spark's web server, behind its filters.
 *
 * <p>In Java, because Scala cannot call {@code attachHandler}: the Scala signatures in Spark's jars
 * name Jetty by the package that it had before it was shaded, and the byte code by the one that it
 * has now. The Java compiler reads the byte code alone.
 *
 * <p>Private to Spark (4.2, 4.3): {@code SparkUI.attachHandler}, {@code SparkUI.basePath}.
 */
public final class Servlets {
  private Servlets() {}

  /**
   * Attaches a servlet at a path below the web server's root, for example "/metrics/megaphone". It
   * answers at the path with a slash at its end; without the slash the server redirects there, and
   * what a POST has sent is lost on the way.
   */
  public static void attach(SparkUI ui, String path, HttpServlet servlet) {
    ui.attachHandler(ui.basePath() + path, servlet, "/");
  }
}
