// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.net.http.HttpRequest.BodyPublishers

import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.query.KeyedSession

import jakarta.servlet.{Filter, FilterChain, ServletRequest, ServletResponse}
import jakarta.servlet.http.{HttpServletRequest, HttpServletRequestWrapper}

/** Believes who says in a header who they are. */
final class HeaderUserFilter extends Filter {
  override def doFilter(
      request: ServletRequest,
      response: ServletResponse,
      chain: FilterChain
  ): Unit = {
    val asked = new HttpServletRequestWrapper(request.asInstanceOf[HttpServletRequest]) {
      override def getRemoteUser: String = getHeader("X-User")
    }
    chain.doFilter(asked, response)
  }
}

/** Who may see the tab, and who may cancel a plan there. */
class TabAccessSuite extends KeyedSession {
  override protected def settings: Map[String, String] = Map(
    "spark.ui.enabled" -> "true",
    "spark.ui.port" -> "0",
    "spark.ui.filters" -> classOf[HeaderUserFilter].getName,
    "spark.acls.enable" -> "true",
    "spark.ui.view.acls" -> "viewer",
    "spark.modify.acls" -> "operator",
    "spark.admin.acls" -> "admin"
  )

  private def ask(user: String, path: String, method: String = "GET"): HttpResponse[String] = {
    val request = HttpRequest
      .newBuilder(URI.create(spark.sparkContext.uiWebUrl.get + path))
      .method(method, BodyPublishers.noBody())
      .header("X-User", user)
      .build()
    HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString())
  }

  test("A viewer sees the page without buttons, an admin cancels, and a stranger gets nothing.") {
    val source = new Source
    val running = start(source.stream.groupBy("k").count(), "update")
    source.feed()
    running.query.processAllAvailable()
    val run = running.query.runId.toString
    val path = s"/megaphone/query/?run=$run"
    MegaphoneApi.rescale(run, 5, "fluid", "prepared", -1)
    eventually(timeout(30.seconds))(assert(ask("admin", path).body.contains("<form")))
    val action = """action="([^"]+)"""".r
      .findFirstMatchIn(ask("admin", path).body)
      .get
      .group(1)
      .replace("&amp;", "&")

    assert(ask("viewer", path).statusCode == 200 && !ask("viewer", path).body.contains("<form"))
    assert(ask("stranger", path).statusCode == 403)
    assert(ask("stranger", "/megaphone/json/").statusCode == 403)
    for (user <- Seq("viewer", "stranger")) assert(ask(user, action, "POST").statusCode == 403)
    assert(ask("admin", path).body.contains("<form"), "the plan is still open")
    assert(ask("admin", action, "POST").statusCode == 302)
    eventually(timeout(30.seconds))(assert(!ask("admin", path).body.contains("<form")))
    running.stop()
  }
}
