// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import java.nio.charset.StandardCharsets.UTF_8
import java.security.{MessageDigest, SecureRandom}
import java.util.HexFormat
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.Servlets
import org.apache.spark.ui.SparkUI

import jakarta.servlet.http.{HttpServlet, HttpServletRequest, HttpServletResponse}

/** What people may do from the page: cancel a plan.
  *
  *   1. The page shows a button whose action names the plan and has a token. The token is a code of
  *      run and plan under a key that only this UI knows. So no other site can make a browser
  *      cancel a plan, and a token that gets into a log cancels that plan and nothing else.
  *   1. The button posts with an empty body, because bodies do not survive the standalone master's
  *      proxy.
  *   1. Whoever may not modify the application gets 403, as from Spark's own kill links.
  *
  * Private to Spark (4.2, 4.3): `SparkUI`.
  *
  * Threads: any.
  *
  * @param cancel
  *   cancels a plan, given the run's id and the plan's; may throw
  */
final class Actions(ui: SparkUI, cancel: (String, String) => Unit) extends Logging {
  private val key = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    new SecretKeySpec(bytes, Actions.Algorithm)
  }

  Servlets.attach(ui, Actions.CancelPath, new CancelServlet)

  /** Whether who asks may modify the application. */
  def mayChange(request: HttpServletRequest): Boolean =
    ui.securityManager.checkModifyPermissions(request.getRemoteUser)

  /** The path of the UI to post to. It ends the path with a slash, since what is posted to one
    * without is lost in a redirect.
    */
  def cancelPath(run: String, plan: String): String =
    s"${Actions.CancelPath}/?run=$run&plan=$plan&token=${tokenOf(run, plan)}"

  private def tokenOf(run: String, plan: String): String = {
    val mac = Mac.getInstance(Actions.Algorithm)
    mac.init(key)
    HexFormat.of().formatHex(mac.doFinal(s"cancel/$run/$plan".getBytes(UTF_8)))
  }

  private final class CancelServlet extends HttpServlet {

    /** As Spark's own servlets: it would answer with the request's cookies (SPARK-5983). */
    override def doTrace(request: HttpServletRequest, response: HttpServletResponse): Unit =
      response.sendError(405)

    override def doPost(request: HttpServletRequest, response: HttpServletResponse): Unit = {
      def asked(name: String) = Option(request.getParameter(name)).getOrElse("")
      val (run, plan) = (asked("run"), asked("plan"))
      val isOurs = MessageDigest.isEqual(asked("token").getBytes, tokenOf(run, plan).getBytes)
      if (!mayChange(request)) response.sendError(403, "You may not change this application.")
      else if (!isOurs)
        response.sendError(403, "The button is of an older page: load the page again.")
      else
        try {
          cancel(run, plan)
          logInfo(
            s"${Option(request.getRemoteUser).getOrElse("Somebody")} asked to cancel plan $plan."
          )
          // Without the proxy's prefix, which the proxy adds itself.
          response.sendRedirect(s"${ui.basePath}/${MegaphoneTab.Path}/query/?run=$run")
        } catch { case NonFatal(e) => response.sendError(409, e.getMessage) }
    }
  }
}

private object Actions {
  private val Algorithm = "HmacSHA256"
  private val CancelPath = s"/${MegaphoneTab.Path}/cancel"
}
