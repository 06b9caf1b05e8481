// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import jakarta.servlet.http.{HttpServlet, HttpServletRequest, HttpServletResponse}

/** The page with labels. It answers GET and HEAD; whatever fails is logged, and answered with 500.
  *
  * Threads: those of Spark's web server, several at once.
  *
  * @param page
  *   makes the page's text
  */
private[metrics] final class MetricsServlet(page: () => String) extends HttpServlet with Logging {
  override def doGet(request: HttpServletRequest, response: HttpServletResponse): Unit =
    try {
      val bytes = page().getBytes(UTF_8)
      response.setContentType(Exposition.ContentType)
      response.setHeader("Cache-Control", "no-cache, no-store, must-revalidate")
      response.setContentLength(bytes.length)
      response.getOutputStream.write(bytes)
    } catch {
      case NonFatal(e) =>
        logWarning("The page of metrics could not be made.", e)
        response.sendError(
          HttpServletResponse.SC_INTERNAL_SERVER_ERROR,
          "The metrics cannot be shown; the driver's log says why."
        )
    }

  /** As Spark's own servlets: what was sent is not echoed. */
  override def doTrace(request: HttpServletRequest, response: HttpServletResponse): Unit =
    response.sendError(HttpServletResponse.SC_METHOD_NOT_ALLOWED)
}
