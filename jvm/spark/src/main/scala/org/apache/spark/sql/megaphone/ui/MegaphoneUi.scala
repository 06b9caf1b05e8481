// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.SparkUI

import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.faces.events.MegaphoneEvent
import io.megaphone.spark.faces.history.{EventListener, EventStore}

/** Puts the tab into the UI of a running application.
  *
  * Private to Spark (4.2, 4.3): `SparkContext.conf`, `SparkContext.listenerBus`,
  * `SparkContext.statusStore`, `SparkContext.ui`, `ElementTrackingStore`, `SparkUI`,
  * `AppHistoryServerPlugin`.
  */
object MegaphoneUi extends Logging {

  /** Adds the listener, and the tab if the application has a UI. Whatever fails is logged, and
    * costs the tab alone.
    *
    * @param cancel
    *   cancels a plan, given the run's id and the plan's
    */
  def install(context: SparkContext, cancel: (String, String) => Unit): Unit =
    try {
      val store = context.statusStore.store.asInstanceOf[ElementTrackingStore]
      context.listenerBus.addToStatusQueue(new EventListener(context.conf, store))
      context.ui.foreach { ui =>
        val hasActions = MegaphoneConf.UiActions.read(context.conf.getOption) && ui.killEnabled
        val actions = Option.when(hasActions)(new Actions(ui, cancel))
        new MegaphoneTab(new EventStore(store), ui, actions)
      }
    } catch {
      case NonFatal(e) => logWarning("The tab of spark-megaphone could not be added to the UI.", e)
    }

  /** Posts an event to the listener bus, which writes it into the event log, too. Returns at once;
    * after the application has stopped the event is lost.
    */
  def post(context: SparkContext)(event: MegaphoneEvent): Unit = context.listenerBus.post(event)
}

/** Puts the tab into the history server's pages of applications that have used the plugin. The
  * server finds this class by its name in the jar's `META-INF/services`.
  */
final class MegaphoneHistoryPlugin extends AppHistoryServerPlugin with Logging {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    orElse(Seq.empty[SparkListener])(Seq(new EventListener(conf, store)))

  override def setupUI(ui: SparkUI): Unit = orElse(()) {
    val store = new EventStore(ui.store.store)
    if (!store.isEmpty) new MegaphoneTab(store, ui, None)
    ()
  }

  /** What fails here would cost the server all tabs of the application. */
  private def orElse[A](otherwise: A)(body: => A): A =
    try body
    catch {
      case NonFatal(e) =>
        logWarning("The tab of spark-megaphone could not be added to an application.", e)
        otherwise
    }
  override def displayOrder: Int = 3
}
