// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import scala.xml.{Node, NodeSeq, Unparsed}

import org.apache.spark.ui.{CspNonce, SparkUI, SparkUITab, UIUtils, WebUIPage}
import org.json4s.JValue
import org.json4s.jackson.JsonMethods

import io.megaphone.spark.faces.history.{EventStore, Measure, RunFacts}
import io.megaphone.spark.faces.ui.{Content, Links}

import jakarta.servlet.http.HttpServletRequest

/** The tab "State migration" of a UI, live or in the history server.
  *
  * Private to Spark (4.2, 4.3): `CspNonce`, `SparkUI`, `SparkUITab`, `UIUtils`, `WebUIPage`.
  *
  * @param actions
  *   what the page lets people do; None in the history server
  */
final class MegaphoneTab(val store: EventStore, ui: SparkUI, val actions: Option[Actions])
    extends SparkUITab(ui, MegaphoneTab.Path) {
  override val name: String = "State migration"
  override def displayOrder: Int = 3 // after SQL and Structured Streaming

  val isLive: Boolean = ui.sc.isDefined

  attachPage(new QueriesPage(this))
  attachPage(new QueryPage(this))
  ui.attachTab(this)

  /** A path of the UI, as a browser must ask for it: behind a proxy, and in the history server. */
  private[ui] def to(request: HttpServletRequest)(path: String): String =
    UIUtils.prependBaseUri(request, basePath, path)

  /** A whole page. The live one is fetched again every few seconds while somebody looks at it. */
  private[ui] def page(request: HttpServletRequest, content: NodeSeq): Seq[Node] = {
    val refresh =
      if (isLive) <script nonce={CspNonce.get}>{Unparsed(MegaphoneTab.Refresh)}</script>
      else NodeSeq.Empty
    UIUtils.headerSparkPage(request, name, Content.page(content) ++ refresh, this)
  }

  private[ui] def query(request: HttpServletRequest, run: RunFacts): NodeSeq = {
    val mayCancel = run.end.isEmpty && actions.exists(_.mayChange(request))
    val links = Links(
      to(request),
      plan =>
        actions.filter(_ => mayCancel).map(a => to(request)(a.cancelPath(run.query.run, plan)))
    )
    Content.query(run, Measure.of(request.getParameter("by")), links)
  }
}

object MegaphoneTab {
  val Path = "megaphone"

  /** Replaces the page's content by a new one, some seconds after the last answer. Keeps open what
    * the reader has opened, and waits while a button has the focus or the page is hidden. If the
    * application does not answer, the content fades.
    */
  private val Refresh =
    """(() => {
      |  const content = () => document.getElementById('megaphone');
      |  let last = new Date().toLocaleTimeString();
      |  const failed = () => {
      |    content().classList.add('stale');
      |    content().title = 'No answer from the application since ' + last + '.';
      |  };
      |  const take = html => {
      |    const page = new DOMParser().parseFromString(html, 'text/html');
      |    const next = page.getElementById('megaphone');
      |    if (!next) { failed(); return; }
      |    for (const d of content().querySelectorAll('details[open]')) {
      |      const same = next.querySelector('#' + CSS.escape(d.id));
      |      if (same) same.open = true;
      |    }
      |    content().replaceWith(next);
      |    last = new Date().toLocaleTimeString();
      |  };
      |  const isBusy = () => document.hidden || document.activeElement?.closest('#megaphone form');
      |  const look = () => (isBusy() ? Promise.resolve()
      |    : fetch(location.href).then(r => r.ok ? r.text() : Promise.reject()).then(take)
      |      .catch(failed)).finally(() => setTimeout(look, 5000));
      |  setTimeout(look, 5000);
      |})()""".stripMargin
}

/** The application's queries; the query, if there is only one. */
private final class QueriesPage(tab: MegaphoneTab) extends WebUIPage("") {
  override def render(request: HttpServletRequest): Seq[Node] = {
    val content = tab.store.runIds match {
      case Vector(only) =>
        tab.store.run(only).fold(NodeSeq.Empty)(tab.query(request, _))
      case _ => Content.queries(tab.store.runs, Links(tab.to(request), _ => None))
    }
    tab.page(request, content)
  }

  override def renderJson(request: HttpServletRequest): JValue =
    JsonMethods.parse(Content.json(tab.store.runIds.flatMap(tab.store.run)))
}

/** One query, by its run's id. */
private final class QueryPage(tab: MegaphoneTab) extends WebUIPage("query") {
  override def render(request: HttpServletRequest): Seq[Node] =
    tab.page(
      request,
      asked(request).fold(Content.unknownRun(tab.to(request)(s"/${MegaphoneTab.Path}/")))(
        tab.query(request, _)
      )
    )

  override def renderJson(request: HttpServletRequest): JValue =
    JsonMethods.parse(Content.json(asked(request).toVector))

  private def asked(request: HttpServletRequest): Option[RunFacts] =
    Option(request.getParameter("run")).flatMap(tab.store.run)
}
